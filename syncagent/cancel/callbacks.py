"""User callbacks on a token.

Guarantees:

- A callback runs at most once: running it and taking it back claim the same cell.
- It runs on the SDK's callback thread, never on the canceller's, with the context
  variables of the code that registered it.
- A cancel that comes before ``finish()``, or before the end of a ``with`` block, is not
  lost: both wait until the callback is over, for about :data:`~.threads.PATIENCE`
  seconds, and never on the callback's own thread.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final

from . import threads
from .links import Link
from .once import Once
from .reason import Cause

if TYPE_CHECKING:
    from .token import CancelToken

_CLOSED: Final = object()


class Registration:
    """A callback on a token, as returned by :meth:`CancelToken.on_cancel`.

    It keeps its token alive. As a context manager it is finished and closed at the end
    of the block: afterwards the resource that the callback closes or interrupts can be
    reused.
    """

    __slots__ = ("_callback", "_token")

    # The token refers to the link only, not to this object: no reference cycle.
    def __init__(self, token: CancelToken, callback: CallbackLink) -> None:
        self._token = token
        self._callback = callback

    def close(self) -> bool:
        """Take the callback back, without waiting if it is running.

        :return: true if it was taken back before it began, so that it will never run.
        """
        self._callback.drop()
        self._token._unlink(self._callback)
        return self._callback.is_closed

    def finish(self) -> None:
        """Take the callback back, unless a cancel has come: then let it run.

        Wait until it is over, for a second, or two if it has to wait for others.
        """
        callback = self._callback
        if callback.is_closed:
            return
        # Publish first, then look: a canceller marks its token before the callback.
        if callback.is_due or self._token.cancelled or not self.close():
            callback.wait_over(threads.PATIENCE)
            if not callback.is_spent:
                callback.wait_over(threads.PATIENCE)

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish()
        self.close()

    def __repr__(self) -> str:
        return f"<Registration of {self._callback.describe()}>"


class CallbackLink(Link):
    """A callback on a token, and a job of the callback thread."""

    __slots__ = ("_callback", "_context", "_fate", "_over", "_thread", "is_due")

    survives_reset = False

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback
        # The callback sees the context variables of the code that registered it, so
        # that its log records carry the right run id.
        self._context = contextvars.copy_context()
        #: _CLOSED if it was taken back, another object once it has begun.
        self._fate: Once[object] = Once()
        #: True once a cancel has reached it.
        self.is_due = False
        self._over: Once[threading.Event] = Once()
        self._thread: int | None = None

    def describe(self) -> str:
        """Name the callback for a log line."""
        try:
            return f"cancel callback {self._callback!r}"
        except Exception:  # a user's __repr__, on a half-closed object
            return f"cancel callback of type {type(self._callback).__name__}"

    def run(self) -> None:
        """Run the callback, unless it has run or was taken back."""
        claimant = object()
        if self._fate.claim(claimant) is not claimant:
            return
        self._thread = threading.get_ident()
        try:
            self._context.run(self._callback)
        finally:
            self._thread = None
            self._over.claim(threading.Event()).set()

    def wait_over(self, timeout: float) -> None:
        """Wait until the callback, which has begun, is over; not on its own thread."""
        if self._thread != threading.get_ident():
            self._over.claim(threading.Event()).wait(timeout)

    @property
    def is_closed(self) -> bool:
        """True if it was taken back before it began."""
        return self._fate.value is _CLOSED

    def cancel(self, cause: Cause, claimant: object) -> None:
        self.is_due = True
        threads.current.callbacks.submit(self)

    def drop(self) -> None:
        self._fate.claim(_CLOSED)

    @property
    def is_spent(self) -> bool:
        return bool(self._fate)
