"""Work on runs in this process, each on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from .._context import work_in_context
from ..cancel import clock
from ..cancel.once import start_thread

__all__ = ["RunThreads"]

_log = logging.getLogger("syncagent.store")


class RunThreads:
    """Threads for runs; a run that finds none free waits for one.

    :param limit: how many runs are worked on at once.
    :param work: works on a run.
    :param on_free: called when a thread has ended.
    """

    def __init__(
        self,
        limit: int,
        work: Callable[[str], object],
        on_free: Callable[[], object],
    ) -> None:
        self._limit: Final = limit
        self._work: Final = work
        self._on_free: Final = on_free
        self._waiting: deque[str] = deque()
        self._threads: set[threading.Thread] = set()
        self._lock: Final = threading.Lock()
        self._is_closed = False

    @property
    def room(self) -> int:
        """How many more runs could be taken on."""
        taken = len(self._threads) + len(self._waiting)
        return 0 if self._is_closed else max(0, self._limit - taken)

    def start(self, id: str) -> bool:
        """Work on a run, now or when a thread is free.

        :return: false if this is closed.
        :raises RuntimeError: no thread can be started.
        """
        with self._lock:
            if self._is_closed:
                return False
            if len(self._threads) >= self._limit:
                self._waiting.append(id)
                return True
            thread = threading.Thread(
                target=work_in_context,
                args=(lambda: self._drive(id),),
                name=f"syncagent-store-run-{len(self._threads) + 1}",
                daemon=True,
            )
            self._threads.add(thread)
            try:
                start_thread(thread)  # with the lock: join() finds only started ones
            except BaseException:
                self._threads.discard(thread)
                raise
        return True

    def _drive(self, id: str) -> None:
        next_id: str | None = id
        try:
            while next_id is not None:
                try:
                    self._work(next_id)
                except BaseException:  # sys.exit() ends no process here, nor the line
                    _log.exception("the work on a run ended; a sweep delivers it again")
                with self._lock:
                    next_id = None
                    if self._waiting and not self._is_closed:
                        next_id = self._waiting.popleft()
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())
            self._on_free()

    def close(self) -> None:
        """Start no more."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()

    def join(self, timeout: float) -> bool:
        """Wait for the threads, at most *timeout* seconds.

        Cancellation: none but *timeout*.

        :return: whether all have ended.
        """
        until = clock.now() + timeout
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - clock.now()))
        return not any(thread.is_alive() for thread in threads)
