"""Stores to measure with, in a folder and in a PostgreSQL server of their own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from syncagent.stores.backend import Backend
from syncagent.stores.urls import open_backend

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support import postgres


@dataclass(frozen=True)
class Place:
    """A kind of store.

    :param new: returns the URL of an empty store.
    """

    name: str
    new: Callable[[], str]

    @property
    def is_sqlite(self) -> bool:
        return self.name == "SQLite"


@contextmanager
def places() -> Iterator[list[Place]]:
    """Give each kind of store that can be had here; say which cannot."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = iter(range(1000))
        kinds = [Place("SQLite", lambda: f"sqlite:///{folder}/{next(numbers)}/runs.db")]
        if postgres.MISSING:
            print(f"without rows for PostgreSQL: {postgres.MISSING}")
            yield kinds
            return
        cluster = postgres.Cluster()

        def migrated() -> str:
            url: str = cluster.new_schema()
            backend = open_backend(url)
            backend.migrate()
            backend.close()
            return url

        try:
            yield [*kinds, Place("PostgreSQL", migrated)]
        finally:
            cluster.close()


def new_backend(place: Place) -> Backend:
    """Return the back end of an empty store."""
    return open_backend(place.new())
