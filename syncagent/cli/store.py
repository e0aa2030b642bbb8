"""The command ``syncagent store``: migrate, prune and check a store."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from ..cancel import CancelToken
from .colours import Paint
from .exit_codes import EXIT_FAILED
from .findings import Finding, show_finding
from .formatting import seconds_text
from .store_access import add_store, duration, opened_store

if TYPE_CHECKING:
    from ..stores import RunStore
    from ..stores.records import Census

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "migrate, prune or check a store of runs"

#: How many runs one transaction deletes; other processes wait for it.
_BATCH: Final = 500
#: Seconds between two lines about the progress.
_PROGRESS: Final = 2.0
#: Seconds by which a queued run may be overdue before that is a problem.
_OVERDUE: Final = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    summary = "create the tables, or bring them up to date"
    migrate = actions.add_parser("migrate", help=summary, description=summary)
    migrate.set_defaults(action=_migrate)
    summary = "delete runs that ended long ago, or only their events"
    prune = actions.add_parser("prune", help=summary, description=summary)
    prune.set_defaults(action=_prune)
    for name in ("events", "runs"):
        prune.add_argument(
            f"--{name}",
            metavar="AGE",
            type=duration,
            help=f"delete {name} of runs that ended so long ago: seconds, or such as "
            "12h or 7d",
        )
    summary = "look for faults of the store; exit code 1 if there is one"
    check = actions.add_parser("check", help=summary, description=summary)
    check.set_defaults(action=_check)
    check.add_argument("--json", action="store_true", help="write one JSON object")
    for action in (migrate, prune, check):
        add_store(action)


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Do the action.

    Cancellation: ends at once, between two transactions.

    :return: 0; 1 if a check found a problem.
    :raises StoreUnavailable: the store is away.
    """
    code: int = options.action(options, token)
    return code


def _migrate(options: argparse.Namespace, token: CancelToken) -> int:
    with opened_store(options, token, is_new=True) as store:
        before, now = store.backend.migrate()
    if before == now:
        print(f"The store is up to date: schema version {now}.")
    else:
        print(f"The store had schema version {before}, and has {now} now.")
    return 0


def _prune(options: argparse.Namespace, token: CancelToken) -> int:
    if options.events is None and options.runs is None:
        options.parser.error("how old? use --events 1d, --runs 7d, or both")
    with opened_store(options, token) as store:
        if options.events is not None:
            count = _delete(store, "logs", options.events, math.inf, token)
            print(f"Deleted the events of {count} runs.", flush=True)
        if options.runs is not None:
            count = _delete(store, "runs", math.inf, options.runs, token)
            print(f"Deleted {count} runs.", flush=True)
    return 0


def _delete(
    store: RunStore, kind: str, events: float, runs: float, token: CancelToken
) -> int:
    """Delete in batches; return how many there were."""
    total, tell_at = 0, time.monotonic() + _PROGRESS
    while True:
        count = store._call(lambda backend: backend.prune(events, runs, _BATCH))
        total += count
        if count < _BATCH:
            return total
        if time.monotonic() >= tell_at:
            print(f"{total} {kind} so far", flush=True)
            tell_at = time.monotonic() + _PROGRESS
        token.checkpoint()


# -- check -------------------------------------------------------------------------


def _check(options: argparse.Namespace, token: CancelToken) -> int:
    with opened_store(options, token) as store:
        facts = store._call(lambda backend: backend.check())
        census = store._call(lambda backend: backend.census())
    findings = [*_check_facts(facts), *_check_census(census)]
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


def _check_facts(facts: Mapping[str, str]) -> Iterator[Finding]:
    from ..stores.schema import VERSION

    for name, value in facts.items():
        if name == "integrity" and value != "ok":
            yield Finding(
                name=name,
                value=value,
                status="problem",
                advice="the file is damaged: stop its processes, restore a backup",
            )
        elif name == "schema" and value != str(VERSION):
            yield Finding(
                name=name,
                value=f"{value}; this syncagent has {VERSION}",
                status="problem",
                advice="run syncagent store migrate, or upgrade syncagent",
            )
        else:
            yield Finding(name=name, value=value)


def _check_census(census: Census) -> Iterator[Finding]:
    counts = ", ".join(f"{count} {state}" for state, count in census.states.items())
    yield Finding(
        name="live runs", value=counts or "none", status="ok" if counts else "off"
    )
    is_needed = bool(census.states.get("queued") or census.unheld)
    if census.workers or not is_needed:
        yield Finding(
            name="workers",
            value=f"{census.workers} alive" if census.workers else "none alive",
            status="ok" if census.workers else "off",
        )
    else:
        yield Finding(
            name="workers",
            value="none alive, and runs wait for one",
            status="problem",
            advice="start a process that has the store open with make_agent=",
        )
    if census.unheld:
        yield Finding(
            name="lost by their worker", value=f"{census.unheld} until the next sweep"
        )
    if census.states.get("queued"):
        is_late = census.overdue > _OVERDUE
        yield Finding(
            name="oldest queued run",
            value=f"submitted {seconds_text(census.oldest_queued)} ago",
            status="problem" if is_late else "ok",
            advice="no worker takes it: are all busy (max_workers=), or does the "
            "queue of the engine stand still?"
            if is_late
            else "",
        )
