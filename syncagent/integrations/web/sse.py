"""A run as a stream of server-sent events.

Each event of the run has its number as ``id``, its type as ``event`` and its JSON as
``data``. A client that reconnects with ``Last-Event-ID`` gets the events it missed and
none twice. Two events are added: ``run``, without an id, is the state of the run when
the stream starts; ``end`` is its state at the end.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..._checks import check_timeout
from ..._closeable import Closeable
from ...cancel import Watch, clock
from ...events import Lagged, StreamEvent, encode_event
from .bodies import encode_body
from .disconnect import disconnect_probe
from .followed import FollowedRun
from .watcher import StallCheck, Watched

__all__ = [
    "BEAT",
    "HEADERS",
    "HEARTBEAT",
    "RunEventStream",
    "SLOW",
    "format_event",
    "parse_event_id",
]

_log = logging.getLogger("syncagent.web")

#: Seconds of silence after which a comment is sent.
HEARTBEAT: Final = 15.0
#: These tell proxies to pass the stream on at once and unchanged.
HEADERS: Final = (
    ("Content-Type", "text/event-stream; charset=utf-8"),
    ("Cache-Control", "no-store, no-transform"),
    ("X-Accel-Buffering", "no"),
    ("X-Content-Type-Options", "nosniff"),
)
#: Seconds that a client has to take a chunk.
SLOW: Final = 60.0
#: A comment, which clients ignore. It has to carry bytes: servers do not write an empty
#: chunk, and only a write shows them that the client has left.
BEAT: Final = b": still here\n\n"
#: Milliseconds after which a client reconnects.
_RETRY: Final = b"retry: 1000\n"
#: Limits of one chunk.
_MAX_EVENTS: Final = 64
_MAX_BYTES: Final = 64 * 1024
#: Digits. No run has that many events.
_LONGEST_ID: Final = 15


def format_event(name: str, data: bytes, number: int | None = None) -> bytes:
    """Return an event in wire format; *data* is JSON on one line."""
    id_line = b"" if number is None else b"id: %d\n" % number
    return b"%sevent: %s\ndata: %s\n\n" % (id_line, name.encode(), data)


def parse_event_id(text: str | None) -> int:
    """Return the number in a ``Last-Event-ID`` header, or 0."""
    text = (text or "").strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_ID
    return int(text) if is_number else 0


class RunEventStream(Closeable, Iterator[bytes]):
    """The events of a run for one client: iterate over it, and close it.

    An object and not a generator, because a generator that was never started does not
    clean up. ``close()`` may be called before the first step, between steps, twice,
    and from another thread. A stream that is dropped closes itself.

    A slow client does not slow down the run: ``lagged`` reports the events that the
    run's buffer has dropped. One that takes nothing for too long is disconnected, so
    that it does not hold a thread of the server; it may reconnect.

    Cancellation: each step waits at most *heartbeat* seconds.

    :param run: the run to follow.
    :param after: how many events the client has seen.
    :param environ: the environ of the request, to notice at once when the client
        leaves, as far as the server permits.
    :param heartbeat: seconds of silence after which a comment is sent.
    :param slow_seconds: seconds that the client has to take a chunk, and, after the end
        of the run, all of them. It needs *environ*.
    """

    def __init__(
        self,
        run: FollowedRun,
        *,
        after: int = 0,
        environ: Mapping[str, Any] | None = None,
        heartbeat: float = HEARTBEAT,
        slow_seconds: float = SLOW,
    ) -> None:
        check_timeout(heartbeat, "heartbeat")
        self._run = run
        self.heartbeat: Final = heartbeat
        count = run.event_count
        # The number of no event of this run: start over.
        begin = after if after <= count else 0
        #: True if the client has seen all events, the end included.
        self.is_empty: Final = not run.is_live and after == run.event_count + 1
        self._subscription = run.subscribe(begin)
        #: True if a step may wait for a database, and :attr:`watch` may miss an event.
        self.reads_store: Final = run.is_stored
        self._has_started = self.is_empty
        self._has_ended = self.is_empty
        self._is_open = True
        #: Stands for this stream among the followers, and does not keep it alive.
        self._follower = object()
        self._watched: Watched | None = None
        self._slow_seconds = slow_seconds
        self._opened_at = clock.now()
        #: When the server got the newest chunk; None while it waits for the next one.
        self.sent_at: float | None = self._opened_at
        if not self.is_empty:
            run.add_follower(self._follower)
            if environ is not None:
                self._watch_client(environ)

    def _watch_client(self, environ: Mapping[str, Any]) -> None:
        # A weak reference: the watcher must not keep a dropped stream alive.
        reference = weakref.ref(self)
        stalled: list[tuple[str, float]] = []

        def on_lost() -> None:
            stream = reference()
            if stream is not None:
                stream.close()
            if stalled:
                _log.warning(
                    "%s: disconnected a client that did not read its stream within "
                    "%g s",
                    *stalled[0],
                )

        def has_stalled() -> bool:
            stream = reference()
            if stream is not None and stream.has_stalled():
                stalled.append((stream._run.run_id, stream._slow_seconds))
            return bool(stalled)

        stall = StallCheck(has_stalled, self._slow_seconds)
        self._watched = disconnect_probe(environ).watch(on_lost, stall)
        if not self._is_open:  # the client left in between
            self._stop_watching()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        self.sent_at = None
        chunk = self.step(self.heartbeat)
        self.sent_at = clock.now()
        return chunk

    def has_stalled(self) -> bool:
        """True if the client has not taken its chunks in time."""
        now = clock.now()
        sent_at = self.sent_at
        since = now if sent_at is None else sent_at
        if self._run.ended_clock is not None:
            # No new events: a client that reads a little now and then is slow, too.
            since = min(since, max(self._run.ended_clock, self._opened_at))
        return now - since >= self._slow_seconds

    def step(self, seconds: float) -> bytes:
        """Return the next chunk, or ``BEAT`` if there is no event in time.

        Cancellation: it waits at most *seconds*.

        :raises StopIteration: the stream is over.
        """
        if not self._is_open or self._has_ended:
            self.close()
            raise StopIteration
        if not self._has_started:
            self._has_started = True
            # At once: servers send the headers with the first chunk.
            return _RETRY + format_event("run", encode_body(self._run.view()))
        event = self._subscription.get(seconds)
        if event is not None:
            return self._chunk(event)
        if not self._subscription.is_over:
            return BEAT
        # A stored run that is live continues in another process, or was deleted: the
        # client reconnects.
        is_closed = not self._is_open  # by another thread, in between
        if is_closed or (self.reads_store and self._run.is_live):
            self.close()
            raise StopIteration
        self._has_ended = True
        number = self._run.event_count + 1
        return format_event("end", encode_body(self._run.view()), number)

    def _chunk(self, event: StreamEvent | Lagged | None) -> bytes:
        """Return *event* together with those that are ready."""
        events: list[bytes] = []
        size = 0
        while event is not None:
            public_event = self._run.public_event(event)
            try:
                data = encode_event(public_event)
            except Exception as error:  # a tool may return any object
                _log.warning(
                    "%s: skipped an event that JSON cannot express: %r",
                    *(self._run.run_id, error),
                )
                public_event = Lagged(1)
                data = encode_event(public_event)
            name = str(public_event.__struct_config__.tag)
            encoded = format_event(name, data, self._subscription.position)
            events.append(encoded)
            size += len(encoded)
            if len(events) == _MAX_EVENTS or size >= _MAX_BYTES:
                break
            has_more = self._run.has_event_after(self._subscription)
            event = self._subscription.get(0) if has_more else None
        return b"".join(events)

    @property
    def watch(self) -> Watch:
        """Notified of every event, for callers that must not block in :meth:`step`."""
        return self._subscription.watch

    def close(self) -> None:
        """End the stream. Without its last follower the run may end, too."""
        self._is_open = False
        self._subscription.close()
        self._run.remove_follower(self._follower)
        self._stop_watching()

    def _stop_watching(self) -> None:
        watched, self._watched = self._watched, None
        if watched is not None:
            watched.close()

    def __del__(self) -> None:
        if getattr(self, "_follower", None) is not None and self._is_open:
            self.close()
