"""The context that travels with a run from thread to thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Final, ParamSpec, TypeVar

__all__ = [
    "NO_RUN",
    "Surroundings",
    "after_each_call",
    "call_in_context",
    "run_id",
    "within_context",
    "work_in_context",
]

#: What log records show outside of a run.
NO_RUN = "-"


#: Set by the loop for the length of a run, and read by :mod:`syncagent.logs` on the
#: thread that logs. Whoever moves work of a run to another thread copies the context.
run_id: ContextVar[str] = ContextVar("syncagent_run_id", default=NO_RUN)


_log = logging.getLogger("syncagent.run")


_P = ParamSpec("_P")


_R = TypeVar("_R")


#: Makes what is entered before some work on a thread, and left after it.
Surroundings = Callable[[], AbstractContextManager[Any]]


_around: Final[ContextVar[Surroundings | None]] = ContextVar("around", default=None)


@contextmanager
def within_context(make: Surroundings) -> Iterator[None]:
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


def call_in_context(
    function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs
) -> _R:
    """Call *function* inside of its surroundings, if there are any."""
    make = _around.get(None)
    if make is None and not _aftercare:
        return function(*args, **kwargs)
    with _tidied_up(), ExitStack() as stack:
        if make is not None:
            stack.enter_context(make())
        return function(*args, **kwargs)


def work_in_context(work: Callable[[], None]) -> None:
    """Do *work* inside of its surroundings, also if those fail."""
    try:
        _work_surrounded(work)
    finally:
        _tidy_up()


def _work_surrounded(work: Callable[[], None]) -> None:
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


_aftercare: Final[dict[Callable[[], object], None]] = {}


#: What the threads are called that the SDK has begun.
_OURS: Final = "syncagent-"


class _Here(threading.local):
    #: How many tool calls this thread is in: one may have runs of its own.
    depth = 0


_here: Final = _Here()


def after_each_call(function: Callable[[], object]) -> None:
    """Have *function* called after tool calls on threads of ours, and at their end.

    A framework may keep something for each thread, such as a connection to a database,
    and tidy up only its own threads. It is called on the thread that it is about, never
    on that of a caller, and not while another call goes on there. What it raises is
    logged.
    """
    _aftercare[function] = None


@contextmanager
def _tidied_up() -> Iterator[None]:
    _here.depth += 1
    try:
        yield
    finally:
        _here.depth -= 1
        if not _here.depth:
            _tidy_up()


def _tidy_up() -> None:
    if not _aftercare or not threading.current_thread().name.startswith(_OURS):
        return
    for function in list(_aftercare):
        try:
            function()
        except Exception:
            _log.exception("what tidies up a thread raised")
