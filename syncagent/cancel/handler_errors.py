"""Exceptions of signal handlers, told apart from those of the code they interrupt.

The usual watchdog of a script is a signal handler that raises: ``TimeoutError``, most
often. Python raises it out of whatever call the signal has interrupted, where it looks
like an error of that call: a broken connection, a tool that failed. The traceback tells
the two apart. Python calls a handler with the frame that it interrupts, so a function
that was called *with the frame of its own caller* is a signal handler.
"""

from __future__ import annotations

import threading
from types import FrameType, TracebackType

__all__ = ["handler_traceback", "raised_by_signal_handler"]


def raised_by_signal_handler(error: BaseException) -> bool:
    """Return whether a signal handler has raised *error*.

    A handler written in C has no frame and is not recognised.
    """
    return handler_traceback(error) is not None


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
