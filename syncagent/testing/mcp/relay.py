"""Relay the pipes of this process to a ``FakeMCPServer`` in another (a program).

It is started by path, without the package, so that it is up in a few milliseconds. Both
directions of the socket carry frames: one letter, four bytes of length, and data.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
import threading
from contextlib import suppress

#: Letter and length of a frame.
HEAD = struct.Struct("!cI")


def frame(kind: bytes, data: bytes = b"") -> bytes:
    """Return a frame."""
    return HEAD.pack(kind, len(data)) + data


def read_exactly(sock: socket.socket, size: int) -> bytes:
    """Read *size* bytes.

    :raises EOFError: the socket ended before.
    """
    pieces = []
    while size:
        piece = sock.recv(min(size, 1 << 20))
        if not piece:
            raise EOFError("the relay's socket has ended")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def read_frame(sock: socket.socket) -> tuple[bytes, bytes]:
    """Read a frame: its letter and its data.

    :raises EOFError: the socket has ended.
    """
    kind, size = HEAD.unpack(read_exactly(sock, HEAD.size))
    return kind, read_exactly(sock, size)


class _Relay:
    """The process: what the server says on its socket, it does."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._wake_out, self._wake_in = os.pipe()
        #: Whether stdin is read; a process is deaf until it is told to listen.
        self._is_listening = False

    def run(self) -> None:
        threading.Thread(target=self._pump, daemon=True).start()
        with suppress(EOFError, OSError):
            while True:
                self._obey(*read_frame(self._sock))
        os._exit(0)

    def _obey(self, kind: bytes, data: bytes) -> None:
        if kind in (b"o", b"e"):
            write_all(1 if kind == b"o" else 2, data)
        elif kind in (b"l", b"d"):
            self._is_listening = kind == b"l"
            os.write(self._wake_in, b"!")
        elif kind == b"x":
            os._exit(int(data))
        elif kind == b"k":
            os.kill(os.getpid(), int(data))
        elif kind == b"i":
            signal.signal(int(data), signal.SIG_IGN)
        elif kind == b"c":
            os.close(int(data))

    def _pump(self) -> None:
        """Send on everything that comes to stdin, until its end."""
        while True:
            sources = [self._wake_out, 0] if self._is_listening else [self._wake_out]
            ready = select.select(sources, [], [])[0]
            if self._wake_out in ready:
                os.read(self._wake_out, 4096)
            elif 0 in ready:
                data = os.read(0, 1 << 16)
                self._sock.sendall(frame(b"i" if data else b"z", data))
                if not data:
                    return


def write_all(number: int, data: bytes) -> None:
    """Write all of *data* to a descriptor, or nothing more once it is closed."""
    with suppress(OSError):  # the client has closed its end
        while data:
            data = data[os.write(number, data) :]


if __name__ == "__main__":
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(frame(b"p", b"%d" % os.getpid()))
    _Relay(connection).run()
