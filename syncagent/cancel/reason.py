"""Why a token was cancelled, by whom, and when."""

from __future__ import annotations

from typing import Final, get_args

from ..exceptions import Cancelled, Origin
from . import clock

_ORIGINS: Final = frozenset(get_args(Origin))


#: The record of a cancel in its token: text, origin, monotonic time. A plain tuple,
#: because the thread that a cancel wakes waits while it is made. Causes are compared by
#: identity: each call of ``cancel()`` makes its own.
Cause = tuple[str, Origin, float]


def make_cause(text: str, origin: Origin) -> Cause:
    """Return the cause of a cancel that happens now.

    :raises TypeError: *text* or *origin* is not a string.
    :raises ValueError: *origin* is not a known one.
    """
    if not isinstance(text, str):
        raise TypeError(f"reason must be a str, got {text!r}")
    if not isinstance(origin, str):
        raise TypeError(f"origin must be a str, got {origin!r}")
    if origin not in _ORIGINS:
        known = ", ".join(sorted(_ORIGINS))
        raise ValueError(f"origin must be one of {known}; got {origin!r}")
    return text, origin, clock.now()


def as_parent(cause: Cause) -> Cause:
    """Return the cause that children of the cancelled token are given."""
    text, origin, at = cause
    return cause if origin == "parent" else (text, "parent", at)


def as_exception(cause: Cause) -> Cancelled:
    """Return the exception that a checkpoint raises."""
    return Cancelled(CancelReason(*cause), cause[1])


class CancelReason(str):
    """The canceller's text, with the origin and the time of the cancel.

    It is a :class:`str`: ``token.reason == "client went away"`` just works. It is
    always true, even if the text is empty, so that ``if token.reason`` is no trap.

    :param text: the canceller's text, possibly empty.
    :param origin: who cancelled.
    :param at: monotonic time of the cancel.
    """

    __slots__ = ("at", "origin")

    #: Who cancelled.
    origin: Origin
    #: Monotonic time of the cancel.
    at: float

    def __new__(cls, text: str, origin: Origin, at: float) -> CancelReason:
        self = super().__new__(cls, text)
        self.origin = origin
        self.at = at
        return self

    def __bool__(self) -> bool:
        return True

    def __getnewargs__(self) -> tuple[str, Origin, float]:  # type: ignore[override]
        return str(self), self.origin, self.at

    def __repr__(self) -> str:
        return f"CancelReason({str(self)!r}, origin={self.origin!r})"
