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
        for sleeper in list(self._sleepers):
            if sleeper.wakes_at <= self._now:
                sleeper.wake()

    def acquire(self, lock: clock.Lock, timeout: float) -> bool:
        """Acquire *lock* within *timeout* seconds of fake time."""
        sleeper = _Sleeper(lock, getattr(self._read, "now", self._now) + timeout)
        self._sleepers.append(sleeper)  # publish first, then look
        try:
            if sleeper.wakes_at <= self._now:
                return False
            if lock.acquire(timeout=_LIMIT):
                return not sleeper.is_due
            if sleeper.is_of_a_service:
                return False
            raise TimeoutError(
                f"the fake clock was not advanced within {_LIMIT} real seconds"
            )
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
        for sleeper in list(self._sleepers):  # they continue in real time
            sleeper.wake()


class _Sleeper:
    def __init__(self, lock: clock.Lock, wakes_at: float) -> None:
        self.wakes_at = wakes_at
        self.is_due = False
        # The SDK's own threads may sleep as long as they like.
        self.is_of_a_service = threading.current_thread().name.startswith("syncagent-")
        self._lock = lock

    def wake(self) -> None:
        self.is_due = True
        try:
            self._lock.release()
        except (RuntimeError, threading.ThreadError):  # it is awake already
            pass
