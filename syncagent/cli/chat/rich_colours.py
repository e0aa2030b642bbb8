"""Colours for the rows of a chat, by rich: headings, code, emphasis."""

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
    "question": "bold",
    "error": "red",
}
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_HEADING: Final = re.compile(r"#{1,6} ")
_INLINE: Final = (
    (re.compile(r"\*\*[^*\s][^*]*\*\*"), "bold"),
    (re.compile(r"`[^`]+`"), "cyan"),
)


class RowColours:
    """Adds colours to rows; it remembers whether they are inside a code block.

    :param is_plain: add none.
    """

    def __init__(self, *, is_plain: bool) -> None:
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system=None if is_plain else "standard",
            highlight=False,
        )
        self._is_plain = is_plain
        self._is_code = False

    def line(self, row: str, kind: LineKind) -> str:
        """Return a row of the session with its escape sequences."""
        self._is_code = False
        return self._render(Text(row, style=_KINDS[kind]))

    def response(self, row: str) -> str:
        """Return a row of a response with its escape sequences."""
        text = Text(row)
        if _FENCE.match(row):
            self._is_code = not self._is_code
            text.stylize("bright_black")
        elif self._is_code:
            text.stylize("green")
        elif _HEADING.match(row):
            text.stylize("bold")
        else:
            for pattern, style in _INLINE:
                text.highlight_regex(pattern, style)
        return self._render(text)

    def _render(self, text: Text) -> str:
        if self._is_plain or not text.plain:
            return text.plain
        file = self._console.file = io.StringIO()
        self._console.print(text, end="", soft_wrap=True)
        return file.getvalue()
