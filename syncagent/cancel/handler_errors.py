"""Exceptions of signal handlers, distinguished from those of the code they interrupt.

The usual watchdog of a script is a signal handler that raises: ``TimeoutError``, most
often. Python raises it out of whatever call the signal has interrupted, where it looks
like an error of that call: a broken connection, a tool that failed. The traceback tells
the two apart. Python calls a handler with the frame that it interrupts, so a function
that was called *with the frame of its own caller* is a signal handler.
"""

from __future__ import annotations

import signal
import threading
from functools import partial
from types import FrameType, TracebackType
from typing import Any

__all__ = [
    "handler_traceback",
    "raised_by_installed_handler",
    "raised_by_signal_handler",
]


def raised_by_signal_handler(error: BaseException) -> bool:
    """Return whether a signal handler has raised *error*.

    A handler written in C has no frame and is not recognised.
    """
    return handler_traceback(error) is not None


def raised_by_installed_handler(error: BaseException) -> bool:
    """Return whether a signal handler that is installed now has raised *error*.

    A tool may have a handler of its own for as long as it runs, to limit its time. When
    it has put the earlier one back, the error is the tool's, and not the program's.
    """
    trace = handler_traceback(error)
    if trace is None:
        return False
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        while isinstance(handler, partial):
            handler = handler.func
        if callable(handler) and not hasattr(handler, "__code__"):
            # A method is called by its function, and an object by its class.
            handler = getattr(handler, "__func__", type(handler).__call__)
        if getattr(handler, "__code__", None) is trace.tb_frame.f_code:
            return True
    return False


def handler_traceback(error: BaseException) -> TracebackType | None:
    """Return the part of the traceback that begins with a signal handler, if any."""
    # Python runs signal handlers on the main thread only.
    if threading.get_ident() != threading.main_thread().ident:
        return None
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if _was_called_with(trace.tb_next.tb_frame, trace.tb_frame):
            return trace.tb_next
        trace = trace.tb_next
    return None


def _was_called_with(frame: FrameType, argument: FrameType) -> bool:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    has_rest = bool(code.co_flags & 0x04)  # *args, which stands behind the others
    values = frame.f_locals
    for name in code.co_varnames[: count + has_rest]:
        value = values.get(name)
        if value is argument:
            return True
        if has_rest and isinstance(value, tuple) and argument in value:
            return True
    return False
