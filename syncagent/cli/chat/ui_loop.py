"""One thread that waits for input, for signals, and for work posted by others."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from ..._closeable import Closeable

__all__ = ["UiLoop", "handle_signals"]


class UiLoop(Closeable):
    """A wait that any thread can end."""

    def __init__(self) -> None:
        self._posted: deque[Callable[[], object]] = deque()
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        # Held while writing and closing: a closed descriptor may already belong to
        # another file.
        self._lock = threading.Lock()
        self._is_open = True

    @property
    def wakeup_descriptor(self) -> int:
        """A byte written here wakes the loop."""
        return self._writing

    @property
    def has_work(self) -> bool:
        """True if work was posted and not called."""
        return bool(self._posted)

    def post(self, work: Callable[[], object]) -> None:
        """Have *work* called by :meth:`work`; from any thread."""
        self._posted.append(work)
        with self._lock:
            self.wake()

    def post_from_signal(self, work: Callable[[], object]) -> None:
        """Post from a signal handler on the loop's own thread.

        It takes no lock: the interrupted code may hold it.
        """
        self._posted.append(work)
        self.wake()

    def wake(self) -> None:
        """End the wait; call it on the loop's own thread."""
        try:
            if self._is_open:
                os.write(self._writing, b"\0")
        except BlockingIOError:
            pass  # the pipe is full, so the loop is awake

    def wait(self, descriptor: int | None, timeout: float | None) -> bool:
        """Wait until *descriptor* can be read, or work was posted.

        Cancellation: :meth:`post` and :meth:`wake` end it.

        :return: True if *descriptor* can be read.
        """
        if self._posted:
            timeout = 0.0
        watched = [self._reading] if descriptor is None else [self._reading, descriptor]
        ready, _, _ = select.select(watched, [], [], timeout)
        if self._reading in ready:
            os.read(self._reading, 4096)
        return descriptor in ready

    def work(self) -> None:
        """Call the work that was posted until now."""
        for _ in range(len(self._posted)):
            self._posted.popleft()()

    def close(self) -> None:
        """Close the pipe; work posted later is never called."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                os.close(self._reading)
                os.close(self._writing)


@contextmanager
def handle_signals(
    handlers: Mapping[int, Callable[[int], object]], loop: UiLoop | None = None
) -> Iterator[None]:
    """Install signal handlers for a block; on any thread but the main one do nothing.

    :param handlers: called with the number of the signal, on the main thread.
    :param loop: woken by every signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        handlers[signum](signum)

    before = {}
    old_wakeup = None
    if loop is not None:
        # The kernel may deliver a signal to any thread, which does not interrupt the
        # main thread's wait.
        old_wakeup = signal.set_wakeup_fd(
            loop.wakeup_descriptor, warn_on_full_buffer=False
        )
    try:
        for signum in handlers:
            before[signum] = signal.signal(signum, handle)
        yield
    finally:
        for signum, old in before.items():
            signal.signal(signum, signal.SIG_DFL if old is None else old)
        if old_wakeup is not None:
            signal.set_wakeup_fd(old_wakeup)
