"""Which terminal there is."""

from __future__ import annotations

import os
import sys

from .line_screen import LineScreen
from .plain_screen import PlainScreen
from .screen import Screen

__all__ = ["choose_screen"]


def choose_screen(*, is_plain: bool = False) -> Screen:
    """Return the richest that works here.

    :param is_plain: do without what is not in the standard library?
    """
    if not _is_terminal(sys.stdin) or not _is_terminal(sys.stdout):
        return LineScreen()
    if os.environ.get("TERM", "dumb") == "dumb":
        return LineScreen()
    if is_plain:
        return PlainScreen()
    try:
        from .rich_screen import RichScreen
    except ImportError:  # extra [cli] is not there, and need not be
        return PlainScreen()
    return RichScreen()


def _is_terminal(file: object) -> bool:
    try:
        return os.isatty(file.fileno())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
