"""A run as a stream of server-sent events.

An event of the run has its number as ``id``, its type as ``event`` and its JSON as
``data``, so that a client that comes back with ``Last-Event-ID`` gets what it has
missed, and nothing twice. Two events are not the run's own: ``run``, how the run stands
when the stream begins, without an id; and ``end``, how it stands at its end.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ..._checks import check_timeout
from ..._closeable import Closeable
from ...cancel import Watch
from ...events import Lagged, StreamEvent, encode_event
from .bodies import encode_body
from .disconnect import disconnect_probe
from .watcher import Watched
from .web_run import WebRun

__all__ = [
    "BEAT",
    "RunEventStream",
    "HEADERS",
    "HEARTBEAT",
    "format_event",
    "parse_event_id",
]

_log = logging.getLogger("syncagent.web")

#: Seconds of silence after which something is sent that means nothing.
HEARTBEAT: Final = 15.0
#: For whatever lies between us and the client: pass it on, as it is, at once.
HEADERS: Final = (
    ("Content-Type", "text/event-stream; charset=utf-8"),
    ("Cache-Control", "no-cache, no-transform"),
    ("X-Accel-Buffering", "no"),
)
#: A comment, which clients ignore. An empty piece would never reach the client, so that
#: a client that is gone would never be noticed.
BEAT: Final = b": still here\n\n"
#: Milliseconds after which a client comes back whose connection broke.
_RETRY: Final = b"retry: 1000\n"
#: How much is sent at once, if that much is there.
_MAX_EVENTS: Final = 64
_MAX_BYTES: Final = 64 * 1024
#: No run has so many events that its number is longer.
_LONGEST_ID: Final = 15


def format_event(name: str, data: bytes, number: int | None = None) -> bytes:
    """Return an event as it is sent; *data* is JSON, in one line."""
    identity = b"" if number is None else b"id: %d\n" % number
    return b"%sevent: %s\ndata: %s\n\n" % (identity, name.encode(), data)


def parse_event_id(text: str | None) -> int:
    """Return the number of the event that a client has seen last, 0 if it is none."""
    text = (text or "").strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_ID
    return int(text) if is_number else 0


class RunEventStream(Closeable, Iterator[bytes]):
    """What is sent to one client who follows a run: iterate over it, and close it.

    It is an object and no generator, as a generator that was never begun cleans up
    nothing. ``close()`` may be called before the first step, in the middle, twice, and
    from another thread; one that is dropped is closed.

    A slow client holds up nobody: what the run's buffer has dropped meanwhile is told
    by ``lagged``.

    Cancellation: each step waits at most *heartbeat* seconds.

    :param run: what is followed.
    :param after: how many events the client has seen.
    :param environ: of the request, whose client is watched if the server lets us;
        nothing otherwise.
    :param heartbeat: seconds of silence after which a comment is sent.
    """

    def __init__(
        self,
        run: WebRun,
        *,
        after: int = 0,
        environ: Mapping[str, Any] | None = None,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        check_timeout(heartbeat, "heartbeat")
        self._run = run
        self.heartbeat: Final = heartbeat
        count = run.handle.event_count
        # A number that no event of this run has: the client means something else.
        begin = after if after <= count else 0
        #: Has the client seen everything already, also the end?
        self.is_empty: Final = not run.is_live and after == run.handle.event_count + 1
        self._subscription = run.handle.subscribe(after=begin)
        self._has_begun = self.is_empty
        self._has_ended = self.is_empty
        self._is_open = True
        self._place = object()
        self._watched: Watched | None = None
        if not self.is_empty:
            run.join(self._place)
            if environ is not None:
                # Weakly: one that is dropped is to be closed.
                self._watched = disconnect_probe(environ).watch(_closer(self))
                if not self._is_open:  # at this very moment
                    self._let_go()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return self.step(self.heartbeat)

    def step(self, seconds: float) -> bytes:
        """Return what is to be sent next, ``BEAT`` if there is nothing in time.

        Cancellation: it waits at most *seconds*.

        :raises StopIteration: there is no more.
        """
        if not self._is_open or self._has_ended:
            self.close()
            raise StopIteration
        if not self._has_begun:
            self._has_begun = True
            # At once: headers go out with the first piece.
            return _RETRY + format_event("run", encode_body(self._run.view()))
        event = self._subscription.get(seconds)
        if event is not None:
            return self._pieces(event)
        if not self._subscription.is_over:
            return BEAT
        if not self._is_open:
            raise StopIteration
        self._has_ended = True
        number = self._run.handle.event_count + 1
        return format_event("end", encode_body(self._run.view()), number)

    def _pieces(self, event: StreamEvent | Lagged | None) -> bytes:
        """Return an event, with those that are there already."""
        pieces: list[bytes] = []
        size = 0
        while event is not None:
            piece = self._piece(event)
            pieces.append(piece)
            size += len(piece)
            if len(pieces) == _MAX_EVENTS or size >= _MAX_BYTES:
                break
            has_more = self._subscription.position < self._run.handle.event_count
            event = self._subscription.get(0) if has_more else None
        return b"".join(pieces)

    def _piece(self, event: StreamEvent | Lagged) -> bytes:
        shown = self._run.shown(event)
        try:
            data = encode_event(shown)
        except Exception as error:  # a tool may say anything
            run_id = self._run.handle.run_id
            _log.warning("%s: an event has no JSON and is left out: %r", run_id, error)
            shown = Lagged(1)
            data = encode_event(shown)
        name = str(shown.__struct_config__.tag)
        return format_event(name, data, self._subscription.position)

    @property
    def watch(self) -> Watch:
        """Woken with every event, for those who must not wait in :meth:`step`."""
        return self._subscription.watch

    def close(self) -> None:
        """End it; if this was the last who followed the run, that may end, too."""
        self._is_open = False
        self._subscription.close()
        self._run.leave(self._place)
        self._let_go()

    def _let_go(self) -> None:
        watched, self._watched = self._watched, None
        if watched is not None:
            watched.close()

    def __del__(self) -> None:
        if getattr(self, "_place", None) is not None and self._is_open:
            self.close()


def _closer(stream: RunEventStream) -> Callable[[], None]:
    """Return what closes *stream*, without keeping it."""
    found = weakref.ref(stream)

    def close() -> None:
        there = found()
        if there is not None:
            there.close()

    return close
