"""Hand runs to workers: to threads of this process, or to an engine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from .records import StoredRun
from .threads import RunThreads

__all__ = ["Deliveries", "Enqueue"]

_log = logging.getLogger("syncagent.store")

#: Hands a run to an engine, which then calls ``store.work(run.id)`` somewhere.
Enqueue = Callable[[StoredRun], object]

#: How many runs an engine gets from one sweep.
_BATCH: Final = 500


class Deliveries:
    """Hands out runs. If that fails, a sweep of any process does it again later.

    :param limit: how many runs threads of this process work on at once.
    :param work: works on a run, if there is no engine.
    :param enqueue: hands a run to an engine.
    :param read: returns a run, for the engine.
    :param on_free: called when there is room for another run.
    """

    def __init__(
        self,
        limit: int,
        work: Callable[[str], object],
        enqueue: Enqueue | None,
        read: Callable[[str], StoredRun | None],
        on_free: Callable[[], object],
    ) -> None:
        self._enqueue: Final = enqueue
        self._read: Final = read
        #: The run that a thread hands to the engine now.
        self._handing: Final = threading.local()
        self._has_warned = False
        # An engine may be slow to take a run: then one thread waits for it, and not the
        # one that renews the lease.
        self._threads: Final = (
            RunThreads(limit, work, on_free)
            if enqueue is None
            else RunThreads(1, self._hand_to_engine, on_free)
        )
        self.close: Final = self._threads.close
        self.join: Final = self._threads.join

    @property
    def room(self) -> int:
        """How many more runs could be taken on."""
        return self._threads.room if self._enqueue is None else _BATCH

    def deliver(self, id: str) -> None:
        """Hand out a run; an engine has it when this returns."""
        if self._enqueue is None:
            self.start(id)
        else:
            self._hand_to_engine(id)

    def start(self, id: str) -> bool:
        """Hand out a run on a thread of this process; return whether that worked."""
        try:
            return self._threads.start(id)
        except Exception:
            _log.exception("no thread for a run could be started; a sweep tries again")
            return False

    def _hand_to_engine(self, id: str) -> None:
        assert self._enqueue is not None
        try:
            run = self._read(id)
            self._handing.id = id
            if run is not None:
                self._enqueue(run)
        except Exception:
            _log.exception("the engine did not take a run; a sweep tries again")
        finally:
            self._handing.id = None

    def check_work(self, id: str) -> None:
        """Warn, once, if the engine works on a run instead of carrying it to a worker.

        Every engine has such a mode, for tests, and none shows it to the store.
        """
        if getattr(self._handing, "id", None) != id or self._has_warned:
            return
        self._has_warned = True
        _log.warning(
            "the engine works on runs where they are submitted, so submit() returns "
            "when the run has ended; turn that mode off (Celery: task_always_eager, "
            "Huey: immediate, RQ: is_async=False, Django: ImmediateBackend)"
        )
