"""Migrations of the models. They change nothing: the store makes its own tables."""
