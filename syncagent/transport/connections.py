"""Connections of urllib3 that know for whom they work, and pools that check on them.

A connection is *armed* while it works for an exchange: a line to it hangs on the
exchange's token. It is given back before it goes to the pool, and not after: a cancel
that came first has ended it, one that comes later must not reach its next user.
"""

from __future__ import annotations

import errno
import http.client
import queue
import socket
import ssl
import sys
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
)
from urllib3.util.connection import allowed_gai_family

from .body import Body, Response
from .exchange import Exchange, Outside, current
from .resolver import resolve
from .sockets import FOREVER, Address, HeldConnection, connect
from .tls import use_shared_context

if TYPE_CHECKING:
    from urllib3.response import HTTPResponse

    _Connection = HTTPConnection
    _Pool = HTTPConnectionPool
else:
    _Connection = _Pool = object


class _Armed(_Connection):
    """What plain and TLS connections have in common."""

    _exchange: Exchange | None = None
    _line: HeldConnection | None = None
    _timeout: float = FOREVER

    @property
    def timeout(self) -> float:
        """What the socket's own timeout is, or will be: never none."""
        return self._timeout

    @timeout.setter
    def timeout(self, seconds: float | None) -> None:
        self._timeout = FOREVER if seconds is None else seconds

    def _new_conn(self) -> socket.socket:
        exchange = current()
        if exchange is None:
            return super()._new_conn()
        try:
            sock = self._connect_for(exchange)
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        except TimeoutError as error:
            said = f"Connection to {self.host} timed out."
            raise ConnectTimeoutError(self, said) from error
        except OSError as error:
            said = f"Failed to establish a new connection: {error}"
            raise NewConnectionError(self, said) from error
        sys.audit("http.client.connect", self, self.host, self.port)
        exchange.enter("handshake")  # with a proxy, with TLS, with neither
        return sock

    def _connect_for(self, exchange: Exchange) -> socket.socket:
        exchange.enter("resolve")
        found = self._resolve_for(exchange)
        exchange.enter("connect")
        sock, line = connect(
            found,
            exchange.token,
            seconds_each=exchange.seconds_to_connect(len(found), self.timeout),
            source_address=self.source_address,
            # urllib3 has none for proxies. But Nagle's algorithm holds the body of a
            # request back until its head is acknowledged, which may take 40 ms.
            options=self.socket_options or self.default_socket_options,
        )
        exchange.take(line)
        self._exchange, self._line = exchange, line
        sock.settimeout(self.timeout)
        return sock

    def _resolve_for(self, exchange: Exchange) -> Sequence[Address]:
        host = self._dns_host.strip("[]")
        try:
            return resolve(
                host,
                self.port,
                exchange.token,
                family=allowed_gai_family(),
                resolver=exchange.resolver,
            )
        except UnicodeError:
            said = f"{host!r}, label empty or too long"
            raise LocationParseError(said) from None
        except OSError:
            raise
        except Exception as error:  # only a resolver of somebody's raises others
            raise Outside(error) from None

    def connect(self) -> None:
        super().connect()
        if self._exchange is not None:
            self._exchange.enter("send")

    def request(self, *args: Any, **kwargs: Any) -> None:
        exchange = current()
        if exchange is not None and self._line is None and self.sock is not None:
            self._exchange, self._line = exchange, exchange.hold(self.sock)
            exchange.enter("send")
        try:
            super().request(*args, **kwargs)
        except ssl.SSLEOFError as error:
            # The server reads no more. In clear this is the pipe that is broken, upon
            # which urllib3 still reads what the server has to say about it.
            raise BrokenPipeError(errno.EPIPE, str(error)) from error

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        exchange = self._exchange
        if exchange is None:
            return super().getresponse()
        exchange.enter("headers")
        response = super().getresponse()
        Response.adopt(response, exchange.token)
        return response

    # Where http.client has a class we have a method: it knows the exchange.
    def response_class(  # type: ignore[override]
        self, sock: socket.socket, *args: Any, **kwargs: Any
    ) -> http.client.HTTPResponse:
        """Return the answer that :mod:`http.client` is to read from *sock*."""
        if self._exchange is None:
            return HTTPConnection.response_class(sock, *args, **kwargs)
        return Body(self._exchange.readable(sock), *args, **kwargs)

    def disarm(self) -> bool:
        """Leave the exchange; false if a cancel has ended the connection."""
        exchange, line = self._exchange, self._line
        self._exchange = self._line = None
        return exchange is None or line is None or exchange.give_back(line)


class PlainConnection(_Armed, HTTPConnection):
    """A connection to a server, or to a proxy, in clear."""


class TlsConnection(_Armed, HTTPSConnection):
    """A connection with TLS, perhaps through a proxy."""

    def connect(self) -> None:
        use_shared_context(self)
        super().connect()


class IdleConnections:
    """What a pool keeps its idle connections in: a stack without a lock.

    No thread waits for it, no signal handler can deadlock on it, and a forked child
    finds it whole, whatever other threads of the parent were doing.
    """

    #: All there are, for :func:`leave_to_parent`.
    stacks: ClassVar[WeakSet[IdleConnections]] = WeakSet()

    def __init__(self, maxsize: int) -> None:
        self._maxsize = maxsize
        self._stack: deque[Any] = deque()
        self.stacks.add(self)

    def get(self, block: bool = False, timeout: float | None = None) -> Any:
        """Return what was put last; never waits."""
        try:
            return self._stack.pop()
        except IndexError:
            raise queue.Empty from None

    def put(self, item: Any, block: bool = False) -> None:
        """Put *item* on top."""
        if len(self._stack) >= self._maxsize:
            raise queue.Full
        self._stack.append(item)

    def qsize(self) -> int:
        """Return how many places are taken."""
        return len(self._stack)


def leave_to_parent() -> None:
    """Close, in a forked child, the idle connections that it has inherited.

    They are only closed: the parent, which has them too, does not notice.
    """
    for idle in list(IdleConnections.stacks):
        while idle.qsize():
            connection = idle.get(block=False)
            if connection is not None:
                connection.close()


class _Checking(_Pool):
    """What plain and TLS pools have in common."""

    QueueCls = IdleConnections  # type: ignore[assignment]

    def _put_conn(self, conn: Any) -> None:
        if conn is not None and not (conn.disarm() and _is_quiet(conn.sock)):
            conn.close()
        super()._put_conn(conn)


def _is_quiet(sock: Any) -> bool:
    """Has the server said nothing beyond the answer, as far as TLS has decoded it?

    What it says unasked would be the answer to the next request. Where it has not been
    decoded yet, urllib3 finds it when it takes the connection out of the pool again.
    """
    return not (isinstance(sock, ssl.SSLSocket) and sock.pending())


class PlainPool(_Checking, HTTPConnectionPool):
    """Connections to one server, in clear."""

    ConnectionCls = PlainConnection


class TlsPool(_Checking, HTTPSConnectionPool):
    """Connections to one server, with TLS."""

    ConnectionCls = TlsConnection
