"""Hooks for gunicorn that end runs with their worker, at once and in order.

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
"""

from __future__ import annotations

import logging
import os
import signal
from types import FrameType
from typing import Any, Final

from ..cancel import live_runs
from .web.runs import all_runs, close_all

__all__ = ["post_fork", "post_worker_init", "worker_abort", "worker_exit"]

_log = logging.getLogger("syncagent.web")

#: The signals that end a worker, gracefully or at once. Not every system has SIGQUIT,
#: and this module is imported for other servers than gunicorn, too.
_SIGNALS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGQUIT", "SIGINT")
    if hasattr(signal, name)
)
#: Seconds that runs have to end when their worker exits.
_GRACE: Final = 2.0


def post_fork(server: Any, worker: Any) -> None:
    """Check that a worker starts without runs; the ``post_fork`` hook of gunicorn."""
    if live_runs():
        _log.error("a worker was forked with live runs, which belong to its parent")


def post_worker_init(worker: Any) -> None:
    """Make the signals that end a worker cancel its runs first; a gunicorn hook."""
    for signum in _SIGNALS:
        _chain(signum, signal.getsignal(signum))


def worker_abort(worker: Any) -> None:
    """Cancel the runs of a worker that takes too long; a gunicorn hook."""
    _cancel_runs("the worker took too long")


def worker_exit(server: Any, worker: Any) -> None:
    """Cancel the remaining runs when a worker exits; a gunicorn hook.

    Cancellation: it waits for the end of runs, at most 2 seconds.
    """
    if worker.pid != os.getpid():
        return  # the master calls this, too, after a worker has died
    _cancel_runs("the worker exits")
    for runs in all_runs():
        runs.shutdown(_GRACE)


def _chain(signum: int, previous: Any) -> None:
    """Cancel runs on a signal, and then call the previous handler."""
    if not callable(previous):
        return
    pid = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        # Interrupts the main thread anywhere, so nothing here may take a lock.
        if os.getpid() == pid:
            _cancel_runs(signal.Signals(number).name)
        previous(number, frame)

    signal.signal(signum, handle)
    if signum == signal.SIGTERM and hasattr(signal, "siginterrupt"):
        # As gunicorn does: system calls of requests are not interrupted.
        signal.siginterrupt(signum, False)


def _cancel_runs(reason: str) -> None:
    """Cancel every live run of the process, those outside of any ``Runs`` included."""
    close_all(reason)
    for run in live_runs():
        run.cancel(reason, "shutdown")
