"""Hooks for gunicorn: runs end with their worker; those of a store move to another.

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
from typing import Any

from ..cancel import live_runs
from .web.processes import chain_signals, close_runs, end_runs, open_stores

__all__ = ["post_fork", "post_worker_init", "worker_abort", "worker_exit"]

_log = logging.getLogger("syncagent.web")


def post_fork(server: Any, worker: Any) -> None:
    """Check that a worker starts without runs; the ``post_fork`` hook of gunicorn."""
    if live_runs():
        _log.error("a worker was forked with live runs, which belong to its parent")


def post_worker_init(worker: Any) -> None:
    """Have a worker open its stores, and end its runs on signals; a gunicorn hook."""
    chain_signals()
    open_stores()


def worker_abort(worker: Any) -> None:
    """End the runs of a worker that takes too long; a gunicorn hook."""
    end_runs("the worker took too long")


def worker_exit(server: Any, worker: Any) -> None:
    """End the remaining runs when a worker exits; a gunicorn hook.

    Cancellation: it waits for the end of runs, a few seconds at most.
    """
    if worker.pid == os.getpid():  # the master calls it, too, after a worker has died
        close_runs()
