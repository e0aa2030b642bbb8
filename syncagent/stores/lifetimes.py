"""The stores of this process: close them at its end, and start over after a fork."""

from __future__ import annotations

import atexit
import os
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .run_store import RunStore

__all__ = ["OPEN_STORES", "before_fork", "close_all", "start_over_in_child"]

#: Every store of this process.
OPEN_STORES: Final[weakref.WeakSet[RunStore]] = weakref.WeakSet()


def close_all(grace: float = 0.0) -> None:
    """Close every store: other processes resume their runs at once.

    Cancellation: it waits for the end of runs, as ``RunStore.close()`` does.
    """
    for store in list(OPEN_STORES):
        with suppress(Exception):  # the others have to be closed, too
            store.close(grace)


def before_fork() -> None:
    """Let go of what a forked child must not have."""
    for store in list(OPEN_STORES):
        store.backend.before_fork()


def start_over_in_child() -> None:
    """Continue as a new process."""
    for store in list(OPEN_STORES):
        store.start_over()


atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork, after_in_child=start_over_in_child)
