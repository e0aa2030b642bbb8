"""A server that says exactly the bytes that it is told to."""

import socket
import threading
from contextlib import suppress

from support.threads import LONG

from syncagent.transport import Transport


class Hostile:
    """Answer every request with what ``answer(number, head)`` returns.

    :param answer: returns bytes; what it returns after ``None`` ends the connection.
    :param context: for TLS.
    :param takes_body: read the bodies of requests, too?
    """

    def __init__(self, answer, context=None, *, takes_body=True):
        self._answer = answer if callable(answer) else lambda number, head: answer
        self._takes_body = takes_body
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = []
        self._sockets = [self._listener]
        self.heads = []
        #: All connections that were made to it.
        self.connections = []

    def __enter__(self):
        thread = threading.Thread(target=self._accept, daemon=True)
        thread.start()
        self._threads.append(thread)
        return self

    def __exit__(self, *_):
        for sock in self._sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LONG)
        for sock in self._sockets:
            sock.close()

    def url(self, path="/"):
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}{path}"

    def _accept(self):
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self._sockets.append(sock)
                self.connections.append(sock)
                thread = threading.Thread(target=self._visit, args=(sock,), daemon=True)
                thread.start()
                self._threads.append(thread)

    def _visit(self, sock):
        with suppress(OSError, ValueError), sock:
            sock.settimeout(LONG)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
                self._sockets.append(sock)
            with sock, sock.makefile("rb") as file:
                while head := self._read_head(file):
                    self.heads.append(head)
                    for part in self._parts(len(self.heads), head):
                        if part is None:
                            return
                        sock.sendall(part)

    def _parts(self, number, head):
        answer = self._answer(number, head)
        return [answer] if isinstance(answer, (bytes, type(None))) else answer

    def _read_head(self, file):
        lines, size = [], 0
        while (line := file.readline()) not in (b"\r\n", b""):
            lines.append(line)
            if line.lower().startswith(b"content-length:"):
                size = int(line[15:])
        if self._takes_body:
            file.read(size)
        return b"".join(lines).decode("latin-1")


def framed(body, headers="", status="200 OK"):
    """Return an answer whose length is told."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode("latin-1") + body


def head(headers="", status="200 OK"):
    """Return the beginning of an answer."""
    return f"HTTP/1.1 {status}\r\n{headers}\r\n".encode("latin-1")


SSE = "Content-Type: text/event-stream\r\n"


def one_shot(**settings):
    """Return a transport that tries once."""
    return Transport(**{"retries": 0, **settings})
