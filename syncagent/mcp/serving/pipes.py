"""Bytes on the pipes of a client, in both directions."""

from __future__ import annotations

import os
import select
import socket
import stat
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from ...cancel import Killable, clock

__all__ = ["LineCutter", "LoopWaker", "MAX_MESSAGE", "PipeOutput"]

#: Bytes of the largest message of a client.
MAX_MESSAGE: Final = 8 * 1024 * 1024
#: Bytes that a pipe ready for writing takes without blocking.
_PIECE: Final = select.PIPE_BUF


class LoopWaker(Killable):
    """Wakes the loop; a cancel fires it."""

    __slots__ = ("reading", "writing")

    def __init__(self) -> None:
        super().__init__()
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        os.set_blocking(self.writing, False)

    def fire(self) -> None:
        """Wake the loop. Takes no lock, and may be repeated."""
        with suppress(OSError):  # full: it is awake already
            os.write(self.writing, b"!")

    def drain(self) -> None:
        """Forget all wake-ups so far."""
        with suppress(BlockingIOError):
            while os.read(self.reading, 1024):
                pass

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.reading)
        os.close(self.writing)


class LineCutter:
    """Cuts the input into lines; one that is too long becomes ``None``."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._is_skipping = False

    def split(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the lines that *data* completes, without empty ones."""
        start = len(self._rest)
        self._rest += data
        while (end := self._rest.find(b"\n", start)) >= 0:
            line = bytes(self._rest[:end]).strip()
            del self._rest[: end + 1]
            start, was_skipping, self._is_skipping = 0, self._is_skipping, False
            if line and not was_skipping:
                yield line
        if len(self._rest) > MAX_MESSAGE or self._is_skipping:
            self._rest.clear()
            if not self._is_skipping:
                self._is_skipping = True
                yield None


class PipeOutput:
    """Bytes on their way to the client; any thread adds, the loop writes.

    The descriptor is not made non-blocking: it may be shared with other programs, and
    with standard error. A piece that is no longer than PIPE_BUF does not block when the
    descriptor is ready.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._lock = threading.Lock()  # held for a moment, never while anything waits
        self._waiting: deque[bytes] = deque()
        #: The rest of the message that is being written.
        self._head = memoryview(b"")
        #: Bytes that wait.
        self.size = 0
        is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
        self._socket = socket.socket(fileno=os.dup(descriptor)) if is_socket else None

    @property
    def has_bytes(self) -> bool:
        """True if something waits to be written."""
        return self.size > 0

    def add(self, message: bytes) -> None:
        """Add a message."""
        with self._lock:
            self._waiting.append(message + b"\n")
            self.size += len(message) + 1

    def write_some(self) -> None:
        """Write a piece without blocking.

        :raises OSError: the client is gone.
        """
        if not self._head:
            with self._lock:
                if not self._waiting:
                    return
                self._head = memoryview(self._waiting.popleft())
        piece = self._head[:_PIECE]
        try:
            if self._socket is not None:
                written = self._socket.send(piece, socket.MSG_DONTWAIT)
            else:
                written = os.write(self.descriptor, piece)
        except BlockingIOError:  # another program has filled it
            return
        self._head = self._head[written:]
        with self._lock:
            self.size -= written

    def flush(self, seconds: float) -> None:
        """Write what waits, as far as the client takes it in time.

        Cancellation: none; it returns after *seconds*.
        """
        poller, until = select.poll(), clock.now() + seconds
        poller.register(self.descriptor, select.POLLOUT)
        with suppress(OSError):
            while self.has_bytes and (left := until - clock.now()) > 0:
                if poller.poll(max(1, int(left * 1000))):
                    self.write_some()

    def close(self) -> None:
        """Close the duplicate of a socket."""
        if self._socket is not None:
            self._socket.close()
