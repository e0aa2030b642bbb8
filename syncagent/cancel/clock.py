"""Monotonic time, and waiting for it to pass, behind one seam that tests replace."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import TIMEOUT_MAX
from typing import Protocol

__all__ = ["Clock", "Lock", "SystemClock", "acquire", "install", "now"]


class Lock(Protocol):
    """The methods of a :func:`threading.Lock` that waiting needs."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


class Clock(Protocol):
    """A source of time and the one way to wait for it."""

    def now(self) -> float:
        """Return the monotonic time in seconds."""

    def acquire(self, lock: Lock, timeout: float) -> bool:
        """Acquire *lock* within *timeout* seconds of this clock's time."""


class SystemClock:
    """Real time."""

    now = staticmethod(time.monotonic)

    def acquire(self, lock: Lock, timeout: float) -> bool:
        return lock.acquire(True, min(timeout, TIMEOUT_MAX))


_clock: Clock = SystemClock()

# Call them through the module: install() puts the new clock's own functions here. So
# real time costs no more than time.monotonic() itself.

#: Return the current monotonic time in seconds.
now: Callable[[], float] = _clock.now
#: Acquire a lock, giving up after a number of seconds.
acquire: Callable[[Lock, float], bool] = _clock.acquire


def install(clock: Clock) -> Clock:
    """Replace the clock of the whole process and return the previous one."""
    global _clock, now, acquire
    before, _clock = _clock, clock
    now, acquire = clock.now, clock.acquire
    return before
