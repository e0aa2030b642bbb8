"""The entry point: parse the command line and run the command."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TextIO

from .. import __version__
from ..cancel import CancelToken, cancel_on_signals
from ..exceptions import Cancelled, SyncAgentError
from .exit_codes import (
    EXIT_CANCELLED,
    EXIT_FAILED,
    exit_code_of,
    exit_code_of_error,
)
from .streams import OutputStream, mend_standard_streams
from .wording import error_line

if TYPE_CHECKING:
    from ..stores import RunStore

__all__ = ["COMMANDS", "STORE_COMMANDS", "main"]

#: The commands for stores of runs.
STORE_COMMANDS: Final = (
    *("runs", "cancel", "answer", "follow"),
    *("inbox", "audit", "conversations", "store"),
)
#: Each is a module or package here with a ``SUMMARY``, ``run(options, token)``, which
#: returns the exit code, and optionally ``add_arguments(parser)``.
COMMANDS: Final = (
    *("chat", "run", "demo", "doctor", "models", "timeline", "mcp"),
    *STORE_COMMANDS,
)
#: Commands that show their actions if none is given.
_GROUPS: Final = (["mcp"], ["store"])


def main(
    arguments: Sequence[str] | None = None,
    *,
    store: RunStore | str | None = None,
    prog: str = "syncagent",
) -> int:
    """Run the command named by *arguments*, by default those of the command line.

    Every error ends here with a documented code, also when standard error is gone:
    Python would exit with 120, its own code for a stream that it could not flush.

    :param store: the store of an application, whose own command this is; then there
        are only the commands for stores.
    :param prog: the name of that command.
    :return: the exit code: 0 done; 1 failed, or stopped by a limit or a refusal; 2
        wrong usage; 3 to 6 of the commands for stores; 7 an MCP server that cannot be
        started or reached; 124 timeout; 130 cancelled, mostly by Ctrl+C; 143 SIGTERM.
    """
    mend_standard_streams()
    try:
        argv = sys.argv[1:] if arguments is None else list(arguments)
        if not argv or argv in _GROUPS:
            argv = [*argv, "--help"]
        options, unknown = _parser(argv, store, prog).parse_known_args(argv)
        if unknown:  # argparse would print the usage of the program, not the command's
            options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        with cancel_on_signals() as token:
            return _run(options, token)
    except KeyboardInterrupt:  # the second Ctrl+C, or one before the first could count
        token = CancelToken()
        token.cancel()
        return _report("syncagent: cancelled", EXIT_CANCELLED, token)
    except Exception:  # a defect of ours, or of a tool's module
        with suppress(OSError):
            traceback.print_exc()
        return EXIT_FAILED
    finally:
        # Leave nothing for Python to flush at its exit, where a failure means 120.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):  # the window was closed, the disk is full
                _drop(stream)


def _run(options: argparse.Namespace, token: CancelToken) -> int:
    try:
        code = int(options.run(options, token))
        sys.stdout.flush()
    except Cancelled as cancelled:
        how = "timeout" if cancelled.origin == "deadline" else "cancelled"
        code = exit_code_of(cancelled.reason, cancelled.origin)
        return _report(f"syncagent: {how}", code, token)
    except BrokenPipeError:  # "syncagent models | head" has seen enough
        _drop(sys.stdout)
        return EXIT_FAILED
    except SyncAgentError as error:  # its message says what to do
        code = exit_code_of_error(error)
        return _report(f"syncagent: {error_line(str(error))}", code, token)
    except OSError as error:  # a full disk, a missing file
        _drop(sys.stdout)
        return _report(f"syncagent: {error_line(str(error))}", EXIT_FAILED, token)
    return code


def _report(line: str, code: int, token: CancelToken) -> int:
    """Write *line* to standard error if it can be written; return *code*."""
    errors = OutputStream(sys.stderr, token)
    is_after_keys = errors.is_terminal and code == EXIT_CANCELLED  # ^C on the screen
    with suppress(OSError):
        errors.write("\n" * is_after_keys + f"{line}\n")
    return code


def _drop(stream: TextIO) -> None:
    """Send the rest of *stream*, including its buffer, to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        with suppress(OSError, ValueError):
            os.dup2(null, stream.fileno())
    finally:
        os.close(null)


class _Parser(argparse.ArgumentParser):
    """Exits with its own code also when its message cannot be written."""

    def _print_message(self, message: str, file: Any = None) -> None:
        # Python 3.11 does this itself; 3.10 lets the error out.
        with suppress(OSError):
            super()._print_message(message, file)


def _parser(
    argv: list[str], store: RunStore | str | None, prog: str
) -> argparse.ArgumentParser:
    description = "A synchronous agent SDK whose runs stop at once."
    parser = _Parser(prog=prog, description=description)
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    known = COMMANDS if store is None else STORE_COMMANDS
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    # Import only the command that is called: the others would slow down its start.
    for name in argv[:1] if argv[:1] and argv[0] in known else known:
        module = import_module(f".{name}", __package__)
        summary = module.SUMMARY
        command = commands.add_parser(name, help=summary, description=summary)
        if hasattr(module, "add_arguments"):
            module.add_arguments(command)
        command.set_defaults(run=module.run, parser=command)
        if store is not None:
            command.set_defaults(store=store)
    return parser
