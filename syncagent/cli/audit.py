"""The command ``syncagent audit``: list who answered what, and when."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..cancel import CancelToken
from ..exceptions import NoSuchRun
from ..interrupts import ApprovalRequest
from .answer import question_text
from .formatting import call_text
from .store_access import add_list_options, find_id, opened_store
from .tables import print_json, print_table, time_text

if TYPE_CHECKING:
    from ..stores import AuditEntry, RunStore

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "list the questions that were answered, and by whom, newest first"

_EPILOG: Final = """\
approved, denied, answered: a person did. expired: no one answered in time. withdrawn:
the run was cancelled before.
"""
#: The widest that columns may be on a terminal; the first goes first.
_WIDEST: Final = {"RUN": 12, "OWNER": 20, "FOR": 20}
_STYLES: Final = {
    "approved": "green",
    "answered": "green",
    "denied": "red",
    "expired": "yellow",
    "withdrawn": "yellow",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = _EPILOG
    add_list_options(parser, "only answers to this owner's runs")
    parser.add_argument(
        "--run",
        dest="given_run",
        metavar="RUN_ID",
        help="only answers to one run, by its id in logs, or the id that syncagent "
        "runs shows",
    )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Print a line for each question that is closed.

    Cancellation: ends at once.

    :return: 0.
    :raises StoreUnavailable: the store is unavailable.
    """
    with opened_store(options, token) as store:
        entries = _find(store, options)
    if options.json:
        print_json(entries)
    elif entries:
        _print_table(entries)
    else:
        print("There are no answers.", file=sys.stderr)
    return 0


def _find(store: RunStore, options: argparse.Namespace) -> Sequence[AuditEntry]:
    """Return the entries; those of a run by either of its ids."""
    run_id, limit = options.given_run, options.limit
    entries = store.audit(owner=options.owner, run_id=run_id, limit=limit)
    if entries or run_id is None:
        return entries
    try:
        found = store.get(find_id(store, run_id), has_messages=False)
    except NoSuchRun:  # the record of its answers can outlive a run
        return entries
    if found is None:
        return entries
    return store.audit(owner=options.owner, run_id=found.run_id, limit=limit)


def _print_table(entries: Sequence[AuditEntry]) -> None:
    table: dict[str, list[str]] = {
        "TIME": [time_text(each.given_at) for each in entries],
        "ANSWER": [each.kind for each in entries],
        "BY": [each.by for each in entries],
        "FOR": [each.approver for each in entries],
        "OWNER": [each.owner for each in entries],
        "RUN": [each.run_id for each in entries],
        "QUESTION": [_text(each) for each in entries],
    }
    print_table(table, _WIDEST, _STYLES, "ANSWER")


def _text(entry: AuditEntry) -> str:
    """Return the question, and what else was answered than yes."""
    question, answer = entry.question, entry.answer
    text = question_text(question)
    if answer.shown:
        return f"{text} {answer.shown}"
    approval = answer.approval
    if approval is None:
        return text
    if approval.arguments is not None and isinstance(question, ApprovalRequest):
        text = f"{text} as {call_text(question.tool, approval.arguments)}"
    if approval.remember:
        text = f"{text} (remembered)"
    return f"{text} {approval.reason}" if approval.reason else text
