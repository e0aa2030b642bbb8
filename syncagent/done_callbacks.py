"""What is to be called when a run in the background is over."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["DoneCallbacks"]

_T = TypeVar("_T")

_log = logging.getLogger("syncagent.handle")


class DoneCallbacks(Generic[_T]):
    """Functions that are each called once, on whatever thread comes first."""

    def __init__(self) -> None:
        self._functions: deque[Callable[[_T], object]] = deque()

    def add(self, function: Callable[[_T], object]) -> None:
        """Add one."""
        self._functions.append(function)

    def call(self, run_id: str, what: _T) -> None:
        """Call all that are there with *what*; an exception in one is logged."""
        while self._functions:
            try:
                function = self._functions.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                function(what)
            except Exception:
                _log.exception("run %s: a done callback raised", run_id)
