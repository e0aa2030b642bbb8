"""What is done on threads of ours when they have run somebody's code.

A framework may keep something for each thread, such as a connection to a database, and
tidies up only its own threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

__all__ = ["add_aftercare", "cared_for", "with_aftercare"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_log = logging.getLogger("syncagent.threads")

_functions: Final[dict[Callable[[], object], None]] = {}


class _Here(threading.local):
    """What this thread is."""

    #: Is it one of ours?
    is_ours = False
    #: How many calls of tools it is in: one may have runs of its own.
    depth = 0


_here: Final = _Here()


def add_aftercare(function: Callable[[], object]) -> None:
    """Have *function* called after each tool on a thread of ours, and at its end.

    It is called on that thread, never on a caller's. What it raises is logged.
    """
    _functions[function] = None


def with_aftercare(work: Callable[[], _T]) -> _T:
    """Do the work that a thread of ours is for, and tidy up at its end."""
    _here.is_ours = True
    try:
        return work()
    finally:
        _tidy_up()


def cared_for(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Make a call of a tool, and tidy up if this is a thread of ours.

    Not in the middle of another call, which may be about to use what it has.
    """
    if not _functions or not _here.is_ours:
        return work(*args, **kwargs)
    _here.depth += 1
    try:
        return work(*args, **kwargs)
    finally:
        _here.depth -= 1
        if not _here.depth:
            _tidy_up()


def _tidy_up() -> None:
    for function in list(_functions):
        try:
            function()
        except Exception:
            _log.exception("what tidies up a thread raised")
