"""Which connection a request came over, and whether its client is still there."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

from ...cancel import Cancellable, CancelToken
from .watcher import Connection, Watched, watch

__all__ = ["DisconnectProbe", "GONE", "cancel_on_disconnect", "disconnect_probe"]

_log = logging.getLogger("syncagent.web")

#: What a run is told that nobody waits for any more.
GONE: Final = "the client has gone away"

#: Where servers put the socket of a request.
_SOCKETS: Final = ("gunicorn.socket", "werkzeug.socket")
_WAITRESS: Final = "waitress.client_disconnected"
#: What leads from the input of a request to its socket, in servers that show no other
#: way: those of the standard library and of Django.
_STEPS: Final = ("_sock", "raw", "stream", "_read", "__self__")
_MAX_STEPS: Final = 6


class DisconnectProbe:
    """Tells whether the client of one request is still there, without writing to it.

    A client that has closed only its sending side counts as gone, as it does for
    proxies. One whose power was cut is seen by nobody: let runs have a ``timeout``.

    :param server: the name of the server, as far as it is known.
    :param connection: ``None`` if it does not show its connections.
    """

    def __init__(self, server: str, connection: Connection | None) -> None:
        self.server: Final = server
        self._connection = connection

    @property
    def can_look(self) -> bool:
        """Does the server show its connection? If not, only a write tells."""
        return self._connection is not None

    def is_lost(self) -> bool:
        """Has the client gone? Looks, and does not wait; false if nobody can tell."""
        return self._connection is not None and self._connection.is_lost()

    def watch(self, on_lost: Callable[[], object]) -> Watched | None:
        """Have *on_lost* called once when the client goes; close it to take it back.

        :param on_lost: called on the thread that watches; it must not block.
        :return: nothing if that cannot be told.
        """
        if self._connection is None:
            return None
        try:
            return watch(self._connection, on_lost)
        except (OSError, RuntimeError) as error:
            # No descriptor or no thread to be had, or the connection is closed: what
            # can be told now is, and the rest by the next write.
            if self._connection.is_lost():
                on_lost()
            else:
                _log.warning("a connection cannot be watched: %r", error)
            return None

    def __repr__(self) -> str:
        return f"<DisconnectProbe of {self.server}: can_look={self.can_look}>"


def disconnect_probe(environ: Mapping[str, Any]) -> DisconnectProbe:
    """Return what tells whether the client of a request is still there.

    Call it on the thread that serves the request.

    :param environ: that of the WSGI request.
    """
    for key in _SOCKETS:
        if key in environ:
            return DisconnectProbe(key.partition(".")[0], _of_socket(environ[key]))
    if _WAITRESS in environ:
        has_gone = environ[_WAITRESS]
        sock = getattr(getattr(has_gone, "__self__", None), "socket", None)
        return DisconnectProbe("waitress", _of_socket(sock, has_gone))
    if "uwsgi.version" in environ:
        return DisconnectProbe("uwsgi", _of_uwsgi())
    sock = _behind(environ.get("wsgi.input"))
    name = str(environ.get("SERVER_SOFTWARE", "")).partition("/")[0]
    return DisconnectProbe(name or "unknown", _of_socket(sock))


def _of_socket(
    sock: Any, has_gone: Callable[[], bool] | None = None
) -> Connection | None:
    if not isinstance(sock, socket.socket) or sock.fileno() < 0:
        return None
    return Connection(sock.fileno(), sock, has_gone)


def _of_uwsgi() -> Connection | None:
    with suppress(ImportError, AttributeError, OSError):
        # It is there only inside of that server.
        number = import_module("uwsgi").connection_fd()
        if isinstance(number, int) and number >= 0:
            return Connection(number)
    return None


def _behind(source: Any) -> socket.socket | None:
    """Return the socket that a request's input is read from, if it can be found."""
    for _ in range(_MAX_STEPS):
        if isinstance(source, socket.socket) or source is None:
            return source
        found = (getattr(source, step, None) for step in _STEPS)
        source = next((one for one in found if one is not None), None)
    return None


@contextmanager
def cancel_on_disconnect(
    environ: Mapping[str, Any], *targets: Cancellable, timeout: float | None = None
) -> Iterator[CancelToken]:
    """Cancel when the client of a request has gone, with origin ``disconnect``.

    For handlers that block until the answer is there::

        with cancel_on_disconnect(environ) as token:
            result = agent.run(prompt, cancel=token)

    :param targets: what else to cancel, such as an agent.
    :param timeout: seconds after which the token is cancelled in any case.
    :return: a token that is cancelled then.
    """
    token = CancelToken(timeout)

    def on_lost() -> None:
        for target in (token, *targets):
            target.cancel(GONE, "disconnect")

    watched = disconnect_probe(environ).watch(on_lost)
    try:
        yield token
    finally:
        if watched is not None:
            watched.close()
