"""Looking names up without being stuck when the name server is silent.

``getaddrinfo`` cannot be interrupted, not even by Ctrl+C. So it runs on a short-lived
thread of its own, and whoever waits for it can leave. The thread ends when the resolver
gives up; others who ask for the same name and port meanwhile wait for the same look-up,
so a silent name server costs one thread for each, however often calls are cancelled.
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

#: Anything that is called, and answers, like :func:`socket.getaddrinfo`.
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

    :param resolver: what to ask in place of :func:`socket.getaddrinfo`.
    :raises Cancelled: the token was cancelled.
    :raises OSError: what the resolver raised.
    """
    token.checkpoint()
    numeric = _resolve_numeric(host, port, family) if resolver is None else None
    if numeric is not None:
        return numeric
    return _join(host, port, family, resolver or socket.getaddrinfo).wait(token)


def _resolve_numeric(host: str, port: int, family: int) -> Sequence[Address] | None:
    """Return the address that *host* is, ``None`` if it is a name."""
    try:
        return socket.getaddrinfo(
            host, port, family, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST
        )
    except (OSError, UnicodeError):  # the real look-up will say what is wrong with it
        return None


_Key = tuple[Any, ...]
#: Look-ups that run, by what they look for.
_running: Final[dict[_Key, _Lookup]] = {}

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)  # their threads are not here


def _join(host: str, port: int, family: int, resolver: Resolver) -> _Lookup:
    """Return the look-up that runs, or a new one."""
    key = (host, port, family, resolver)
    mine = _Lookup(key)
    try:
        lookup = _running.setdefault(key, mine)
        if lookup is mine:
            mine.start()
    except BaseException:  # a signal handler's: nobody may wait for what never began
        finish_despite_signals(mine.give_up)
        raise
    return lookup


class _Doorbell(Killable):
    """Rung by the end of a look-up, or by a cancel."""

    __slots__ = ("_bell",)

    def __init__(self) -> None:
        super().__init__()
        self._bell = Bell()

    def fire(self) -> None:
        self._bell.ring()

    def wait(self, until: float | None) -> None:
        self._bell.wait(until)


class _Lookup:
    """One name on its way through the resolver, and those who wait for it."""

    def __init__(self, key: _Key) -> None:
        self._key = key
        self._outcome: Sequence[Address] | BaseException | None = None
        self._waiting: dict[_Doorbell, None] = {}
        #: Its own, with the context variables of whoever asks first.
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._run,),
            name="syncagent-dns",
            daemon=True,
        )

    def start(self) -> None:
        """Begin."""
        try:
            start_thread(self._thread)
        except RuntimeError as error:  # no thread to be had
            self._end(_try_again(f"a name look-up needs a thread: {error}"))

    def give_up(self) -> None:
        """End it, unless it has really begun; those who wait may try again."""
        if self._thread.ident is None:
            self._end(_try_again("the look-up was interrupted before it began"))

    def _run(self) -> None:
        host, port, family, resolver = self._key
        try:
            self._end(list(resolver(host, port, family, socket.SOCK_STREAM)))
        except BaseException as error:  # for whoever waits
            self._end(error)

    def _end(self, outcome: Sequence[Address] | BaseException) -> None:
        self._outcome = outcome  # publish first, then look
        if _running.get(self._key) is self:
            _running.pop(self._key, None)
        for doorbell in list(self._waiting):
            doorbell.fire()

    def wait(self, token: CancelToken) -> Sequence[Address]:
        """Block until it is over, or *token* is cancelled."""
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
            raise outcome.with_traceback(None)
        return outcome


def _try_again(said: str) -> socket.gaierror:
    return socket.gaierror(socket.EAI_AGAIN, said)
