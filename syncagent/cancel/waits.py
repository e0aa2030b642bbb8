"""Waits that a cancel ends: for a message, for a condition, for a moving deadline."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from . import clock
from . import threads as services
from .deadlines import earlier
from .links import Bell, Waiter
from .token import CancelToken

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Any thread puts things in, one takes them out.

    Putting takes no lock, so that it may happen in a signal handler.
    """

    __slots__ = ("_bell", "_items")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._bell = Bell()

    def put(self, item: T) -> None:
        """Add something."""
        self._items.append(item)
        self._bell.ring()

    def take(self) -> T | None:
        """Return the next thing if there is one, without waiting."""
        try:
            return self._items.popleft()
        except IndexError:
            return None

    def get(self, token: CancelToken, until: float | None = None) -> T | None:
        """Wait for the next thing.

        Cancellation: ends at once.

        :param until: a monotonic time to wait for at most.
        :return: ``None`` if *token* was cancelled, or it is late.
        """
        while True:
            item = self.take()
            if item is not None or token.cancelled:
                return item
            end = earlier(until, token.deadline)
            if end is not None and end <= clock.now():
                return None
            wake = Wake(self._bell)
            try:
                token._link(wake)
                if not self._items:
                    self._bell.wait(end)
            finally:
                token._unlink(wake)


class Wake(Waiter):
    """Rings somebody else's bell."""

    __slots__ = ()

    def __init__(self, bell: Bell) -> None:
        self._lock = bell._lock
        self.cause = None


class Watch:
    """Any number of threads wait, any thread wakes them to look again.

    Waking takes no lock, so that it may happen in a signal handler.
    """

    __slots__ = ("bells",)

    def __init__(self) -> None:
        #: Of those who wait.
        self.bells: dict[Bell, None] = {}

    def wake(self) -> None:
        """Have all who wait look again."""
        if self.bells:
            for bell in list(self.bells):
                bell.ring()

    def wait(
        self,
        is_so: Callable[[], bool],
        token: CancelToken,
        until: float | None = None,
    ) -> bool:
        """Wait until *is_so* is true.

        Cancellation: ends at once.

        :param is_so: looks; called on this thread, again after every wake.
        :param until: a monotonic time to wait for at most.
        :return: whether it is so; false if *token* was cancelled, or it is late.
        """
        if is_so():
            return True
        bell = Bell()
        wake = Wake(bell)
        end = earlier(until, token.deadline)
        try:
            self.bells[bell] = None  # publish first, then look
            token._link(wake)
            while not is_so():
                if token.cancelled or (end is not None and end <= clock.now()):
                    return is_so()
                bell.wait(end)
            return True
        finally:
            token._unlink(wake)
            self.bells.pop(bell, None)


_OFF: Final = (math.inf, "")


class Alarm:
    """Cancel *token*, with origin ``deadline``, unless it is set anew in time.

    To set it costs a look at the clock and a store. The timer thread has one entry
    for it, which when it is due finds out whether the time has moved meanwhile.

    Only one thread at a time may set it. It is weakly held: keep it while it counts.

    :param token: what to cancel, best a child for just that work.
    """

    __slots__ = ("__weakref__", "_due", "_looks_at", "_token")

    def __init__(self, token: CancelToken) -> None:
        self._token = token
        #: When it is due and what it says then; one tuple, so that they fit.
        self._due = _OFF
        #: When the timer will look at it, or earlier than that.
        self._looks_at = math.inf

    def set(self, seconds: float, reason: str) -> None:
        """Have the token cancelled, for *reason*, in so many seconds from now."""
        when = clock.now() + seconds
        self._due = (when, reason)  # publish first, then look
        if when < self._looks_at:
            self._arm(when)

    def stop(self) -> None:
        """Do not cancel."""
        self._due = _OFF

    def _arm(self, when: float) -> None:
        self._looks_at = when
        services.current.timer.call_at(when, Alarm._look, self)

    def _look(self) -> None:
        self._looks_at = math.inf  # publish first, then look
        when, reason = self._due
        if when <= clock.now():
            self._token.cancel(reason, "deadline")
        elif when < math.inf:
            self._arm(when)
