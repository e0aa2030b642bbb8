"""Cancels that let a run go on for a while."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from .reason import Cause
from .token import CancelToken

#: When a cancel counts: at once; when the tools that run have ended, while an answer
#: ends at once; or when the answer that is coming, and the tools that it calls, have.
CancelMode = Literal["now", "after_tools", "after_turn"]

_LATER: Final = ("after_tools", "after_turn")
#: Stands where a cause would, once the run has finished.
_CLOSED: Final[Cause] = ("closed", "closed", 0.0)


def check_mode(mode: object) -> None:
    """See that there is such a mode.

    :raises ValueError: there is not.
    """
    if mode != "now" and mode not in _LATER:
        raise ValueError(f"mode is one of now, after_tools, after_turn; got {mode!r}")


class Later:
    """What was asked for, for later. Nothing here takes a lock."""

    __slots__ = ("_answering", "_causes")

    def __init__(self) -> None:
        self._causes: dict[str, Cause] = {}
        self._answering: CancelToken | None = None

    def put(self, mode: CancelMode, mine: Cause) -> Cause | None:
        """Ask for a cancel at the point that *mode* names.

        :return: the cause that counts there, possibly an earlier one; ``None`` if the
            run has finished.
        """
        standing = self._causes.setdefault(mode, mine)  # publish first ...
        if standing is _CLOSED:
            return None
        answering = self._answering
        if mode == "after_tools" and answering is not None:
            answering.cancel()  # ... then look
        return standing

    def answering(self, token: CancelToken) -> CancelToken:
        """Return the token of the answer that begins now, for the run's own *token*."""
        child = token.child()
        self._answering = child  # publish first, then look
        if "after_tools" in self._causes:
            child.cancel()
        return child

    @property
    def is_asked(self) -> bool:
        """Was anything asked for?"""
        return bool(self._causes)

    def answered(self) -> None:
        """Note that no answer is being waited for."""
        self._answering = None

    def due(self, modes: Iterable[CancelMode]) -> Cause | None:
        """Return what was asked for by one of these modes, the earliest of it."""
        if not self._causes:
            return None
        return _earliest(self._causes.get(mode) for mode in modes)

    def close(self) -> Cause | None:
        """Let nothing more be asked for; return what was."""
        return _earliest(self._causes.setdefault(mode, _CLOSED) for mode in _LATER)


def _earliest(causes: Iterable[Cause | None]) -> Cause | None:
    found = [cause for cause in causes if cause is not None and cause is not _CLOSED]
    return min(found, key=lambda cause: cause[2], default=None)
