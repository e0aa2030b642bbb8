"""What surrounds the work of a run's threads, such as the context of an application."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Final, ParamSpec, TypeVar

__all__ = ["Surroundings", "call_surrounded", "surrounded_by", "work_surrounded"]

_log = logging.getLogger("syncagent.run")

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Makes what is entered before some work on a thread, and left after it.
Surroundings = Callable[[], AbstractContextManager[Any]]

_around: Final[ContextVar[Surroundings | None]] = ContextVar("around", default=None)


@contextmanager
def surrounded_by(make: Surroundings) -> Iterator[None]:
    """Have *make* called for each thread and each tool call of the runs begun here.

    What it returns is entered on the run's own thread for as long as that works, and
    again around every tool call, on whichever thread that is. Tools in processes of
    their own have nothing of it.
    """
    before = _around.set(make)
    try:
        yield
    finally:
        _around.reset(before)


def call_surrounded(
    function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs
) -> _R:
    """Call *function* inside of its surroundings, if there are any."""
    make = _around.get(None)
    if make is None:
        return function(*args, **kwargs)
    with make():
        return function(*args, **kwargs)


def work_surrounded(work: Callable[[], None]) -> None:
    """Do *work* inside of its surroundings, also if those fail."""
    make = _around.get(None)
    if make is None:
        work()
        return
    with ExitStack() as stack:
        try:
            stack.enter_context(make())
        except Exception:
            _log.exception("what is to surround a run could not be entered")
        work()
        try:
            stack.close()
        except Exception:
            _log.exception("what has surrounded a run raised at its end")
