"""Read the command line and go to the command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, TextIO

from .. import __version__
from ..cancel import CancelToken, cancel_on_signals
from ..exceptions import Cancelled, SyncAgentError
from .exit_codes import EXIT_CANCELLED, EXIT_FAILED, exit_code_of
from .plain_text import on_one_line
from .streams import OutputStream, mend_standard_streams

__all__ = ["COMMANDS", "main"]

#: Each is a module beside this one, with a SUMMARY, perhaps ``add_arguments(parser)``,
#: and ``run(options, token)``, which returns the exit code.
COMMANDS: Final = ("chat", "run", "demo", "doctor", "models", "timeline")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that *arguments* (by default the command line's) name.

    :return: the exit code: 0 done; 1 failed, or not done: a limit, a refusal; 2 wrong
        usage; 124 the deadline has passed; 130 cancelled, by Ctrl+C as a rule; 143
        ended by SIGTERM.
    """
    mend_standard_streams()
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        options = _parser(given).parse_args(given)
        with cancel_on_signals() as token:
            code = _run(options, token)
    except KeyboardInterrupt:  # the second Ctrl+C, or one before the first could count
        over = CancelToken()
        over.cancel()
        code = _say("syncagent: cancelled", EXIT_CANCELLED, over)
    _write_rest()
    return code


def _run(options: argparse.Namespace, token: CancelToken) -> int:
    try:
        code = int(options.run(options, token))
        sys.stdout.flush()
    except Cancelled as cancelled:
        how = "timeout" if cancelled.origin == "deadline" else "cancelled"
        code = exit_code_of(cancelled.reason, cancelled.origin)
        return _say(f"syncagent: {how}", code, token)
    except BrokenPipeError:  # "syncagent models | head" has seen enough
        _drop(sys.stdout)
        return EXIT_FAILED
    except SyncAgentError as error:  # expected: it says what to do
        return _say(f"syncagent: {on_one_line(str(error))}", EXIT_FAILED, token)
    except OSError as error:  # a disk that is full, a file that is not there
        _drop(sys.stdout)
        return _say(f"syncagent: {on_one_line(str(error))}", EXIT_FAILED, token)
    return code


def _say(line: str, code: int, token: CancelToken) -> int:
    """Write *line* to standard error, if anybody reads that; return *code*."""
    errors = OutputStream(sys.stderr, token)
    is_after_keys = errors.is_terminal and code == EXIT_CANCELLED  # ^C on the screen
    try:
        errors.write("\n" * is_after_keys + f"{line}\n")
    except OSError:
        pass
    return code


def _write_rest() -> None:
    """Write what is left, or drop it: Python would exit with a code of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # the window was closed, the disk is full
            _drop(stream)


def _drop(stream: TextIO) -> None:
    """Have nothing more written to a stream, at the exit of Python neither."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    except (OSError, ValueError):
        pass
    finally:
        os.close(nowhere)


def _parser(given: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="syncagent", description="A synchronous agent SDK whose runs stop at once."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    # Nobody waits for what the other commands import.
    for name in given[:1] if given[:1] and given[0] in COMMANDS else COMMANDS:
        module = import_module(f".{name}", __package__)
        summary = module.SUMMARY
        command = commands.add_parser(name, help=summary, description=summary)
        if hasattr(module, "add_arguments"):
            module.add_arguments(command)
        command.set_defaults(run=module.run, parser=command)
    return parser
