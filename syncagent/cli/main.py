"""Read the command line and go to the command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from .. import __version__
from ..cancel import cancel_on_signals
from ..exceptions import Cancelled

EXIT_FAILED: Final = 1
#: What a shell shows for a program that Ctrl+C has ended.
EXIT_CANCELLED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that *arguments* (by default the command line's) name.

    :return: the exit code: 0 done, 1 failed, 2 wrong usage, 130 cancelled.
    """
    options = _parser().parse_args(arguments)
    with cancel_on_signals() as token:
        try:
            code = int(options.run(token))
            sys.stdout.flush()
        except Cancelled:
            print("\ncancelled", file=sys.stderr)
            return EXIT_CANCELLED
        except BrokenPipeError:  # "syncagent models | head" has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_FAILED
        return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="syncagent", description="A synchronous agent SDK whose runs stop at once."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_models(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from . import demo

    command = commands.add_parser("demo", help=demo.SUMMARY, description=demo.SUMMARY)
    command.set_defaults(run=demo.run)


def _add_models(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from . import models

    command = commands.add_parser(
        "models", help=models.SUMMARY, description=models.SUMMARY
    )
    command.set_defaults(run=models.run)
