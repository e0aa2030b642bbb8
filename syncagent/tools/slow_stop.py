"""The warning about tools that still run a second after a cancel.

Guarantees:

- The cancel only leaves an entry for the timer: no lock, no log, no new thread.
- The timer looks once, a second later; the callback thread logs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from .._context import run_id as current_run_id
from ..cancel import CancelToken, Killable, clock, threads
from ..cancel.handler_errors import raised_by_signal_handler

__all__ = ["SlowStop"]

_log = logging.getLogger("syncagent.tools")

#: Seconds that a tool has after a cancel before the log tells about it.
_SECONDS: Final = 1.0


class SlowStop(Killable):
    """Logs one warning if tools still run a second after the cancel of their run.

    :param run_id: the id of the run.
    :param find_tools: returns the names of the tools that the run waits for; called on
        another thread.
    """

    __slots__ = ("__weakref__", "_find_tools", "_is_over", "_run_id")

    def __init__(self, run_id: str, find_tools: Callable[[], Sequence[str]]) -> None:
        super().__init__()
        self._run_id = run_id
        self._find_tools = find_tools
        self._is_over = False

    def watch(self, token: CancelToken) -> None:
        """Begin with a cancel of *token*; ``token.detach(self)`` ends it."""
        try:
            threads.current.timer.ensure_thread()
        except RuntimeError as error:
            if raised_by_signal_handler(error):
                raise
            return  # no thread, no warning
        token.attach(self)

    def fire(self) -> None:
        threads.current.timer.post(clock.now() + _SECONDS, SlowStop._look, self)

    def _look(self) -> None:
        tools = () if self._is_over else self._find_tools()
        self._is_over = True  # fire() may have been called twice
        if tools:
            write = partial(_warn, self._run_id, ", ".join(dict.fromkeys(tools)))
            threads.current.callbacks.report(write)


def _warn(run_id: str, tools: str) -> None:
    before = current_run_id.set(run_id)
    try:
        _log.warning(
            "run %s: cancelled a second ago, and still waits for the tool %s. Let it "
            "check its context (ctx.checkpoint(), ctx.sleep(), ctx.http, ...), or give "
            "it on_cancel='abandon' to leave it behind, or on_cancel='kill' to run it "
            "in a process that a cancel kills",
            *(run_id, tools),
        )
    finally:
        current_run_id.reset(before)
