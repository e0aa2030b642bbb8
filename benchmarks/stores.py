"""Runs in a store, against the same by hand, or against runs that are not stored."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import stores_cancel, stores_events, stores_process, stores_writes
from benchmarks.measure import Row
from benchmarks.stores_places import places


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    with places() as kinds:
        for place in kinds:
            for topic in (stores_cancel, stores_writes, stores_events, stores_process):
                yield from topic.rows(place)
