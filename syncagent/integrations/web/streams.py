"""Response bodies that grow while the client reads them."""

from __future__ import annotations

import logging
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..._closeable import Closeable
from ...cancel import Watch, clock
from .disconnect import disconnect_probe
from .watcher import StallCheck, Watched

__all__ = ["BEAT", "ResponseStream", "SLOW"]

_log = logging.getLogger("syncagent.web")

#: Seconds that a client has to take a chunk.
SLOW: Final = 60.0
#: A comment, which clients ignore. It has to carry bytes: servers do not write an empty
#: chunk, and only a write shows them that the client has left.
BEAT: Final = b": still here\n\n"


class ResponseStream(Closeable, Iterator[bytes]):
    """The chunks of a response for one client: iterate over it, and close it.

    Cancellation: each step waits at most *heartbeat* seconds.

    :param heartbeat: seconds of silence after which a comment is sent.
    :param slow_seconds: seconds that the client has to take a chunk.
    """

    #: True if a step may wait for a database, and :attr:`watch` may miss an event.
    reads_store = False

    def __init__(self, heartbeat: float, slow_seconds: float = SLOW) -> None:
        self.heartbeat: Final = heartbeat
        self._is_open = True
        self._watched: Watched | None = None
        self._slow_seconds = slow_seconds
        self._opened_at = clock.now()
        #: When the server got the newest chunk; None while it waits for the next one.
        self.sent_at: float | None = self._opened_at

    @property
    @abstractmethod
    def name(self) -> str:
        """Names the stream in the log."""

    @property
    @abstractmethod
    def watch(self) -> Watch:
        """Notified of every event, for callers that must not block in :meth:`step`."""

    @abstractmethod
    def step(self, seconds: float) -> bytes:
        """Return the next chunk, or ``BEAT`` if there is no event in time.

        Cancellation: it waits at most *seconds*.

        :raises StopIteration: the stream is over.
        """

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        self.sent_at = None
        chunk = self.step(self.heartbeat)
        self.sent_at = clock.now()
        return chunk

    def has_stalled(self) -> bool:
        """True if the client has not taken its chunks in time."""
        now, sent_at = clock.now(), self.sent_at
        return sent_at is not None and now - sent_at >= self._slow_seconds

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
                stalled.append((stream.name, stream._slow_seconds))
            return bool(stalled)

        stall = StallCheck(has_stalled, self._slow_seconds)
        self._watched = disconnect_probe(environ).watch(on_lost, stall)
        if not self._is_open:  # the client left in between
            self._stop_watching()

    def _stop_watching(self) -> None:
        watched, self._watched = self._watched, None
        if watched is not None:
            watched.close()
