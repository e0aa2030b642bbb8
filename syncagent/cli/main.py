"""Read the command line and go to the command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from .. import __version__
from ..cancel import cancel_on_signals
from ..exceptions import Cancelled, SyncAgentError

EXIT_FAILED: Final = 1
#: What a shell shows for a program that Ctrl+C has ended.
EXIT_CANCELLED: Final = 130

#: Each is a module beside this one, with a SUMMARY, perhaps ``add_arguments(parser)``,
#: and ``run(options, token)``, which returns the exit code.
COMMANDS: Final = ("chat", "demo", "models")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that *arguments* (by default the command line's) name.

    :return: the exit code: 0 done, 1 failed, 2 wrong usage, 130 cancelled.
    """
    options = _parser().parse_args(arguments)
    with cancel_on_signals() as token:
        try:
            code = int(options.run(options, token))
            sys.stdout.flush()
        except Cancelled:
            print("\ncancelled", file=sys.stderr)
            return EXIT_CANCELLED
        except SyncAgentError as error:  # expected: it says what to do
            print(f"syncagent: {error}", file=sys.stderr)
            return EXIT_FAILED
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
    for name in COMMANDS:
        module = import_module(f".{name}", __package__)
        summary = module.SUMMARY
        command = commands.add_parser(name, help=summary, description=summary)
        if hasattr(module, "add_arguments"):
            module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser
