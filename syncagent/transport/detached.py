"""Calls on short-lived threads, which a waiting thread can leave.

Some functions cannot be interrupted, not even by Ctrl+C: ``getaddrinfo``, or a user's
function that fetches a key.

Guarantees:

- A wait ends at once with its token. The function itself is left behind, and its thread
  ends when the function does.
- Waits with the same key share one call of the function.
- No thread waits for a call that never began: a call whose thread could not start, or
  was interrupted before that, ends with an error.
- No lock is taken. Outcomes and waiters are published first, then looked for.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

from .._forks import in_child
from ..cancel import Bell, CancelToken, Killable
from ..cancel.once import finish_despite_signals, start_thread

__all__ = ["call_detached"]

_T = TypeVar("_T")


def call_detached(
    function: Callable[[], _T],
    token: CancelToken,
    *,
    name: str,
    refusal: Callable[[str], Exception],
    key: Hashable = None,
) -> _T:
    """Call *function* on a thread of its own, and return its result.

    The thread has the context variables of the caller.

    Cancellation: ends at once; the function itself is left behind.

    :param name: the name of the thread.
    :param refusal: makes the error for a call that never began.
    :param key: calls with the same key that run at the same time are one call.
    :raises Cancelled: *token* was cancelled.
    :raises BaseException: *function* raised it; without its traceback, as several calls
        may raise it.
    """
    token.checkpoint()
    new = _Call(function, name, refusal, key)
    try:
        # A running call with the same key is shared.
        call = new if key is None else _running.setdefault(key, new)
        if call is new:
            new.start()
    except BaseException:
        # A signal handler's. Other threads may wait for this call already.
        finish_despite_signals(new.give_up)
        raise
    result: _T = call.wait(token)
    return result


#: Running calls that can be shared, by key.
_running: Final[dict[Hashable, _Call[Any]]] = {}
in_child(_running.clear)  # their threads are not here


class _Doorbell(Killable):
    """Rings at the end of a call, or at a cancel."""

    __slots__ = ("_bell",)

    def __init__(self) -> None:
        super().__init__()
        self._bell = Bell()

    def fire(self) -> None:
        self._bell.ring()

    def wait(self, until: float | None) -> None:
        self._bell.wait(until)


class _Call(Generic[_T]):
    """One call of a function, and the threads that wait for it."""

    def __init__(
        self,
        function: Callable[[], _T],
        name: str,
        refusal: Callable[[str], Exception],
        key: Hashable,
    ) -> None:
        self._function = function
        self._refusal = refusal
        self._key = key
        #: The result, or the exception.
        self._outcome: tuple[_T] | BaseException | None = None
        self._waiting: dict[_Doorbell, None] = {}
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._run,),
            name=name,
            daemon=True,
        )

    def start(self) -> None:
        """Start the thread."""
        try:
            start_thread(self._thread)
        except RuntimeError as error:  # the system refuses another thread
            self._end(self._refusal(f"it needs a thread: {error}"))

    def give_up(self) -> None:
        """End it unless its thread has started; the waiting calls may try again."""
        if self._thread.ident is None:
            self._end(self._refusal("it was interrupted before it began"))

    def _run(self) -> None:
        try:
            self._end((self._function(),))
        except BaseException as error:  # wait() raises it, perhaps on several threads
            self._end(error.with_traceback(None))

    def _end(self, outcome: tuple[_T] | BaseException) -> None:
        self._outcome = outcome  # publish first, then look
        # Off the list before anyone is woken: a retry must start a new call.
        if _running.get(self._key) is self:
            _running.pop(self._key, None)
        for doorbell in list(self._waiting):
            doorbell.fire()

    def wait(self, token: CancelToken) -> _T:
        """Block until the call is over, or *token* is cancelled."""
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
        return outcome[0]
