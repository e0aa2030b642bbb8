"""One run: its state, its setup, its tool rounds, and what it lends to its tools."""
