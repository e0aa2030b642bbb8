"""The events of a handle for any number of subscribers, each at its own pace.

There is one log, a ring of bounded size, and a subscription is a position in it. So
publishing costs the same for one subscriber as for a hundred. A subscriber that is too
slow, or too late, gets a :class:`~syncagent.events.Lagged` for the events that the ring
has dropped.

Guarantees:

- One thread publishes; any number of threads read, without a lock.
- An event is in the ring before the count says so, and each carries its number: a
  reader notices when the ring has moved on under it.
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

#: The events that a subscription yields.
LoggedEvent = StreamEvent | Lagged


class EventLog:
    """The newest events of a handle. One thread writes, any may read.

    :param size: how many events are kept.
    :raises ConfigurationError: that is not a positive number.
    """

    def __init__(self, size: int = SIZE) -> None:
        check_number("buffer", size, minimum=1, is_integer=True, unit="events")
        self.size: Final = size
        #: The number of events so far.
        self.count = 0
        self.is_closed = False
        #: Each event with its number, so that a reader notices an overwritten one.
        self._ring: list[tuple[int, StreamEvent]] = []
        self.watch: Final = Watch()
        self._bells = self.watch.bells  # a local look is cheaper than a call
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
        """Let all subscriptions end when they have seen everything."""
        self.is_closed = True
        self.watch.wake()

    @property
    def is_over(self) -> bool:
        """True if no more events come. No thread publishes in a forked child."""
        return self.is_closed or self._pid != os.getpid()

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept."""
        return max(0, self.count - self.size)

    def read(self, number: int) -> StreamEvent | None:
        """Return an event by its number; ``None`` if it was dropped."""
        stored, event = self._ring[number % self.size]
        return event if stored == number else None


class Subscription(Closeable, Iterator[LoggedEvent]):
    """The events of a handle: iterate over it.

    It ends when the handle is done, and at once when *token* is cancelled or any thread
    closes it. One thread iterates.
    """

    def __init__(
        self,
        log: EventLog,
        begin: int,
        token: CancelToken,
        registration: EventRegistration | None = None,
    ) -> None:
        self._log = log
        self._next = begin
        self._token = token
        #: True when the token is cancelled; costs next to nothing to look at.
        self._stop = token.flag()
        #: Its hold on the caller's event, which cancels the token.
        self._registration = registration
        self._is_closed = False

    def get(self, timeout: float | None = None) -> LoggedEvent | None:
        """Wait for the next event.

        Cancellation: ends at once.

        :param timeout: seconds to wait at most.
        :return: ``None`` if none came in time or no more come: :attr:`is_over` tells
            which.
        """
        log, number = self._log, self._next
        if number >= log.count and not self.is_over:
            until = None if timeout is None else clock.now() + timeout
            log.watch.wait(
                lambda: self._next < log.count or self.is_over, self._token, until
            )
        if self._is_closed or self._token.cancelled or number >= log.count:
            return None
        event = log.read(number)
        if event is None:
            missed = max(1, log.first - number)  # it may be dropped at this moment
            self._next = number + missed
            return Lagged(missed)
        self._next = number + 1
        return event

    @property
    def position(self) -> int:
        """The number of events before it, for ``subscribe(after=...)``."""
        return self._next

    @property
    def watch(self) -> Watch:
        """Woken when there is an event, for threads that must not wait in ``get()``."""
        return self._log.watch

    @property
    def is_over(self) -> bool:
        """True if no more events come."""
        if self._is_closed or self._token.cancelled:
            return True
        # In this order: events published before the end are seen.
        return self._log.is_over and self._next >= self._log.count

    def close(self) -> None:
        """End it, also while another thread waits in it. Safe to repeat."""
        self._is_closed = True
        self._log.watch.wake()
        if self._registration is not None:
            self._registration.close()

    def __del__(self) -> None:
        # A dropped subscription leaves nothing on the caller's event.
        registration = getattr(self, "_registration", None)
        if registration is not None:
            registration.close()

    def __iter__(self) -> Iterator[LoggedEvent]:
        return self

    def __next__(self) -> LoggedEvent:
        log, number = self._log, self._next
        if number < log.count and not self._is_closed and not self._stop:
            stored = log.read(number)
            if stored is not None:
                self._next = number + 1
                return stored
        event = self.get(timeout=None)
        if event is None:
            self.close()
            raise StopIteration
        return event
