"""Connections of urllib3 that know their exchange, and pools that check on them.

A connection is *armed* while it works for an exchange: a
:class:`~.sockets.HeldConnection` of it hangs on the exchange's token.

Guarantees:

- A connection is disarmed before it enters the pool, and not after: a cancel that came
  first has ended it, one that comes later cannot reach its next user.
- A connection that a cancel has reached, or on which the server has sent something
  unrequested, is closed and never used again.
- The pool takes no lock and never waits. After a fork the child only closes what it
  inherited, and its parent does not notice.
"""

from __future__ import annotations

import errno
import http.client
import queue
import socket
import ssl
import sys
from collections import deque
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
from .exchange import Exchange, current
from .resolver import resolve
from .sockets import FOREVER, HeldConnection, connect, wait_in_one_call
from .tls import use_shared_context
from .user_code import UserCodeError, raise_if_from_handler

if TYPE_CHECKING:
    from urllib3.response import HTTPResponse

    _Connection = HTTPConnection
    _Pool = HTTPConnectionPool
else:
    _Connection = _Pool = object


class _Armed(_Connection):
    """The part that plain and TLS connections share."""

    # Both are set while it is armed, and None otherwise.
    _exchange: Exchange | None = None
    _held: HeldConnection | None = None
    _timeout: float = FOREVER

    @property
    def timeout(self) -> float:
        """The socket's own timeout; never ``None``, see :data:`~.sockets.FOREVER`."""
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
        except OSError as error:
            raise_if_from_handler(error)
            if isinstance(error, socket.gaierror):
                raise NameResolutionError(self.host, self, error) from error
            if isinstance(error, TimeoutError):
                message = f"Connection to {self.host} timed out."
                raise ConnectTimeoutError(self, message) from error
            message = f"Failed to establish a new connection: {error}"
            raise NewConnectionError(self, message) from error
        sys.audit("http.client.connect", self, self.host, self.port)
        exchange.enter("handshake")  # with a proxy, with TLS, with neither
        return sock

    def _connect_for(self, exchange: Exchange) -> socket.socket:
        exchange.enter("resolve")
        host = self._dns_host.strip("[]")
        try:
            addresses = resolve(
                host,
                self.port,
                exchange.token,
                family=allowed_gai_family(),
                resolver=exchange.resolver,
            )
        except UnicodeError:
            message = f"{host!r}, label empty or too long"
            raise LocationParseError(message) from None
        except OSError:
            raise
        except Exception as error:  # only a user's resolver raises others
            raise UserCodeError(error) from None
        exchange.enter("connect")
        sock, held = connect(
            addresses,
            exchange.token,
            seconds_each=exchange.seconds_to_connect(len(addresses), self.timeout),
            source_address=self.source_address,
            # urllib3 sets none for proxies. Without TCP_NODELAY Nagle's algorithm holds
            # the body of a request back until its head is acknowledged: up to 40 ms.
            options=self.socket_options or self.default_socket_options,
        )
        exchange.adopt(held)
        self._exchange, self._held = exchange, held
        sock.settimeout(self.timeout)
        wait_in_one_call(sock, exchange.nap)  # in the TLS handshake
        return sock

    def connect(self) -> None:
        try:
            super().connect()
        except Exception as error:
            raise_if_from_handler(error)
            raise
        if self._exchange is not None:
            self._exchange.enter("send")

    def send(self, data: Any) -> None:
        try:
            super().send(data)
        except Exception as error:
            raise_if_from_handler(error)
            raise

    def request(self, *args: Any, **kwargs: Any) -> None:
        exchange = current()
        if exchange is not None and self._held is None and self.sock is not None:
            self._exchange, self._held = exchange, exchange.hold(self.sock)
            exchange.enter("send")
        try:
            super().request(*args, **kwargs)
        except ssl.SSLEOFError as error:
            # The server has stopped reading. Without TLS this is a broken pipe, and
            # then urllib3 still reads the server's response.
            raise BrokenPipeError(errno.EPIPE, str(error)) from error

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        exchange = self._exchange
        if exchange is None:
            return super().getresponse()
        exchange.enter("headers")
        response = super().getresponse()
        Response.adopt(response, exchange.token, is_session=exchange.timeouts is None)
        return response

    # http.client expects a class here. A method serves as well, and knows the exchange.
    def response_class(  # type: ignore[override]
        self, sock: socket.socket, *args: Any, **kwargs: Any
    ) -> http.client.HTTPResponse:
        """Return the response that :mod:`http.client` reads from *sock*."""
        if self._exchange is None:
            return HTTPConnection.response_class(sock, *args, **kwargs)
        return Body(self._exchange.readable(sock), *args, **kwargs)

    def disarm(self) -> bool:
        """Leave the exchange; false if a cancel has reached the connection."""
        exchange, held = self._exchange, self._held
        self._exchange = self._held = None
        return exchange is None or held is None or exchange.release(held)


class PlainConnection(_Armed, HTTPConnection):
    """A connection to a server, or to a proxy, in clear."""


class TlsConnection(_Armed, HTTPSConnection):
    """A connection with TLS, perhaps through a proxy."""

    def connect(self) -> None:
        use_shared_context(self)
        super().connect()


class IdleConnections:
    """The idle connections of a pool: a stack without a lock.

    No thread waits for it, no signal handler can deadlock on it, and a forked child
    finds it intact, whatever other threads of the parent were doing.
    """

    #: All stacks of the process, for :func:`close_inherited`.
    stacks: ClassVar[WeakSet[IdleConnections]] = WeakSet()

    def __init__(self, maxsize: int) -> None:
        self._maxsize = maxsize
        self._stack: deque[Any] = deque()
        self.stacks.add(self)

    def get(self, block: bool = False, timeout: float | None = None) -> Any:
        """Return the connection that was put last; never waits."""
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
        """Return the number of connections, and of places for new ones."""
        return len(self._stack)


def close_inherited() -> None:
    """Close, in a forked child, the idle connections that it has inherited.

    They are closed, not shut down: the parent's copies stay usable.
    """
    for idle in list(IdleConnections.stacks):
        while idle.qsize():
            connection = idle.get(block=False)
            if connection is not None:
                connection.close()


class _Checking(_Pool):
    """The part that plain and TLS pools share."""

    QueueCls = IdleConnections  # type: ignore[assignment]

    def _put_conn(self, conn: Any) -> None:
        # Bytes beyond the response would pass for the response to the next request.
        # pending() counts those that TLS has decoded; urllib3 finds the others when it
        # takes the connection out of the pool again.
        if conn is not None and (
            not conn.disarm()
            or (isinstance(conn.sock, ssl.SSLSocket) and conn.sock.pending())
        ):
            conn.close()
        super()._put_conn(conn)


class PlainPool(_Checking, HTTPConnectionPool):
    """Connections to one server, in clear."""

    ConnectionCls = PlainConnection


class TlsPool(_Checking, HTTPSConnectionPool):
    """Connections to one server, with TLS."""

    ConnectionCls = TlsConnection
