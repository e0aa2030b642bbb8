"""Streamed text in rows that fit the terminal."""

from __future__ import annotations

import unicodedata
from typing import Final

from .plain_text import harmless

__all__ = ["RowBuffer", "clip", "columns", "wrap"]

_TAB: Final = "    "
#: Categories of characters without a width of their own: marks, joiners.
_ZERO_WIDTH: Final = frozenset(("Mn", "Me", "Cf"))


def columns(text: str) -> int:
    """Return the number of terminal columns that *text* takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in _ZERO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, width: int) -> str:
    """Return *text* shortened to *width* columns, with dots for the rest."""
    if columns(text) <= width:
        return text
    kept, _ = _split(text, max(0, width - 3))
    return kept + "..."[: max(0, width)]


def _split(text: str, width: int) -> tuple[str, str]:
    """Return the part that fits into *width* columns, and the rest."""
    if text.isascii():
        return text[:width], text[width:]
    used = 0
    for number, character in enumerate(text):
        used += _width(character)
        if used > width:
            return text[:number], text[number:]
    return text, ""


def wrap(text: str, width: int) -> list[str]:
    """Return one line as rows of *width* columns, broken between words if possible."""
    width = max(2, width)
    rows = []
    while columns(text) > width:
        row, rest = _split(text, width)
        if rest[0] != " ":
            space = row.rfind(" ")
            if row[: max(space, 0)].strip():  # else the word is longer than the row
                row, rest = row[:space], row[space:] + rest
        rows.append(row.rstrip(" "))
        text = rest.removeprefix(" ")
    return [*rows, text]


class RowBuffer:
    """Turns pieces of text into rows, and keeps the last one until it is full.

    A row that was returned never changes. Control characters are made harmless.
    """

    def __init__(self) -> None:
        #: The row that is not full yet.
        self.rest = ""

    def feed(self, text: str, width: int) -> list[str]:
        """Add *text*; return the rows that are complete."""
        rows: list[str] = []
        *lines, last = (self.rest + harmless(text).replace("\t", _TAB)).split("\n")
        for line in lines:
            rows += wrap(line, width)
        *full, self.rest = wrap(last, width)
        return rows + full

    def end(self) -> list[str]:
        """Return the row that was not full, if there is one."""
        rest, self.rest = self.rest, ""
        return [rest] if rest else []
