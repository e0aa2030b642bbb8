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
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from .._checks import check_timeout
from ..stores import RunStore
from .ending import close_on_signals

__all__ = ["connect"]

_log = logging.getLogger("syncagent.store")

#: How many threads a worker has besides those of its jobs, for the event loop itself.
_SPARE_THREADS: Final = 4
#: Seconds that a thread waits for a query: more than Procrastinate waits itself.
_DEFERRING: Final = 60.0


def connect(app: Any, store: RunStore, *, grace: float = 10.0) -> None:
    """Give each job of a worker a thread, and release a store's runs at its end.

    Call it once, in the module with the task. It changes nothing outside of workers,
    and a worker when it gets its first job.

    :param grace: seconds that runs have to reach the end of a tool or of a turn when
        their worker ends. It should be well below the time after which the worker is
        killed.
    """
    check_timeout(grace, "grace")
    middleware = [*app.worker_defaults.get("worker_middleware", ())]
    middleware.append(_Preparation(store, grace))
    app.worker_defaults["worker_middleware"] = middleware


class _Preparation:
    """Prepares the process of a worker, once: a middleware around each of its jobs."""

    def __init__(self, store: RunStore, grace: float) -> None:
        self._store: Final = store
        self._grace: Final = grace
        self._prepared_pid = 0

    async def __call__(
        self, call_next: Callable[[], Awaitable[Any]], context: Any, worker: Any
    ) -> Any:
        if self._prepared_pid != os.getpid():
            self._prepared_pid = os.getpid()
            self._prepare(worker)
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


def _defer_on_loop(connector: Any) -> None:
    """Have threads use the connections of an event loop through that loop.

    On other threads Procrastinate starts a loop of their own, which shares the pool of
    connections with the worker's: both then wait for what the other one has.
    """
    loop, loop_thread = asyncio.get_running_loop(), threading.current_thread()
    if connector.get_sync_connector() is not connector:
        return  # threads have connections of their own

    def on_loop(name: str) -> Callable[..., Any]:
        execute_here = getattr(connector, name)
        execute_async = getattr(connector, f"{name}_async")

        def execute(query: Any, **arguments: Any) -> Any:
            if threading.current_thread() is loop_thread:
                return execute_here(query, **arguments)  # it says what is wrong
            execution = execute_async(query, **arguments)
            return asyncio.run_coroutine_threadsafe(execution, loop).result(_DEFERRING)

        return execute

    for name in ("execute_query", "execute_query_one", "execute_query_all"):
        setattr(connector, name, on_loop(name))
