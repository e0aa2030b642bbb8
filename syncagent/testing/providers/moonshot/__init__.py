"""Rules of Moonshot."""
