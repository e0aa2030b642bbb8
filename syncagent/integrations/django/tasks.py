"""Workers of ``django.tasks``: they release the runs of the store when they end."""

from __future__ import annotations

import os
import threading
from typing import Any, Final

from ..ending import close_on_signals
from ..web.stored_runs import StoredRuns
from .conf import get_runs, read_settings

__all__ = ["connect_tasks"]

#: Seconds that runs have to reach the end of a tool or of a turn when a worker ends.
_GRACE: Final = 5.0


def connect_tasks() -> None:
    """Prepare each worker of ``django.tasks`` when it gets its first task.

    A worker that gets SIGTERM waits for its task, however long that takes. So it closes
    the store first: another worker resumes the run, and the task returns.
    """
    try:
        from django.tasks.signals import task_started
    except ImportError:  # before Django 6
        return
    prepared: list[int] = []

    def prepare(**signal: Any) -> None:
        # Handlers can be set on the main thread only: there db_worker runs its tasks.
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or os.getpid() in prepared:
            return
        prepared.append(os.getpid())
        if read_settings().enqueue is None:
            return
        runs = get_runs()
        if isinstance(runs, StoredRuns):
            close_on_signals(runs.store, _GRACE)

    task_started.connect(prepare, weak=False, dispatch_uid="syncagent")
