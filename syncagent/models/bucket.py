"""A bucket into which an allowance flows at a steady rate."""

from __future__ import annotations

from ..cancel import clock

__all__ = ["Bucket"]


class Bucket:
    """An allowance that flows in all the time, up to *most*.

    It belongs to its owner's lock.

    :param rate: the amount that flows in each second.
    :param most: the largest level.
    :param level: the first level; by default the largest.
    """

    __slots__ = ("_at", "_level", "_most", "rate")

    def __init__(self, rate: float, most: float, level: float | None = None) -> None:
        #: For a second.
        self.rate = rate
        self._most = most
        self._level = most if level is None else level
        self._at = clock.now()

    def delay(self, amount: float, now: float) -> float:
        """Return the seconds until *amount* can be taken."""
        self._level = min(self._most, self._level + (now - self._at) * self.rate)
        self._at = now
        # What is larger than the bucket may go when that is full.
        missing = min(amount, self._most) - self._level
        return missing / self.rate if missing > 1e-9 else 0.0

    def take(self, amount: float) -> None:
        """Take *amount*; the level may become negative."""
        self._level -= amount
