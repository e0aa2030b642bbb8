"""Raise in the middle of something, as a signal handler may."""

import sys

#: Python itself prints and ignores what is raised here.
IGNORED = {"_forget", "__del__", "_close_pool_connections"}


class Stop(BaseException):
    """What the handler raises."""


def is_ignored(frame):
    """Is this frame, or one that called it, a finalizer?"""
    while frame is not None:
        if frame.f_code.co_name in IGNORED:
            return True
        frame = frame.f_back
    return False


def interrupted(function, *after):
    """Call *function*, raising Stop after each of so many opcodes of the package.

    Return whether it raised; false means that it has fewer steps than that.
    """
    at = set(after)
    step = 0

    def trace(frame, event, arg):
        nonlocal step
        if event == "call" and (
            "syncagent" not in frame.f_code.co_filename or is_ignored(frame)
        ):
            return None
        if not frame.f_trace_opcodes:
            frame.f_trace_opcodes = True
            sys.settrace(trace)  # or early releases of 3.12 do not notice
        if event == "opcode":
            step += 1
            if step in at:
                sys.settrace(trace)  # raising would switch it off
                raise Stop
        return trace

    sys.settrace(trace)
    try:
        function()
    except Stop:
        return True
    finally:
        sys.settrace(None)
    return False
