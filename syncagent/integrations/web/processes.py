"""The process of a server: its stores open when it starts, its runs end with it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from ...cancel import live_runs
from .runs import all_runs, close_all

__all__ = ["chain_signals", "close_runs", "end_runs", "open_stores", "store_openers"]

_log = logging.getLogger("syncagent.web")

#: The signals that end a worker, gracefully or at once. Not every system has SIGQUIT.
_SIGNALS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGQUIT", "SIGINT")
    if hasattr(signal, name)
)
#: Seconds that runs have to end when their process exits, and those of a store to reach
#: the end of a turn.
_GRACE: Final = 2.0
#: Called when a process starts, to make runs that are not made before a request.
store_openers: Final[list[Callable[[], object]]] = []


def open_stores() -> None:
    """Open the stores of all runs, so that this process takes over from dead ones.

    Cancellation: it waits for a database, a few seconds at most.
    """
    for opener in store_openers:
        try:
            opener()
        except Exception:
            _log.exception("the runs of this process could not be made")
    for runs in all_runs():
        runs.open()


def chain_signals() -> None:
    """Make the signals that end a process end its runs first."""
    for signum in _SIGNALS:
        _chain(signum, signal.getsignal(signum))


def close_runs() -> None:
    """End all runs with their process, and give those of stores to others.

    Cancellation: it waits for the end of runs, a few seconds at most.
    """
    end_runs("the worker exits")
    for runs in all_runs():
        runs.shutdown(_GRACE)


def end_runs(reason: str) -> None:
    """End every live run of the process, those outside of any ``Runs`` included.

    The runs of stores are released to other processes, all others are cancelled. Takes
    no lock: signal handlers may call it.
    """
    # Not imported: a process without a store does not need a database module.
    stores = sys.modules.get("syncagent.stores.lifetimes")
    released: set[str] = set() if stores is None else stores.release_all()
    close_all(reason)
    for run in live_runs():
        if released.isdisjoint((*run.ancestors, run.run_id)):
            run.cancel(reason, "shutdown")


def _chain(signum: int, previous: Any) -> None:
    """End runs on a signal, and then call the previous handler."""
    if not callable(previous):
        return
    pid = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        # Interrupts the main thread anywhere, so nothing here may take a lock.
        if os.getpid() == pid:
            end_runs(signal.Signals(number).name)
        previous(number, frame)

    signal.signal(signum, handle)
    if signum == signal.SIGTERM and hasattr(signal, "siginterrupt"):
        # As gunicorn does: system calls of requests are not interrupted.
        signal.siginterrupt(signum, False)
