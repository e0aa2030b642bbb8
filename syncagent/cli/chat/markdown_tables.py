"""Tables of Markdown, drawn once they are complete."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from rich.text import Text

from .inline_markdown import Piece
from .word_wrap import WordWrap

__all__ = ["draw_table", "is_table_line", "is_table_rule"]

_RULE: Final = re.compile(r"\s*\|?(\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?\s*")
_CELL: Final = re.compile(r"(?:`+[^`]*`+|\\.|[^|\\`]|`)*")
#: By whether there is a colon at the beginning and at the end of the rule.
_SIDES: Final = {(True, True): "center", (False, True): "right"}
_FRAME: Final = "bright_black"
_BREAK: Final = re.compile(r"\s*<br\s*/?>\s*", re.IGNORECASE)

#: Parses the text of a cell, in a style.
Parse = Callable[[str, str], list[Piece]]


def is_table_line(line: str) -> bool:
    """Return whether *line* can be one of a table."""
    return line.lstrip().startswith("|")


def is_table_rule(line: str) -> bool:
    """Return whether *line* is the one below the head."""
    return "-" in line and _RULE.fullmatch(line) is not None


def draw_table(lines: list[str], width: int, parse: Parse) -> list[Text]:
    """Return the rows of a table: words stay whole, whatever the width.

    A table that cannot be as narrow as that becomes a list of its cells.

    :param lines: the head, the rule below it, and the rows.
    """
    head, rule, *rows = [_cells(line) for line in lines]
    count = max(len(head), *(len(row) for row in rows), 1)
    table = [
        [
            parse(cell, "bold" if number == 0 else "")
            for cell in [*row, *[""] * (count - len(row))]
        ]
        for number, row in enumerate([head, *rows])
    ]
    colons = [(cell.startswith(":"), cell.endswith(":")) for cell in rule]
    sides = [_SIDES.get(each, "left") for each in colons] + ["left"] * count
    columns = list(zip(*table, strict=True))
    least, most = (
        [
            max(row.cell_len for cell in column for row in _wrapped(cell, room))
            for column in columns
        ]
        for room in (1, 1_000_000)  # every word a row, every cell a row
    )
    room = width - 3 * (count - 1)
    if sum(least) > room:
        return _as_list(table, width)
    spare = room - sum(least)
    wish = sum(most) - sum(least)
    share = 1.0 if wish <= spare else spare / wish
    widths = [
        low + int((high - low) * share) for low, high in zip(least, most, strict=True)
    ]
    result = _drawn(table[0], widths, sides)
    result.append(Text("─┼─".join("─" * each for each in widths), _FRAME))
    for cells in table[1:]:
        result += _drawn(cells, widths, sides)
    return result


def _cells(line: str) -> list[str]:
    text = line.strip().removeprefix("|")
    cells = []
    while text:
        match = _CELL.match(text)
        assert match is not None
        cells.append(_BREAK.sub(" ", match[0].strip()).replace("\\|", "|"))
        text = text[match.end() + 1 :]
    return cells


def _wrapped(cell: list[Piece], width: int) -> list[Text]:
    wrapper = WordWrap()
    return [*wrapper.add(cell, width), *wrapper.end(width)] or [Text()]


def _drawn(
    cells: Iterable[list[Piece]], widths: list[int], sides: list[str]
) -> list[Text]:
    columns = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    rows = []
    for number in range(max(map(len, columns))):
        row = Text()
        for place, (column, width) in enumerate(zip(columns, widths, strict=True)):
            if place:
                row.append(" │ ", _FRAME)
            cell = column[number] if number < len(column) else Text()
            spare = max(0, width - cell.cell_len)
            left = {"right": spare, "center": spare // 2}.get(sides[place], 0)
            row.append(" " * left).append_text(cell).append(" " * (spare - left))
        row.rstrip()
        rows.append(row)
    return rows


def _as_list(table: list[list[list[Piece]]], width: int) -> list[Text]:
    head, *rows = table
    result: list[Text] = []
    for row in rows:
        if result:
            result.append(Text("─" * min(width, 20), _FRAME))
        for name, cell in zip(head, row, strict=True):
            label = [*name, Piece(": ", "bold")] if name else []
            result += _wrapped([*label, *cell], width) if cell else []
    return result or [row for cell in head for row in _wrapped(cell, width)]
