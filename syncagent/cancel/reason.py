"""Why a token was cancelled, by whom, and when."""

from __future__ import annotations

from typing import Final, Literal, get_args

from .. import _clock

#: Who cancelled.
Origin = Literal[
    "user",
    "deadline",
    "limit",
    "parent",
    "closed",
    "signal",
    "disconnect",
    "shutdown",
    "remote",
]

_ORIGINS: Final = frozenset(get_args(Origin))


class CancelReason(str):
    """The text that a canceller gave, which also knows its origin and its time.

    It is a :class:`str`: ``token.reason == "client went away"`` just works.

    :param text: what to say about the cancel, possibly nothing.
    :param origin: one of :data:`Origin`.
    :param at: monotonic time of the cancel, now by default.
    :raises TypeError: *text* is not a string.
    :raises ValueError: *origin* is not a known one.
    """

    __slots__ = ("at", "origin")

    #: Who cancelled.
    origin: Origin
    #: Monotonic time of the cancel.
    at: float

    def __new__(
        cls, text: str = "", origin: str = "user", at: float | None = None
    ) -> CancelReason:
        if not isinstance(text, str):
            raise TypeError(f"reason must be a str, got {text!r}")
        if not isinstance(origin, str):
            raise TypeError(f"origin must be a str, got {origin!r}")
        if origin not in _ORIGINS:
            known = ", ".join(sorted(_ORIGINS))
            raise ValueError(f"origin must be one of {known}; got {origin!r}")
        self = str.__new__(cls, text)
        self.origin = origin  # type: ignore[assignment]  # it is one of them
        self.at = _clock.now() if at is None else at
        return self

    def __getnewargs__(self) -> tuple[str, Origin, float]:  # type: ignore[override]
        return str(self), self.origin, self.at

    def __repr__(self) -> str:
        return f"CancelReason({str(self)!r}, origin={self.origin!r})"

    def as_parent(self) -> CancelReason:
        """Return the reason that children of the cancelled token are given."""
        if self.origin == "parent":
            return self
        return CancelReason(self, "parent", self.at)
