"""The list of tools that are still running although their run has ended."""

from __future__ import annotations

import logging
import threading
from typing import Final

import msgspec

from .._forks import in_child
from ..cancel import clock

__all__ = ["AbandonedTool", "abandoned", "add_abandoned", "remove_abandoned"]

_log = logging.getLogger("syncagent.tools")


class AbandonedTool(msgspec.Struct, frozen=True):
    """A tool that could not be stopped, and that its run no longer waits for."""

    name: str
    call_id: str
    run_id: str
    #: The name of its thread.
    thread: str
    #: Monotonic time at which it was abandoned.
    since: float


#: By the id of the work. There is no lock: single operations on a dict are atomic.
_entries: Final[dict[int, AbandonedTool]] = {}
in_child(_entries.clear)  # a child has no such threads


def abandoned() -> tuple[AbandonedTool, ...]:
    """Return the tools, and handlers, that outlive their runs, oldest first.

    They run on daemon threads, which do not keep the interpreter from exiting. Their
    results are dropped.
    """
    return tuple(_entries.copy().values())  # copy() is atomic


def add_abandoned(
    key: int, name: str, call_id: str, run_id: str, thread: threading.Thread
) -> None:
    """Add an entry."""
    _entries[key] = AbandonedTool(name, call_id, run_id, thread.name, clock.now())


def remove_abandoned(key: int, *, is_silent: bool = False) -> None:
    """Remove the entry of a tool that has ended after all."""
    entry = _entries.pop(key, None)
    if entry is not None and not is_silent:
        _log.info(
            "run %s: %s, which was left behind, ended after %.1f s; its result is "
            "dropped",
            *(entry.run_id, entry.name, clock.now() - entry.since),
        )
