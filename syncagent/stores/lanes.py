"""Threads that talk to a database, so that no run and no caller blocks in its driver.

Guarantees:

- A caller waits with its own token and time, and leaves when either ends. The operation
  may still happen; every operation is safe to repeat.
- At most *width* threads, and so connections, exist, however many callers there are. A
  thread whose operation takes too long is cut off from the database, and replaced.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from ..cancel import CancelToken, Mailbox, clock
from ..cancel.once import start_thread
from ..exceptions import StoreUnavailable

__all__ = ["Lanes"]

_T = TypeVar("_T")

#: Seconds without work after which a thread ends, and its connection with it.
_IDLE: Final = 60.0


class _Task(Generic[_T]):
    """One operation, and its value or its error."""

    def __init__(self, operation: Callable[[], _T]) -> None:
        self._operation: Final = operation
        #: Gets an item when it is done.
        self.done: Final[Mailbox[bool]] = Mailbox()
        self.value: _T | None = None
        self.error: BaseException | None = None
        #: The thread that works on it.
        self.thread = 0
        #: True once its caller no longer waits.
        self.is_left = False

    def run(self) -> None:
        self.thread = threading.get_ident()
        if self.is_left:
            return
        try:
            self.value = self._operation()
        except BaseException as error:
            self.error = error


#: The tasks of one thread: it does whatever is put in here.
_Lane = Mailbox[_Task[Any]]


class Lanes:
    """A few threads, each with a connection of its own.

    :param width: how many.
    :param cut: cuts the connection of a thread that has blocked for too long.
    """

    def __init__(self, width: int, cut: Callable[[int], object]) -> None:
        self._width: Final = width
        self._cut: Final = cut
        #: Tasks that wait for a thread.
        self._tasks: deque[_Task[Any]] = deque()
        #: Idle threads. The last one gets the next task, so that the others end.
        self._idle: list[_Lane] = []
        self._threads: set[threading.Thread] = set()
        self._lock: Final = threading.Lock()
        self._closing: Final = CancelToken()

    def perform(
        self, operation: Callable[[], _T], token: CancelToken, timeout: float
    ) -> _T:
        """Have a thread do *operation*, and return its value.

        Cancellation: ends at once.

        :raises StoreUnavailable: *token* was cancelled or the time is over first.
        """
        task = _Task(operation)
        if self._closing.cancelled:
            raise StoreUnavailable("the store is closed")
        self._hand_over(task)
        if task.done.get(token, clock.now() + timeout) is None:
            task.is_left = True
            if not token.cancelled and task.thread:
                self._cut(task.thread)
            raise StoreUnavailable(
                "the store did not reply within "
                f"{timeout:g} s; it is not known whether it has done it"
            )
        if task.error is not None:
            try:
                raise task.error
            finally:
                task.error = None  # its traceback has this frame: no cycle
        return task.value  # type: ignore[return-value]

    def _hand_over(self, task: _Task[Any]) -> None:
        """Give a task to a thread that is idle, or new, or the first that will be."""
        with self._lock:
            if self._idle:
                self._idle.pop().put(task)
                return
            if len(self._threads) < self._width:
                lane: _Lane = Mailbox()
                lane.put(task)
                thread = threading.Thread(
                    target=contextvars.Context().run,
                    args=(self._work, lane),
                    name="syncagent-store-lane",
                    daemon=True,
                )
                self._threads.add(thread)
                try:
                    start_thread(thread)
                except RuntimeError:
                    self._threads.discard(thread)
                    if not self._threads:
                        raise
                else:
                    return
            self._tasks.append(task)

    def _work(self, lane: _Lane) -> None:
        try:
            while (task := self._next_task(lane)) is not None:
                task.run()
                with self._lock:
                    if self._tasks:
                        lane.put(self._tasks.popleft())
                    else:
                        self._idle.append(lane)
                task.done.put(True)  # last: its caller finds this thread idle
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())
            self._cut(threading.get_ident())

    def _next_task(self, lane: _Lane) -> _Task[Any] | None:
        """Wait for a task; ``None`` if none came for a long time."""
        task = lane.get(self._closing, clock.now() + _IDLE)
        if task is None:
            with self._lock:
                task = lane.take()  # handed over at the last moment
                if task is None and lane in self._idle:
                    self._idle.remove(lane)
        return task

    def close(self, timeout: float) -> None:
        """End all threads, at most *timeout* seconds from now.

        Cancellation: none but *timeout*.
        """
        self._closing.cancel(origin="closed")
        until = clock.now() + timeout
        with self._lock:  # so that all of them have started
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, until - clock.now()))
            if thread.is_alive() and thread.ident is not None:
                self._cut(thread.ident)
