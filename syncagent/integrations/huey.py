"""Huey as the carrier of a store's runs: release them at the end, check settings.

::

    @huey.task(retries=3, retry_delay=1)
    def work(run_id):
        store.work(run_id)

    store = RunStore(URL, make_agent, enqueue=lambda run: work(run.id))
    connect(huey, store)

Huey forgets the tasks of a consumer that gets SIGTERM. With :func:`connect` the
consumer releases its runs first: other consumers resume them.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from typing import Any, Final

from .._checks import check_timeout
from ..stores import RunStore
from .ending import open_store
from .run_tasks import calls_work

__all__ = ["complaints", "connect"]

_log = logging.getLogger("syncagent.store")

#: How Huey's environments of workers are called by its option ``-k``.
_KINDS: Final = {
    "ProcessEnvironment": "process",
    "GreenletEnvironment": "greenlet",
}


def connect(huey: Any, store: RunStore, *, grace: float = 10.0) -> None:
    """Have the consumers of Huey open a store, and release its runs at the end.

    Call it once, in the module with the task. It changes nothing outside of consumers.
    A consumer logs a warning for each setting that harms runs, when it starts.

    :param grace: seconds that runs have to reach the end of a tool or of a turn when
        their consumer ends. It should be well below the time after which the consumer
        is killed.
    """
    from huey.signals import SIGNAL_INTERRUPTED

    check_timeout(grace, "grace")
    consumer = _Consumer(huey, store, grace)
    huey.on_startup(f"syncagent-{id(store)}")(consumer.prepare)
    huey.signal(SIGNAL_INTERRUPTED)(consumer.release)


class _Consumer:
    """Opens a store in each process of a consumer, and closes it at SIGTERM."""

    def __init__(self, huey: Any, store: RunStore, grace: float) -> None:
        self._huey: Final = huey
        self._store: Final = store
        self._grace: Final = grace
        self._lock: Final = threading.Lock()  # each worker of the consumer prepares it
        self._prepared_pid = 0

    def prepare(self) -> None:
        """Check the settings; open the store, to take over runs of dead consumers."""
        with self._lock:
            if self._prepared_pid == os.getpid():
                return
            self._prepared_pid = os.getpid()
        for complaint in complaints(self._huey):
            _log.warning("%s", complaint)
        open_store(self._store)

    def release(self, signal: str, task: Any) -> None:
        """Release the runs: Huey is about to leave its tasks, and to end.

        Cancellation: it waits for the end of runs, *grace* and 5 seconds at most.
        """
        self._store.close(self._grace)


def complaints(huey: Any) -> Iterator[str]:
    """Yield a sentence for each setting of a consumer and its tasks that harms runs."""
    environment = getattr(huey._timeout_handler, "__self__", None)  # of a consumer
    kind = _KINDS.get(type(environment).__name__, "thread")
    if kind == "process":
        yield (
            "the workers are processes: SIGTERM interrupts tools without grace, and "
            "counts as a crash of their runs; use -k thread"
        )
    elif kind == "greenlet":
        yield (
            "the workers are greenlets: a tool that computes or waits in C code holds "
            "up the lease and the cancels of all runs of this consumer; use -k thread, "
            "unless all tools only wait for sockets"
        )
    for name, task in sorted(huey._registry._registry.items()):
        if calls_work(_function_of(task)):
            yield from _of_task(name, task, kind)


def _function_of(task: Any) -> Any:
    """Return the function of a class of tasks, which has it in a closure."""
    code, cells = task.execute.__code__, task.execute.__closure__ or ()
    found = (
        cell.cell_contents
        for name, cell in zip(code.co_freevars, cells, strict=True)
        if name == "func"
    )
    return next(found, None)


def _of_task(name: str, task: Any, kind: str) -> Iterator[str]:
    if task.default_timeout and kind != "thread":  # threads ignore it
        yield (
            f"{name} has a timeout of {task.default_timeout} seconds: it fails longer "
            "runs; remove it, and use submit(timeout=) instead"
        )
    if task.default_expires:
        yield (
            f"{name} has expires={task.default_expires}: a run that waits longer "
            "begins only when the store hands it out again; remove it"
        )
