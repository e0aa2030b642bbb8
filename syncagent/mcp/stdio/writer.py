"""Messages on their way to the input of a server.

Guarantees:

- No one blocks: the pipe takes what it has room for, and the rest stays queued.
- Messages are written whole and in order, whichever threads write.
- A message of which nothing was written can be taken back. One that was begun is
  written to its end, or the server would lose the framing of all that follow.
- A signal handler that raises loses no message or byte and repeats none: to queue a
  message, and to write and take note of it, is one step in C each.
- No byte reaches a stranger: the pipe is closed while no thread writes, as the system
  gives its number away at once.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress
from typing import IO, Final

from ...cancel.once import Once

__all__ = ["Outgoing", "PipeWriter"]

#: Bytes of one write.
_PIECE: Final = 64 * 1024


class Outgoing:
    """Bytes for the server; the first claim decides: written, or taken back."""

    __slots__ = ("_claim", "_data", "_written", "unqueued")

    def __init__(self, data: bytes) -> None:
        self._data = data + b"\n"
        #: This object, until it is queued.
        self.unqueued = [self]
        self._claim: Once[str] = Once()
        #: The number of bytes of each write.
        self._written: list[int] = []

    def take_back(self) -> bool:
        """Keep the bytes from being written; false if that has begun."""
        if self._claim.claim("taken back") == "written":
            return False
        self._data = b""  # the entry stays in the queue: let it weigh nothing
        return True

    def write(self, descriptor: int) -> bool:
        """Write as much as there is room for; true if nothing is left to write.

        :raises OSError: the server has closed its input.
        """
        if self._claim.claim("written") != "written":
            return True
        data, written = self._data, self._written
        while (done := sum(written)) < len(data):
            piece = (
                data
                if not done and len(data) <= _PIECE
                else (memoryview(data)[done : done + _PIECE])
            )
            try:
                written.extend(map(os.write, (descriptor,), (piece,)))
            except BlockingIOError:
                if not written:
                    self._claim = Once()  # it can still be taken back
                return False
        return True


class PipeWriter:
    """The queue of messages for one server.

    :param pipe: its input, which never blocks; it is closed here only.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._queue: deque[Outgoing] = deque()
        #: Held by the one thread that writes just now.
        self._writing = threading.Lock()

    @property
    def has_more(self) -> bool:
        """True if messages wait for room in the pipe."""
        return bool(self._queue) and not self._pipe.closed

    def add(self, outgoing: Outgoing) -> None:
        """Queue a message. Safe to repeat: it is sent once."""
        with suppress(IndexError):
            self._queue.extend(map(outgoing.unqueued.pop, (0,)))

    def write(self) -> None:
        """Write as much as there is room for, unless another thread does.

        :raises OSError: the server has closed its input.
        """
        if not self._writing.acquire(blocking=False):
            return  # that thread looks at the queue again, or the I/O thread does
        try:
            while self._queue and not self._pipe.closed:
                # Only the holder of the lock takes messages out, and only whole ones.
                if not self._queue[0].write(self._pipe.fileno()):
                    return
                self._queue.popleft()
        finally:
            self._writing.release()

    def close(self) -> None:
        """Close the pipe. Safe to repeat.

        Cancellation: not needed; no write blocks.
        """
        with self._writing, suppress(OSError):
            self._pipe.close()
