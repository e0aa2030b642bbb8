"""Some colour for what is said, by rich: headings, code, what stands out."""

from __future__ import annotations

import io
import re
from typing import Final

from rich.console import Console
from rich.text import Text

from .screen import LineKind

__all__ = ["Colour"]

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


class Colour:
    """Give rows their colour; it remembers whether they are code.

    :param is_plain: give them none?
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

    def of_line(self, row: str, kind: LineKind) -> str:
        """Return a row of a line, with its escape sequences."""
        self._is_code = False
        return self._render(Text(row, style=_KINDS[kind]))

    def of_answer(self, row: str) -> str:
        """Return a row of what the model says, with its escape sequences."""
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
