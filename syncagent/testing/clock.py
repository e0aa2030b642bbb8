"""A clock that moves only when a test says so."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Final

from ..cancel import clock
from ..cancel import threads as services

#: Real seconds after which a wait that no test ends fails.
_LIMIT: Final = 30.0
#: Real seconds between two looks of a waiting thread at the fake time.
_LOOK: Final = 0.001


class FakeClock:
    """Replace the time of the whole package inside a ``with`` block.

    Timeouts and deadlines then pass only by :meth:`advance`. The clock starts at the
    real time, so deadlines from before the block stay in order; a wait that started
    before it still waits in real time. A cancel callback that runs while the clock is
    advanced by more than a second counts as stuck.
    """

    def __init__(self) -> None:
        self._now = time.monotonic()
        #: The time that each thread has read last. A wait counts from there, as the
        #: clock may be advanced between the reading and the wait.
        self._read = threading.local()
        self._sleepers: list[_Sleeper] = []
        self._before: clock.Clock | None = None

    def now(self) -> float:
        """Return the fake monotonic time."""
        now = self._read.now = self._now
        return now

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass, and wake the threads whose time has come."""
        self._now += seconds

    def acquire(self, lock: clock.Lock, timeout: float) -> bool:
        """Acquire *lock* within *timeout* seconds of fake time."""
        wakes_at = getattr(self._read, "now", self._now) + timeout
        sleeper = _Sleeper()
        self._sleepers.append(sleeper)
        try:
            # The clock never releases the lock to wake this thread. Another thread may
            # release it at the same moment, and this one would take both for the end
            # of its timeout: that wake-up would be lost.
            while self._before is not None and self._now < wakes_at:
                if lock.acquire(timeout=_LOOK):
                    return True
                sleeper.check_limit()
            return lock.acquire(blocking=False)
        finally:
            self._sleepers.remove(sleeper)

    def wait_for_sleepers(self, number: int = 1, timeout: float = 10.0) -> None:
        """Block until *number* threads wait for this clock; then advance it.

        :raises TimeoutError: they did not within *timeout* real seconds.
        """
        pause = threading.Event()
        end = time.monotonic() + timeout
        while self._count_sleepers() < number:
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{self._count_sleepers()} of {number} threads wait for the clock"
                )
            pause.wait(0.001)

    def _count_sleepers(self) -> int:
        return sum(not sleeper.is_of_a_service for sleeper in list(self._sleepers))

    def __enter__(self) -> FakeClock:
        self._before = clock.install(self)
        services.current.timer.look_again()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._before is not None
        clock.install(self._before)
        self._before = None  # threads that wait continue in real time


class _Sleeper:
    """A thread that waits for the fake time."""

    def __init__(self) -> None:
        # The SDK's own threads may sleep as long as they like.
        self.is_of_a_service = threading.current_thread().name.startswith("syncagent-")
        self._end = time.monotonic() + _LIMIT

    def check_limit(self) -> None:
        if not self.is_of_a_service and time.monotonic() > self._end:
            raise TimeoutError(
                f"the fake clock was not advanced within {_LIMIT} real seconds"
            )
