"""The command ``syncagent timeline``."""

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
from ..timeline import read_timeline, render_html, render_text

SUMMARY: Final = "draw a run that was recorded with record="

#: An encoding that lacks one of these characters gets a drawing in ASCII.
_DRAWN_WITH: Final = "─░▒█╌■┄▨▣·═│◆┬µ…"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "recording", metavar="RUN.jsonl", help="a file written by record="
    )
    parser.add_argument(
        "-o", "--output", metavar="RUN.html", help="write a self-contained page"
    )
    parser.add_argument(
        "--text", action="store_true", help="draw it here, also if a page is written"
    )
    parser.add_argument("--width", type=int, help="columns, by default the terminal's")
    parser.add_argument("--ascii", action="store_true", help="use only ASCII")


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Draw the recording; return the exit code."""
    timeline = read_timeline(options.recording, token=token)
    if options.output is not None:
        path, page = Path(options.output), render_html(timeline)
        try:
            if path.exists() and path.samefile(options.recording):
                raise ConfigurationError(
                    f"-o {path} would overwrite the recording; choose another name"
                )
            # For its owner only, as the recording: it holds the same.
            with open(
                *(path, "w"),
                encoding="utf-8",
                opener=lambda name, flags: os.open(name, flags, 0o600),
            ) as file:
                file.write(page)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigurationError(f"cannot write {path}: {reason}") from None
    if options.text or options.output is None:
        encoding = sys.stdout.encoding or "ascii"
        text = render_text(
            timeline,
            width=options.width or shutil.get_terminal_size((100, 24)).columns,
            colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
            ascii_only=options.ascii or b"?" in _DRAWN_WITH.encode(encoding, "replace"),
        )
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    if options.output is not None:
        with suppress(OSError):  # the page is written, with or without this line
            print(f"written to {options.output}", file=sys.stderr)
    return 0
