"""Ask a model once: the answer on standard output, the rest on standard error."""

from __future__ import annotations

import argparse
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..agent import Agent
from ..cancel import CancelToken
from ..events import RunFinished
from ..policies import Limits
from ..result import RunResult
from .choices import add_choices, choose_model, choose_tools, seconds
from .display import JsonLines, PlainText, Shown
from .exit_codes import EXIT_FAILED, exit_code_of
from .handlers import TerminalHandlers, has_terminal
from .notes import Notes
from .plain_text import on_one_line
from .streams import OutputStream, read_all, stdout_kept

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "ask a model once: the answer on stdout, all else on stderr"

_EPILOG: Final = """\
The prompt is read from standard input if it is - or not given. If it is given, what is
piped in comes before it: git diff | syncagent run "Is this right?"

exit codes: 0 done; 1 failed, or not done (a limit, a refusal, an answer that was too
long); 2 wrong usage; 124 the timeout has passed; 130 cancelled (Ctrl+C); 143 SIGTERM.
However it ends, the text that had come by then has been written.
"""
#: Seconds after which a cancel should have ended everything.
_SOON: Final = 1.0
_AGAIN: Final = "a tool does not stop; Ctrl+C again does not wait for it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Have *parser* take what :func:`run` needs."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("prompt", nargs="?", help="what to say; - for standard input")
    add_choices(parser)
    parser.add_argument("--system", metavar="TEXT", help="what the model's task is")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=seconds, help="end after so many seconds"
    )
    parser.add_argument(
        "--max-turns", metavar="N", type=_count, help="ask the model N times at most"
    )
    parser.add_argument(
        "--approve",
        choices=("ask", "all", "none"),
        help="which tools that need approval may be called; by default you are asked "
        "if there is a terminal, and none is allowed if there is not",
    )
    parser.add_argument(
        "--json", action="store_true", help="write events, one JSON object a line"
    )
    parser.add_argument(
        "--record", metavar="FILE", help="write what happens, for syncagent timeline"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="only warnings")


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Ask the model; return the exit code.

    Cancellation: ends at once; what had come by then is written.

    :raises SyncAgentError: there is no answer.
    """
    began = time.monotonic()
    bounded = token.child(timeout=options.timeout)
    with stdout_kept() as descriptor:
        answer = OutputStream(sys.stdout, bounded, descriptor)
        notes = Notes(bounded, answer, options.quiet)
        _find_prompt(options)
        mode = _approval_mode(options, notes)
        model, notice = choose_model(options.model)
        if notice:
            notes.tell(notice)
        shown: Shown = JsonLines(answer) if options.json else PlainText(answer, notes)
        desk = TerminalHandlers(mode, notes)
        agent = Agent(
            model,
            tools=choose_tools(options.tools, model=model),
            system=options.system and _decoded(options.system),
            limits=Limits(turns=options.max_turns),
            hooks=[shown],
            approve=desk.approve,
            ask=desk.ask,
            authenticate=desk.authenticate,
        )
        prompt = _read_prompt(options, bounded, notes)
        try:
            with _patience(bounded, notes):
                left = _left(options, began)
                result = agent.run(
                    prompt, timeout=left, cancel=token, record=options.record
                )
            shown.finish(RunFinished(result))
        finally:
            shown.end()
        return _report(result, notes, time.monotonic() - began)


@contextmanager
def _patience(token: CancelToken, notes: Notes) -> Iterator[None]:
    """Say what a second Ctrl+C is for, if something does not end after the first."""
    timer = threading.Timer(_SOON, notes.warn, [_AGAIN])
    timer.daemon = True
    with token.on_cancel(timer.start):
        try:
            yield
        finally:
            timer.cancel()


def _left(options: argparse.Namespace, began: float) -> float | None:
    """Return how much of the time is left; reading the prompt has taken some."""
    timeout: float | None = options.timeout
    if timeout is None:
        return None
    return max(timeout - (time.monotonic() - began), 0.001)


# -- the prompt --------------------------------------------------------------------


def _find_prompt(options: argparse.Namespace) -> None:
    """Take the prompt out of the tools: ``--tools shop:search "What is new?"``."""
    is_place = re.compile(r"[\w.]+:[\w.]+").fullmatch
    if options.prompt is None and options.tools and not is_place(options.tools[-1]):
        options.prompt = options.tools.pop()
    if options.prompt is None and sys.stdin.isatty():
        options.parser.error('there is no prompt; give one: syncagent run "Hello"')


def _read_prompt(options: argparse.Namespace, token: CancelToken, notes: Notes) -> str:
    """Return what to say: the argument, what is piped in, or both.

    Cancellation: ends at once.
    """
    given = None if options.prompt in (None, "-") else _decoded(options.prompt)
    piped = ""
    if options.prompt == "-" or not sys.stdin.isatty():
        piped = _read_input(token, notes).strip("\n")
    parts = [part for part in (piped, given or "") if part.strip()]
    if not parts:
        options.parser.error("the prompt is empty; say something to the model")
    return "\n\n".join(parts)


def _read_input(token: CancelToken, notes: Notes) -> str:
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):  # no stream of the system's, so it has all of it
        return sys.stdin.read()
    return read_all(descriptor, token, on_wait=lambda: notes.tell(_WAITING))


_WAITING: Final = "waiting for the end of standard input (< /dev/null if there is none)"


def _decoded(argument: str) -> str:
    """Return an argument of the command line as text, whatever its bytes are."""
    return os.fsencode(argument).decode(errors="replace")


# -- the other arguments -----------------------------------------------------------


def _approval_mode(options: argparse.Namespace, notes: Notes) -> str:
    can_ask = notes.is_terminal and has_terminal()
    if options.approve == "ask" and not can_ask:
        options.parser.error(
            "--approve ask needs a terminal to ask on; say all or none"
        )
    return str(options.approve or ("ask" if can_ask else "none"))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


# -- the end -----------------------------------------------------------------------

_ENDS: Final = {
    "max_tokens": "the answer was too long for the model, and is cut off",
    "refusal": "the model will not answer this",
    "interrupt": "the run waits for an answer that nobody can give here",
}


def _report(result: RunResult, notes: Notes, took: float) -> int:
    """Say how it has ended; return the exit code."""
    usage = result.usage
    about = "about " if usage.estimated else ""
    cost = "" if result.cost is None else f", ${result.cost:.4f}"
    notes.tell(
        f"{result.turns} turn{'s' * (result.turns != 1)}, {about}{usage.input_tokens} "
        f"tokens in, {usage.output_tokens} out{cost}, {took:.1f} s"
    )
    if result.cancellation is not None:
        how = result.cancellation
        code = exit_code_of(how.reason, how.origin)
        said = "timeout" if how.origin == "deadline" else "cancelled"
        why = "" if how.origin == "deadline" else f" by {on_one_line(how.reason)}"
        notes.warn(f"syncagent: {said}{why} (phase {how.phase})")
        return code
    if result.stop_reason == "end_turn":
        return 0
    why = _ENDS.get(result.stop_reason, f"it ended with {result.stop_reason}")
    if result.limit is not None:
        why = f"the limit on {result.limit.replace('_', ' ')} was reached (--max-turns)"
    notes.warn(f"syncagent: {why}")
    return EXIT_FAILED
