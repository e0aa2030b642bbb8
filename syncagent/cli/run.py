"""The command ``syncagent run``: one prompt, the response on standard output."""

from __future__ import annotations

import argparse
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from ..agent import Agent
from ..cancel import CancelToken
from ..events import RunFinished
from ..exceptions import Cancelled, SyncAgentError
from ..policies import Limits
from ..result import RunResult
from .arguments import count
from .choices import (
    TOOL_DEFAULTS,
    TRY,
    add_choices,
    choose_model,
    choose_tools,
    seconds,
)
from .display import EventDisplay, JsonDisplay, TextDisplay
from .exit_codes import EXIT_FAILED, exit_code_of
from .formatting import end_text, run_text
from .handlers import ApprovalMode, TerminalHandlers, has_terminal
from .mcp_tools import add_mcp_choices, opened_mcp_tools
from .notes import Notes, warnings_as_notes
from .plain_text import on_one_line
from .streams import OutputStream, read_all, reserve_stdout

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "send one prompt: the response on stdout, all else on stderr"

_EPILOG: Final = """\
The prompt is read from standard input if it is - or missing. Piped input comes before
a prompt on the command line: git diff | syncagent run "Is this right?"

exit codes: 0 done; 1 failed, or not done (a limit, a refusal, a response that was too
long); 2 wrong usage; 124 timeout; 130 cancelled (Ctrl+C); 143 SIGTERM.
With every code, the text so far has been written. With --json, the last line is the
result, or an event state_changed with the state failed and the message of the error.
"""
#: Seconds in which a cancel ends everything that can be ended.
_CANCEL_SECONDS: Final = 1.0
_NOT_STOPPING: Final = "a tool does not stop; Ctrl+C again does not wait for it"
_WAITING: Final = "waiting for the end of standard input (or run it with < /dev/null)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("prompt", nargs="?", help="the prompt; - for standard input")
    add_choices(parser)
    add_mcp_choices(parser)
    parser.add_argument("--system", metavar="TEXT", help="the system prompt")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=seconds, help="stop after SECONDS"
    )
    parser.add_argument(
        "--max-turns", metavar="N", type=count, help="stop after N model calls"
    )
    parser.add_argument(
        "--approve",
        choices=("ask", "all", "none"),
        help="calls of tools that need an approval: ask about each (the default on a "
        "terminal), allow all, or none (the default elsewhere)",
    )
    parser.add_argument(
        "--json", action="store_true", help="write events as lines of JSON"
    )
    parser.add_argument(
        "--record", metavar="FILE", help="record the run for syncagent timeline"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="show only warnings")


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Send the prompt to the model; return the exit code.

    Cancellation: ends at once; the text so far is written.

    :raises SyncAgentError: the run failed.
    """
    started = time.monotonic()
    bounded = token.child(timeout=options.timeout)
    with reserve_stdout() as descriptor:
        output = OutputStream(sys.stdout, bounded, descriptor)
        notes = Notes(bounded, output, options.quiet)
        display: EventDisplay = (
            JsonDisplay(output) if options.json else TextDisplay(output, notes)
        )
        handlers = TerminalHandlers(_approval_mode(options, notes), notes)
        with warnings_as_notes(notes), _failures_shown(display):
            model, notice = choose_model(
                options.model,
                base_url=options.base_url,
                is_insecure=options.allow_insecure,
            )
            for line in notice.splitlines() if options.model is None else ():
                if not line.startswith(TRY):  # that is for a conversation
                    notes.tell(line)
            tools = choose_tools(options.tools, model=model)
            prompt = _read_prompt(options, bounded, notes)
            with opened_mcp_tools(options, bounded, notes) as theirs:
                agent = Agent(
                    model,
                    tools=[*tools, *theirs],
                    tool_defaults=TOOL_DEFAULTS,
                    system=options.system and _decode(options.system),
                    limits=Limits(turns=options.max_turns),
                    hooks=[display],
                    approve=handlers.approve,
                    ask=handlers.ask,
                    authenticate=handlers.authenticate,
                )
                timeout = None
                if options.timeout is not None:  # the prompt and the servers took some
                    spent = time.monotonic() - started
                    timeout = max(options.timeout - spent, 0.001)
                try:
                    with _explain_second_ctrl_c(bounded, notes):
                        result = agent.run(
                            prompt, timeout=timeout, cancel=token, record=options.record
                        )
                    display.finish(RunFinished(result))
                finally:
                    display.end()
        return _report(result, notes, time.monotonic() - started)


def _approval_mode(options: argparse.Namespace, notes: Notes) -> ApprovalMode:
    """Check the prompt and ``--approve``; return how approvals are given."""
    # argparse takes a prompt after tools for a tool: --tools shop:search "Hello"
    is_place = re.compile(r"[\w.]+:[\w.]+").fullmatch
    has_more = options.prompt is None and len(options.tools) > 1
    if has_more and not is_place(options.tools[-1]):
        options.prompt = options.tools.pop()
    if options.prompt is None and sys.stdin.isatty():
        options.parser.error('no prompt; pass one: syncagent run "Hello"')
    can_ask = notes.is_terminal and has_terminal()
    if options.approve == "ask" and not can_ask:
        options.parser.error(
            "--approve ask needs a terminal to ask on; use all or none"
        )
    mode: ApprovalMode = options.approve or ("ask" if can_ask else "none")
    return mode


@contextmanager
def _failures_shown(display: EventDisplay) -> Iterator[None]:
    """Show an error that ends the block as an event, too."""
    try:
        yield
    except (SyncAgentError, Cancelled) as error:
        with suppress(OSError):
            display.fail(error)
        raise


@contextmanager
def _explain_second_ctrl_c(token: CancelToken, notes: Notes) -> Iterator[None]:
    """Tell the user about it if a cancel does not end the block soon."""
    timer = threading.Timer(_CANCEL_SECONDS, notes.warn, [_NOT_STOPPING])
    timer.daemon = True
    with token.on_cancel(timer.start):
        try:
            yield
        finally:
            timer.cancel()


# -- arguments ---------------------------------------------------------------------


def _read_prompt(options: argparse.Namespace, token: CancelToken, notes: Notes) -> str:
    """Return the piped input and the argument, joined.

    Cancellation: ends at once.
    """
    argument = "" if options.prompt in (None, "-") else _decode(options.prompt)
    piped = ""
    if options.prompt == "-" or not sys.stdin.isatty():
        try:
            descriptor = sys.stdin.fileno()
        except (OSError, ValueError):  # a stream in memory
            piped = sys.stdin.read()
        else:
            piped = read_all(descriptor, token, on_wait=lambda: notes.tell(_WAITING))
    parts = [part for part in (piped.strip("\n"), argument) if part.strip()]
    if not parts:
        options.parser.error(
            "no prompt; give it as an argument, or on the standard input"
        )
    return "\n\n".join(parts)


def _decode(argument: str) -> str:
    """Return an argument of the command line as text, also if it is not UTF-8."""
    return os.fsencode(argument).decode(errors="replace")


# -- the end -----------------------------------------------------------------------


def _report(result: RunResult, notes: Notes, took: float) -> int:
    """Tell how the run ended; return the exit code."""
    notes.tell(run_text(result, took))
    cancellation = result.cancellation
    if cancellation is not None:
        how = f"cancelled by {on_one_line(cancellation.reason)}"
        if cancellation.origin == "deadline":
            how = "timeout"
        elif cancellation.origin == "hook":
            how = on_one_line(end_text(result))
        notes.warn(f"syncagent: {how} (phase {cancellation.phase})", "red")
        return exit_code_of(cancellation.reason, cancellation.origin)
    if result.stop_reason == "end_turn":
        return 0
    option = " (--max-turns)" if result.limit == "turns" else ""
    notes.warn(f"syncagent: {end_text(result)}{option}", "red")
    return EXIT_FAILED
