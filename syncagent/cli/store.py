"""The command ``syncagent store``: migrate, prune and check a store."""

from __future__ import annotations

import argparse
import math
import time
from typing import TYPE_CHECKING, Final

import msgspec

from ..cancel import CancelToken
from .arguments import duration
from .colours import Paint
from .exit_codes import EXIT_FAILED
from .findings import show_finding
from .store_access import add_store, opened_store
from .store_findings import check_census, check_facts

if TYPE_CHECKING:
    from ..stores import RunStore

__all__ = ["SUMMARY", "add_arguments", "check", "migrate", "prune", "run"]

SUMMARY: Final = "migrate, prune or check a store of runs"

#: The kinds of rows that can be deleted by age, in this order: a conversation can go
#: when its runs are gone.
_PRUNED: Final = {
    "events": "the events of {} run",
    "runs": "{} run",
    "conversations": "{} conversation",
    "audit": "the record of {} answer",
}
_PRUNE_HELP: Final = {
    "events": "events of runs that ended so long ago",
    "runs": "runs that ended so long ago",
    "conversations": "conversations without runs that changed so long ago",
    "audit": "records of answers that were given so long ago",
}
#: How many runs one transaction deletes; other processes wait for it.
_BATCH: Final = 500
#: Seconds between two lines about the progress.
_PROGRESS: Final = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    for action, summary in (
        (migrate, "create the tables, or bring them up to date"),
        (
            prune,
            "delete what is old: runs, or events, conversations, answers",
        ),
        (check, "look for faults of the store; exit code 1 if there is one"),
    ):
        name = action.__name__
        command = actions.add_parser(name, help=summary, description=summary)
        command.set_defaults(action=action)
        add_store(command)
        if action is check:
            command.add_argument("--json", action="store_true", help="write JSON")
        for kind in _PRUNED if action is prune else ():
            command.add_argument(
                f"--{kind}",
                metavar="AGE",
                type=duration,
                help=f"delete {_PRUNE_HELP[kind]}: seconds, or such as 12h or 7d",
            )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Do the action.

    Cancellation: ends at once, between two transactions.

    :return: 0; 1 if a check found a problem.
    :raises StoreUnavailable: the store is unavailable.
    """
    code: int = options.action(options, token)
    return code


def migrate(options: argparse.Namespace, token: CancelToken) -> int:
    """Create or update the tables; return the exit code."""
    with opened_store(options, token, is_new=True) as store:
        before, now = store.backend.migrate()
    if before == now:
        print(f"The store is up to date: schema version {now}.")
    else:
        print(f"The store had schema version {before}, and has {now} now.")
    return 0


def prune(options: argparse.Namespace, token: CancelToken) -> int:
    """Delete what is old; return the exit code."""
    chosen = [kind for kind in _PRUNED if getattr(options, kind) is not None]
    if not chosen:
        options.parser.error("how old? use --events 1d, --runs 7d, or others")
    with opened_store(options, token) as store:
        for kind in chosen:
            total = _delete(store, kind, getattr(options, kind), token)
            print(f"Deleted {_pruned_text(kind, total)}.", flush=True)
    return 0


def _pruned_text(kind: str, count: int) -> str:
    return _PRUNED[kind].format(count) + "s" * (count != 1)


def _delete(store: RunStore, kind: str, age: float, token: CancelToken) -> int:
    """Delete in batches; return how many there were."""
    ages = {each: age if each == kind else math.inf for each in _PRUNED}
    total, tell_at = 0, time.monotonic() + _PROGRESS
    while True:
        count = store.call(
            lambda backend: backend.prune(
                *(ages["events"], ages["runs"], _BATCH),
                conversations_seconds=ages["conversations"],
                audit_seconds=ages["audit"],
            )
        )
        total += count
        if count < _BATCH:
            return total
        if time.monotonic() >= tell_at:
            print(f"{_pruned_text(kind, total)} so far", flush=True)
            tell_at = time.monotonic() + _PROGRESS
        token.checkpoint()


def check(options: argparse.Namespace, token: CancelToken) -> int:
    """Print facts and faults; return the exit code."""
    with opened_store(options, token) as store:
        facts = store.call(lambda backend: backend.check())
        census = store.call(lambda backend: backend.census())
    findings = [*check_facts(facts), *check_census(census)]
    problems = [each.name for each in findings if each.status == "problem"]
    if options.json:
        data = msgspec.json.encode({"ok": not problems, "findings": findings})
        print(msgspec.json.format(data).decode())
        return EXIT_FAILED if problems else 0
    paint = Paint()
    for finding in findings:
        show_finding(finding, paint)
    if problems:
        print(f"\n{paint('Problems', 'red')}: {', '.join(problems)}.")
    else:
        print(f"\n{paint('No problems.', 'green')}")
    return EXIT_FAILED if problems else 0
