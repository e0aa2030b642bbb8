"""Settings of Celery that harm the runs of a store: their effect, and what to set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from .run_tasks import calls_work

__all__ = ["complaints"]

#: Seconds after which Redis delivers a message again that was not acknowledged.
_VISIBILITY: Final = 3600
#: Pools whose tasks are greenlets.
_GREEN: Final = ("gevent", "eventlet")


def complaints(app: Any, pool: str) -> Iterator[str]:
    """Yield a sentence for each setting of an app that harms runs.

    :param pool: the name of the pool, such as ``prefork``.
    """
    yield from _prefetching(app.conf)
    if pool in _GREEN:
        yield (
            f"the pool is {pool}: a tool that computes or waits in C code holds up the "
            "lease and the cancels of all runs of this worker; use -P threads, unless "
            "all tools only wait for sockets"
        )
    for name, task in sorted(app.tasks.items()):
        if calls_work(getattr(task, "_orig_run", task.run)):  # autoretry_for wraps it
            yield from _of_task(name, task, app.conf, pool)


def _prefetching(conf: Any) -> Iterator[str]:
    """Yield complaints about runs that wait behind long ones of the same worker."""
    url = str(conf.broker_read_url or conf.broker_url or "")
    if conf.worker_prefetch_multiplier != 1:
        yield (
            f"worker_prefetch_multiplier is {conf.worker_prefetch_multiplier}: runs "
            "wait in a worker that is busy, although others are idle; set it to 1"
        )
    is_off = getattr(conf, "worker_disable_prefetch", None) is False  # since 5.6
    if is_off and url.startswith(("redis", "sentinel")):
        yield (
            "worker_disable_prefetch is off: as many runs as a worker has slots wait "
            "behind those that it works on, although other workers are idle; set it to "
            "True, which Celery 5.6 can do on Redis"
        )


def _of_task(name: str, task: Any, conf: Any, pool: str) -> Iterator[str]:
    if task.acks_late:
        options = conf.broker_transport_options or {}
        seconds = options.get("visibility_timeout", _VISIBILITY)
        yield (
            f"{name} has acks_late: Redis delivers a run again that takes more than "
            f"{seconds} seconds (visibility_timeout); the store rejects that, and "
            "hands out runs of dead workers itself: set acks_late=False"
        )
    hard = task.time_limit or conf.task_time_limit
    soft = task.soft_time_limit or conf.task_soft_time_limit
    if hard and pool == "prefork":
        yield (
            f"{name} has a time limit of {hard} seconds: its process is killed, the "
            "tool is interrupted, and another worker resumes the run until it has "
            "failed after max_crashes; use submit(timeout=) instead"
        )
    if soft and pool == "prefork":
        yield (
            f"{name} has a soft time limit of {soft} seconds: it fails the run; use "
            "submit(timeout=) instead"
        )
    if getattr(task, "autoretry_for", ()):
        yield (
            f"{name} has autoretry_for: the store hands out runs of dead workers "
            "again, and a retry is one more delivery that it rejects; remove it"
        )
    if not task.ignore_result and conf.result_backend:
        yield (
            f"{name} stores results: the result of a run is in its row, and is not "
            "for Celery's serializer; set ignore_result=True"
        )
