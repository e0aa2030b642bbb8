"""Celery as the carrier of a store's runs: release them at a shutdown, check settings.

::

    store = RunStore(URL, make_agent, enqueue=lambda run: work.delay(run.id))

    @app.task(ignore_result=True)
    def work(run_id):
        store.work(run_id)

    connect(app, store)

A worker that gets SIGTERM waits for its tasks, however long they take, and children of
the prefork pool are not told at all. With :func:`connect` each process of a worker
releases its runs: other workers resume them, and this one ends soon.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import suppress
from typing import Any, Final

from .._checks import check_timeout
from ..stores import RunStore
from .celery_settings import complaints
from .ending import CLOSING, open_store

__all__ = ["connect"]

_log = logging.getLogger("syncagent.store")


def connect(app: Any, store: RunStore, *, grace: float = 10.0) -> None:
    """Have the workers of a Celery app open a store, and release its runs at the end.

    Call it once, in the module with the task. It changes nothing outside of workers. A
    worker logs a warning for each setting that harms runs, when it starts.

    :param grace: seconds that runs have to reach the end of a tool or of a turn when
        their worker ends. It should be well below the time after which the worker is
        killed.
    """
    from celery import signals

    check_timeout(grace, "grace")
    shutdown = _Shutdown(app, store, grace)
    app.steps["worker"].add(_worker_step(shutdown))
    for signal, receiver in (
        (signals.worker_process_init, shutdown.watch_child),
        (signals.worker_process_shutdown, shutdown.finish),
        (signals.worker_shutdown, shutdown.finish),
    ):
        signal.connect(receiver, weak=False)


def _worker_step(shutdown: _Shutdown) -> type:
    """Return a step of a worker: it starts after the pool, and stops before it.

    It stops after the consumer: runs that are released earlier could be delivered to
    this very worker again.
    """
    from celery import bootsteps

    class ReleaseRuns(bootsteps.StartStopStep):  # type: ignore[misc]
        name = f"syncagent.ReleaseRuns{id(shutdown)}"
        requires = ("celery.worker.components:Pool",)

        def create(self, worker: Any) -> None:
            shutdown.prepare()  # the pool forks when it starts

        def start(self, worker: Any) -> None:
            # celery.concurrency.prefork, .thread, .gevent, ...
            shutdown.watch_worker(type(worker.pool).__module__.rpartition(".")[2])

        def stop(self, worker: Any) -> None:
            shutdown.begin()

        terminate = stop

    return ReleaseRuns


class _Shutdown:
    """Closes a store in each process of a worker when the worker is told to end.

    ::

        main process: SIGTERM, the consumer stops ──▶ begin() cuts a pair of sockets
                                                       │
        each process with runs: its thread wakes up, ◀─┘
        and closes the store

    The pair is made before the pool forks, so all children have it, and no one polls.
    """

    def __init__(self, app: Any, store: RunStore, grace: float) -> None:
        self._app: Final = app
        self._store: Final = store
        self._grace: Final = grace
        self._lock = threading.Lock()
        self._ends: tuple[socket.socket, socket.socket] | None = None
        #: The process that watches, and so has runs.
        self._watching_pid = 0

    def prepare(self) -> None:
        """Make the pair of sockets, before there are children."""
        self._ends = socket.socketpair()

    def watch_worker(self, pool: str) -> None:
        """Check the settings; watch here, unless the tasks run in children."""
        for complaint in complaints(self._app, pool):
            _log.warning("%s", complaint)
        if pool != "prefork":
            self._watch()

    def watch_child(self, **_: Any) -> None:
        """Watch in a child of the pool."""
        self._lock = threading.Lock()  # another thread may have had it at the fork
        self._watch()

    def _watch(self) -> None:
        if self._ends is None or self._watching_pid == os.getpid():
            return
        self._watching_pid = os.getpid()
        threading.Thread(
            target=self._open_and_close, name="syncagent-celery", daemon=True
        ).start()

    def _open_and_close(self) -> None:
        """Open the store; close it when the worker is told to end."""
        assert self._ends is not None
        # Now, to take over the runs of dead workers; and on this thread, because Celery
        # kills a child that takes long to start.
        open_store(self._store)
        with suppress(OSError):
            self._ends[1].recv(1)
        self._close()

    def begin(self) -> None:
        """Tell all processes of the worker to close the store."""
        if self._ends is not None:
            with suppress(OSError):  # the second signal
                self._ends[0].shutdown(socket.SHUT_RDWR)

    def finish(self, **_: Any) -> None:
        """Close the store before the process ends, or wait until it is closed.

        Cancellation: it waits for the end of runs, *grace* and some seconds at most.
        """
        if self._watching_pid == os.getpid():
            self._close()

    def _close(self) -> None:
        if self._lock.acquire(timeout=self._grace + CLOSING):
            try:
                self._store.close(self._grace)
            finally:
                self._lock.release()
