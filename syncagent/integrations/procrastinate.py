"""Procrastinate as the carrier of a store's runs: threads for all, release at the end.

::

    app = App(connector=PsycopgConnector(conninfo=URL))

    @app.task(queue="agents")
    def work(run_id):
        store.work(run_id)

    store = RunStore(URL, make_agent, enqueue=lambda run: work.defer(run_id=run.id))
    connect(app, store)

On its own, a worker runs six synchronous jobs at once on a machine with two cores,
whatever its ``--concurrency`` says, and keeps the others to itself. A ``defer()`` on a
thread that is not a job's may hang for 30 seconds, and the store has such threads.
After SIGTERM the worker waits for its jobs, however long they take.
"""

from __future__ import annotations

import asyncio  # noqa: TID251
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from .._checks import check_timeout
from ..stores import RunStore
from .ending import close_on_signals, open_store
from .run_tasks import calls_work

__all__ = ["complaints", "connect"]

_log = logging.getLogger("syncagent.store")

#: How many threads a worker has besides those of its jobs, for the event loop itself.
_SPARE_THREADS: Final = 4
#: Seconds that a thread waits for a query: more than Procrastinate waits itself.
_DEFERRING: Final = 60.0


def connect(app: Any, store: RunStore, *, grace: float = 10.0) -> None:
    """Give each job of a worker a thread, and release a store's runs at its end.

    Call it once, in the module with the task. It changes nothing outside of workers. A
    worker opens the store when it starts, and logs a warning for each setting that
    harms runs, when it sees it.

    :param grace: seconds that runs have to reach the end of a tool or of a turn when
        their worker ends. It should be well below the time after which the worker is
        killed.
    """
    check_timeout(grace, "grace")
    middleware = [*app.worker_defaults.get("worker_middleware", ())]
    middleware.append(_Preparation(store, grace))
    app.worker_defaults["worker_middleware"] = middleware
    run_worker = app.run_worker_async

    async def run_worker_async(**options: Any) -> None:
        _defer_on_loop(app.connector)  # first: the store may hand out runs at once
        await asyncio.to_thread(open_store, store)
        await run_worker(**options)

    app.run_worker_async = run_worker_async


class _Preparation:
    """Prepares the process of a worker, once: a middleware around each of its jobs."""

    def __init__(self, store: RunStore, grace: float) -> None:
        self._store: Final = store
        self._grace: Final = grace
        self._prepared_pid = 0
        self._has_said: Final[set[str]] = set()

    async def __call__(
        self, call_next: Callable[[], Awaitable[Any]], context: Any, worker: Any
    ) -> Any:
        if self._prepared_pid != os.getpid():
            self._prepared_pid = os.getpid()
            self._prepare(worker)
        for complaint in complaints(context):
            if complaint not in self._has_said:
                self._has_said.add(complaint)
                _log.warning("%s", complaint)
        return await call_next()

    def _prepare(self, worker: Any) -> None:
        if worker.concurrency == 1:
            _log.warning(
                "the worker of Procrastinate has concurrency 1, so it works on one run "
                "at a time, also while that waits for a model; start it with "
                "--concurrency=20, for example"
            )
        threads = ThreadPoolExecutor(
            worker.concurrency + _SPARE_THREADS, thread_name_prefix="procrastinate"
        )
        asyncio.get_running_loop().set_default_executor(threads)
        _defer_on_loop(worker.app.connector)
        if threading.current_thread() is threading.main_thread():
            close_on_signals(self._store, self._grace)


def complaints(context: Any) -> Iterator[str]:
    """Yield a sentence for each setting of a job and its task that harms its run."""
    job = context.job
    task = context.app.tasks.get(job.task_name)
    if task is None or not calls_work(task.func):
        return
    if job.lock:
        yield (
            f"{job.task_name} has the lock {job.lock!r:.80}: runs wait for each other, "
            "and if a worker is killed, no run with this lock begins any more; remove "
            "it"
        )
    if job.queueing_lock and job.queueing_lock not in job.task_kwargs.values():
        yield (
            f"{job.task_name} has the queueing lock {job.queueing_lock!r:.80}: while "
            "one run waits, others are refused, and begin only when the store hands "
            "them out again; remove it"
        )


def _defer_on_loop(connector: Any) -> None:
    """Have threads use the connections of an event loop through that loop.

    On other threads Procrastinate starts a loop of their own, which shares the pool of
    connections with the worker's: both then wait for what the other one has.
    """
    loop, loop_thread = asyncio.get_running_loop(), threading.current_thread()
    if connector.get_sync_connector() is not connector:
        return  # threads have connections of their own
    if getattr(connector.execute_query, "loop", None) is loop:
        return  # this was done when the worker started

    def on_loop(name: str) -> Callable[..., Any]:
        execute_here = getattr(connector, name)
        execute_async = getattr(connector, f"{name}_async")

        def execute(query: Any, **arguments: Any) -> Any:
            if threading.current_thread() is loop_thread:
                return execute_here(query, **arguments)  # it says what is wrong
            execution = execute_async(query, **arguments)
            return asyncio.run_coroutine_threadsafe(execution, loop).result(_DEFERRING)

        execute.loop = loop  # type: ignore[attr-defined]
        return execute

    for name in ("execute_query", "execute_query_one", "execute_query_all"):
        setattr(connector, name, on_loop(name))
