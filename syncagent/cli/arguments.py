"""Arguments that several commands have."""

from __future__ import annotations

import argparse
import re
from typing import Final

__all__ = ["add_trust", "count", "duration", "position"]

_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)", re.ASCII)


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add ``--trust-mcp`` to a command."""
    parser.add_argument(
        "--trust-mcp",
        action="store_true",
        help="start the servers of the files without asking: such a file is code that "
        "runs with your rights",
    )


def count(text: str) -> int:
    """Return an argument that is a positive integer."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a positive integer; got {text!r}")
    return int(text)


def position(text: str) -> int:
    """Return an argument that is a number of events or messages."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(
            f"must be a non-negative integer; got {text!r}"
        )
    return int(text)


def duration(text: str) -> float:
    """Return an argument such as ``90``, ``15m``, ``12h`` or ``7d`` in seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"must be a number of seconds, or one with s, m, h or d; got {text!r}"
        )
    return float(match[1]) * _UNITS[match[2]]
