"""The conversation of an agent, and the life of a run in it."""
