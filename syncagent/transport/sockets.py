"""Sockets that a cancel ends: connecting them, reading them, and shutting them down.

A blocked call on a socket ends when the connection is shut down, and by nothing else
that is safe. Three rules, each paid for by somebody:

- Only a *duplicate* of the descriptor is shut down, as a plain socket. To shut an
  ``SSLSocket`` down makes it forget its TLS: the next request would go out in clear.
- Whoever owns a duplicate, by the fate of its :class:`~syncagent.cancel.Killable`,
  closes it, and nobody else touches it: a number that is closed may be a stranger's
  next moment.
- What a shutdown ends, ends somehow: an error, or an end that looks clean. So whatever
  a read says, the token is asked before it is believed.
"""

from __future__ import annotations

import errno
import io
import math
import os
import select
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

from ..cancel import CancelToken, Killable, clock

__all__ = [
    "Address",
    "FOREVER",
    "HeldConnection",
    "ReadableSocket",
    "connect",
    "nap_of_this_thread",
]

#: One answer of :func:`socket.getaddrinfo`.
Address = tuple[Any, Any, Any, str, Any]

#: How long the main thread may block before it looks for signals, in seconds. Python
#: overlooks one that arrives in the instant before a call blocks; so a Ctrl+C is late
#: then, and not lost.
_NAP: Final = 1.0

#: A timeout that means none, in seconds. A socket with a timeout waits in ``poll``, and
#: a signal ends that. One without may wait in a call that OpenSSL simply makes again,
#: and the handler that is to cancel it never runs.
FOREVER: Final = 2_000_000.0

#: Enough for many small chunks at once, in bytes; each open stream has one.
_BUFFER: Final = 12 * 1024

#: Does a shutdown end the wait for a connection that is not made yet? Where nobody has
#: found out, that wait looks at its token every so many seconds.
_SHUTDOWN_WAKES: Final = sys.platform == "linux"
_LOOK_AROUND: Final = 0.05

_AT_ONCE: Final = struct.pack("ii", 1, 0)


def nap_of_this_thread() -> float | None:
    """Return how long a call on this thread may block at most; ``None`` for ever."""
    is_main = threading.get_ident() == threading.main_thread().ident
    return _NAP if is_main else None


class _QuietSocket(socket.socket):
    """A socket that the collector closes without a warning.

    Whoever drops an answer without closing it should hear no more of it than from
    :mod:`requests`, and nothing about what we had beside it.
    """

    # The method in C: a signal handler that raises cannot get into it.
    __del__ = socket.SocketType.close


class HeldConnection(Killable):
    """A connection as a token holds it: fired, it is shut down for good.

    :param sock: the socket; TLS may be put over it later.
    """

    __slots__ = ("_duplicate", "_number")

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._number = sock.fileno()
        # A number that nobody owns yet would be lost if a signal handler raised now.
        self._duplicate = _QuietSocket(socket.AF_UNIX)
        os.dup2(self._number, self._duplicate.fileno(), inheritable=False)

    def fire(self) -> None:
        try:
            # What is left to send is dropped when the last descriptor is closed, so
            # that a server which does not read it still sees that we are gone.
            self._duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self._duplicate.shutdown(socket.SHUT_RDWR)
        except OSError:  # the peer was faster
            pass
        self.close()

    def let_go(self) -> None:
        # In a forked child: leave the connection to the parent, without a byte or a
        # FIN. Objects here still believe that the number is theirs, so it is kept, for
        # something that has ended.
        try:
            if os.path.sameopenfile(self._number, self._duplicate.fileno()):
                ended, other = socket.socketpair()
                with ended:
                    other.close()
                    os.dup2(ended.fileno(), self._number, inheritable=False)
        finally:
            self.close()

    def close(self) -> None:
        """Close the duplicate; only for whoever owns it."""
        try:
            self._duplicate.close()
        except OSError:  # it is gone, whatever the system thinks of how
            pass


def connect(
    addresses: Sequence[Address],
    token: CancelToken,
    *,
    seconds_each: float | None = None,
    source_address: tuple[str, int] | None = None,
    options: Sequence[tuple[int, int, int | bytes]] | None = None,
) -> tuple[socket.socket, HeldConnection]:
    """Connect to the first of *addresses* that answers.

    Cancellation: ends at once.

    :return: the socket, and its line, which hangs on *token*.
    :raises Cancelled: the token was cancelled.
    :raises OSError: no address answered; it is the last one's error.
    """
    refusal: OSError | None = None
    for family, kind, protocol, _, address in addresses:
        try:
            sock = socket.socket(family, kind, protocol)
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
            if not isinstance(error, OSError):
                raise
            refusal = error
    raise refusal or OSError("the name has no address")


def _connect_one(
    sock: socket.socket, address: Any, token: CancelToken, seconds: float | None
) -> HeldConnection:
    sock.setblocking(False)
    begun = sock.connect_ex(address)
    if begun not in (0, errno.EINPROGRESS):
        raise OSError(begun, os.strerror(begun))
    line = HeldConnection(sock)
    try:
        token.attach(line)
        token.checkpoint()
        if begun != 0:
            _wait_connected(sock, token, seconds)
        # On a socket that was not connected yet a shutdown may have done nothing.
        token.checkpoint()
    except BaseException:
        if token.detach(line):
            line.close()
        raise
    return line


def _wait_connected(
    sock: socket.socket, token: CancelToken, seconds: float | None
) -> None:
    """Block until the connection is made, or ended by its line."""
    until = math.inf if seconds is None else clock.now() + seconds
    nap = nap_of_this_thread() if _SHUTDOWN_WAKES else _LOOK_AROUND
    poller = select.poll()
    poller.register(sock, select.POLLOUT)
    ready: list[tuple[int, int]] = []
    while not ready:
        left = until - clock.now()
        if left <= 0:
            raise TimeoutError(errno.ETIMEDOUT, "connecting took too long")
        wait = left if nap is None else min(left, nap)
        ready = poller.poll(None if wait == math.inf else wait * 1000)
        token.checkpoint()
    trouble = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if trouble:
        raise OSError(trouble, os.strerror(trouble))


class ReadableSocket:
    """A socket as :mod:`http.client` reads from it, with every read under a token.

    :param sock: the socket, TLS included.
    :param token: asked after every read, before its answer is believed.
    :param nap: how long a read may block before it looks for signals.
    """

    def __init__(
        self, sock: socket.socket, token: CancelToken, nap: float | None
    ) -> None:
        self.reader = _Reader(sock, token, nap)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return it as a file; the socket stays open until that is closed, too."""
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
        # It counts as a user of the socket, which is not closed before its last one.
        self._keeper = sock.makefile("rb", buffering=0)
        self._timeout = sock.gettimeout() or math.inf
        self._wait = min(self._timeout, nap or FOREVER)
        self._poller = select.poll()
        self._poller.register(sock, select.POLLIN)
        #: False: do not wait for bytes, take only what is in the buffer above.
        self.is_patient = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if not self.is_patient:
            return None
        if not self._has_bytes():
            self._wait_for_bytes()
        try:
            count = self._sock.recv_into(buffer)
        except OSError:
            self._token.checkpoint()
            raise
        if self._cancelled:
            self._token.checkpoint()
        return count

    def _has_bytes(self) -> bool:
        """Are there bytes that TLS has decoded already, as far as one can know?"""
        if isinstance(self._sock, ssl.SSLSocket):
            return self._sock.pending() > 0
        return not isinstance(self._sock, socket.socket)  # TLS within TLS: who knows

    def _wait_for_bytes(self) -> None:
        # Not in recv: when a cancel ends the connection, the token is asked at once,
        # and OpenSSL does not have to find out what has happened.
        left = self._timeout
        while not self._poller.poll(min(self._wait, left) * 1000):
            left -= self._wait
            self._token.checkpoint()
            if left <= 0:
                raise TimeoutError("timed out")
        if self._cancelled:
            self._token.checkpoint()

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
        super().close()
