"""The cancel signal as a :class:`threading.Event`, and events that cancel a token."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from .token import CancelToken


class CancelSignal(threading.Event):
    """A token as a :class:`threading.Event`, for code that knows only those.

    The plain Event keeps its flag under a lock that ``set()`` and ``wait()`` both
    take: a signal handler that calls ``set()`` while the thread it interrupted is in
    ``wait()`` stops for ever. This one has no lock; all state is the token's.
    """

    def __init__(self, token: CancelToken) -> None:
        # Not Event.__init__: it would make the lock and the flag we do not have.
        self._token = token

    @property
    def token(self) -> CancelToken:
        """The token that this is."""
        return self._token

    def is_set(self) -> bool:
        """Is the token cancelled?"""
        return self._token._cause() is not None

    isSet = is_set  # the old name, which Event still has

    def set(self) -> None:
        """Cancel the token."""
        self._token.cancel()

    def clear(self) -> None:
        """Reset the token."""
        self._token.reset()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the token is cancelled, at most *timeout* seconds."""
        return self._token.wait(None if timeout is None else max(0.0, timeout))

    def __repr__(self) -> str:
        return f"<CancelSignal: {'set' if self.is_set() else 'unset'}>"


class Following:
    """The hold that a token has on an event; close it when the token is done with."""

    __slots__ = ("_event", "_waiter")

    def __init__(self, event: threading.Event, waiter: _Waiter) -> None:
        self._event = event
        self._waiter = waiter

    def close(self) -> None:
        """Let the event go. Safe to do again."""
        try:
            _waiters(self._event).remove(cast(Any, self._waiter))
        except ValueError:  # it was set, which took the waiter out
            pass


def follow(event: threading.Event, token: CancelToken) -> Following:
    """Have *token* cancelled as soon as *event* is set, now or later.

    An event cannot tell anybody that it is set; it can only wake threads that wait for
    it. So we stand among those, as one who is not asleep: no thread is needed, and
    nothing looks at the event again and again.
    """
    waiter = _Waiter(token)
    _waiters(event).append(cast(Any, waiter))  # publish first, then look
    if event.is_set():
        waiter.release()
    return Following(event, waiter)


def _waiters(event: threading.Event) -> deque[Any]:
    # Private names of the standard library; tests/cancel/test_following.py watches
    # over them. The deque's own steps are atomic, and the event expects its waiters to
    # come and go.
    waiters: deque[Any] = event._cond._waiters  # type: ignore[attr-defined]
    return waiters


class _Waiter:
    """Stands where the event expects the lock of a thread that waits for it."""

    __slots__ = ("_token",)

    def __init__(self, token: CancelToken) -> None:
        # Weak: one that nobody has closed keeps nothing alive, and leaves with the set.
        self._token = weakref.ref(token)

    def release(self) -> None:
        """Cancel; called by ``Event.set()``, on whatever thread that is."""
        token = self._token()
        if token is not None:
            token.cancel("the event was set")
