"""The command ``syncagent runs``: list the runs of a store."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from ..cancel import CancelToken
from ..messages import Text
from .arguments import count
from .colours import Paint
from .plain_text import on_one_line
from .rows import clip, columns
from .store_access import SHORTEST, add_store, opened_store

if TYPE_CHECKING:
    from ..stores import StoredRun

__all__ = ["SUMMARY", "add_arguments", "age_text", "run"]

SUMMARY: Final = "list the runs of a store, newest first"

#: How many characters of an id are shown on a terminal, at least.
_ID: Final = SHORTEST + 4
#: The widest that columns may be on a terminal.
_WIDEST: Final = {"AGENT": 16, "OWNER": 20, "WORKER": 24}
#: Columns that go, in this order, until the prompt has enough room.
_OPTIONAL: Final = ("WORKER", "AGENT", "OWNER")
_PROMPT: Final = 24
#: The longest beginning of a prompt in a pipe.
_PIPED_PROMPT: Final = 200
_STYLES: Final = {
    "running": "green",
    "waiting": "yellow",
    "cancelling": "yellow",
    "queued": "cyan",
    "failed": "red",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_store(parser)
    parser.add_argument("--owner", metavar="NAME", help="only runs of this owner")
    parser.add_argument(
        "--live", action="store_true", help="only runs that have not ended"
    )
    parser.add_argument(
        "--limit", metavar="N", type=count, default=50, help="at most N; by default 50"
    )
    parser.add_argument("--json", action="store_true", help="write lines of JSON")


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Print a line for each run.

    Cancellation: ends at once.

    :return: 0.
    :raises StoreUnavailable: the store is unavailable.
    """
    with opened_store(options, token) as store:
        live = True if options.live else None
        runs = store.list(owner=options.owner, live=live, limit=options.limit)
    if options.json:
        for each in runs:
            print(msgspec.json.encode(each, enc_hook=repr).decode())
    elif runs:
        _print_table(runs)
    else:
        kind = "live runs" if options.live else "runs"
        print(f"There are no {kind}.", file=sys.stderr)
    return 0


def _print_table(runs: Sequence[StoredRun]) -> None:
    """Print the runs; as wide as the terminal, or complete if there is no terminal."""
    is_terminal = sys.stdout.isatty()
    table = {
        "ID": _short_ids(runs) if is_terminal else [each.id for each in runs],
        "STATE": [
            "cancelling" if each.is_live and each.cancel is not None else each.state
            for each in runs
        ],
        "AGENT": [each.agent for each in runs],
        "OWNER": [each.owner for each in runs],
        "AGE": [age_text(time.time() - each.created_at) for each in runs],
        "WORKER": [each.worker for each in runs],
        "PROMPT": [
            on_one_line(
                " ".join(b.text for b in each.prompt.content if isinstance(b, Text)),
                _PIPED_PROMPT,
            )
            for each in runs
        ],
    }
    if is_terminal:
        _fit(table, shutil.get_terminal_size((80, 24)).columns)
    paint = Paint()
    widths = {name: max(map(columns, (name, *cells))) for name, cells in table.items()}
    last = [*table][-1]
    for number in range(-1, len(runs)):
        cells = []
        for name, values in table.items():
            text = name if number < 0 else on_one_line(values[number])
            padding = "" if name == last else " " * (widths[name] - columns(text))
            style = "bold" if number < 0 else _STYLES.get(text, "dim")
            is_painted = number < 0 or name == "STATE"
            cells.append((paint(text, style) if is_painted else text) + padding)
        print("  ".join(cells).rstrip())


def _fit(table: dict[str, list[str]], width: int) -> None:
    """Shorten columns, and remove some, until a line has *width* columns."""

    def room() -> int:
        """Return the columns that are left for the prompt."""
        others = [
            max(map(columns, (name, *cells))) + 2
            for name, cells in table.items()
            if name != "PROMPT"
        ]
        return width - sum(others)

    for name in _OPTIONAL:
        table[name] = [clip(on_one_line(cell), _WIDEST[name]) for cell in table[name]]
        if not any(table[name]):
            del table[name]
    for name in _OPTIONAL:
        if room() < _PROMPT:
            table.pop(name, None)
    left = room()
    if left < len("PROMPT"):
        del table["PROMPT"]
    else:
        table["PROMPT"] = [clip(cell, left) for cell in table["PROMPT"]]


def _short_ids(runs: Sequence[StoredRun]) -> list[str]:
    """Return as much of each id as tells it from the others here."""
    ids = [each.id for each in runs]
    length = _ID
    while len({id[:length] for id in ids}) < len(ids):
        length += 1
    return [id[:length] for id in ids]


def age_text(seconds: float) -> str:
    """Return an age in its largest unit: ``5s``, ``12m``, ``3h`` or ``2d``."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{max(seconds, 0.0):.0f}s"
