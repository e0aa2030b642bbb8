"""Name look-ups that a cancel abandons, even if the name server is silent.

``getaddrinfo`` cannot be interrupted, not even by Ctrl+C. So it runs on a short-lived
thread of its own, and the calls that wait for it can leave.

Guarantees:

- A wait for a look-up ends at once with its token; the look-up itself is left behind,
  and its thread ends when the resolver gives up.
- Calls for the same name and port share one look-up, so a silent name server costs one
  thread per name, however often calls are cancelled.
- No call waits for a look-up that never began: one whose thread could not start, or was
  interrupted before that, ends with a temporary error.
- No lock is taken. Results and waiters are published first, then looked for.
"""

from __future__ import annotations

import contextvars
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..cancel import Bell, CancelToken, Killable
from ..cancel.once import finish_despite_signals, start_thread
from .sockets import Address

__all__ = ["Resolver", "resolve"]

#: A function with the arguments and the result of :func:`socket.getaddrinfo`.
Resolver = Callable[[str, int, int, int], Sequence[Address]]


def resolve(
    host: str,
    port: int,
    token: CancelToken,
    *,
    family: int = socket.AF_UNSPEC,
    resolver: Resolver | None = None,
) -> Sequence[Address]:
    """Return the addresses of *host*.

    Cancellation: ends at once; the look-up itself is left behind.

    :param resolver: used in place of :func:`socket.getaddrinfo`.
    :raises Cancelled: the token was cancelled.
    :raises OSError: the look-up failed.
    """
    token.checkpoint()
    if resolver is None:
        try:  # a numeric address needs no name server, and no thread
            return socket.getaddrinfo(
                host, port, family, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST
            )
        except (OSError, UnicodeError):  # a name, or the real look-up tells what else
            pass
    key = (host, port, family, resolver or socket.getaddrinfo)
    new = _Lookup(key)
    try:
        lookup = _running.setdefault(key, new)  # one that runs already is shared
        if lookup is new:
            new.start()
    except BaseException:
        # A signal handler's. Other calls may wait for this look-up already.
        finish_despite_signals(new.give_up)
        raise
    return lookup.wait(token)


_Key = tuple[Any, ...]
#: Running look-ups, by host, port, family and resolver.
_running: Final[dict[_Key, _Lookup]] = {}

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)  # their threads are not here


class _Doorbell(Killable):
    """Rings at the end of a look-up, or at a cancel."""

    __slots__ = ("_bell",)

    def __init__(self) -> None:
        super().__init__()
        self._bell = Bell()

    def fire(self) -> None:
        self._bell.ring()

    def wait(self, until: float | None) -> None:
        self._bell.wait(until)


class _Lookup:
    """One look-up, and the calls that wait for it."""

    def __init__(self, key: _Key) -> None:
        self._key = key
        self._outcome: Sequence[Address] | BaseException | None = None
        self._waiting: dict[_Doorbell, None] = {}
        # With the context variables of the first call that needs it.
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._run,),
            name="syncagent-dns",
            daemon=True,
        )

    def start(self) -> None:
        """Start the thread."""
        try:
            start_thread(self._thread)
        except RuntimeError as error:  # the system refuses another thread
            self._end(_try_again(f"a name look-up needs a thread: {error}"))

    def give_up(self) -> None:
        """End it unless its thread has started; the waiting calls may try again."""
        if self._thread.ident is None:
            self._end(_try_again("the look-up was interrupted before it began"))

    def _run(self) -> None:
        host, port, family, resolver = self._key
        try:
            self._end(list(resolver(host, port, family, socket.SOCK_STREAM)))
        except BaseException as error:  # wait() raises it
            self._end(error)

    def _end(self, outcome: Sequence[Address] | BaseException) -> None:
        self._outcome = outcome  # publish first, then look
        # Off the list before anyone is woken: a retry must start a new look-up.
        if _running.get(self._key) is self:
            _running.pop(self._key, None)
        for doorbell in list(self._waiting):
            doorbell.fire()

    def wait(self, token: CancelToken) -> Sequence[Address]:
        """Block until the look-up is over, or *token* is cancelled."""
        doorbell = _Doorbell()
        self._waiting[doorbell] = None  # publish first, then look
        try:
            token.attach(doorbell)
            if self._outcome is None:
                doorbell.wait(None)
        finally:
            token.detach(doorbell)
            self._waiting.pop(doorbell, None)
        token.checkpoint()
        outcome = self._outcome
        assert outcome is not None
        if isinstance(outcome, BaseException):
            # Several calls may raise the same object: without the frames of another.
            raise outcome.with_traceback(None)
        return outcome


def _try_again(message: str) -> socket.gaierror:
    return socket.gaierror(socket.EAI_AGAIN, message)
