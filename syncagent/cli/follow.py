"""The command ``syncagent follow``: show the events of a run of a store."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from ..cancel import CancelToken
from ..events import InterruptRaised, Lagged, Resumed, RunFinished, StreamEvent
from .answer import question_text
from .arguments import position
from .display import EventDisplay, JsonDisplay, TextDisplay
from .exit_codes import EXIT_FAILED, EXIT_NO_SUCH_RUN, exit_code_of
from .formatting import end_text, run_text
from .notes import Notes
from .plain_text import on_one_line
from .store_access import SHORTEST, add_run, find_id, opened_store
from .streams import OutputStream

if TYPE_CHECKING:
    from ..stores import StoredRun

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "show the events of a run of a store, as they come, until it ends"

_EPILOG: Final = """\
Ctrl+C ends this command; the run continues.

exit codes: those of syncagent run, for how the run ended: 0 done; 1 failed or not done;
124 timeout; 130 cancelled, or Ctrl+C here. 2 wrong usage; 5 the store is
unavailable; 6 no such run, or it was deleted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_run(parser)
    parser.add_argument(
        "--after",
        metavar="N",
        type=position,
        default=0,
        help="begin after the first N events",
    )
    parser.add_argument(
        "--json", action="store_true", help="write events as lines of JSON"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="show only warnings")


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Show the events of the run until it ends.

    Cancellation: ends at once; the run continues.

    :return: the exit code for how the run ended.
    :raises NoSuchRun: there is no such run.
    :raises StoreUnavailable: the store is unavailable.
    """
    output = OutputStream(sys.stdout, token)
    notes = Notes(token, output, options.quiet)
    display: EventDisplay = (
        JsonDisplay(output)
        if options.json
        else TextDisplay(output, notes, is_live=False)
    )
    with opened_store(options, token) as store:
        id = find_id(store, options.id)
        with store.events(id, options.after, cancel=token) as events:
            first = events.run
            place = f" on {first.worker}" if first.worker else ""
            notes.tell(on_one_line(f"run {id[:SHORTEST]} is {first.state}{place}"))
            try:
                for event in events:
                    _show(event, display, notes, id)
            finally:
                display.end()
            last = events.run
    if token.cancelled:
        notes.warn("syncagent: no longer following; the run continues")
        return exit_code_of(token.reason or "", token.origin or "")
    return _report(last, notes)


def _show(
    event: StreamEvent | Lagged, display: EventDisplay, notes: Notes, id: str
) -> None:
    if isinstance(event, RunFinished):
        display.finish(event)
        return
    display.on_event(event)
    if isinstance(event, Lagged):
        notes.warn(f"{event.missed} events are missing: they were deleted, or lost")
    elif isinstance(event, Resumed):
        notes.warn(
            f"another worker has taken over the run (attempt {event.attempt}); text "
            "since its last turn or tool comes again"
        )
    elif isinstance(event, InterruptRaised):
        for question in event.interrupts:
            notes.warn(
                f"question {on_one_line(question.id)}: {question_text(question)}"
            )
        notes.tell(f"answer with: syncagent answer {id[:SHORTEST]} QUESTION ANSWER")


def _report(run: StoredRun, notes: Notes) -> int:
    """Tell how the run ended; return the exit code."""
    if run.ended_at is None:
        notes.warn("syncagent: the run was deleted from the store")
        return EXIT_NO_SUCH_RUN
    result = run.result
    if result is None:
        message = "" if run.error is None else run.error.message
        notes.warn(f"syncagent: the run failed: {on_one_line(message)}")
        return EXIT_FAILED
    notes.tell(run_text(result, run.ended_at - run.created_at))
    cancellation = result.cancellation
    if cancellation is not None:
        by = "" if run.cancel is None or not run.cancel.by else f" by {run.cancel.by}"
        reason = f": {cancellation.reason}" if cancellation.reason else ""
        how = "timeout" if cancellation.origin == "deadline" else f"cancelled{by}"
        if cancellation.origin == "hook":
            how = "a policy stopped the run"
        notes.warn(f"syncagent: {on_one_line(how + reason)}")
        return exit_code_of(cancellation.reason, cancellation.origin)
    if result.stop_reason == "end_turn":
        return 0
    notes.warn(f"syncagent: {end_text(result)}")
    return EXIT_FAILED
