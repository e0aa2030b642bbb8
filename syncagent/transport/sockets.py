"""Sockets that a cancel ends: connecting them, reading them, and shutting them down.

A blocked call on a socket ends when the connection is shut down, and by nothing else
that is safe. Three rules, each learned the hard way:

- Only a *duplicate* of the descriptor is shut down, as a plain socket. Shutting an
  ``SSLSocket`` down makes it forget its TLS: the next request would go out in clear.
- The owner of a duplicate, decided by the fate of its
  :class:`~syncagent.cancel.Killable`, closes it, and no other thread touches it: a
  closed descriptor number may belong to a stranger the next moment.
- A read that a shutdown ends may fail, or return an end of file that looks clean. So
  the token is asked after every read, before its result is believed.
"""

from __future__ import annotations

import errno
import io
import math
import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

from ..cancel import CancelToken, Killable, clock
from ..exceptions import ConfigurationError
from .user_code import raise_if_from_handler

__all__ = [
    "Address",
    "FOREVER",
    "HeldConnection",
    "ReadableSocket",
    "connect",
    "nap_of_this_thread",
    "wait_in_one_call",
]

#: One item of the list that :func:`socket.getaddrinfo` returns.
Address = tuple[Any, Any, Any, str, Any]

#: How long the main thread may block before it looks for signals, in seconds. Python
#: overlooks a signal that arrives in the instant before a call blocks; with this, a
#: Ctrl+C is late then, but not lost.
_NAP: Final = 1.0

#: A timeout that means none, in seconds. A socket with a timeout sends in small steps,
#: and waits in ``poll`` between them; a signal handler that cancels ends that wait.
FOREVER: Final = 2_000_000.0

#: How much is read at once, in bytes; each open stream has two such buffers.
_BUFFER: Final = 4 * 1024

#: True where a shutdown is known to end the wait for a connection that is not made yet.
#: Elsewhere that wait polls its token, at this interval in seconds.
_SHUTDOWN_WAKES: Final = sys.platform == "linux"
_POLL_INTERVAL: Final = 0.05

#: ``struct linger`` for closing at once: on, zero seconds.
_AT_ONCE: Final = struct.pack("ii", 1, 0)
#: ``struct timeval`` for the nap.
_NAP_TIMEVAL: Final = struct.pack("ll", int(_NAP), 0)


def nap_of_this_thread() -> float | None:
    """Return how long a call on this thread may block at most; ``None``: no limit."""
    is_main = threading.get_ident() == threading.main_thread().ident
    return _NAP if is_main else None


class _QuietSocket(socket.socket):
    """A socket that the garbage collector closes without a warning.

    A caller who drops a response without closing it should see no more warnings than
    from :mod:`requests`, and none about our duplicate. And a signal handler may raise
    before a new socket has an owner.
    """

    # The method in C: a signal handler that raises cannot interrupt it.
    __del__ = socket.SocketType.close


class HeldConnection(Killable):
    """A connection as a token holds it: fired, it is shut down for good.

    :param sock: the socket; TLS may be put over it later.
    """

    __slots__ = ("_duplicate", "_number")

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._number = sock.fileno()
        # Not os.dup(): if a signal handler raised before an object owned the new
        # descriptor, it would leak. Here the object exists first.
        self._duplicate = _QuietSocket(socket.AF_UNIX)
        os.dup2(self._number, self._duplicate.fileno(), inheritable=False)

    def fire(self) -> None:
        try:
            # Drop unsent data when the last descriptor is closed, so that a server that
            # does not read still sees the connection end.
            self._duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self._duplicate.shutdown(socket.SHUT_RDWR)
        except OSError:  # the peer was faster
            pass
        self.close()

    def let_go(self) -> None:
        # In a forked child: leave the connection to the parent, without a byte or a
        # FIN. Objects here still hold the descriptor number, so it stays taken, by a
        # socket that has ended.
        try:
            if os.path.sameopenfile(self._number, self._duplicate.fileno()):
                ended, other = socket.socketpair()
                with ended:
                    other.close()
                    os.dup2(ended.fileno(), self._number, inheritable=False)
        finally:
            self.close()

    def close(self) -> None:
        """Close the duplicate; only its owner may call this."""
        try:
            self._duplicate.close()
        except OSError:  # the descriptor is free even so
            pass


def connect(
    addresses: Sequence[Address],
    token: CancelToken,
    *,
    seconds_each: float | None = None,
    source_address: tuple[str, int] | None = None,
    options: Sequence[tuple[int, int, int | bytes]] | None = None,
) -> tuple[socket.socket, HeldConnection]:
    """Connect to the first of *addresses* that accepts.

    Cancellation: ends at once.

    :return: the socket, and the same as held by *token*.
    :raises Cancelled: the token was cancelled.
    :raises OSError: no address accepts; it is the last one's error.
    :raises ConfigurationError: the platform lacks what a cancel needs.
    """
    if not hasattr(select, "poll") or not hasattr(socket, "AF_UNIX"):
        raise ConfigurationError(
            "this Python has no select.poll() or no Unix sockets, so a cancel could "
            "not end a connection. On Windows, use WSL; with eventlet, which removes "
            "poll(), use threads or gevent"
        )
    refusal: OSError | None = None
    for family, kind, protocol, _, address in addresses:
        try:
            sock = _QuietSocket(family, kind, protocol)
        except OSError as error:  # no IPv6 here, or no descriptor left
            refusal = error
            continue
        try:
            for option in options or ():
                sock.setsockopt(*option)
            if source_address:
                sock.bind(source_address)
            return sock, _connect_one(sock, address, token, seconds_each)
        except BaseException as error:
            sock.close()
            raise_if_from_handler(error)
            if not isinstance(error, OSError):
                raise
            refusal = error
    raise refusal or OSError("the name has no address")


def _connect_one(
    sock: socket.socket, address: Any, token: CancelToken, seconds: float | None
) -> HeldConnection:
    sock.setblocking(False)
    status = sock.connect_ex(address)
    if status not in (0, errno.EINPROGRESS):
        raise OSError(status, os.strerror(status))
    held = HeldConnection(sock)
    try:
        token.attach(held)
        token.checkpoint()
        if status != 0:
            _wait_connected(sock, token, seconds)
        # A shutdown of a socket that was not connected yet may have had no effect.
        token.checkpoint()
    except BaseException:
        if token.detach(held):
            held.close()
        raise
    return held


def _wait_connected(
    sock: socket.socket, token: CancelToken, seconds: float | None
) -> None:
    """Block until the connection is made, or shut down by a cancel."""
    until = math.inf if seconds is None else clock.now() + seconds
    nap = nap_of_this_thread() if _SHUTDOWN_WAKES else _POLL_INTERVAL
    poller = select.poll()
    poller.register(sock, select.POLLOUT)
    ready: list[tuple[int, int]] = []
    while not ready:
        remaining = until - clock.now()
        if remaining <= 0:
            raise TimeoutError(errno.ETIMEDOUT, "connecting took too long")
        wait = remaining if nap is None else min(remaining, nap)
        ready = poller.poll(None if wait == math.inf else wait * 1000)
        token.checkpoint()
    status = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if status:
        raise OSError(status, os.strerror(status))


def wait_in_one_call(sock: Any, nap: float | None) -> bool:
    """Let reads of *sock* wait in the system call itself, without a timeout.

    With a timeout Python asks ``poll()`` first, and each call hands the interpreter
    lock over. A cancel ends the wait by shutting the connection down.

    :param nap: how long a read may block before it looks for signals, in seconds.
    :return: false if that cannot be done, or *sock* has a timeout.
    """
    # TLS within TLS is no socket.socket, and has no options.
    if not isinstance(sock, socket.socket) or (sock.gettimeout() or FOREVER) < FOREVER:
        return False
    if nap is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _NAP_TIMEVAL)
    sock.settimeout(None)
    return True


class ReadableSocket:
    """A socket as :mod:`http.client` reads from it, with every read under a token.

    :param sock: the socket, TLS included.
    :param token: asked after every read, before its result is believed.
    :param nap: how long a read may block before it looks for signals, in seconds.
    """

    def __init__(
        self, sock: socket.socket, token: CancelToken, nap: float | None
    ) -> None:
        self.reader = _Reader(sock, token, nap)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return the socket as a file; it stays open until the file is closed, too."""
        assert mode == "rb"
        return io.BufferedReader(self.reader, _BUFFER)


class _Reader(io.RawIOBase):
    _keeper: io.RawIOBase | None = None

    def __init__(
        self, sock: socket.socket, token: CancelToken, nap: float | None
    ) -> None:
        self._sock = sock
        self._token = token
        self._cancelled = token.flag()
        # A file counts as a user of the socket, which closes after its last user.
        self._keeper = sock.makefile("rb", buffering=0)
        self._timeout = sock.gettimeout() or FOREVER
        #: After how many seconds a read looks for signals.
        self._nap = min(nap or math.inf, self._timeout)
        # urllib3 sets the timeout again before it sends the next request.
        if wait_in_one_call(sock, nap):
            self._nap = _NAP  # for this thread, or left by the one before it
        elif nap is not None:
            sock.settimeout(self._nap)
        #: False: do not wait for bytes; only those in the buffer above are read.
        self.is_patient = True
        #: Bytes that were read too early, for :meth:`readinto`.
        self.returned = b""
        # For receive(). One small buffer for all reads: with a new one for each, a
        # thousand waiting threads would hold much more memory.
        self._buffer = memoryview(bytearray(_BUFFER))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if not self.is_patient:
            return None
        if self.returned:
            size = min(len(buffer), len(self.returned))
            buffer[:size] = self.returned[:size]
            self.returned = self.returned[size:]
            return size
        remaining = self._timeout
        while True:
            try:
                count = self._sock.recv_into(buffer)
                break
            except Exception as error:
                remaining = self._after(error, remaining)
        if self._cancelled:
            self._token.checkpoint()
        return count

    def receive(self) -> bytes:
        """Return what has arrived, or some of it; block only if nothing has."""
        remaining = self._timeout
        while True:
            try:
                count = self._sock.recv_into(self._buffer)
                break
            except Exception as error:
                remaining = self._after(error, remaining)
        if self._cancelled:
            self._token.checkpoint()
        return self._buffer[:count].tobytes()

    def _after(self, error: Exception, remaining: float) -> float:
        """Return the seconds that remain after a nap; raise any other *error*."""
        raise_if_from_handler(error)
        self._token.checkpoint()
        # Python's own timeout has no number; that of the network is a failure.
        is_nap = isinstance(error, BlockingIOError) or (
            isinstance(error, TimeoutError) and error.errno is None
        )
        if not is_nap or remaining <= self._nap:
            raise error
        return remaining - self._nap

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
        super().close()
