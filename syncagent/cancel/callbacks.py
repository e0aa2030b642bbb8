"""User callbacks on a token."""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final

from . import services
from .links import Link
from .once import Once
from .reason import CancelReason

if TYPE_CHECKING:
    from .generation import Strike
    from .token import CancelToken

_CLOSED: Final = object()


class Registration(Link):
    """A callback on a token, as returned by :meth:`CancelToken.on_cancel`.

    As a context manager it is closed at the end of the block.
    """

    __slots__ = ("_callback", "_context", "_fate", "_token")

    survives_reset = False

    def __init__(self, token: CancelToken, callback: Callable[[], object]) -> None:
        self._token = weakref.ref(token)
        self._callback = callback
        # The callback sees the context variables of whoever registered it, so that
        # what it logs carries the right run id.
        self._context = contextvars.copy_context()
        self._fate: Once[object] = Once()

    def close(self) -> bool:
        """Take the callback back, without waiting for one that runs.

        :return: whether it was taken back before it began, so will never run.
        """
        token = self._token()
        if token is not None:
            token._unlink(self)
        return self._fate.put(_CLOSED) is _CLOSED

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Registration of {self.describe()}>"

    def describe(self) -> str:
        """Name the callback for a log line."""
        return f"cancel callback {self._callback!r}"

    def deliver(self) -> None:
        """Run the callback, unless it has run or was taken back."""
        claimant = object()
        if self._fate.put(claimant) is claimant:
            self._context.run(self._callback)

    def hit(self, cause: CancelReason, strike: Strike) -> None:
        services.current.courier.submit(self)

    def drop(self) -> None:
        self._fate.put(_CLOSED)

    @property
    def is_spent(self) -> bool:
        return bool(self._fate)
