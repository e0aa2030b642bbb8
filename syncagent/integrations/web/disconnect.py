"""Find the connection behind a request, and notice when its client leaves."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

from ...cancel import Cancellable, CancelToken
from .watcher import Connection, StallCheck, Watched, watch

__all__ = ["CLIENT_LEFT", "DisconnectProbe", "cancel_on_disconnect", "disconnect_probe"]

_log = logging.getLogger("syncagent.web")

#: The reason of a cancel after a disconnect.
CLIENT_LEFT: Final = "the client disconnected"

#: Where servers put the socket of a request.
_SOCKETS: Final = ("gunicorn.socket", "werkzeug.socket")
_WAITRESS: Final = "waitress.client_disconnected"
#: Attributes that lead from the input of a request to its socket, in servers that do
#: not expose it: those of the standard library and of Django.
_ATTRIBUTES: Final = ("_sock", "raw", "stream", "_read", "__self__")
_MAX_DEPTH: Final = 6


class DisconnectProbe:
    """Checks whether the client of one request is still connected, without writing.

    A client that has closed only its sending side counts as disconnected, as it does
    for proxies. A client that lost power cannot be noticed: give runs a ``timeout``.

    :param server: the name of the server, as far as it is known.
    :param connection: ``None`` if the server does not expose its connections.
    """

    def __init__(self, server: str, connection: Connection | None) -> None:
        self.server: Final = server
        self._connection = connection

    @property
    def can_look(self) -> bool:
        """True if the server exposes its connection. If not, only a write can tell."""
        return self._connection is not None

    def is_lost(self) -> bool:
        """True if the client has disconnected; false if unknown. Never blocks."""
        return self._connection is not None and self._connection.is_lost()

    def shut_down(self, how: int = socket.SHUT_RDWR) -> None:
        """End the connection under the server, if it is exposed. Never blocks.

        :param how: as for :meth:`socket.socket.shutdown`.
        """
        if self._connection is not None:
            self._connection.shut_down(how)

    def watch(
        self, on_lost: Callable[[], object], stall: StallCheck | None = None
    ) -> Watched | None:
        """Call *on_lost* once when the client disconnects.

        :param on_lost: called on the watcher's thread; it must not block.
        :param stall: call *on_lost* also when the client has stalled, and shut its
            connection down if the server exposes it.
        :return: an object to close when *on_lost* is no longer needed; ``None`` if the
            connection cannot be watched.
        """
        if self._connection is None and stall is None:
            return None
        connection = self._connection or Connection(-1)
        try:
            return watch(connection, on_lost, stall)
        except (OSError, RuntimeError) as error:
            # No descriptor or thread available, or the connection is closed. Check
            # once; after that only the next write can tell.
            if connection.is_lost():
                on_lost()
            else:
                _log.warning("cannot watch a connection: %r", error)
            return None

    def __repr__(self) -> str:
        return f"<DisconnectProbe of {self.server}: can_look={self.can_look}>"


def disconnect_probe(environ: Mapping[str, Any]) -> DisconnectProbe:
    """Return a probe for the connection of a request.

    Call it on the thread that serves the request.

    :param environ: the environ of the WSGI request.
    """
    for key in _SOCKETS:
        if key in environ:
            return DisconnectProbe(key.partition(".")[0], _of_socket(environ[key]))
    if _WAITRESS in environ:
        is_disconnected = environ[_WAITRESS]
        sock = getattr(getattr(is_disconnected, "__self__", None), "socket", None)
        return DisconnectProbe("waitress", _of_socket(sock, is_disconnected))
    if "uwsgi.version" in environ:
        connection = None
        with suppress(ImportError, AttributeError, OSError):
            # The module exists only inside the server.
            fileno = import_module("uwsgi").connection_fd()
            if isinstance(fileno, int) and fileno >= 0:
                connection = Connection(fileno)
        return DisconnectProbe("uwsgi", connection)
    sock = _socket_behind(environ.get("wsgi.input"))
    name = str(environ.get("SERVER_SOFTWARE", "")).partition("/")[0]
    return DisconnectProbe(name or "unknown", _of_socket(sock))


def _of_socket(
    sock: Any, is_disconnected: Callable[[], bool] | None = None
) -> Connection | None:
    if not isinstance(sock, socket.socket) or sock.fileno() < 0:
        return None
    return Connection(sock.fileno(), sock, is_disconnected)


def _socket_behind(source: Any) -> socket.socket | None:
    """Return the socket below the input of a request, if it can be found."""
    for _ in range(_MAX_DEPTH):
        if isinstance(source, socket.socket) or source is None:
            return source
        values = (getattr(source, name, None) for name in _ATTRIBUTES)
        source = next((each for each in values if each is not None), None)
    return None


@contextmanager
def cancel_on_disconnect(
    environ: Mapping[str, Any], *targets: Cancellable, timeout: float | None = None
) -> Iterator[CancelToken]:
    """Cancel when the client of a request disconnects, with origin ``disconnect``.

    For handlers that block until the run has ended::

        with cancel_on_disconnect(environ) as token:
            result = agent.run(prompt, cancel=token)

    :param targets: further objects to cancel, such as an agent.
    :param timeout: seconds after which the token is cancelled in any case.
    :return: the token that is cancelled.
    """
    token = CancelToken(timeout)

    def on_lost() -> None:
        for target in (token, *targets):
            target.cancel(CLIENT_LEFT, "disconnect")

    watched = disconnect_probe(environ).watch(on_lost)
    try:
        yield token
    finally:
        if watched is not None:
            watched.close()
