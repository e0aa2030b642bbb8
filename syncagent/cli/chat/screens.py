"""Which terminal there is."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

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
    if not is_plain and find_spec("prompt_toolkit") and find_spec("rich"):
        from .rich_screen import RichScreen

        return RichScreen()
    return PlainScreen()


def _is_terminal(file: object) -> bool:
    try:
        return os.isatty(file.fileno())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
