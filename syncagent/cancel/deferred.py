"""Cancels that take effect at a later point of the run.

Guarantees:

- Nothing here takes a lock, so a deferred cancel is as safe as an immediate one.
- A cancel that :meth:`DeferredCancel.defer` accepts is seen by the next
  :meth:`~DeferredCancel.due` of its mode, or by :meth:`~DeferredCancel.close`. After
  ``close()`` none is accepted.
- An ``after_tools`` cancel ends the operation in progress at once: either ``defer``
  sees the operation's token, or ``operation_token`` sees the cancel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from .reason import Cause
from .token import CancelToken

#: When a cancel takes effect. ``now``: at once. ``after_tools``: a model response ends
#: at once, running tools may end first. ``after_turn``: the response in progress and
#: the tools it calls may end first.
CancelMode = Literal["now", "after_tools", "after_turn"]

_DEFERRED: Final = ("after_tools", "after_turn")
#: Takes the place of a cause once the run has finished.
_CLOSED: Final[Cause] = ("closed", "closed", 0.0)


def check_mode(mode: object) -> None:
    """Check that *mode* is a :data:`CancelMode`.

    :raises ValueError: it is not.
    """
    if mode != "now" and mode not in _DEFERRED:
        raise ValueError(
            f"mode must be one of now, after_tools, after_turn; got {mode!r}"
        )


class DeferredCancel:
    """The deferred cancels of one run."""

    __slots__ = ("_causes", "_operation")

    def __init__(self) -> None:
        self._causes: dict[str, Cause] = {}
        #: The token of the operation in progress: a model request, or a question.
        self._operation: CancelToken | None = None

    def defer(self, mode: CancelMode, cause: Cause) -> Cause | None:
        """Cancel at the point that *mode* names.

        :return: the cause that counts there, possibly an earlier one; ``None`` if the
            run has finished.
        """
        standing = self._causes.setdefault(mode, cause)  # publish first ...
        if standing is _CLOSED:
            return None
        operation = self._operation
        if mode == "after_tools" and operation is not None:
            operation.cancel()  # ... then look
        return standing

    def operation_token(self, token: CancelToken) -> CancelToken:
        """Return a token for an operation that an ``after_tools`` cancel ends at once.

        Call :meth:`operation_ended` when the operation is over.

        :param token: the run's own token, which becomes the parent.
        """
        child = token.child()
        self._operation = child  # publish first, then look
        if "after_tools" in self._causes:
            child.cancel()
        return child

    @property
    def operation(self) -> CancelToken | None:
        """The token of the operation in progress, if there is one."""
        return self._operation

    def operation_ended(self) -> None:
        """Forget the operation in progress."""
        self._operation = None

    @property
    def is_pending(self) -> bool:
        """True once a cancel was deferred."""
        return bool(self._causes)

    def due(self, modes: Iterable[CancelMode]) -> Cause | None:
        """Return the cause of the earliest cancel with one of these modes, if any."""
        if not self._causes:
            return None
        return _earliest(self._causes.get(mode) for mode in modes)

    def close(self) -> Cause | None:
        """Accept no more cancels; return the cause of the earliest one, if any."""
        return _earliest(self._causes.setdefault(mode, _CLOSED) for mode in _DEFERRED)


def _earliest(causes: Iterable[Cause | None]) -> Cause | None:
    found = [cause for cause in causes if cause is not None and cause is not _CLOSED]
    return min(found, key=lambda cause: cause[2], default=None)
