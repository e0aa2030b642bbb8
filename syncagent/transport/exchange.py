"""One attempt at one request: its token, its clock, and the connection it holds.

Guarantees:

- Whatever blocks for an attempt hangs on the attempt's own token, a child of the
  caller's. A timeout cancels that child: it ends the attempt by the same means as a
  cancel, and nothing else.
- A connection belongs to at most one exchange. ``release()`` says whether it may be
  used again.
- After ``close()`` the exchange holds nothing, whatever has happened before.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ..cancel import Alarm, CancelToken
from .resolver import Resolver
from .sockets import HeldConnection, ReadableSocket, nap_of_this_thread
from .timeouts import Timeouts
from .user_code import call_user_code

_bound = threading.local()

#: The phases of a call, in order, and the timeout of each.
TIMEOUT_OF: Final = {
    "credentials": "connect",
    "resolve": "connect",
    "connect": "connect",
    "handshake": "connect",
    "send": "send",
    "headers": "headers",
    "first event": "first_event",
    "stream": "stall",
    "body": "stall",
}


def current() -> Exchange | None:
    """Return the exchange that this thread is in the middle of, if any.

    Until a response begins, :mod:`urllib3` does all its work on the calling thread;
    this is how our connections learn which exchange they work for.
    """
    exchange: Exchange | None = getattr(_bound, "exchange", None)
    # A signal handler that raised inside bound() may have left one that is over.
    return None if exchange is None or exchange.is_over else exchange


class Exchange:
    """The call that a connection works for, as far as the connection needs it.

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
        self._seconds: float | None = None
        #: How long its thread may block before it looks for signals, in seconds.
        self.nap: Final = nap_of_this_thread()
        #: Connections under the token; those released already may be among them.
        self._held: list[HeldConnection] = []

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Make this the exchange of the current thread for the length of the block."""
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
                call_user_code(self._on_phase, phase)
        timeout = TIMEOUT_OF.get(phase, "")
        if timeout == self._timeout:
            return
        self._timeout = timeout
        self._seconds = getattr(self.timeouts, timeout, None)
        self.restart_clock()

    def stop_clock(self) -> None:
        """Stop the timeout until it is restarted."""
        self._alarm.stop()

    def end_clock(self) -> None:
        """Stop the timeout; the next phase has a clock of its own in any case."""
        self._timeout = ""
        self._alarm.stop()

    def restart_clock(self) -> None:
        """Restart the timeout of the phase."""
        if self._seconds is None:
            self._alarm.stop()
        else:
            self._alarm.set(self._seconds, self.phase)

    def limit(self, seconds: float) -> None:
        """Allow *seconds* for the rest of the phase, whatever the timeouts say."""
        self._timeout = ""
        self._alarm.set(seconds, self.phase)

    @property
    def late_phase(self) -> str | None:
        """The phase whose timeout has passed, if one has."""
        late = self.token.reason
        if late is None or late.origin != "deadline":
            return None
        # The reason names the phase that set the alarm. Phases that share a timeout do
        # not set it anew: then the current phase is the late one.
        is_same = TIMEOUT_OF.get(self.phase) == TIMEOUT_OF.get(late)
        return self.phase if is_same else str(late)

    def seconds_to_connect(self, addresses: int, seconds: float | None) -> float | None:
        """Return how long to try each of several addresses, in seconds.

        :param seconds: the socket's own timeout, for an exchange without timeouts.
        """
        if self.timeouts is None:
            return seconds
        whole = self.timeouts.connect
        # A share for each: an address that stays silent leaves time for the others. A
        # single one needs no limit of its own: the phase has one.
        return None if whole is None or addresses < 2 else whole / addresses

    def adopt(self, held: HeldConnection) -> None:
        """Take over *held*, which is attached to the token."""
        self._held.append(held)

    def hold(self, sock: socket.socket) -> HeldConnection:
        """Let a cancel end the connection of *sock*.

        :raises Cancelled: the token is cancelled already.
        """
        held = HeldConnection(sock)
        self.token.attach(held)
        self.adopt(held)
        self.token.checkpoint()
        return held

    def release(self, held: HeldConnection) -> bool:
        """Release *held*; false if a cancel came first: never use it again."""
        is_ours = self.token.detach(held)
        if is_ours:
            held.close()
        return is_ours

    def readable(self, sock: socket.socket) -> ReadableSocket:
        """Return *sock* for reading under the token."""
        return ReadableSocket(sock, self.token, self.nap)

    def close(self) -> None:
        """Release every connection that is still held. Safe to repeat."""
        self.is_over = True
        self._alarm.stop()
        while self._held:
            self.release(self._held.pop())
