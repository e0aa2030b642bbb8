"""Workers of ``django.tasks``: they release the runs of the store when they end."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import Any, Final

from django.apps import apps
from django.db.backends.signals import connection_created

from ...exceptions import ConfigurationError
from ...stores import RunStore
from ..ending import close_on_signals, open_store
from ..web.stored_runs import StoredRuns
from .conf import get_runs, read_settings

__all__ = ["connect_tasks"]

_log = logging.getLogger("syncagent.store")

#: The command of a worker that looks for tasks in the database of the site.
_COMMAND: Final = "db_worker"
#: Seconds that runs have to reach the end of a tool or of a turn when a worker ends.
_GRACE: Final = 5.0


def connect_tasks() -> None:
    """Prepare each worker of ``django.tasks`` when it gets its first task.

    A ``db_worker`` opens the store before, to take over the runs of dead ones.

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
        store = _find_store()
        if store is not None:
            close_on_signals(store, _GRACE)

    task_started.connect(prepare, weak=False, dispatch_uid="syncagent")
    if _COMMAND in sys.argv[1:2]:  # with --reload, its parent never connects
        connection_created.connect(_open, dispatch_uid="syncagent")


def _open(**signal: Any) -> None:
    """Open the store in a ``db_worker`` that has just connected to its database."""
    if not apps.ready:
        return
    connection_created.disconnect(dispatch_uid="syncagent")
    try:
        store = _find_store()
    except ConfigurationError as error:  # the first task says so, too
        _log.warning("the store is not open: %s", error)
        return
    if store is not None:
        open_store(store)


def _find_store() -> RunStore | None:
    """Return the store of a site whose runs are worked on in tasks."""
    if read_settings().enqueue is None:
        return None
    runs = get_runs()
    return runs.store if isinstance(runs, StoredRuns) else None
