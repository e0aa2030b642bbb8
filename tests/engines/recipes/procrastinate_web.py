"""The web application, which sends runs to the workers of Procrastinate."""

from procrastinate_recipe import app, store

__all__ = ["store"]

app.open()  # in each process that submits runs, after a fork
