"""Draw a timeline as text: bars of characters, fitted to the width of a terminal."""

from __future__ import annotations

import textwrap
import unicodedata
from itertools import groupby
from typing import Final

from . import formatting
from .drawing import clean, facts, is_fine, look_of, ticks
from .spans import Row, Timeline

__all__ = ["render_text"]

#: The smallest width that can show anything.
_MIN_WIDTH: Final = 40

_BLOCKS: Final = {
    "run": "─",
    "connect": "░",
    "await": "▒",
    "stream": "█",
    "retry": "╌",
    "tool": "■",
    "wait": "┄",
    "stopped": "▨",
    "bad": "▣",
    "none": "·",
    "thread": "═",
    "cancel": "│",
    "late": "◆",
    "tick": "┬",
}
_ASCII: Final = {
    "run": "-",
    "connect": ".",
    "await": ":",
    "stream": "#",
    "retry": "~",
    "tool": "=",
    "wait": "_",
    "stopped": "%",
    "bad": "!",
    "none": "'",
    "thread": "-",
    "cancel": "|",
    "late": "*",
    "tick": "+",
}
_COLOURS: Final = {
    "run": "2",
    "connect": "2",
    "await": "36",
    "stream": "34",
    "retry": "33",
    "tool": "32",
    "wait": "33",
    "stopped": "31",
    "bad": "31",
    "none": "2",
    "thread": "2",
    "cancel": "1;31",
    "late": "1;31",
    "good": "1;32",
    "title": "1",
}
#: ASCII characters in place of others.
_PLAIN: Final = str.maketrans({"µ": "u", "≈": "~", "·": "-", "…": "~"})


def render_text(
    timeline: Timeline,
    *,
    width: int = 80,
    colour: bool = False,
    ascii_only: bool = False,
) -> str:
    """Return *timeline* as lines of text.

    :param width: number of columns.
    :param colour: True to colour it with the escape sequences of a terminal.
    :param ascii_only: True to use ASCII characters only.
    """
    return _Drawing(timeline, width, colour, ascii_only).draw()


class _Drawing:
    def __init__(
        self, timeline: Timeline, width: int, colour: bool, ascii_only: bool
    ) -> None:
        self._timeline = timeline
        self._colour = colour
        self._is_ascii = ascii_only
        self._signs = _ASCII if ascii_only else _BLOCKS
        width = max(width, _MIN_WIDTH)
        titles = [_size(self._title(row)) for row in timeline.rows]
        self._left = max(8, min(max(titles, default=8), width // 3))
        ends = [_size(self._ending(row)) for row in timeline.rows]
        self._right = min(max(ends, default=6), width // 3)
        self._middle = max(8, width - self._left - self._right - 2)
        self._seconds = timeline.seconds or 1.0
        self._width = width

    def draw(self) -> str:
        lines = [*self._head(), "", *self._axis()]
        lines += [self._line(row) for row in self._timeline.rows]
        lines += self._after_cancel()
        notes = [f"! {clean(note)}" for note in self._timeline.notes]
        if notes:
            lines += ["", *notes]
        text = "\n".join(line.rstrip() for line in lines) + "\n"
        if self._is_ascii:
            text = text.translate(_PLAIN).encode("ascii", "replace").decode()
        return text

    def _head(self) -> list[str]:
        summary = self._timeline.summary
        stop = self._paint(
            summary.stop_reason, "good" if is_fine(summary.stop_reason) else "cancel"
        )
        name = self._paint(f"run {summary.run_id[:8]}", "title")
        model = f"  {clean(summary.model)}" if summary.model else ""
        figures = ", ".join(f"{name} {value}" for name, value in facts(self._timeline))
        lines = [f"{name}{model}  {stop}", *self._wrap(figures)]
        if summary.cancellation:
            lines += self._wrap(f"cancelled {summary.cancellation}")
        lines += self._wrap(summary.error)
        if summary.prompt:
            lines.append(self._cut(f"> {summary.prompt}", self._width))
        return lines

    # -- the drawing ---------------------------------------------------------------

    def _axis(self) -> list[str]:
        marks, names = [" "] * self._middle, [" "] * self._middle
        for at, name in ticks(self._timeline.seconds, max(1, self._middle // 14)):
            place = self._place(at)
            marks[place] = self._signs["tick"]
            begin = min(place, self._middle - len(name))
            if begin >= 0 and not "".join(names[max(0, begin - 1) :]).strip():
                names[begin : begin + len(name)] = name
        for cancel in self._timeline.cancels:
            marks[self._place(cancel.at)] = self._signs["cancel"]
        indent = " " * (self._left + 1)
        line = "".join(
            self._paint(
                mark.strip(), "cancel" if mark == self._signs["cancel"] else "run"
            )
            or mark
            for mark in marks
        )
        return [indent + "".join(names), indent + line]

    def _line(self, row: Row) -> str:
        cells: list[tuple[str, str]] = [(" ", "")] * self._middle
        for cancel in self._timeline.cancels:
            cells[self._place(cancel.at)] = (self._signs["cancel"], "cancel")
        segments = [(look_of(row, part), part.begin, part.end) for part in row.segments]
        for look, begin, end in segments or [(row.kind, row.begin, row.end)]:
            first, last = self._place(begin), self._place(end)
            for place in range(first, max(first, last - 1) + 1):
                cells[place] = (self._signs[look], look)
        if row.after_cancel is not None:
            cells[self._place(row.end)] = (self._signs["late"], "late")
        bars = "".join(
            self._paint("".join(sign for sign, _ in group), look)
            for look, group in groupby(cells, key=lambda cell: cell[1])
        )
        ending = self._ending(row)
        is_fine_row = row.outcome in ("", "done") or is_fine(row.outcome)
        look = "" if is_fine_row and row.after_cancel is None else "stopped"
        return (
            f"{self._pad(self._title(row), self._left)} {bars} "
            f"{self._paint(self._cut(ending, self._right), look)}"
        )

    def _place(self, at: float) -> int:
        share = min(max(at / self._seconds, 0.0), 1.0)
        return min(int(share * self._middle), self._middle - 1)

    def _title(self, row: Row) -> str:
        where = " [process]" if row.in_process else ""
        hint = f" {row.hint}" if row.hint else ""
        return clean("  " * row.depth + row.title + where + hint)

    def _ending(self, row: Row) -> str:
        parts = [formatting.duration(row.seconds)]
        if row.is_open:
            parts.append("still running")
        elif row.outcome not in ("", "done"):
            parts.append(clean(row.outcome))
        return "  ".join(parts)

    def _after_cancel(self) -> list[str]:
        late = [row for row in self._timeline.rows if row.after_cancel is not None]
        if not late:
            return []
        lines = ["", "Time from the cancel to the end of each part:"]
        for row in late:
            title = self._pad(self._title(row), self._left)
            took = formatting.duration(row.after_cancel or 0.0)
            outcome, where = clean(row.outcome), clean(row.thread)
            lines.append(f"{title} {took:>9}  {outcome:<12} {where}")
        return lines

    # -- characters ----------------------------------------------------------------

    def _paint(self, text: str, look: str) -> str:
        """Return *text* in its colour, and with no other escape than that."""
        text, code = clean(text), _COLOURS.get(look, "")
        return f"\033[{code}m{text}\033[0m" if self._colour and code and text else text

    def _wrap(self, text: str) -> list[str]:
        return textwrap.wrap(clean(text), self._width, max_lines=4)

    def _pad(self, text: str, width: int) -> str:
        text = self._cut(text, width)
        return text + " " * (width - _size(text))

    @staticmethod
    def _cut(text: str, width: int) -> str:
        text = clean(text)
        if _size(text) <= width:
            return text
        while text and _size(text) > width - 1:
            text = text[: width - 1] if len(text) > width else text[:-1]
        return text + "…"


def _size(text: str) -> int:
    """Return the number of columns that *text* takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )
