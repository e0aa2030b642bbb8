"""The handles and runs that a run has started, so that its cancel can reach them."""

from __future__ import annotations

import weakref
from typing import Final, Protocol

from .._context import NO_RUN
from .._context import run_id as current_run_id
from ..cancel import CancelMode, live_runs
from ..cancel.claim import lineage

__all__ = [
    "Descendant",
    "add_descendant",
    "cancel_descendants",
    "own_lineage",
    "remove_descendant",
]


class Descendant(Protocol):
    """Something that outlives the run that started it: the thread of a handle."""

    @property
    def ancestors(self) -> tuple[str, ...]:
        """The ids of the runs that started it, the outermost first."""

    def end_with_parent(self, reason: str, *, force: bool) -> object:
        """End, because the run that started this is cancelled."""


#: By identity. Weak: a handle that is dropped before it ends does not stay here.
_descendants: Final[dict[int, weakref.ref[Descendant]]] = {}


def own_lineage() -> tuple[str, ...]:
    """Return the ids of the runs that this code is part of, the outermost first."""
    outer = current_run_id.get()
    return () if outer == NO_RUN else lineage(outer)


def add_descendant(descendant: Descendant) -> None:
    """Let a cancel of its ancestors reach *descendant*, if it has any."""
    if descendant.ancestors:
        _descendants[id(descendant)] = weakref.ref(descendant)


def remove_descendant(descendant: Descendant) -> None:
    """Forget a descendant that has ended. Safe to repeat."""
    _descendants.pop(id(descendant), None)


def cancel_descendants(
    run_id: str, reason: str, *, mode: CancelMode, force: bool
) -> None:
    """Cancel everything that a run has started, and what that has started."""
    # A handle ends at once or not at all: a deferred cancel reaches only its runs.
    for ref in list(_descendants.values()) if mode == "now" or force else ():
        descendant = ref()
        if descendant is not None and run_id in descendant.ancestors:
            descendant.end_with_parent(reason, force=force)
    for claim in live_runs():
        if run_id in claim.ancestors:
            claim.cancel(reason, "parent", mode=mode, force=force)
