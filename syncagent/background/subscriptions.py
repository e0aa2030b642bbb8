"""The events of a run for any number of others, each at its own pace.

There is one log, a ring of bounded size. A subscription is a place in it: so publishing
costs the same for one as for a hundred, and whoever is too slow, or comes too late, for
what the ring has dropped is told so by :class:`~syncagent.events.Lagged`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from .._checks import check_number
from .._closeable import Closeable
from ..cancel import CancelToken, Watch, clock
from ..cancel.signal_event import EventRegistration
from ..events import Lagged, StreamEvent

__all__ = ["EventLog", "LoggedEvent", "Subscription"]

#: How many events are kept.
SIZE: Final = 1024

#: What a subscription yields.
LoggedEvent = StreamEvent | Lagged


class EventLog:
    """What has happened, as far as it is remembered. One thread writes, any may read.

    :param size: how many events are remembered.
    :raises ConfigurationError: that is no number from 1 on.
    """

    def __init__(self, size: int = SIZE) -> None:
        check_number("buffer", size, minimum=1, is_integer=True, unit="events")
        self.size: Final = size
        #: How many events there were.
        self.count = 0
        self.is_closed = False
        #: Each with its number, so that a reader notices if it is another one.
        self._ring: list[tuple[int, StreamEvent]] = []
        self.watch: Final = Watch()
        self._bells = self.watch.bells  # to look at it here costs less than a call
        self._pid = os.getpid()

    def publish(self, event: StreamEvent) -> None:
        """Add an event."""
        number = self.count
        if number < self.size:
            self._ring.append((number, event))
        else:
            self._ring[number % self.size] = (number, event)
        self.count = number + 1  # publish first, then wake
        if self._bells:
            self.watch.wake()

    def close(self) -> None:
        """Let all who follow end when they have seen everything."""
        self.is_closed = True
        self.watch.wake()

    @property
    def is_over(self) -> bool:
        """Will there be no more? Nobody publishes in a forked child."""
        return self.is_closed or self._pid != os.getpid()

    @property
    def first(self) -> int:
        """The number of the oldest event that is remembered."""
        return max(0, self.count - self.size)

    def read(self, number: int) -> StreamEvent | None:
        """Return an event that has happened; ``None`` if it is forgotten."""
        found, event = self._ring[number % self.size]
        return event if found == number else None


class Subscription(Closeable, Iterator[LoggedEvent]):
    """The events of a handle: iterate over it.

    It ends when the handle is done, and at once when it is closed, from whatever
    thread, or *token* is cancelled. One thread iterates.
    """

    def __init__(
        self,
        log: EventLog,
        begin: int,
        token: CancelToken,
        following: EventRegistration | None = None,
    ) -> None:
        self._log = log
        self._next = begin
        self._token = token
        #: True when the token is cancelled; a look that costs next to nothing.
        self._stop = token.flag()
        #: Its hold on somebody's event, which cancels the token.
        self._following = following
        self._is_closed = False

    def get(self, timeout: float | None = None) -> LoggedEvent | None:
        """Wait for the next event.

        Cancellation: ends at once.

        :param timeout: seconds to wait at most.
        :return: ``None`` if there is none in time, or there will be none:
            :attr:`is_over` tells which.
        """
        log, number = self._log, self._next
        if number >= log.count and not self.is_over:
            until = None if timeout is None else clock.now() + timeout
            log.watch.wait(self._has_news, self._token, until)
        if self._is_closed or self._token.cancelled or number >= log.count:
            return None
        event = log.read(number)
        if event is None:
            missed = max(1, log.first - number)  # it may be dropped right now
            self._next = number + missed
            return Lagged(missed)
        self._next = number + 1
        return event

    @property
    def position(self) -> int:
        """How many events lie behind it, for ``subscribe(after=...)``."""
        return self._next

    @property
    def watch(self) -> Watch:
        """Woken when there is something new, for those who must not wait in it."""
        return self._log.watch

    def _has_news(self) -> bool:
        return self._next < self._log.count or self.is_over

    @property
    def is_over(self) -> bool:
        """Will there be no more?"""
        if self._is_closed or self._token.cancelled:
            return True
        # In this order: what is published before the end is seen.
        return self._log.is_over and self._next >= self._log.count

    def close(self) -> None:
        """End it, also while another thread waits in it."""
        self._is_closed = True
        self._log.watch.wake()
        self._let_go()

    def _let_go(self) -> None:
        if self._following is not None:
            self._following.close()

    def __del__(self) -> None:
        # The one that is dropped leaves nothing on somebody's event.
        if getattr(self, "_following", None) is not None:
            self._let_go()

    def __iter__(self) -> Iterator[LoggedEvent]:
        return self

    def __next__(self) -> LoggedEvent:
        log, number = self._log, self._next
        if number < log.count and not self._is_closed and not self._stop:
            there = log.read(number)
            if there is not None:
                self._next = number + 1
                return there
        event = self.get(timeout=None)
        if event is None:
            self.close()
            raise StopIteration
        return event
