"""The context that travels with a run from thread to thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Final, ParamSpec, TypeVar

__all__ = [
    "ContextFactory",
    "NO_RUN",
    "after_each_call",
    "call_in_context",
    "run_id",
    "within_context",
    "work_in_context",
]

#: The run id of log records outside of a run.
NO_RUN = "-"

#: Set by the loop for the length of a run, and read by :mod:`syncagent.logs` on the
#: thread that logs. Code that moves work of a run to another thread copies the context.
run_id: ContextVar[str] = ContextVar("syncagent_run_id", default=NO_RUN)

_log = logging.getLogger("syncagent.run")

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Makes the context manager that surrounds the work of a thread.
ContextFactory = Callable[[], AbstractContextManager[Any]]

_factory: Final[ContextVar[ContextFactory | None]] = ContextVar("factory", default=None)


@contextmanager
def within_context(make: ContextFactory) -> Iterator[None]:
    """Call *make* for each thread and each tool call of the runs started in this block.

    The context manager that it returns is entered on the run's own thread for as long
    as that works, and again around every tool call, on the thread of the call. Tools
    in processes of their own have no such context.
    """
    before = _factory.set(make)
    try:
        yield
    finally:
        _factory.reset(before)


def call_in_context(
    function: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs
) -> _R:
    """Call *function* inside its context, if there is one."""
    make = _factory.get(None)
    if make is None and not _cleanups:
        return function(*args, **kwargs)
    _thread.depth += 1
    try:
        with ExitStack() as stack:
            if make is not None:
                stack.enter_context(make())
            return function(*args, **kwargs)
    finally:
        _thread.depth -= 1
        # Not while another call goes on here: it still uses what a cleanup removes.
        if not _thread.depth:
            _clean_up()


def work_in_context(work: Callable[[], None]) -> None:
    """Do *work* inside its context; do it even if that context fails."""
    make = _factory.get(None)
    try:
        if make is None:
            work()
            return
        with ExitStack() as stack:
            try:
                stack.enter_context(make())
            except Exception:
                _log.exception("the context of a run could not be entered")
            work()
            try:
                stack.close()
            except Exception:
                _log.exception("the context of a run raised on exit")
    finally:
        _clean_up()


#: A dict as an ordered set: its steps are atomic.
_cleanups: Final[dict[Callable[[], object], None]] = {}

#: How the names of the SDK's own threads begin.
_OURS: Final = "syncagent-"


class _Thread(threading.local):
    #: How many tool calls this thread is in: a call may have runs of its own.
    depth = 0


_thread: Final = _Thread()


def after_each_call(function: Callable[[], object]) -> None:
    """Call *function* after tool calls on the SDK's own threads, and at their end.

    A framework may keep something for each thread, such as a connection to a database,
    and clean up only its own threads. The function is called on the thread in question,
    never on a caller's, and not while another call goes on there. Its exceptions are
    logged.
    """
    _cleanups[function] = None


def _clean_up() -> None:
    if not _cleanups or not threading.current_thread().name.startswith(_OURS):
        return
    for function in list(_cleanups):
        try:
            function()
        except Exception:
            _log.exception("a function of after_each_call() raised")
