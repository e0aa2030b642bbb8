"""Look for faults of a store, from its own facts and its census."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from .findings import Finding
from .formatting import seconds_text

if TYPE_CHECKING:
    from ..stores.records import Census

__all__ = ["check_census", "check_facts"]

#: Seconds by which a queued run may be overdue before that is a problem.
_OVERDUE: Final = 60.0


def check_facts(facts: Mapping[str, str]) -> Iterator[Finding]:
    """Return findings about the database of a store."""
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


def check_census(census: Census) -> Iterator[Finding]:
    """Return findings about the live runs and their workers."""
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
