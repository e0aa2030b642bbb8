"""A deadline that moves: each step of some work has its own time to be done in."""

from __future__ import annotations

import math
from typing import Final

from .. import _clock
from . import services
from .token import CancelToken

_OFF: Final = (math.inf, "")


class Alarm:
    """Cancel *token*, with origin ``deadline``, unless it is set anew in time.

    To set it costs a look at the clock and a store. The timer thread has one entry
    for it, which when it is due finds out whether the time has moved meanwhile.

    Only one thread at a time may set it. It is weakly held: keep it while it counts.

    :param token: what to cancel, best a child for just that work.
    """

    __slots__ = ("__weakref__", "_due", "_looks_at", "_token")

    def __init__(self, token: CancelToken) -> None:
        self._token = token
        #: When it is due and what it says then; one tuple, so that they fit.
        self._due = _OFF
        #: When the timer will look at it, or earlier than that.
        self._looks_at = math.inf

    def set(self, seconds: float, reason: str) -> None:
        """Have the token cancelled, for *reason*, in so many seconds from now."""
        when = _clock.now() + seconds
        self._due = (when, reason)  # publish first, then look
        if when < self._looks_at:
            self._arm(when)

    def stop(self) -> None:
        """Do not cancel."""
        self._due = _OFF

    def _arm(self, when: float) -> None:
        self._looks_at = when
        services.current.timer.call_at(when, Alarm._look, self)

    def _look(self) -> None:
        self._looks_at = math.inf  # publish first, then look
        when, reason = self._due
        if when <= _clock.now():
            self._token.cancel(reason, "deadline")
        elif when < math.inf:
            self._arm(when)
