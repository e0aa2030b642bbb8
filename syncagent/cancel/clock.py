"""Monotonic time, and waiting for it to pass, behind one seam that tests replace."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import TIMEOUT_MAX
from typing import Protocol

__all__ = ["Clock", "Lock", "SystemClock", "acquire", "install", "now"]


class Lock(Protocol):
    """What :func:`threading.Lock` returns, as far as waiting needs it."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


class Clock(Protocol):
    """A source of time and the one way to wait for it."""

    def now(self) -> float:
        """Return seconds that never go back."""

    def acquire(self, lock: Lock, timeout: float) -> bool:
        """Acquire *lock* within *timeout* seconds of this clock's time."""


class SystemClock:
    """The real time."""

    now = staticmethod(time.monotonic)

    def acquire(self, lock: Lock, timeout: float) -> bool:
        return lock.acquire(True, min(timeout, TIMEOUT_MAX))


_clock: Clock = SystemClock()

# Call them through the module: install() puts the new clock's own functions here, so
# that real time costs not a frame more than time.monotonic().

#: Return the current monotonic time in seconds.
now: Callable[[], float] = _clock.now
#: Acquire a lock, giving up after so many seconds.
acquire: Callable[[Lock, float], bool] = _clock.acquire


def install(clock: Clock) -> Clock:
    """Replace the clock of the whole process and return the one before it."""
    global _clock, now, acquire
    before, _clock = _clock, clock
    now, acquire = clock.now, clock.acquire
    return before
