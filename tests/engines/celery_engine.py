"""Celery, with its pools."""

import json
from uuid import uuid4

from engine import Engine


class CeleryEngine(Engine):
    """A worker of Celery with one of its pools."""

    needs_redis = True
    has_broker = True
    ready = " ready."

    def __init__(self, pool, recipe="celery_recipe", **settings):
        self.name = f"celery-{pool}"
        self.packages = ("celery", "redis", *(("gevent",) if pool == "gevent" else ()))
        self.recipe = recipe
        self._pool = pool
        self._settings = settings

    def environment(self, folder):
        """Return the settings for ``celery_wrong.py``."""
        return {"CELERY_SETTINGS": json.dumps(self._settings)}

    @property
    def command(self):
        return [
            *("-m", "celery", "-A", self.recipe, "worker", "-l", "INFO"),
            *("-P", self._pool, "-c", "4", "-n", f"{uuid4().hex}@here"),
            *("--without-gossip", "--without-mingle"),
        ]
