"""Styled text in rows that are broken between words, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rich.text import Span, Text

from ..rows import columns
from .inline_markdown import IDEOGRAPHS, MAX_WORD, Piece

__all__ = ["WordWrap"]

#: Spaces, letters of scripts without spaces between words, and words.
_CHUNK: Final = re.compile(rf"\s+|[{IDEOGRAPHS}]|[^\s{IDEOGRAPHS}]+")
_IDEOGRAPH: Final = re.compile(f"[{IDEOGRAPHS}]")


class WordWrap:
    """Turns pieces into rows, and keeps the last one until it is full.

    A word that is longer than a row is a row of its own, which the terminal wraps: so
    it is copied as one word.

    :param prefix: the beginning of the first row.
    :param indent: the spaces before all others.
    """

    def __init__(self, prefix: Iterable[Piece] = (), indent: int = 0) -> None:
        self._row = Text()
        _append(self._row, prefix)
        self._used = columns(self._row.plain)
        self._has_word = False
        self._indent = indent
        self._space: list[Piece] = []
        self._word: list[Piece] = []
        self._word_width = 0

    def add(self, pieces: Iterable[Piece], width: int) -> list[Text]:
        """Add *pieces*; return the rows that are complete."""
        rows: list[Text] = []
        for piece in pieces:
            if piece.is_atomic:
                self._extend_word(piece)
                continue
            for chunk in _CHUNK.findall(piece.text):
                is_space, is_letter = chunk.isspace(), _IDEOGRAPH.fullmatch(chunk)
                if is_space or is_letter or self._word_width > MAX_WORD:
                    rows += self._commit(width)
                if is_space:
                    self._space.append(Piece(chunk, piece.style))
                    continue
                self._extend_word(Piece(chunk, piece.style))
                if is_letter:
                    rows += self._commit(width)
        return rows

    def end(self, width: int) -> list[Text]:
        """Return the rest, without the spaces at its end."""
        rows = self._commit(width)
        if self._has_word or self._used:
            rows.append(self._row)
        self._row, self._used, self._has_word = Text(), 0, False
        self._space = []
        return rows

    @property
    def rest(self) -> Text:
        """The row that is not full yet, with the word at its end."""
        row = self._row.copy()
        _append(row, (*self._space, *self._word))
        return row

    def _extend_word(self, piece: Piece) -> None:
        self._word.append(piece)
        self._word_width += columns(piece.text)

    def _commit(self, width: int) -> list[Text]:
        """Put the word into the row, or into the next one if it does not fit."""
        if not self._word:
            return []
        rows = []
        space = sum(len(piece.text) for piece in self._space)
        if self._has_word and self._used + space + self._word_width > width:
            rows.append(self._row)
            self._row, self._used = Text(" " * self._indent), self._indent
            self._space, space = [], 0
        _append(self._row, (*self._space, *self._word))
        self._used += space + self._word_width
        self._space, self._word, self._word_width = [], [], 0
        self._has_word = True
        return rows


def _append(row: Text, pieces: Iterable[Piece]) -> None:
    """Append *pieces*, with one span for neighbours in the same style."""
    for text, style, _ in pieces:
        start = len(row)
        last = row.spans[-1] if style and row.spans else None
        if last is not None and (last.end, last.style) == (start, style):
            row.append(text)
            row.spans[-1] = Span(last.start, len(row), style)
        else:
            row.append(text, style)
