"""Choose the screen for the terminal at hand."""

from __future__ import annotations

import os
import sys

from .line_screen import LineScreen
from .screen import Screen

__all__ = ["choose_screen"]


def choose_screen(*, is_plain: bool = False) -> Screen:
    """Return the richest screen that works here.

    :param is_plain: use only the standard library.
    """
    is_dumb = os.environ.get("TERM", "dumb") == "dumb"
    is_drawable = _is_terminal(sys.stdin) and _is_terminal(sys.stdout) and not is_dumb
    if is_plain or not is_drawable:
        return LineScreen()
    try:
        from .rich_screen import RichScreen
    except ImportError:  # the extra [cli] is optional
        return LineScreen()
    return RichScreen()


def _is_terminal(file: object) -> bool:
    try:
        return os.isatty(file.fileno())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
