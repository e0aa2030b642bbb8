"""The listener on this machine that a browser is sent back to after a login.

Guarantees:

- It listens on the loopback interface only, for the length of one login.
- One thread serves all connections, and none of them can make it wait: browsers open
  connections ahead of time and send nothing, other programs may send anything.
- Only a request with the secret ``state`` of this login ends it. All others get a page
  that says no; nothing that came with a request is ever shown.
- ``close()`` ends the thread from any other thread, in bounded time.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from contextlib import suppress
from hmac import compare_digest
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from ..._closeable import Closeable
from ...cancel import CancelToken, Mailbox, clock
from ...cancel.once import start_thread
from ...exceptions import ConfigurationError
from .urls import is_loopback_host

__all__ = ["BrowserFailed", "RedirectListener", "query_of"]

_log = logging.getLogger("syncagent.mcp")

#: The largest request, the most connections, their longest life in seconds, and how
#: many may wait to be accepted.
_MAX_BYTES: Final = 16 * 1024
_MAX_CONNECTIONS: Final = 32
_MAX_SECONDS: Final = 10.0
_BACKLOG: Final = 128
#: How long to wait for the thread at the end, in seconds; it never blocks that long.
_PATIENCE: Final = 5.0

_PATH: Final = "/callback"
_DONE: Final = "You are logged in. You can close this window."
_REFUSED: Final = "The login was not completed. You can close this window."
_STRANGE: Final = "This is not the login that the program waits for."
_PAGE: Final = (
    "<!doctype html><html><head><meta charset='utf-8'><title>syncagent</title></head>"
    "<body style='font-family: sans-serif; margin: 4em'><p>{}</p></body></html>"
)


def query_of(url: str) -> dict[str, str]:
    """Return the parameters of *url*; one that comes twice counts as missing."""
    try:
        pairs = parse_qsl(
            urlsplit(url).query, keep_blank_values=True, max_num_fields=50
        )
    except ValueError:
        return {}
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


class BrowserFailed(Exception):
    """The page of a login could not be shown; has the name of what was raised."""


class _Connection:
    """A connection of a browser, and what it has sent so far."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.received = b""
        self.until = clock.now() + _MAX_SECONDS


class RedirectListener(Closeable):
    """Wait for a browser at a redirect URI on this machine.

    :param state: the secret of this login.
    :param uri: the redirect URI to listen at, or
    :param port: the port for one of our own; 0 for any.
    :raises ConfigurationError: the URI is not on this machine.
    :raises OSError: the port is taken.
    """

    def __init__(self, state: str, *, uri: str | None = None, port: int = 0) -> None:
        self._state = state
        self._mail: Mailbox[dict[str, str] | BrowserFailed] = Mailbox()
        self._is_closed = False
        parts = urlsplit(uri or f"http://127.0.0.1:{port}{_PATH}")
        host = parts.hostname or ""
        if parts.scheme != "http" or not is_loopback_host(host):
            raise ConfigurationError(
                f"redirect_uri {uri!a} is not on this machine; pass "
                "http://127.0.0.1:PORT/callback, or redirect= for one of your own"
            )
        self._path = parts.path or "/"
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = _listen(family, host, parts.port or 0)
        #: The redirect URI for the authorization server.
        self.uri: Final = uri or (
            f"http://127.0.0.1:{self._listener.getsockname()[1]}{_PATH}"
        )
        self._wake, self._waker = socket.socketpair()
        self._connections: dict[socket.socket, _Connection] = {}
        self._selector = selectors.DefaultSelector()
        for sock in (self._listener, self._wake):
            self._selector.register(sock, selectors.EVENT_READ)
        self._thread = threading.Thread(
            target=self._serve, name="syncagent-mcp-redirect", daemon=True
        )

    def start(self) -> None:
        """Begin to listen.

        :raises RuntimeError: the system refuses another thread.
        """
        start_thread(self._thread)

    def wait(self, token: CancelToken) -> dict[str, str]:
        """Return the parameters that a browser has brought back.

        Cancellation: ends at once.

        :raises BrowserFailed: the page of the login could not be shown.
        """
        found = self._mail.get(token)
        if found is None:
            token.checkpoint()
        if isinstance(found, BrowserFailed):
            raise found
        return found or {}

    def fail(self, name: str) -> None:
        """End the wait: showing the page has raised an exception of this *name*."""
        self._mail.put(BrowserFailed(name))

    def close(self) -> None:
        """Stop listening; return when the thread has ended."""
        self._is_closed = True
        with suppress(OSError):
            self._waker.send(b"x")
        if self._thread.ident is not None:
            self._thread.join(timeout=_PATIENCE)
        if self._thread.is_alive():
            return  # it never blocks that long; better a leak than a closed socket
        self._selector.close()
        for sock in (*self._connections, self._listener, self._wake, self._waker):
            sock.close()

    def _serve(self) -> None:
        while not self._is_closed:
            for key, _ in self._selector.select(timeout=_MAX_SECONDS):
                sock = key.fileobj
                if sock is self._listener:
                    self._accept()
                elif isinstance(sock, socket.socket) and sock in self._connections:
                    self._read(self._connections[sock])
            now = clock.now()
            for connection in list(self._connections.values()):
                if connection.until <= now:
                    self._drop(connection)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # it has gone already
            return
        sock.setblocking(False)
        connection = self._connections[sock] = _Connection(sock)
        self._selector.register(sock, selectors.EVENT_READ)
        if len(self._connections) > _MAX_CONNECTIONS:
            oldest = next(iter(self._connections.values()))
            self._drop(oldest if oldest is not connection else connection)

    def _drop(self, connection: _Connection) -> None:
        self._selector.unregister(connection.sock)
        del self._connections[connection.sock]
        connection.sock.close()

    def _read(self, connection: _Connection) -> None:
        try:
            piece = connection.sock.recv(_MAX_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        connection.received += piece
        if not piece or len(connection.received) > _MAX_BYTES:
            self._drop(connection)
        elif b"\r\n\r\n" in connection.received or b"\n\n" in connection.received:
            query = self._answer(connection)
            self._drop(connection)
            if query is not None:
                self._mail.put(query)

    def _answer(self, connection: _Connection) -> dict[str, str] | None:
        """Answer a request; return its parameters if they end the login."""
        line = connection.received.split(b"\n", 1)[0].decode("latin-1").split()
        target = line[1] if len(line) == 3 else ""
        query = query_of(target)
        if len(line) != 3 or line[0] != "GET" or urlsplit(target).path != self._path:
            _send(connection.sock, "404 Not Found", _STRANGE)
            return None
        if not compare_digest(query.get("state", "").encode(), self._state.encode()):
            _log.warning(
                "a request with a wrong state came to the login's redirect URI"
            )
            _send(connection.sock, "400 Bad Request", _STRANGE)
            return None
        _send(connection.sock, "200 OK", _DONE if "code" in query else _REFUSED)
        return query


def _listen(family: int, host: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A listener of the login before this one may have left connections behind.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host if host != "localhost" else "127.0.0.1", port))
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _send(sock: socket.socket, status: str, text: str) -> None:
    """Send a page; it is small enough for the kernel to take it at once."""
    page = _PAGE.format(text).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(page)}\r\nCache-Control: no-store\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n"
        "Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
    )
    with suppress(OSError):
        sock.send(head.encode() + page)
