"""The ledger of tools that are still running, though their run has ended."""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

import msgspec

from ..cancel import clock

__all__ = ["AbandonedTool", "abandoned", "note_abandoned", "strike_out"]

_log = logging.getLogger("syncagent.tools")


class AbandonedTool(msgspec.Struct, frozen=True):
    """A tool that nobody waits for any more, and that nobody could stop."""

    name: str
    call_id: str
    run_id: str
    #: The name of the thread that it runs on.
    thread: str
    #: Monotonic time at which it was abandoned.
    since: float


#: By the identity of whatever runs. Steps on a dict are atomic.
_ledger: Final[dict[int, AbandonedTool]] = {}

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ledger.clear)  # their threads are not here


def abandoned() -> tuple[AbandonedTool, ...]:
    """Return the tools, and handlers, that outlive their runs, oldest first.

    They run on daemon threads, which do not keep the interpreter from exiting. What
    they return is dropped.
    """
    return tuple(_ledger.copy().values())  # one step, whoever changes it meanwhile


def note_abandoned(
    key: int, name: str, call_id: str, run_id: str, thread: threading.Thread
) -> None:
    """Enter one."""
    entry = AbandonedTool(name, call_id, run_id, thread.name, clock.now())
    _ledger[key] = entry


def strike_out(key: int, *, is_silent: bool = False) -> None:
    """Strike one out, which has ended after all."""
    entry = _ledger.pop(key, None)
    if entry is not None and not is_silent:
        _log.info(
            "run %s: %s, which was left behind, has ended after %.1f s; its result is "
            "dropped",
            *(entry.run_id, entry.name, clock.now() - entry.since),
        )
