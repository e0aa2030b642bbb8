"""Draw a run that was recorded with ``record=``."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..cancel import CancelToken
from ..exceptions import ConfigurationError
from ..timeline import Timeline, read_timeline, render_html, render_text

SUMMARY: Final = "draw a run that was recorded with record="

#: What the text needs at least, if it is not to be plain ASCII.
_PROBE: Final = "─░▒█╌■┄▨▣·═│◆┬µ…"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument(
        "recording", metavar="RUN.jsonl", help="what record= has written"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="RUN.html",
        help="write a page, which needs nothing else",
    )
    parser.add_argument(
        "--text", action="store_true", help="draw it here, also if a page is written"
    )
    parser.add_argument("--width", type=int, help="columns, by default the terminal's")
    parser.add_argument("--ascii", action="store_true", help="no other characters")


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Draw it; return the exit code."""
    timeline = read_timeline(options.recording, token=token)
    if options.output is not None:
        _write(Path(options.output), render_html(timeline), options.recording)
    if options.text or options.output is None:
        _show(timeline, options)
    if options.output is not None:
        with suppress(OSError):  # the page is there, with or without this line
            print(f"written to {options.output}", file=sys.stderr)
    return 0


def _write(path: Path, page: str, recording: str) -> None:
    try:
        if path.exists() and path.samefile(recording):
            raise ConfigurationError(
                f"-o {path} is the recording itself, and would be lost; give the page "
                "another name"
            )
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigurationError(f"{path} cannot be written: {why}") from None


def _show(timeline: Timeline, options: argparse.Namespace) -> None:
    out = sys.stdout
    width = options.width or shutil.get_terminal_size((100, 24)).columns
    text = render_text(
        timeline,
        width=width,
        colour=out.isatty() and not os.environ.get("NO_COLOR"),
        ascii_only=options.ascii or not _can_say(out.encoding),
    )
    out.write(text.encode(out.encoding or "ascii", "replace").decode(out.encoding))


def _can_say(encoding: str | None) -> bool:
    try:
        _PROBE.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
