"""A run as a stream of server-sent events.

Each event of the run has its number as ``id``, its type as ``event`` and its JSON as
``data``. A client that reconnects with ``Last-Event-ID`` gets the events it missed and
none twice. Two events are added: ``run``, without an id, is the state of the run when
the stream starts; ``end`` is its state at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from ..._checks import check_timeout
from ...cancel import Watch, clock
from ...events import Lagged, StreamEvent, encode_event
from .bodies import encode_body
from .followed import FollowedRun
from .streams import BEAT, SLOW, ResponseStream

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


class RunEventStream(ResponseStream):
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
        super().__init__(heartbeat, slow_seconds)
        self._run = run
        count = run.event_count
        # The number of no event of this run: start over.
        begin = after if after <= count else 0
        #: True if the client has seen all events, the end included.
        self.is_empty: Final = not run.is_live and after == run.event_count + 1
        self._subscription = run.subscribe(begin)
        self.reads_store = run.is_stored
        self._has_started = self.is_empty
        self._has_ended = self.is_empty
        #: Stands for this stream among the followers, and does not keep it alive.
        self._follower = object()
        if not self.is_empty:
            run.add_follower(self._follower)
            if environ is not None:
                self._watch_client(environ)

    def has_stalled(self) -> bool:
        """True if the client has not taken its chunks in time."""
        ended_at = self._run.ended_clock
        if ended_at is None:
            return super().has_stalled()
        # No new events: a client that reads a little now and then is slow, too.
        since = max(ended_at, self._opened_at)
        return super().has_stalled() or clock.now() - since >= self._slow_seconds

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

    @property
    def name(self) -> str:
        """The id of the run."""
        return self._run.run_id

    def close(self) -> None:
        """End the stream. Without its last follower the run may end, too."""
        self._is_open = False
        self._subscription.close()
        self._run.remove_follower(self._follower)
        self._stop_watching()

    def __del__(self) -> None:
        if getattr(self, "_follower", None) is not None and self._is_open:
            self.close()
