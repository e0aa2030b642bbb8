"""Colours for the rows of a chat, by rich."""

from __future__ import annotations

import io
import re
from typing import Final

from rich.console import Console
from rich.text import Text

from .screen import LineKind

__all__ = ["RowColours"]

_KINDS: Final = {
    "user": "bold",
    "tool": "bright_black",
    "note": "bright_black",
    "question": "bold yellow",
    "stop": "red",
    "error": "red",
}
#: The name of a tool, and an outcome that is not the usual one.
_CALL: Final = re.compile(r" +([\w.-]+)\(")
_OUTCOME: Final = re.compile(
    r"\)  (failed|denied|interrupted|killed|not started|left running \(abandoned\))"
)


class RowColours:
    """Turns rows into text with escape sequences.

    :param is_plain: use no colours; bold, italic and underlined text stay.
    """

    def __init__(self, *, is_plain: bool) -> None:
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system="standard",
            no_color=is_plain,
            highlight=False,
        )

    def line(self, row: str, kind: LineKind) -> str:
        """Return a row of the session with its escape sequences."""
        text = Text(row, style=_KINDS[kind])
        if kind == "tool":
            for pattern, style in ((_CALL, "cyan"), (_OUTCOME, "red")):
                if match := pattern.search(row):
                    text.stylize(style, *match.span(1))
        return self.render(text)

    def render(self, text: Text) -> str:
        """Return a row with its escape sequences."""
        file = self._console.file = io.StringIO()
        self._console.print(text, end="", soft_wrap=True)
        return file.getvalue()
