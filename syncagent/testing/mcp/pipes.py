"""Processes that clients start over stdio; the tests' process decides what they do."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from .journal import LIMIT, Journal
from .relay import frame, read_frame

__all__ = [
    "FakeProcess",
]


class FakeProcess:
    """A process that a client has started, as its server.

    It begins to read stdin once the start script is over.
    """

    def __init__(self, sock: socket.socket, journal: Journal) -> None:
        self._sock = sock
        self._journal = journal
        self._lock = threading.Lock()
        kind, data = read_frame(sock)
        self.pid = int(data) if kind == b"p" else 0
        #: True as soon as the process has ended.
        self.has_ended = False
        #: True as soon as the client has closed the process's stdin.
        self.stdin_closed = False
        #: The end of each line on stdout.
        self.line_end = b"\n"
        #: Cut what is written to stdout into pieces of this many bytes.
        self.piece_size: int | None = None
        #: Whether the process ends with code 0 when its stdin does.
        self.ends_with_stdin = True

    def send(self, data: bytes) -> None:
        """Write a message to stdout, as a line."""
        self.stdout(data + self.line_end)

    def stdout(self, data: bytes | str) -> None:
        """Write bytes to stdout, as they are."""
        data = data.encode() if isinstance(data, str) else data
        size = self.piece_size or len(data) or 1
        with self._lock:
            for begin in range(0, len(data), size):
                self._tell(b"o", data[begin : begin + size])

    def stderr(self, data: bytes | str) -> None:
        """Write to stderr."""
        with self._lock:
            self._tell(b"e", data.encode() if isinstance(data, str) else data)

    def exit(self, code: int = 0, *, stderr: str = "") -> None:
        """End with a code, after writing to stderr."""
        with self._lock:
            self._tell(b"e", stderr.encode())
            self._tell(b"x", b"%d" % code)

    def kill(self, number: int = signal.SIGKILL, *, stderr: str = "") -> None:
        """End by a signal, after writing to stderr."""
        with self._lock:
            self._tell(b"e", stderr.encode())
            self._tell(b"k", b"%d" % number)

    def ignore(self, number: int = signal.SIGTERM) -> None:
        """Ignore a signal from now on."""
        with self._lock:
            self._tell(b"i", b"%d" % number)

    def go_deaf(self) -> None:
        """Stop reading stdin; what the client writes stays in the pipe."""
        with self._lock:
            self._tell(b"d")

    def listen(self) -> None:
        """Read stdin again."""
        with self._lock:
            self._tell(b"l")

    def close_stdout(self) -> None:
        """Close stdout without ending."""
        with self._lock:
            self._tell(b"c", b"1")

    def wait_ended(self, timeout: float = LIMIT) -> None:
        """Block until the process has ended.

        :raises TimeoutError: it has not within *timeout* seconds.
        """
        if not self._journal.wait(lambda: self.has_ended, timeout):
            raise TimeoutError(f"process {self.pid} has not ended in {timeout} s")

    def _tell(self, kind: bytes, data: bytes = b"") -> None:
        with suppress(OSError):  # it has ended
            self._sock.sendall(frame(kind, data))

    def read_lines(self, handle: Callable[[bytes], None]) -> None:
        """Call *handle* with each line of stdin, until the process ends."""
        pending: list[bytes] = []
        with suppress(EOFError, OSError):
            while True:
                kind, data = read_frame(self._sock)
                if kind == b"z":
                    self.stdin_closed = True
                    self._journal.wake()
                    if self.ends_with_stdin:
                        self.exit(0)
                elif b"\n" not in data:
                    pending.append(data)
                else:
                    *lines, rest = b"".join([*pending, data]).split(b"\n")
                    pending = [rest]
                    for line in lines:
                        handle(line)
        self.has_ended = True
        self._journal.wake()
