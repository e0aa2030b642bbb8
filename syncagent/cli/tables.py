"""Tables and lines of JSON on standard output."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from .colours import Paint
from .plain_text import harmless, on_one_line
from .rows import clip, columns
from .store_access import SHORTEST

__all__ = ["age_text", "print_json", "print_table", "short_ids", "time_text"]

#: How many characters of an id are shown on a terminal, at least.
_ID: Final = SHORTEST + 4
#: How wide the last column should be before optional ones are shown.
_LAST: Final = 24


def print_json(values: Iterable[Any]) -> None:
    """Print each value as a line of JSON; control characters stay off a terminal."""
    is_terminal = sys.stdout.isatty()
    for value in values:
        line = msgspec.json.encode(value, enc_hook=repr).decode()
        print(harmless(line) if is_terminal else line)


def print_table(
    table: Mapping[str, Sequence[str]],
    widest: Mapping[str, int],
    styles: Mapping[str, str],
    styled: str,
) -> None:
    """Print columns; as wide as the terminal, or complete if there is no terminal.

    :param table: the cells of each column; the last column gets the rest of the line.
    :param widest: how wide columns may be on a terminal. They go, in this order, if
        the last one has too little room.
    :param styles: the colours of the cells of the column *styled*.
    """
    cells = {name: [*map(on_one_line, values)] for name, values in table.items()}
    if sys.stdout.isatty():
        _fit(cells, widest, shutil.get_terminal_size((80, 24)).columns)
    paint = Paint()
    widths = {name: _width(name, values) for name, values in cells.items()}
    last = [*cells][-1]
    for number in range(-1, len(cells[last])):
        line = []
        for name, values in cells.items():
            text = name if number < 0 else values[number]
            padding = "" if name == last else " " * (widths[name] - columns(text))
            style = "bold" if number < 0 else styles.get(text, "dim")
            is_painted = number < 0 or name == styled
            line.append((paint(text, style) if is_painted else text) + padding)
        print("  ".join(line).rstrip())


def _fit(cells: dict[str, list[str]], widest: Mapping[str, int], width: int) -> None:
    """Shorten columns, and remove some, until a line has *width* columns."""
    last = [*cells][-1]

    def room() -> int:
        """Return the columns that are left for the last one."""
        others = [_width(name, cells[name]) + 2 for name in cells if name != last]
        return width - sum(others)

    for name, limit in widest.items():
        cells[name] = [clip(cell, limit) for cell in cells[name]]
        if not any(cells[name]):
            del cells[name]
    for name in widest:
        if room() < _LAST:
            cells.pop(name, None)
    left = room()
    if left < len(last):
        del cells[last]
    else:
        cells[last] = [clip(cell, left) for cell in cells[last]]


def _width(name: str, values: Sequence[str]) -> int:
    return max(map(columns, (name, *values)))


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Return as much of each id as tells it from the others here, on a terminal."""
    whole = dict.fromkeys(ids)
    if not sys.stdout.isatty():
        return {id: id for id in whole}
    length = _ID
    while len({id[:length] for id in whole}) < len(whole):
        length += 1
    return {id: id[:length] for id in whole}


def age_text(seconds: float) -> str:
    """Return an age in its largest unit: ``5s``, ``12m``, ``3h`` or ``2d``."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{max(seconds, 0.0):.0f}s"


def time_text(seconds: float) -> str:
    """Return a time since 1970 as the date and the time of this place."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
