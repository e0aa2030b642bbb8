"""Runs and handles that a run has started, so that its cancel can reach them."""

from __future__ import annotations

import weakref
from typing import Final, Protocol

from .._context import NO_RUN
from .._context import run_id as current_run_id
from ..cancel import CancelMode, live_runs
from ..cancel.claim import lineage

__all__ = [
    "Attendant",
    "begun",
    "cancel_begun_by",
    "own_lineage",
]


class Attendant(Protocol):
    """What goes on by itself when the run that has begun it is over: a handle."""

    ancestors: tuple[str, ...]

    def end_with(self, reason: str, *, force: bool) -> object:
        """End, as the run that has begun this is cancelled."""


#: Those that runs of this process have begun, by identity.
begun: Final[dict[int, weakref.ref[Attendant]]] = {}


def own_lineage() -> tuple[str, ...]:
    """Return the names of the runs that this is a part of, the outermost first."""
    outer = current_run_id.get()
    return () if outer == NO_RUN else lineage(outer)


def cancel_begun_by(run_id: str, reason: str, *, mode: CancelMode, force: bool) -> None:
    """Cancel what a run has begun, and what that has begun."""
    for ref in list(begun.values()) if mode == "now" or force else ():
        attendant = ref()
        if attendant is not None and run_id in attendant.ancestors:
            attendant.end_with(reason, force=force)
    for claim in live_runs():
        if run_id in claim.ancestors:
            claim.cancel(reason, "parent", mode=mode, force=force)
