"""Wait for several descriptors, while other threads take some of them away.

With epoll a thread may change the set while another one waits for it. Elsewhere only
the waiting thread may, and :attr:`Poller.is_shared` is false.
"""

from __future__ import annotations

import math
import select
from contextlib import suppress

__all__ = ["Poller"]


class Poller:
    """The set of descriptors that the I/O thread waits for."""

    def __init__(self) -> None:
        self.is_shared = hasattr(select, "epoll")
        self._epoll = select.epoll() if self.is_shared else None
        self._poll = None if self.is_shared else select.poll()

    def watch(self, descriptor: int, *, for_room: bool = False) -> None:
        """Wait for *descriptor* as well: for input, or for room to write."""
        if self._epoll is not None:
            kind = select.EPOLLOUT if for_room else select.EPOLLIN
            with suppress(FileExistsError):
                self._epoll.register(descriptor, kind)
        elif self._poll is not None:
            self._poll.register(
                descriptor, select.POLLOUT if for_room else select.POLLIN
            )

    def forget(self, descriptor: int) -> None:
        """No longer wait for *descriptor*. Safe to repeat; do it before its close."""
        with suppress(KeyError, FileNotFoundError):
            if self._epoll is not None:
                self._epoll.unregister(descriptor)
            elif self._poll is not None:
                self._poll.unregister(descriptor)

    def wait(self, seconds: float) -> set[int]:
        """Return the descriptors that are ready, after *seconds* at most.

        Cancellation: another thread makes one of them ready.
        """
        if self._epoll is not None:
            ready = self._epoll.poll(max(0.0, seconds))
        else:
            assert self._poll is not None
            ready = self._poll.poll(math.ceil(max(0.0, seconds) * 1000))
        return {descriptor for descriptor, _ in ready}

    def close(self) -> None:
        """Release its own descriptor."""
        if self._epoll is not None:
            self._epoll.close()
