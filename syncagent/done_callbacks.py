"""What is to be called when a run in the background is over."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from .cancel import CancelToken

__all__ = ["DoneCallbacks"]

_T = TypeVar("_T")

_log = logging.getLogger("syncagent.handle")


class DoneCallbacks(Generic[_T]):
    """Functions that are each called once, on whatever thread comes first."""

    def __init__(self) -> None:
        self._functions: deque[Callable[[_T], object]] = deque()
        self._last: deque[Callable[[_T], object]] = deque()
        #: Cancelled when all have returned that were there at the end.
        self.returned: Final = CancelToken()

    def add(self, function: Callable[[_T], object]) -> None:
        """Add one."""
        self._functions.append(function)

    def add_last(self, function: Callable[[_T], object]) -> None:
        """Add one that is called when the others have returned."""
        self._last.append(function)

    def finish(self, run_id: str, what: _T) -> None:
        """Call all, and then the last ones."""
        try:
            self.call(run_id, what)
        finally:
            self.returned.cancel(origin="closed")
            _call(self._last, run_id, what)

    def call(self, run_id: str, what: _T) -> None:
        """Call those that are there with *what*; an exception in one is logged."""
        _call(self._functions, run_id, what)


def _call(functions: deque[Callable[[_T], object]], run_id: str, what: _T) -> None:
    while functions:
        try:
            function = functions.popleft()
        except IndexError:  # another thread was faster
            return
        try:
            function(what)
        except BaseException:  # an exit, too: the others are still to be called
            _log.exception("run %s: a done callback raised", run_id)
