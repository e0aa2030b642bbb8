"""One thread per process that sees connections end, without reading or writing.

A client that closes its connection sends a FIN. The kernel reports that (``RDHUP``)
also while bytes of a next request are waiting, with TLS, and on Unix sockets; nothing
is ever read here, so nothing can be taken away from the server.

The descriptors are the server's own. A duplicate would keep a connection open that the
server has closed. So a number may mean another connection by the time that its event is
looked at; therefore an event is only a hint, and the connection itself is asked again.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ..._closeable import Closeable
from ...cancel import clock
from ...cancel.once import start_thread

__all__ = ["Connection", "Watched", "watch"]

_log = logging.getLogger("syncagent.web")

#: Seconds between two looks at what cannot be waited for.
_LOOK: Final = 0.05
#: Seconds that the thread stays when there is nothing left to watch.
_LINGER: Final = 0.05
#: Seconds after which it looks around in any case.
_IDLE: Final = 5.0
#: Not every system can tell a hang-up from data without a look at the data.
_HANG_UP: Final[int] = getattr(select, "POLLRDHUP", 0)
_CAN_WAIT: Final = (
    bool(_HANG_UP) and hasattr(select, "epoll") and hasattr(os, "eventfd")
)


class Connection:
    """The way to one client, as far as a server shows it.

    :param fileno: the descriptor of its socket.
    :param sock: the socket, if there is such an object.
    :param has_gone: asks the server, which may have noticed.
    """

    def __init__(
        self,
        fileno: int,
        sock: socket.socket | None = None,
        has_gone: Callable[[], bool] | None = None,
    ) -> None:
        self.fileno: Final = fileno
        self._sock = sock
        self.has_gone: Final = has_gone

    def is_lost(self) -> bool:
        """Has the client hung up? Looks, and does not wait."""
        if self.has_gone is not None and self.has_gone():
            return True
        if self._sock is not None and self._sock.fileno() != self.fileno:
            return True  # the server has closed it
        poller = select.poll()
        poller.register(self.fileno, _HANG_UP or select.POLLIN)
        found = poller.poll(0)
        if not found:
            return False
        return bool(found[0][1] & ~select.POLLIN) or self._is_at_end()

    def _is_at_end(self) -> bool:
        """Is there nothing left to read, on systems that say only this way?"""
        if self._sock is None:
            return False
        try:
            # As a plain socket: one with TLS does not let anybody peek.
            flags = socket.MSG_PEEK | socket.MSG_DONTWAIT
            return not socket.socket.recv(self._sock, 1, flags)
        except BlockingIOError:
            return False
        except OSError:
            return True


class Watched(Closeable):
    """A connection whose end somebody wants to know of.

    :param on_lost: called once, on the thread that watches; it must not block.
    :param remove: has it watched no longer.
    """

    def __init__(
        self,
        connection: Connection,
        on_lost: Callable[[], object],
        remove: Callable[[Watched], None],
    ) -> None:
        self.connection: Final = connection
        self.on_lost: Final = on_lost
        self._remove = remove

    def close(self) -> None:
        """Watch it no longer; it may be called twice, and by the collector."""
        self._remove(self)


class _Watcher:
    """The thread, and what it watches. It ends when that is nothing."""

    def __init__(self) -> None:
        #: Short, and never held while anything is waited for or called.
        self._lock = threading.Lock()
        self._watched: dict[int, dict[Watched, None]] = {}
        #: Those of which no event tells.
        self._looked_at: dict[Watched, None] = {}
        #: Those that are to be watched no longer, for whoever has the lock next.
        self._leaving: deque[Watched] = deque()
        self._epoll: select.epoll | None = None
        self._waker = -1
        self._thread: threading.Thread | None = None

    def add(self, watched: Watched) -> None:
        """Watch it.

        :raises OSError: there is no such descriptor, or too many are open.
        :raises RuntimeError: there is no thread to be had.
        """
        number = watched.connection.fileno
        with self._lock:
            self._let_leave()
            self._ensure_thread()
            if self._epoll is not None:
                self._register(number)
            self._watched.setdefault(number, {})[watched] = None
            if self._epoll is None or watched.connection.has_gone is not None:
                self._looked_at[watched] = None
                self._wake()
        self._let_leave_soon()

    def remove(self, watched: Watched) -> None:
        """Watch it no longer; nothing happens if it is not watched.

        It may be called by the collector, on a thread that has the lock, so it does not
        wait for that: whoever has it looks again when he has given it back.
        """
        self._leaving.append(watched)  # publish first, then look
        self._let_leave_soon()

    def _let_leave_soon(self) -> None:
        while self._leaving and self._lock.acquire(blocking=False):
            try:
                self._let_leave()
            finally:
                self._lock.release()

    def _let_leave(self) -> None:
        while self._leaving:
            self._forget(self._leaving.popleft())

    def _register(self, number: int) -> None:
        assert self._epoll is not None
        # Once: the event of a connection that only a forked child still holds open
        # could not be taken back, and would come again and again.
        wanted = select.EPOLLRDHUP | select.EPOLLONESHOT
        try:
            self._epoll.register(number, wanted)
        except FileExistsError:
            self._epoll.modify(number, wanted)

    def _forget(self, watched: Watched) -> None:
        number = watched.connection.fileno
        others = self._watched.get(number, {})
        if watched not in others:
            return
        del others[watched]
        self._looked_at.pop(watched, None)
        if not others:
            del self._watched[number]
            if self._epoll is not None:
                with suppress(OSError):  # the server has closed it
                    self._epoll.unregister(number)
        if not self._watched:
            self._wake()

    # -- the thread ----------------------------------------------------------------

    def _ensure_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._close_descriptors()
        if _CAN_WAIT:
            self._epoll = select.epoll()
            self._waker = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._epoll.register(self._waker, select.EPOLLIN)
        for number in self._watched:  # of one that has died
            with suppress(OSError):
                self._register(number)
        self._thread = threading.Thread(
            target=self._work, name="syncagent-watch", daemon=True
        )
        start_thread(self._thread)

    def _wake(self) -> None:
        if self._waker >= 0:
            with suppress(OSError):
                os.eventfd_write(self._waker, 1)

    def _work(self) -> None:
        # Set when there is nothing to watch: how long to stay for more.
        leave_at: float | None = None
        while True:
            events = self._wait(leave_at)
            with self._lock:
                if self._thread is not threading.current_thread():
                    return  # of the parent of this process
                self._let_leave()
                lost = self._find_lost(events)
            _tell(lost)
            with self._lock:
                if self._watched:
                    leave_at = None
                elif leave_at is None:
                    leave_at = clock.now() + _LINGER
                elif leave_at <= clock.now():
                    self._thread = None
                    self._close_descriptors()
                    return

    def _wait(self, leave_at: float | None) -> list[int]:
        """Wait for something to look at; return the numbers of connections."""
        timeout = _LOOK if self._looked_at or self._epoll is None else _IDLE
        if self._leaving:
            timeout = 0.0
        if leave_at is not None:
            timeout = min(timeout, max(0.0, leave_at - clock.now()))
        epoll = self._epoll
        if epoll is None:
            _nothing.wait(timeout)
            return []
        events = [number for number, _ in epoll.poll(timeout)]
        if self._waker in events:
            with suppress(OSError):
                os.eventfd_read(self._waker)
        return events

    def _find_lost(self, events: list[int]) -> list[Watched]:
        """Take out those whose clients have hung up."""
        lost = [one for one in self._looked_at if one.connection.is_lost()]
        for number in events:
            for watched in self._watched.get(number, {}):
                if watched in lost:
                    continue
                if watched.connection.is_lost():
                    lost.append(watched)
                else:
                    with suppress(OSError):  # it was about an earlier connection
                        self._register(number)
        for watched in lost:
            self._forget(watched)
        return lost

    def _close_descriptors(self) -> None:
        epoll, self._epoll = self._epoll, None
        if epoll is not None:
            epoll.close()
        waker, self._waker = self._waker, -1
        if waker >= 0:
            os.close(waker)

    def end_in_child(self) -> None:
        """Close what a forked child has inherited; its parent keeps its own."""
        self._thread = None
        self._close_descriptors()


def _tell(lost: list[Watched]) -> None:
    for watched in lost:
        try:
            watched.on_lost()
        except Exception:
            _log.exception("what was to be told of a lost client raised")


#: Never set: to wait on where nothing else can be waited for.
_nothing: Final = threading.Event()
_watcher = _Watcher()


def watch(connection: Connection, on_lost: Callable[[], object]) -> Watched:
    """Have *on_lost* called once when the client hangs up; close it to take it back.

    :param on_lost: called on the thread that watches; it must not block.
    :raises OSError: the connection is closed, or too many descriptors are open.
    :raises RuntimeError: there is no thread to be had.
    """
    watcher = _watcher  # a fork may replace it
    watched = Watched(connection, on_lost, watcher.remove)
    watcher.add(watched)
    return watched


def _renew_in_child() -> None:
    global _watcher
    inherited, _watcher = _watcher, _Watcher()
    inherited.end_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)
