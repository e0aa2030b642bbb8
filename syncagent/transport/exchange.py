"""One attempt at one request: its token, its clock, and the connection it holds."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from ..cancel import Alarm, CancelToken
from .resolver import Resolver
from .sockets import HeldConnection, ReadableSocket, nap_of_this_thread
from .timeouts import Timeouts

T = TypeVar("T")

_bound = threading.local()

#: What a call does, in order, and which timeout it does it under.
TIMEOUT_OF: Final = {
    "resolve": "connect",
    "connect": "connect",
    "handshake": "connect",
    "send": "send",
    "headers": "headers",
    "first event": "first_event",
    "stream": "stall",
    "body": "stall",
}


class Outside(BaseException):
    """An exception of somebody's callback, on its way out to whoever gave us that.

    None of the libraries that it passes, nor we, may take it for a failure of the call.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def call_outside(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call somebody's *function*.

    :raises Outside: it raised an exception.
    """
    try:
        return function(*args, **kwargs)
    except Exception as error:
        raise Outside(error) from None


def current() -> Exchange | None:
    """Return the exchange that this thread is in the middle of, if any.

    All that :mod:`urllib3` does before an answer begins it does on the calling thread;
    this is how our connections learn for whom.
    """
    exchange: Exchange | None = getattr(_bound, "exchange", None)
    # A signal handler that raises may have left one here whose call is over.
    return None if exchange is None or exchange.is_over else exchange


class Exchange:
    """What a connection needs to know about the call that it works for.

    Everything that can block hangs on :attr:`token`, a child of the caller's, so that
    a timeout can end the attempt by the same means as a cancel, and nothing else.

    :param token: the caller's token.
    :param timeouts: seconds for each phase; without them the socket's own count.
    :param resolver: asked for addresses in place of the system.
    :param on_phase: called with the name of each phase as it begins.
    """

    def __init__(
        self,
        token: CancelToken,
        *,
        timeouts: Timeouts | None = None,
        resolver: Resolver | None = None,
        on_phase: Callable[[str], object] | None = None,
    ) -> None:
        self.token: Final = token.child()
        self.timeouts: Final = timeouts
        self.resolver: Final = resolver
        self.phase = ""
        self.is_over = False
        self._on_phase = on_phase
        self._alarm = Alarm(self.token)
        self._timeout = ""
        self._nap = nap_of_this_thread()
        self._lines: list[HeldConnection] = []

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Make it the exchange of this thread for the length of the block."""
        before = current()
        try:
            _bound.exchange = self
            yield
        finally:
            _bound.exchange = before

    def enter(self, phase: str) -> None:
        """Begin *phase*; its clock starts, unless one with the same timeout runs."""
        if phase != self.phase:
            self.phase = phase
            if self._on_phase is not None:
                call_outside(self._on_phase, phase)
        timeout = TIMEOUT_OF.get(phase, "")
        if timeout == self._timeout:
            return
        self._timeout = timeout
        seconds = getattr(self.timeouts, timeout, None)
        if seconds is None:
            self._alarm.stop()
        else:
            self._alarm.set(seconds, phase)

    def stop_clock(self) -> None:
        """Wait for nobody, until the next phase begins or this one goes on."""
        self._timeout = ""
        self._alarm.stop()

    def limit(self, seconds: float) -> None:
        """Give what follows so many seconds, whatever the timeouts say."""
        self._timeout = ""
        self._alarm.set(seconds, self.phase)

    @property
    def late_phase(self) -> str | None:
        """The phase that took too long, if one did."""
        late = self.token.reason
        if late is None or late.origin != "deadline":
            return None
        # It may have been noticed in the next one; but a connection has several.
        is_same = TIMEOUT_OF.get(self.phase) == TIMEOUT_OF.get(late)
        return self.phase if is_same else str(late)

    def seconds_to_connect(self, addresses: int, seconds: float | None) -> float | None:
        """Return how long to wait for each of several addresses.

        :param seconds: the socket's own timeout, for an exchange without timeouts.
        """
        if self.timeouts is None:
            return seconds
        whole = self.timeouts.connect
        # A share for each: an address that is never answered leaves time for the rest.
        return None if whole is None or addresses < 2 else whole / addresses

    def take(self, line: HeldConnection) -> None:
        """Become the owner of *line*, which hangs on the token."""
        self._lines.append(line)

    def hold(self, sock: socket.socket) -> HeldConnection:
        """Have a cancel end the connection of *sock*.

        :raises Cancelled: there was one already.
        """
        line = HeldConnection(sock)
        self.token.attach(line)
        self.take(line)
        self.token.checkpoint()
        return line

    def give_back(self, line: HeldConnection) -> bool:
        """Let go of *line*; false if a cancel came first: never use it again."""
        is_mine = self.token.detach(line)
        if is_mine:
            line.close()
        return is_mine

    def readable(self, sock: socket.socket) -> ReadableSocket:
        """Return *sock* for reading under the token."""
        return ReadableSocket(sock, self.token, self._nap)

    def close(self) -> None:
        """Let go of whatever is still held."""
        self.is_over = True
        self._alarm.stop()
        while self._lines:
            self.give_back(self._lines.pop())
