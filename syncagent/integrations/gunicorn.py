"""Hooks for gunicorn, so that runs end with their worker, at once and in order.

In ``gunicorn.conf.py``::

    from syncagent.integrations.gunicorn import *

Who has hooks of his own calls these in them::

    from syncagent.integrations import gunicorn as runs

    def post_worker_init(worker):
        runs.post_worker_init(worker)
        ...

By itself gunicorn lets a stream go on after SIGTERM until ``graceful_timeout``, then
kills the worker in the middle of it. With these hooks SIGTERM cancels every live run of
the worker, with origin ``shutdown``; their streams end with their last event, and the
worker leaves.
"""

from __future__ import annotations

import logging
import os
import signal
from types import FrameType
from typing import Any, Final

from ..cancel import live_runs
from .web.runs import close_all, every_runs

__all__ = ["post_fork", "post_worker_init", "worker_abort", "worker_exit"]

_log = logging.getLogger("syncagent.web")

#: Those upon which a worker ends: gracefully, and at once.
_SIGNALS: Final = (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT)
#: Seconds that runs have to end when their worker does.
_GRACE: Final = 2.0


def post_fork(server: Any, worker: Any) -> None:
    """See that a worker begins without runs; for the ``post_fork`` of gunicorn."""
    if live_runs():
        _log.error("a worker was forked with live runs, which it cannot have")


def post_worker_init(worker: Any) -> None:
    """Cancel runs upon the signals that end a worker; for the hook of that name."""
    for signum in _SIGNALS:
        _chain(signum, signal.getsignal(signum))


def worker_abort(worker: Any) -> None:
    """Cancel the runs of a worker that takes too long; for the hook of that name."""
    _end_runs("the worker took too long")


def worker_exit(server: Any, worker: Any) -> None:
    """End what is left when a worker leaves; for the hook of that name.

    Cancellation: it waits for the end of runs, at most 2 seconds.
    """
    if worker.pid != os.getpid():
        return  # the master calls it, too, for a worker that is gone
    _end_runs("the worker ends")
    for runs in every_runs():
        runs.shutdown(_GRACE)


def _chain(signum: int, before: Any) -> None:
    """Have runs cancelled first, and then what was to be done."""
    pid = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        # Runs between two steps of the main thread: nothing here may take a lock.
        if os.getpid() == pid:
            _end_runs(signal.Signals(number).name)
        if callable(before):
            before(number, frame)

    if not callable(before):
        return
    signal.signal(signum, handle)
    if signum == signal.SIGTERM:
        # As gunicorn has it: system calls of requests go on.
        signal.siginterrupt(signum, False)


def _end_runs(reason: str) -> None:
    """Cancel every live run of the process, also those that no ``Runs`` knows."""
    close_all(reason)
    for run in live_runs():
        run.cancel(reason, "shutdown")
