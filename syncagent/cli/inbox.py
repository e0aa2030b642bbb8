"""The command ``syncagent inbox``: list the open questions of a store."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ..cancel import CancelToken
from .answer import question_text
from .colours import Paint
from .plain_text import on_one_line
from .store_access import add_list_options, opened_store
from .tables import age_text, print_json, short_ids

if TYPE_CHECKING:
    from ..stores import InboxEntry

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "list the questions that wait for answers, on all hosts, oldest first"

_EPILOG: Final = """\
The first line of a question is what "answer" needs: syncagent answer ID QUESTION yes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = _EPILOG
    add_list_options(parser, "only questions of this owner's runs")
    parser.add_argument(
        "--for",
        dest="approvers",
        metavar="NAME",
        nargs="+",
        action="extend",
        default=[],
        help="only questions for these people or groups",
    )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Print the open questions.

    Cancellation: ends at once.

    :return: 0.
    :raises StoreUnavailable: the store is unavailable.
    """
    with opened_store(options, token) as store:
        entries = store.inbox(
            *options.approvers, owner=options.owner, limit=options.limit
        )
    if options.json:
        print_json(map(_to_json, entries))
    elif entries:
        _print_entries(entries)
    else:
        print("There are no open questions.", file=sys.stderr)
    return 0


def _to_json(entry: InboxEntry) -> dict[str, Any]:
    run = entry.run
    return {
        "id": run.id,
        "run_id": run.run_id,
        "question": entry.question,
        "approver": entry.approver,
        "owner": run.owner,
        "agent": run.agent,
        "conversation": run.conversation,
        "labels": run.labels,
        "asked_at": run.asked_at,
        "expires_at": run.expires_at,
    }


def _print_entries(entries: Sequence[InboxEntry]) -> None:
    """Print each question as a whole: a person who approves a call must see it all."""
    paint = Paint()
    ids = short_ids(entry.run.id for entry in entries)
    for entry in entries:
        question = shlex.quote(on_one_line(entry.question.id))
        print(paint(f"{ids[entry.run.id]} {question}", "bold"))
        print(f"    {question_text(entry.question)}")
        print(f"    {on_one_line(_details(entry))}")


def _details(entry: InboxEntry) -> str:
    """Return the approver, the owner of the run, how long it waits and until when."""
    run, now = entry.run, time.time()
    parts = [f"for {entry.approver}"] if entry.approver else []
    names = {"owner": run.owner, "agent": run.agent, "conversation": run.conversation}
    parts += [f"{name} {value}" for name, value in names.items() if value]
    asked_at = run.created_at if run.asked_at is None else run.asked_at
    parts.append(f"asked {age_text(now - asked_at)} ago")
    if run.expires_at is None:
        parts.append("does not expire")
    elif run.expires_at <= now:
        parts.append("expires now")
    else:
        parts.append(f"expires in {age_text(run.expires_at - now)}")
    return ", ".join(parts)
