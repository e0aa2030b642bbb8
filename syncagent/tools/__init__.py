"""Functions that a model can call."""
