"""Waits that a cancel ends: for a message, for a condition, for a moving deadline.

Guarantees:

- Waking (``put``, ``wake``) takes no lock and never blocks, so a signal handler may do
  it.
- No wake-up is lost. A waiting thread registers its bell first and looks second; the
  other side changes the state first and rings second.
- A wait ends at once when its token is cancelled, and at the token's deadline.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from . import clock, threads
from .deadlines import earlier
from .links import Bell, Waiter
from .token import CancelToken

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A queue that any thread puts items into and one thread takes them out of."""

    __slots__ = ("_bell", "_items")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._bell = Bell()

    def put(self, item: T) -> None:
        """Add *item*. Takes no lock."""
        self._items.append(item)
        self._bell.ring()

    def take(self) -> T | None:
        """Return the next item without waiting, or ``None``."""
        try:
            return self._items.popleft()
        except IndexError:
            return None

    def get(self, token: CancelToken, until: float | None = None) -> T | None:
        """Wait for the next item.

        Cancellation: ends at once.

        :param until: the monotonic time at which to give up.
        :return: ``None`` if *token* was cancelled or the time has come.
        """
        while True:
            item = self.take()
            if item is not None or token.cancelled:
                return item
            end = earlier(until, token.deadline)
            if end is not None and end <= clock.now():
                return None
            link = BellLink(self._bell)
            try:
                token._link(link)
                # After linking: put() appends before it rings, so either the item is
                # here already or the ring is still to come.
                if not self._items:
                    self._bell.wait(end)
            finally:
                token._unlink(link)


class BellLink(Waiter):
    """A link that rings a given bell when its token is cancelled."""

    __slots__ = ()

    def __init__(self, bell: Bell) -> None:
        self._lock = bell._lock
        self.cause = None


class Watch:
    """Threads wait here for conditions that other threads bring about.

    Like a :class:`threading.Condition` whose ``notify_all()`` takes no lock.
    """

    __slots__ = ("bells",)

    def __init__(self) -> None:
        #: One bell for each waiting thread.
        self.bells: dict[Bell, None] = {}

    def wake(self) -> None:
        """Have all waiting threads check their conditions again. Takes no lock."""
        if self.bells:
            for bell in list(self.bells):
                bell.ring()

    def wait(
        self,
        condition: Callable[[], bool],
        token: CancelToken,
        until: float | None = None,
    ) -> bool:
        """Wait until *condition* is true.

        Cancellation: ends at once.

        :param condition: called on this thread, again after every wake.
        :param until: the monotonic time at which to give up.
        :return: the condition; false if *token* was cancelled or the time has come.
        """
        if condition():
            return True
        bell = Bell()
        link = BellLink(bell)
        end = earlier(until, token.deadline)
        try:
            self.bells[bell] = None  # publish first, then look
            token._link(link)
            while not condition():
                if token.cancelled or (end is not None and end <= clock.now()):
                    return condition()
                bell.wait(end)
            return True
        finally:
            token._unlink(link)
            self.bells.pop(bell, None)


_OFF: Final = (math.inf, "")


class Alarm:
    """Cancel *token*, with origin ``deadline``, unless the alarm is set again in time.

    Setting it costs a look at the clock and a store. The timer thread holds one entry
    for it; when the entry is due, it checks whether the time has moved.

    Only one thread at a time may set it. The timer holds it weakly: keep a reference
    for as long as it counts.

    :param token: the token to cancel, preferably a child for just that work.
    """

    __slots__ = ("__weakref__", "_due", "_looks_at", "_token")

    def __init__(self, token: CancelToken) -> None:
        self._token = token
        #: When it is due and the reason it then gives. One tuple: the timer thread
        #: never sees the time of one setting with the reason of another.
        self._due = _OFF
        #: When the timer will look at it, or earlier than that.
        self._looks_at = math.inf

    def set(self, seconds: float, reason: str) -> None:
        """Cancel the token *seconds* from now, for *reason*."""
        when = clock.now() + seconds
        self._due = (when, reason)  # publish first, then look
        if when < self._looks_at:
            self._arm(when)

    def stop(self) -> None:
        """Turn the alarm off."""
        self._due = _OFF

    def _arm(self, when: float) -> None:
        self._looks_at = when
        threads.current.timer.call_at(when, Alarm._look, self)

    def _look(self) -> None:
        self._looks_at = math.inf  # publish first, then look
        when, reason = self._due
        if when <= clock.now():
            self._token.cancel(reason, "deadline")
        elif when < math.inf:
            self._arm(when)
