"""What threads say to one that waits for them, or for a cancel."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from .. import _clock
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
            if end is not None and end <= _clock.now():
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
