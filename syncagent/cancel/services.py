"""What cancelling has once per process, and makes anew in a forked child."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from .threads import Courier, Timer

if TYPE_CHECKING:
    from .claim import RunClaim
    from .token import CancelToken


class Services:
    """The threads of this process, its live runs, and the tokens that own something."""

    def __init__(self) -> None:
        self.timer = Timer(self._report)
        self.courier = Courier(self.timer)
        #: Live runs by identity, in the order in which they began.
        self.runs: dict[int, weakref.ref[RunClaim]] = {}
        self._tokens: dict[weakref.ref[CancelToken], None] = {}

    def start_threads(self) -> None:
        """Start both threads unless they run."""
        self.timer.ensure_thread()
        self.courier.ensure_thread()

    def enrol(self, token: CancelToken) -> None:
        """Remember, weakly, that *token* has links that a fork must cut."""
        # A callback in C: one in Python would swallow a signal handler's exception.
        self._tokens[weakref.ref(token, self._tokens.__delitem__)] = None

    def _report(self, write: Callable[[], None]) -> None:
        self.courier.report(write)

    def end_in_child(self) -> None:
        """Take what belongs to the parent process off every token."""
        # The fork may have happened in a callback: then this very thread is one of
        # them, and must not go on with the parent's work.
        self.timer.retire()
        self.courier.retire()
        for ref in list(self._tokens):
            token = ref()
            if token is not None:
                token._cut_after_fork()


#: Those of this process. Always read it through the module: a fork replaces it.
current = Services()


def _renew_in_child() -> None:
    global current
    inherited, current = current, Services()
    inherited.end_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)
