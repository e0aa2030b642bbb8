"""Dramatiq as the carrier of a store's runs: release them at the end, check settings.

::

    store = RunStore(URL, make_agent, enqueue=lambda run: work.send(run.id))

    @dramatiq.actor(max_retries=0, time_limit=float("inf"))
    def work(run_id):
        store.work(run_id)

    connect(broker, store)

A worker that gets SIGTERM waits for its actors, for ten minutes at most. With
:func:`connect` it releases its runs: other workers resume them, and this one ends soon.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from dramatiq.middleware import Middleware

from .._checks import check_timeout
from ..stores import RunStore
from .ending import StoreClosing, open_store
from .run_tasks import calls_work

__all__ = ["complaints", "connect"]

_log = logging.getLogger("syncagent.store")


def connect(broker: Any, store: RunStore, *, grace: float = 10.0) -> None:
    """Have the workers of a broker open a store, and release its runs at the end.

    Call it once, in the module with the actor. It changes nothing outside of workers. A
    worker logs a warning for each setting that harms runs, when it starts.

    :param grace: seconds that runs have to reach the end of a tool or of a turn when
        their worker ends. It should be well below the time after which the worker is
        killed.
    """
    check_timeout(grace, "grace")
    broker.add_middleware(_Shutdown(store, grace))


class _Shutdown(Middleware):
    """Opens a store when a worker starts, and closes it when the worker ends."""

    def __init__(self, store: RunStore, grace: float) -> None:
        self._store: Final = store
        self._grace: Final = grace
        self._closing: StoreClosing | None = None

    def before_worker_boot(self, broker: Any, worker: Any) -> None:
        """Check the settings; open the store, to take over runs of dead workers."""
        for complaint in complaints(broker, worker):
            _log.warning("%s", complaint)
        open_store(self._store)

    def before_worker_shutdown(self, broker: Any, worker: Any) -> None:
        """Begin to close the store; the worker then waits until its actors end."""
        for thread in worker.workers:
            thread.stop()  # first: else it may take a run that was just released
        self._closing = StoreClosing(self._store, self._grace)
        self._closing.watch()
        self._closing.begin()

    def after_worker_shutdown(self, broker: Any, worker: Any) -> None:
        """Wait until the store is closed.

        Cancellation: it waits for the end of runs, *grace* and some seconds at most.
        """
        if self._closing is not None:
            self._closing.finish()


def complaints(broker: Any, worker: Any) -> Iterator[str]:
    """Yield a sentence for each setting of a broker and a worker that harms runs."""
    fetched, threads = worker.queue_prefetch, worker.worker_threads
    if fetched > threads:
        yield (
            f"dramatiq_queue_prefetch is {fetched} and there are {threads} threads: "
            "runs wait in a worker that is busy, for 30 seconds, although others are "
            f"idle; set it to {threads} in the environment"
        )
    for name, actor in sorted(broker.actors.items()):
        if calls_work(actor.fn):
            yield from _of_actor(name, actor.options, broker.middleware)


def _of_actor(name: str, options: Any, middleware: Any) -> Iterator[str]:
    settings = {
        option: options.get(option, getattr(each, option))
        for each in middleware
        for option in ("max_age", "notify_shutdown", "time_limit")
        if hasattr(each, option)
    }
    limit = settings.get("time_limit", float("inf"))
    if limit != float("inf"):
        yield (
            f"{name} has a time limit of {limit} milliseconds: it cuts longer runs off "
            "in the middle of a tool, another worker resumes the run, and so on until "
            "it has failed after max_crashes; set time_limit=float('inf'), and use "
            "submit(timeout=) instead"
        )
    if settings.get("notify_shutdown"):
        yield (
            f"{name} has notify_shutdown: at a shutdown it cuts runs off in the middle "
            "of a tool, before they get grace; set it to False"
        )
    if settings.get("max_age"):
        yield (
            f"{name} has a max_age of {settings['max_age']} milliseconds: a run that "
            "waits longer begins only when the store hands it out again; remove it"
        )
