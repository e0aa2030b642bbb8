"""Colours for the output of commands."""

from __future__ import annotations

import os
import sys
from typing import Final, TextIO

__all__ = ["Paint"]

_STYLES: Final = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}


class Paint:
    """Colours text for a stream, if that is a terminal with colours.

    ``NO_COLOR`` in the environment turns it off (https://no-color.org).

    :param stream: by default standard output.
    :param is_terminal: whether it is a terminal, if the caller knows.
    """

    def __init__(
        self, stream: TextIO | None = None, *, is_terminal: bool | None = None
    ) -> None:
        stream = sys.stdout if stream is None else stream
        if is_terminal is None:
            is_terminal = stream.isatty()
        terminal = os.environ.get("TERM", "")
        has_colours = terminal not in ("", "dumb") and not os.environ.get("NO_COLOR")
        self.is_on = has_colours and is_terminal

    def __call__(self, text: str, style: str) -> str:
        """Return *text* in a style."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.is_on else text
