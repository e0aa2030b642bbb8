"""Highlighted code, line by line as it arrives."""

from __future__ import annotations

import re
from typing import Final

from rich.syntax import Syntax
from rich.text import Text

__all__ = ["CodeBlock"]

#: Characters of earlier lines that are read again with every new line: what is a string
#: or a comment depends on them.
_CONTEXT: Final = 2_000
_THEME: Final = "ansi_dark"
#: A line that hardly is within a string or a comment.
_BEGINNING: Final = re.compile(r"(?<=\n\n)(?=[\w@#<{])")


class CodeBlock:
    """A fenced block of code.

    :param fence: the line that opened it.
    :param indent: the spaces before the fence, which its lines have too.
    :param language: as after the fence, such as ``python``.
    """

    def __init__(self, fence: str, indent: int, language: str) -> None:
        self.fence: Final = fence
        self.language: Final = language
        self._indent = indent
        self._syntax = Syntax("", language, theme=_THEME)
        self._context = ""

    def is_closed_by(self, line: str) -> bool:
        """Return whether *line* is the fence at the end."""
        mark = line.strip()
        return len(mark) >= len(self.fence) and not mark.strip(self.fence[0])

    def rows(self, lines: list[str]) -> list[Text]:
        """Return *lines* in colours, each as one row."""
        shown = [self.unindented(line) for line in lines]
        if not self._syntax.lexer:
            return [Text(line) for line in shown]
        first = self._context.count("\n")
        self._context += "".join(f"{line}\n" for line in shown)
        text = self._syntax.highlight(self._context)
        rows = list(text.split("\n", allow_blank=True))[first : first + len(shown)]
        self._shorten_context()
        # A lexer may drop lines at the beginning; code must never be lost.
        is_whole = [row.plain for row in rows] == shown
        return rows if is_whole else [Text(line) for line in shown]

    def unindented(self, line: str) -> str:
        """Return *line* without the spaces that the fence has before it."""
        spaces = len(line) - len(line.lstrip(" "))
        return line[min(spaces, self._indent) :]

    def _shorten_context(self) -> None:
        if len(self._context) <= _CONTEXT:
            return
        starts = [
            match.start()
            for match in _BEGINNING.finditer(self._context)
            if self._context.count('"""', 0, match.start()) % 2 == 0
        ]
        cut = starts[-1] if starts else self._context.find("\n", _CONTEXT // 2) + 1
        self._context = self._context[cut:]
