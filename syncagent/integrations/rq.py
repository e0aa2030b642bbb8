"""RQ as the carrier of a store's runs: release them at the end, check settings.

::

    store = RunStore(
        URL,
        make_agent,
        enqueue=lambda run: queue.enqueue(work, run.id, job_timeout=-1, result_ttl=0),
    )

    def work(run_id):
        store.work(run_id)

    RunWorker = connect(Worker, store)

Start it with ``rq worker --worker-class module.RunWorker``.

A worker that gets SIGTERM waits for its job, however long it takes: the work horse, the
child that has the job, is not told. With :func:`connect` the work horse releases its
run: another worker resumes it, and this one ends soon.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from rq.worker import BaseWorker

from .._checks import check_timeout
from ..stores import RunStore
from .ending import StoreClosing, open_store
from .run_tasks import calls_work

__all__ = ["complaints", "connect"]

_log = logging.getLogger("syncagent.store")

#: Seconds from a signal until runs are released. Redis may give the job of such a run
#: to an idle worker that ends at the same time, and loses it; so idle workers go first.
_HEAD_START: Final = 0.5


def connect(worker_class: Any, store: RunStore, *, grace: float = 10.0) -> Any:
    """Return a class of workers that open a store, and release its runs at the end.

    A worker logs a warning for each job of a run whose settings harm the run.

    :param worker_class: ``rq.Worker``, or another one that forks, or
        ``rq.SimpleWorker``.
    :param grace: seconds that runs have to reach the end of a tool or of a turn when
        their worker ends. It should be well below the time after which the worker is
        killed.
    """
    check_timeout(grace, "grace")
    settings = {"store": store, "grace": grace}
    return type("RunWorker", (_ReleasesRuns, worker_class), settings)


class _ReleasesRuns(BaseWorker):
    """A worker that opens a store, and releases the runs of the store at its end.

    ::

        worker: SIGTERM ──▶ handle_warm_shutdown_request()
                                │ SIGTERM
        work horse:             └──▶ its thread wakes up, and closes the store

    A worker without work horses (``SimpleWorker``) has that thread itself.
    """

    store: RunStore
    grace: float

    def work(self, burst: bool = False, *args: Any, **options: Any) -> Any:
        """Take jobs; open the store, to take over runs of dead workers."""
        open_store(self.store)
        self._closing = StoreClosing(self.store, self.grace, delay=_HEAD_START)
        if not self._has_horses:
            self._closing.watch()
        try:
            return super().work(burst, *args, **options)
        finally:
            if not burst:
                # A pool ends its processes without exit handlers, perhaps after this
                # one has taken charge of a run and before an engine has it.
                self._closing.finish()

    @property
    def _has_horses(self) -> bool:
        return hasattr(self, "fork_work_horse")

    def handle_warm_shutdown_request(self) -> None:
        """Have the run released; called in a signal handler."""
        if not self._has_horses:
            self._closing.begin()
        elif self.horse_pid:
            with suppress(ProcessLookupError):
                os.kill(self.horse_pid, signal.SIGTERM)

    def setup_work_horse_signals(self) -> None:
        """Have the run released by SIGTERM, which otherwise kills the work horse."""
        super().setup_work_horse_signals()
        self._closing.watch()
        signal.signal(signal.SIGTERM, lambda *_: self._closing.begin())

    def perform_job(self, job: Any, queue: Any) -> Any:
        """Do a job; a work horse leaves the store at its end."""
        for complaint in complaints(job):
            _log.warning("%s", complaint)
        try:
            return super().perform_job(job, queue)
        finally:
            if self.is_horse:
                self._closing.finish()


def complaints(job: Any) -> Iterator[str]:
    """Yield a sentence for each setting of a job that harms its run."""
    try:
        is_run = calls_work(job.func)
    except Exception:  # RQ tells of functions that cannot be imported
        return
    if is_run and job.timeout != -1:
        yield (
            f"{job.func_name} has a timeout of {job.timeout} seconds: it fails longer "
            "runs; enqueue it with job_timeout=-1, and use submit(timeout=) instead"
        )
