"""Markdown as rows of styled text, while it arrives.

A row that was returned never changes, so nothing that has scrolled away is drawn again.
What is not certain yet waits: a word until it is complete, a mark such as ``**`` until
it is closed, a line of code until its end, a table until its last row.
"""

from __future__ import annotations

import re
from typing import Final

from rich.text import Text

from ..plain_text import harmless
from ..rows import wrap
from .code_blocks import CodeBlock
from .inline_markdown import Piece, parse_inline
from .markdown_tables import draw_table, is_table_line, is_table_rule
from .word_wrap import WordWrap

__all__ = ["Markdown"]

_TAB: Final = "    "
_DIM: Final = "bright_black"
#: Columns of the line around code.
_RULE: Final = 20
#: Characters of a line after which it is known what it is.
_ENOUGH: Final = 16

_FENCE: Final = re.compile(r"( *)(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?: +|\Z)")
_BULLET: Final = re.compile(r"( *)[-*+] +(?:\[([ xX])\] +)?")
_NUMBER: Final = re.compile(r" *\d{1,9}[.)] +")
_QUOTE: Final = re.compile(r" {0,3}((?:> ?)+)")
_LINE: Final = re.compile(r" {0,3}([-*_])(?: *\1){2,} *")
#: The beginning of a line that can only be a paragraph.
_PARAGRAPH: Final = re.compile(r" *[^\s\-*_+#>`~|\d]")
#: The beginning of a line that must be complete before it is known.
_WHOLE: Final = re.compile(r" *(?:```|~~~|\||([-*_])(?: *\1)* *\Z)")


class Markdown:
    """A response in Markdown.

    :param has_marks: keep the marks of code, where it has no colour.
    """

    def __init__(self, *, has_marks: bool = False) -> None:
        self._has_marks = has_marks
        #: The source that has no row yet: of a line, or of the lines of a table.
        self._source = ""
        self._table: list[str] = []
        self._code: CodeBlock | None = None
        #: The rest of the line that is being written, and how it is.
        self._wrapper: WordWrap | None = None
        self._style = ""
        self._before = ""

    @property
    def is_between_lines(self) -> bool:
        """True if all that was fed has been returned."""
        return not self._source and not self._table and self._wrapper is None

    def feed(self, text: str, width: int) -> list[Text]:
        """Add *text*; return the rows that are complete."""
        text = harmless(text).replace("\t", _TAB)
        *lines, last = (self._source + text).split("\n")
        rows: list[Text] = []
        while lines:
            if self._code is not None:
                rows += self._feed_code(lines)
            else:
                rows += self._feed_line(lines.pop(0), width, is_complete=True)
        self._source = last
        if last and self._code is None:
            rows += self._feed_line(last, width, is_complete=False)
        return rows

    def end(self, width: int) -> list[Text]:
        """Return what has no row yet; the next text is another response."""
        rows = self.feed("\n", width) if self._source or self._wrapper else []
        rows += self._end_table(width)
        self._code = None
        return rows

    def rest(self, width: int, count: int) -> list[Text]:
        """Return the end of what has no row yet, in *count* rows at most."""
        if self.is_between_lines:
            return []
        row = Text() if self._wrapper is None else self._wrapper.rest
        row.append(self._source[-width * count :], self._style)
        if self._code is not None:
            row = Text(self._code.unindented(self._source)[-width * count :])
        rows = []
        for line in self._table[-count:]:
            rows += wrap(line, width)
        parts = [Text(line, _DIM) for line in rows]
        start = 0
        for line in wrap(row.plain, width) if row.plain else ():
            start = row.plain.find(line, start) if line else start
            parts.append(row[start : start + len(line)] if line else Text())
            start += len(line)
        return parts[-count:]

    # -- code ----------------------------------------------------------------------

    def _feed_code(self, lines: list[str]) -> list[Text]:
        """Take the lines of the code block from *lines*."""
        assert self._code is not None
        code: list[str] = []
        while lines:
            line = lines.pop(0)
            if self._code.is_closed_by(line):
                rows = [*self._code.rows(code), Text("─" * _RULE, _DIM)]
                self._code = None
                return rows
            code.append(line)
        return self._code.rows(code)

    # -- lines ---------------------------------------------------------------------

    def _feed_line(self, line: str, width: int, *, is_complete: bool) -> list[Text]:
        """Take a line that is not code, or its beginning."""
        if self._wrapper is not None:
            return self._feed_paragraph(line, width, is_complete)
        rows: list[Text] = []
        if self._table:
            is_part = is_table_line(line) or (
                len(self._table) == 1 and is_table_rule(line)
            )
            if is_part or (not is_complete and not line.strip()):
                if is_complete:
                    self._table.append(line)
                return rows
            rows = self._end_table(width)
        is_known = _PARAGRAPH.match(line) or len(line.strip()) >= _ENOUGH
        if not is_complete and (_WHOLE.match(line) or not is_known):
            return rows
        if is_complete and (whole := self._whole_line(line)) is not None:
            return [*rows, *whole]
        return [*rows, *self._begin_line(line, width, is_complete)]

    def _whole_line(self, line: str) -> list[Text] | None:
        """Return the rows of a line that is one of these only as a whole, else None."""
        if not line.strip():
            return [Text()]
        if is_table_line(line):
            self._table.append(line)
            return []
        if fence := _FENCE.fullmatch(line):
            self._code = CodeBlock(fence[2], len(fence[1]), fence[3])
            name = f" {fence[3]} " if fence[3] else ""
            return [Text(f"──{name}".ljust(_RULE, "─"), _DIM)]
        if _LINE.fullmatch(line):
            return [Text("─" * _RULE, _DIM)]
        return None

    def _begin_line(self, line: str, width: int, is_complete: bool) -> list[Text]:
        self._style, prefix, text = "", "", line
        if heading := _HEADING.match(line):
            self._style = "bold underline" if len(heading[1]) == 1 else "bold"
            text = line[heading.end() :]
            if is_complete:
                text = re.sub(r"\s+#+\s*\Z", "", text)
        elif quote := _QUOTE.match(line):
            self._style, text = _DIM, line[quote.end() :]
            prefix = "│ " * quote[1].count(">")
        elif bullet := _BULLET.match(line):
            box = {None: "•", " ": "☐"}.get(bullet[2], "☑")
            prefix, text = f"{bullet[1]}{box} ", line[bullet.end() :]
        elif number := _NUMBER.match(line):
            prefix, text = number[0], line[number.end() :]
        else:
            text = line.lstrip(" ")
            prefix = line[: len(line) - len(text)]
        prefix = prefix[: width // 2]
        self._wrapper = WordWrap([Piece(prefix, self._style)], len(prefix))
        self._before = ""
        return self._feed_paragraph(text, width, is_complete)

    def _feed_paragraph(self, text: str, width: int, is_complete: bool) -> list[Text]:
        assert self._wrapper is not None
        inline = parse_inline(
            text,
            style=self._style,
            before=self._before,
            is_complete=is_complete,
            has_marks=self._has_marks,
        )
        rows = self._wrapper.add(inline.pieces, width)
        self._source, self._before = inline.rest, inline.last
        if is_complete:
            rows += self._wrapper.end(width) or [Text()]
            self._wrapper, self._style = None, ""
        return rows

    # -- tables --------------------------------------------------------------------

    def _end_table(self, width: int) -> list[Text]:
        """Return the rows of the table, or its lines if it has no rule."""
        lines, self._table = self._table, []
        if len(lines) > 1 and is_table_rule(lines[1]):
            return draw_table(lines, width, self._parse_cell)
        rows: list[Text] = []
        for line in lines:
            wrapper = WordWrap()
            rows += wrapper.add(self._parse_cell(line, ""), width)
            rows += wrapper.end(width)
        return rows

    def _parse_cell(self, text: str, style: str) -> list[Piece]:
        return parse_inline(text, style=style, has_marks=self._has_marks).pieces
