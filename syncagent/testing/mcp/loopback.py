"""Sockets and threads of a fake MCP server.

Guarantees:

- A socket is in ``_open`` as long as it is open, so that ``close()`` can shut it down;
  only the thread that serves it closes it.
- ``close()`` ends every thread, unless a script blocks in code of its own.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .journal import LIMIT, Journal

__all__ = [
    "Loopback",
]

_Serve = Callable[[socket.socket], None]


class Loopback:
    """Listens on loopback, and serves each connection on a thread."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._listeners: dict[str, socket.socket] = {}
        self._ports: dict[str, int] = {}
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    @property
    def has_begun(self) -> bool:
        """True after the first :meth:`listen`."""
        return bool(self._ports)

    def port(self, kind: str) -> int:
        """Return the port of a listener.

        :raises RuntimeError: it does not listen yet.
        """
        if kind not in self._ports:
            raise RuntimeError(
                "FakeMCPServer does not listen yet; use `with FakeMCPServer() as s`"
            )
        return self._ports[kind]

    def listen(self, kind: str, serve: _Serve) -> None:
        """Serve connections; at the same port as before, if there was one."""
        address = ("127.0.0.1", self._ports.get(kind, 0))
        listener = socket.create_server(address, backlog=512)
        self._ports[kind] = listener.getsockname()[1]
        with self._journal.changed:
            self._listeners[kind] = listener
            self._open.add(listener)
        self.spawn(self._accept, listener, serve)

    def refuse(self, kind: str) -> None:
        """Listen no more; from now on connections are refused."""
        listener = self._listeners.pop(kind)
        _shut_down(listener)
        self._journal.wait(lambda: listener not in self._open)

    def drop(self) -> None:
        """Shut all HTTP connections down."""
        kept = set(self._listeners.values())
        http = self._ports.get("http")
        with self._journal.changed:
            for sock in self._open - kept:
                with suppress(OSError):
                    if sock.getsockname()[1] == http:
                        _shut_down(sock)

    def spawn(self, work: Callable[..., Any], *args: Any) -> None:
        """Run *work* on a thread of its own."""
        thread = threading.Thread(
            target=work, args=args, name="syncagent-fake-mcp", daemon=True
        )
        with self._journal.changed:
            self._threads = [each for each in self._threads if each.is_alive()]
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """End all connections and threads."""
        with self._journal.changed:
            for sock in self._open:
                _shut_down(sock)
        for thread in list(self._threads):
            thread.join(timeout=LIMIT)

    def _accept(self, listener: socket.socket, serve: _Serve) -> None:
        with suppress(OSError):
            while not self._journal.is_closed:
                sock, _ = listener.accept()
                self.spawn(self._serve, sock, serve)
        listener.close()
        with self._journal.changed:
            self._open.discard(listener)
            self._journal.wake()

    def _serve(self, sock: socket.socket, serve: _Serve) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._journal.changed:
            self._open.add(sock)
            is_closed = self._journal.is_closed
        try:
            if not is_closed:
                serve(sock)
        except (OSError, EOFError, ValueError):
            pass  # the client hung up
        finally:
            with self._journal.changed:
                self._open.discard(sock)
            sock.close()


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
