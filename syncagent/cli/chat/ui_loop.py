"""One thread that waits for keys, for signals, and for what other threads post."""

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

__all__ = ["UiLoop", "hearing"]


class UiLoop(Closeable):
    """A place to wait that anybody can end."""

    def __init__(self) -> None:
        self._posted: deque[Callable[[], object]] = deque()
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        # So that nobody writes to a descriptor that is somebody else's by then.
        self._lock = threading.Lock()
        self._is_open = True

    @property
    def descriptor(self) -> int:
        """What whoever writes to it wakes it with."""
        return self._writing

    def post(self, work: Callable[[], object]) -> None:
        """Have *work* done by :meth:`work`; from any thread."""
        self._posted.append(work)
        with self._lock:
            self.wake()

    def notice(self, work: Callable[[], object]) -> None:
        """Do the same for a signal handler, on the loop's own thread: without a lock,
        which that very thread may hold.
        """
        self._posted.append(work)
        self.wake()

    def wake(self) -> None:
        """End the wait; on the loop's own thread."""
        try:
            if self._is_open:
                os.write(self._writing, b"\0")
        except BlockingIOError:
            pass  # it is awake

    def wait(self, descriptor: int | None, timeout: float | None) -> bool:
        """Wait until there is something to read, or to do.

        Cancellation: :meth:`post` and :meth:`wake` end it.

        :return: whether *descriptor* can be read.
        """
        if self._posted:
            timeout = 0.0
        wanted = [self._reading] if descriptor is None else [self._reading, descriptor]
        ready, _, _ = select.select(wanted, [], [], timeout)
        if self._reading in ready:
            os.read(self._reading, 4096)
        return descriptor in ready

    def work(self) -> None:
        """Do what was posted up to now."""
        for _ in range(len(self._posted)):
            self._posted.popleft()()

    def close(self) -> None:
        """Let go of it; what is posted from now on is never done."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                os.close(self._reading)
                os.close(self._writing)


@contextmanager
def hearing(
    handlers: Mapping[int, Callable[[int], object]], loop: UiLoop | None = None
) -> Iterator[None]:
    """Have signals handled; only the main thread hears any.

    :param handlers: each is called with the number of its signal, between two steps of
        the main thread.
    :param loop: what that thread waits in, and is to be woken from.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        handlers[signum](signum)

    before = {}
    wakes = None
    if loop is not None:
        # The kernel may give a signal to any thread, which does not wake the main one.
        wakes = signal.set_wakeup_fd(loop.descriptor, warn_on_full_buffer=False)
    try:
        for signum in handlers:
            before[signum] = signal.signal(signum, handle)
        yield
    finally:
        for signum, old in before.items():
            signal.signal(signum, signal.SIG_DFL if old is None else old)
        if wakes is not None:
            signal.set_wakeup_fd(wakes)
