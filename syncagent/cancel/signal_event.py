"""The token as a :class:`threading.Event`, and events that cancel a token.

Guarantees:

- ``CancelSignal.set()`` is ``token.cancel()``: no lock, safe in a signal handler.
- :func:`cancel_on_event` needs no thread and does no polling. An event that is set
  before, during or after the call cancels the token exactly as one that is set later.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from .token import CancelToken


class CancelSignal(threading.Event):
    """A token as a :class:`threading.Event`, for code that takes only events.

    The plain Event keeps its flag under a lock that ``set()`` and ``wait()`` both
    take: a signal handler that calls ``set()`` while the thread it interrupted is in
    ``wait()`` deadlocks. This one has no lock; all state is the token's.
    """

    def __init__(self, token: CancelToken) -> None:
        # Not Event.__init__: it would make the lock and the flag we do not have.
        self._token = token

    @property
    def token(self) -> CancelToken:
        """The token behind this event."""
        return self._token

    def is_set(self) -> bool:
        """Return whether the token is cancelled."""
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


class EventRegistration:
    """A token registered on an event; close it when the token is no longer in use."""

    __slots__ = ("_event", "_waiter")

    def __init__(self, event: threading.Event, waiter: _Waiter) -> None:
        self._event = event
        self._waiter = waiter

    def close(self) -> None:
        """Take the token off the event. Safe to repeat."""
        try:
            _waiters(self._event).remove(cast(Any, self._waiter))
        except ValueError:  # set() has removed the waiter
            pass


def cancel_on_event(event: threading.Event, token: CancelToken) -> EventRegistration:
    """Cancel *token* as soon as *event* is set, now or later.

    An event has no callbacks; it can only wake the threads that wait for it. So we
    join its waiters with an object that cancels when it is woken.
    """
    waiter = _Waiter(token)
    _waiters(event).append(cast(Any, waiter))  # publish first, then look
    if event.is_set():
        waiter.release()
    return EventRegistration(event, waiter)


def _waiters(event: threading.Event) -> deque[Any]:
    # Private names of the standard library; tests/cancel/test_event_registration.py
    # guards them. Each step of a deque is atomic, and the event expects its waiters to
    # come and go.
    waiters: deque[Any] = event._cond._waiters  # type: ignore[attr-defined]
    return waiters


class _Waiter:
    """Takes the place of the lock of a thread that waits for the event."""

    __slots__ = ("_token",)

    def __init__(self, token: CancelToken) -> None:
        # Weak: a registration that is never closed keeps no token alive, and goes
        # away when the event is set.
        self._token = weakref.ref(token)

    def release(self) -> None:
        """Cancel; ``Event.set()`` calls this, on the thread that sets the event."""
        token = self._token()
        if token is not None:
            token.cancel("the event was set")
