"""Words that come bit by bit, in rows that fit the terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

from ..plain_text import harmless

__all__ = ["Flow", "clip", "columns", "tail", "wrap"]

_TAB: Final = "    "
#: Marks, joiners and the like have no width of their own.
_WITHOUT_WIDTH: Final = frozenset(("Mn", "Me", "Cf"))


def columns(text: str) -> int:
    """Return how many columns of a terminal *text* takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in _WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, width: int) -> str:
    """Return as much of *text* as fits, with dots for what does not."""
    if columns(text) <= width:
        return text
    kept, _ = _split(text, max(0, width - 3))
    return kept + "..."[: max(0, width)]


def tail(text: str, width: int) -> str:
    """Return the end of *text* that fits."""
    while columns(text) > width:
        text = text[1:]
    return text


def _split(text: str, width: int) -> tuple[str, str]:
    """Return what fits, and the rest."""
    if text.isascii():
        return text[:width], text[width:]
    used = 0
    for number, character in enumerate(text):
        used += _width(character)
        if used > width:
            return text[:number], text[number:]
    return text, ""


def wrap(text: str, width: int) -> list[str]:
    """Return one line in rows of *width* columns, broken between words if possible."""
    return list(_rows(text, max(2, width)))


def _rows(text: str, width: int) -> Iterator[str]:
    while columns(text) > width:
        row, rest = _split(text, width)
        if rest[0] != " ":
            at = row.rfind(" ")
            if row[: max(at, 0)].strip():  # else the word is longer than the row
                row, rest = row[:at], row[at:] + rest
        yield row.rstrip(" ")
        text = rest.removeprefix(" ")
    yield text


class Flow:
    """Make rows of what comes, and keep the row that is not full yet.

    What was returned once never changes. Whatever comes is made harmless.
    """

    def __init__(self) -> None:
        #: The row that is not full yet.
        self.rest = ""

    def feed(self, text: str, width: int) -> list[str]:
        """Take more; return the rows that are full, or ended, by now."""
        rows: list[str] = []
        *ended, last = (self.rest + harmless(text).replace("\t", _TAB)).split("\n")
        for line in ended:
            rows += wrap(line, width)
        *full, self.rest = wrap(last, width)
        return rows + full

    def end(self) -> list[str]:
        """Return the row that was not full."""
        rest, self.rest = self.rest, ""
        return [rest] if rest else []
