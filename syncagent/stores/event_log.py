"""The event log of a run: written in batches by one process, read by any.

Guarantees:

- Events are numbered without a gap over all attempts, and can be seen only once they
  are stored: no reader ever sees a number twice with different contents.
- Neighbouring deltas become one event, so that a log is as long as what happened and
  not as the number of packets.
- A question can be seen only when it can be answered: it is held back until the run
  waits in the store.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from .._closeable import Closeable
from ..cancel import CancelToken, Watch, clock
from ..cancel.signal_event import EventRegistration
from ..events import (
    InterruptRaised,
    Lagged,
    StateChanged,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    decode_event,
    encode_event,
)
from ..exceptions import StoreUnavailable
from .followers import RunNews
from .records import EventBatch, StoredRun

__all__ = ["PendingEvents", "StoredEvents", "merged"]

#: Seconds after which a follower looks without a hint: hints may be lost.
_LOOK_AGAIN: Final = 1.0
#: Seconds between two attempts to read from a store that is unavailable.
_RETRY: Final = 0.25


class PendingEvents:
    """The events of a run that are not stored yet.

    The thread of the run adds them; the thread that renews the lease takes them.

    :param count: how many events of the run are stored.
    :param wake: called when an event is added to an empty list.
    """

    def __init__(
        self, run_id: str, attempt: int, count: int, wake: Callable[[], object]
    ) -> None:
        self._run_id: Final = run_id
        self._attempt: Final = attempt
        self._wake: Final = wake
        self._next = count + 1
        self._events: list[Any] = []
        #: An open question and the events after it; None if no question is open.
        self._held: list[Any] | None = None
        #: True if the thread that takes events knows that there are some.
        self._is_announced = False
        #: The last batch that was taken, until it is stored.
        self._batch: EventBatch | None = None
        #: Held from the moment a batch is made until it is stored: a batch that is on
        #: its way comes before the end of the run.
        self.lock: Final = threading.Lock()

    def add(self, event: Any) -> None:
        """Add an event, on the thread of the run."""
        if self._held is not None:
            if event.__class__ is StateChanged:
                self._held.append(event)
                return
            self._events += self._held  # a handler has answered: the run continues
            self._held = None
        self._events.append(event)  # publish first, then look
        if not self._is_announced:
            self._is_announced = True
            self._wake()

    def hold(self, event: InterruptRaised) -> None:
        """Add questions, which are held back until the run waits in the store."""
        self._held = [*(self._held or ()), event]

    def take(self, last: Iterable[Any] | None = None) -> EventBatch | None:
        """Return the events to store next; the same ones until :meth:`stored`.

        The caller holds the lock.

        :param last: the last events of this worker; then those held back go with them.
        """
        self._is_announced = False  # publish first, then look
        count = len(self._events)
        events = self._events[:count]
        if last is not None:
            events += [*(self._held or ()), *last]
            self._held = None
        lines = [] if self._batch is None else self._batch.lines
        lines = [*lines, *(_encode(event) for event in merged(events))]
        del self._events[:count]
        if not lines:
            return None
        self._batch = EventBatch(self._run_id, self._attempt, self._next, lines)
        return self._batch

    def stored(self) -> None:
        """Note that the last batch is stored. The caller holds the lock."""
        if self._batch is not None:
            self._next, self._batch = self._batch.last + 1, None

    def take_back(self, count: int) -> None:
        """Drop the last events of the last batch, which the store has refused.

        The caller holds the lock.
        """
        batch = self._batch
        if batch is not None and count:
            lines = batch.lines[:-count]
            self._batch = batch._replace(lines=lines) if lines else None


def _encode(event: Any) -> bytes:
    try:
        return encode_event(event)
    except Exception:  # a tool may return an object that is not JSON
        return encode_event(Lagged(1))


def merged(events: Iterable[Any]) -> list[Any]:
    """Return *events* with neighbouring deltas joined."""
    result: list[Any] = []
    parts: list[str] = []
    last: Any = None

    def finish() -> None:
        if last is not None and len(parts) > 1:
            field = "arguments" if isinstance(last, ToolCallDelta) else "text"
            result[-1] = msgspec.structs.replace(last, **{field: "".join(parts)})

    for event in events:
        kind = event.__class__
        if kind is TextDelta or kind is ThinkingDelta:
            is_same, text = last.__class__ is kind, event.text
        elif kind is ToolCallDelta:
            is_same = last.__class__ is kind and last.call_id == event.call_id
            text = event.arguments
        else:
            finish()
            last = None
            result.append(event)
            continue
        if is_same:
            parts.append(text)
            continue
        finish()
        last, parts = event, [text]
        result.append(event)
    finish()
    return result


class StoredEvents(Closeable, Iterator[StreamEvent | Lagged]):
    """The events of a run in a store, from any process: iterate over it.

    It ends with the run, and at once when its token is cancelled or any thread closes
    it. One thread iterates. While the store is unavailable it waits.

    :param run: the run as it was when this was made.
    :param read: returns the events after a number, with their numbers.
    :param look: returns the run as it is now; ``None`` if it was forgotten.
    :param news: wakes this follower.
    :param leave: called once, when it is closed.
    """

    def __init__(
        self,
        run: StoredRun,
        after: int,
        *,
        read: Callable[[int], list[tuple[int, bytes]]],
        look: Callable[[], StoredRun | None],
        news: RunNews,
        leave: Callable[[], object],
        token: CancelToken,
        registration: EventRegistration | None = None,
    ) -> None:
        #: The run, as it was last seen.
        self.run = run
        #: The number of events before the next one, for ``events(after=...)``.
        self.position = after
        self._news: Final = news
        self._read = read
        self._look = look
        self._leave = leave
        self._token = token
        self._registration = registration
        self._buffer: deque[tuple[int, bytes]] = deque()
        self._is_closed = False
        self._has_ended = False

    def get(self, timeout: float | None = None) -> StreamEvent | Lagged | None:
        """Wait for the next event.

        Cancellation: ends at once.

        :param timeout: seconds to wait at most.
        :return: ``None`` if none came in time or no more come: :attr:`is_over` tells
            which.
        """
        until = None if timeout is None else clock.now() + timeout
        news = self._news
        while not self.is_over:
            seen = news.count  # before the look: news in between end the wait
            event = self._next()
            if event is not None or self.is_over:
                return event
            now = clock.now()
            if until is not None and now >= until:
                return None
            if self._buffer:
                continue
            look_at = now + _LOOK_AGAIN
            self._wait(seen, look_at if until is None else min(look_at, until))
        return None

    def _wait(self, seen: int, until: float) -> None:
        """Wait until there is more news than *seen*."""
        news = self._news
        news.watch.wait(lambda: self.is_over or news.count != seen, self._token, until)

    def wait_for_rest(self, timeout: float | None) -> StoredRun | None:
        """Wait until the run has ended or waits for answers, and return it.

        Cancellation: ends at once.

        :return: ``None`` if it does neither within *timeout* seconds.
        """
        until = None if timeout is None else clock.now() + timeout
        while self.run.is_live and self.run.state != "waiting":
            left = None if until is None else until - clock.now()
            if left is not None and left <= 0:
                return None
            if self.get(left) is not None:
                with suppress(StoreUnavailable):  # the next look may succeed
                    self.run = self._look() or self.run
            elif self.is_over:
                break
        return self.run

    @property
    def watch(self) -> Watch:
        """Woken when there may be an event."""
        return self._news.watch

    @property
    def is_ready(self) -> bool:
        """True if the next event can be returned without a look at the store."""
        return bool(self._buffer)

    @property
    def is_over(self) -> bool:
        """True if no more events come."""
        return self._has_ended or self._is_closed or self._token.cancelled

    def _next(self) -> StreamEvent | Lagged | None:
        try:
            if not self._buffer:
                self._buffer.extend(self._read(self.position))
            if not self._buffer:
                return self._look_for_end()
        except StoreUnavailable:
            self._token.wait(_RETRY)
            return None
        number, line = self._buffer[0]
        if number > self.position + 1:
            missed, self.position = number - 1 - self.position, number - 1
            return Lagged(missed)
        self._buffer.popleft()
        self.position = number
        return decode_event(line)

    def _look_for_end(self) -> Lagged | None:
        run = self._look()
        if run is not None:
            self.run = run
        if run is None or not run.is_live:
            missed = self.run.events - self.position
            if run is not None and missed > 0:
                self._buffer.extend(self._read(self.position))
                if self._buffer:  # they were stored between the two looks
                    return None
                self.position = run.events  # they were deleted, see keep_events=
                return Lagged(missed)
            self._has_ended = True
        return None

    def close(self) -> None:
        """End it, also while another thread waits in it. Safe to repeat."""
        was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        self._leave()
        self._news.watch.wake()
        if self._registration is not None:
            self._registration.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self.close()

    def __next__(self) -> StreamEvent | Lagged:
        event = self.get(timeout=None)
        if event is None:
            self.close()
            raise StopIteration
        return event
