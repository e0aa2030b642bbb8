"""Hooks for gunicorn: runs end with their worker, and those of a store go on.

In ``gunicorn.conf.py``::

    from syncagent.integrations.gunicorn import *

If you have hooks of your own, call these from them::

    from syncagent.integrations import gunicorn as syncagent_hooks

    def post_worker_init(worker):
        syncagent_hooks.post_worker_init(worker)
        ...

On its own, gunicorn lets a stream continue after SIGTERM until ``graceful_timeout`` and
then kills the worker in the middle of it. With these hooks SIGTERM cancels every live
run of the worker, with origin ``shutdown``. Their streams end with their last event,
and the worker exits.

A run in a store is not cancelled: another worker resumes it, and its followers
reconnect. The store is opened when the worker starts, so that idle workers take over
the runs of dead ones, too.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from ..cancel import live_runs
from .web.runs import all_runs, close_all

__all__ = ["post_fork", "post_worker_init", "worker_abort", "worker_exit"]

# The rest is for ASGI servers and for the integrations: not for a star import.

_log = logging.getLogger("syncagent.web")

#: The signals that end a worker, gracefully or at once. Not every system has SIGQUIT,
#: and this module is imported for other servers than gunicorn, too.
_SIGNALS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGQUIT", "SIGINT")
    if hasattr(signal, name)
)
#: Seconds that runs have to end when their worker exits, and those of a store to reach
#: the end of a turn.
_GRACE: Final = 2.0
#: Called when a worker starts, to open stores that are not made before a request.
store_openers: Final[list[Callable[[], object]]] = []


def post_fork(server: Any, worker: Any) -> None:
    """Check that a worker starts without runs; the ``post_fork`` hook of gunicorn."""
    if live_runs():
        _log.error("a worker was forked with live runs, which belong to its parent")


def post_worker_init(worker: Any) -> None:
    """Have a worker open its stores, and end its runs on signals; a gunicorn hook."""
    chain_signals()
    open_stores()


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


def worker_abort(worker: Any) -> None:
    """End the runs of a worker that takes too long; a gunicorn hook."""
    _end_runs("the worker took too long")


def worker_exit(server: Any, worker: Any) -> None:
    """End the remaining runs when a worker exits; a gunicorn hook.

    Cancellation: it waits for the end of runs, at most 2 seconds.
    """
    if worker.pid != os.getpid():
        return  # the master calls this, too, after a worker has died
    close_runs()


def close_runs() -> None:
    """End all runs with their process, and give those of stores to others.

    Cancellation: it waits for the end of runs, a few seconds at most.
    """
    _end_runs("the worker exits")
    for runs in all_runs():
        runs.shutdown(_GRACE)


def _chain(signum: int, previous: Any) -> None:
    """End runs on a signal, and then call the previous handler."""
    if not callable(previous):
        return
    pid = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        # Interrupts the main thread anywhere, so nothing here may take a lock.
        if os.getpid() == pid:
            _end_runs(signal.Signals(number).name)
        previous(number, frame)

    signal.signal(signum, handle)
    if signum == signal.SIGTERM and hasattr(signal, "siginterrupt"):
        # As gunicorn does: system calls of requests are not interrupted.
        signal.siginterrupt(signum, False)


def _end_runs(reason: str) -> None:
    """End every live run of the process, those outside of any ``Runs`` included.

    The runs of stores are released to other processes, all others are cancelled.
    """
    # Not imported: a process without a store does not need a database module.
    stores = sys.modules.get("syncagent.stores.lifetimes")
    released: set[str] = set() if stores is None else stores.release_all()
    close_all(reason)
    for run in live_runs():
        if released.isdisjoint((*run.ancestors, run.run_id)):
            run.cancel(reason, "shutdown")
