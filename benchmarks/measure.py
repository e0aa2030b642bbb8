"""Measure a subject and its floor side by side, and say how they compare."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

#: How often each side is measured, in turns, so that noise hits both.
ROUNDS = 15


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    floor_name: str
    value: float
    floor: float
    unit: str
    #: How many times the floor it may be.
    limit: float | None = None
    #: What it may be itself, in its unit.
    most: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.value / self.floor

    @property
    def verdict(self) -> str:
        if self.limit is None and self.most is None:
            return ""
        is_above = (self.limit is not None and self.ratio > self.limit) or (
            self.most is not None and self.value > self.most
        )
        return "ABOVE" if is_above else "ok"


def per_call(function: Callable[[], object], number: int) -> float:
    """Return the seconds that one of *number* calls takes, loop taken off."""
    calls = [None] * number
    begin = time.perf_counter()
    for _ in calls:
        function()
    middle = time.perf_counter()
    for _ in calls:
        pass
    return (2 * middle - begin - time.perf_counter()) / number


def side_by_side(
    subject: Callable[[], float], floor: Callable[[], float], rounds: int = ROUNDS
) -> tuple[float, float]:
    """Call both in turns and return the median of each."""
    subjects, floors = [], []
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            floors.append(floor())
            subjects.append(subject())
    finally:
        gc.enable()
    return statistics.median(subjects), statistics.median(floors)


def compare_calls(
    name: str,
    subject: Callable[[], object],
    floor_name: str,
    floor: Callable[[], object],
    *,
    number: int = 100_000,
    limit: float | None = None,
) -> Row:
    """Compare the cost of one call of each, in nanoseconds."""
    value, base = side_by_side(
        lambda: per_call(subject, number), lambda: per_call(floor, number)
    )
    return Row(name, floor_name, value * 1e9, base * 1e9, "ns", limit)
