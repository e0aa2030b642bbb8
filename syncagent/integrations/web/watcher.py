"""One thread per process that watches connections for hang-ups, without any I/O.

A client that closes its connection sends a FIN. The kernel reports it (``RDHUP``) even
while bytes of the next request are waiting, with TLS, and on Unix sockets. Nothing is
ever read here, so the server loses no bytes.

The descriptors are the server's own, because a duplicate would keep a connection open
that the server has closed. By the time an event is handled, its descriptor may belong
to another connection. So an event is only a hint: the connection is always checked.

A client that stays connected and reads nothing sends no FIN, and would hold a thread of
the server in ``send()`` forever. So the thread also asks the watched streams now and
then whether they have stalled, and shuts down the connections of those that have.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from ..._closeable import Closeable
from ..._forks import in_child
from ...cancel import clock
from ...cancel.once import start_thread

__all__ = ["Connection", "StallCheck", "Watched", "watch"]

_log = logging.getLogger("syncagent.web")

#: Seconds between two checks of connections without events.
_POLL_INTERVAL: Final = 0.05
#: Seconds for which the thread stays when nothing is left to watch.
_LINGER: Final = 0.05
#: Seconds between two wake-ups without events.
_MAX_WAIT: Final = 5.0
#: Checks for a stall in the time that a stream may be stalled.
_CHECKS_PER_STALL: Final = 4
#: 0 on systems that cannot tell a hang-up from data without peeking at the data.
_HANG_UP: Final[int] = getattr(select, "POLLRDHUP", 0)
#: SO_LINGER with 0 seconds: close() drops the bytes that the client has not taken.
_DROP_UNSENT: Final = struct.pack("ii", 1, 0)


class Connection:
    """The connection to one client, as far as the server exposes it.

    :param fileno: the descriptor of its socket; -1 if the server does not expose it.
    :param sock: the socket object, if there is one.
    :param is_disconnected: asks the server, which may have noticed by itself.
    """

    def __init__(
        self,
        fileno: int,
        sock: socket.socket | None = None,
        is_disconnected: Callable[[], bool] | None = None,
    ) -> None:
        self.fileno: Final = fileno
        self._sock = sock
        self.is_disconnected: Final = is_disconnected
        self._inode = _inode_of(fileno)

    def shut_down(self, how: int = socket.SHUT_RDWR) -> None:
        """End the connection under the server, whose next call on it fails.

        Never blocks, and never touches a connection that has got the same descriptor
        since: the duplicate cannot change its meaning between the check and the call.
        It is a plain socket, so nothing of TLS is touched.

        :param how: as for :meth:`socket.socket.shutdown`. SHUT_RD makes the server
            close a kept-alive connection after the current response.
        """
        if self._inode is None:
            return
        with suppress(OSError):
            fileno = os.dup(self.fileno)
            if _inode_of(fileno) != self._inode:
                os.close(fileno)
                return
            with socket.socket(fileno=fileno) as duplicate:
                if how == socket.SHUT_RDWR:
                    duplicate.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, _DROP_UNSENT
                    )
                duplicate.shutdown(how)

    def is_lost(self) -> bool:
        """True if the client has hung up. Never blocks."""
        if self.fileno < 0:
            return False
        if self.is_disconnected is not None and self.is_disconnected():
            return True
        if self._sock is not None and self._sock.fileno() != self.fileno:
            return True  # the server has closed it
        if hasattr(select, "poll"):
            poller = select.poll()
            poller.register(self.fileno, _HANG_UP or select.POLLIN)
            events = poller.poll(0)
            if not events:
                return False
            if events[0][1] & ~select.POLLIN:
                return True
        else:  # Windows, or eventlet, which removes it
            try:
                if not select.select([self.fileno], [], [], 0)[0]:
                    return False
            except (OSError, ValueError):  # closed, or beyond what it can look at
                return False
        # Some systems report a hang-up only as the end of the input.
        if self._sock is None:
            return False
        try:
            # The method of the plain socket: a TLS socket does not allow MSG_PEEK.
            flags = socket.MSG_PEEK | getattr(socket, "MSG_DONTWAIT", 0)
            return not socket.socket.recv(self._sock, 1, flags)
        except BlockingIOError:
            return False
        except OSError:
            return True


def _inode_of(fileno: int) -> tuple[int, int] | None:
    """Return the identity of the open socket, which no later socket shares."""
    try:
        status = os.fstat(fileno)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class StallCheck(msgspec.Struct, frozen=True):
    """How to notice a client that is connected and reads nothing."""

    #: True if the client has taken nothing for too long. It must not block.
    has_stalled: Callable[[], bool]
    #: Seconds that the client has.
    seconds: float


class Watched(Closeable):
    """A connection that is being watched.

    :param on_lost: called once, on the watcher's thread; it must not block.
    :param stall: for connections that are shut down when they have stalled.
    :param remove: stops watching.
    """

    def __init__(
        self,
        connection: Connection,
        on_lost: Callable[[], object],
        stall: StallCheck | None,
        remove: Callable[[Watched], None],
    ) -> None:
        self.connection: Final = connection
        self.on_lost: Final = on_lost
        self.stall: Final = stall
        self._remove = remove

    def close(self) -> None:
        """Stop watching. May be called twice, and by the garbage collector."""
        self._remove(self)


class _Watcher:
    """The thread and the connections it watches. It ends when there are none."""

    def __init__(self) -> None:
        #: Held briefly, never while waiting or calling user code.
        self._lock = threading.Lock()
        #: By descriptor.
        self._watched: dict[int, dict[Watched, None]] = {}
        #: Those for which the kernel reports no events.
        self._polled: dict[Watched, None] = {}
        #: Those that may stall, when the next check is due, and how often it is.
        self._streams: dict[Watched, StallCheck] = {}
        self._next_check = 0.0
        self._check_interval = _MAX_WAIT
        #: Closed ones, until a thread that holds the lock drops them.
        self._closed: deque[Watched] = deque()
        self._epoll: select.epoll | None = None
        self._waker = -1
        self._thread: threading.Thread | None = None

    def add(self, watched: Watched) -> None:
        """Start watching.

        :raises OSError: the descriptor is closed, or too many are open.
        :raises RuntimeError: no thread can be started.
        """
        fileno = watched.connection.fileno
        with self._lock:
            self._drop_closed()
            self._ensure_thread()
            if self._epoll is not None and fileno >= 0:
                self._register(fileno)
            self._watched.setdefault(fileno, {})[watched] = None
            if watched.stall is not None:
                self._streams[watched] = watched.stall
                interval = watched.stall.seconds / _CHECKS_PER_STALL
                if interval < self._check_interval:
                    self._check_interval = max(interval, _POLL_INTERVAL)
                    self._next_check = 0.0
                    self._wake()
            if self._epoll is None or watched.connection.is_disconnected is not None:
                self._polled[watched] = None
                self._wake()
        self._try_drop_closed()

    def remove(self, watched: Watched) -> None:
        """Stop watching; does nothing if it is not watched.

        The garbage collector may call this on a thread that holds the lock, so it must
        not wait for the lock. Every holder looks again after releasing it.
        """
        self._closed.append(watched)  # publish first, then look
        self._try_drop_closed()

    def _try_drop_closed(self) -> None:
        while self._closed and self._lock.acquire(blocking=False):
            try:
                self._drop_closed()
            finally:
                self._lock.release()

    def _drop_closed(self) -> None:
        while self._closed:
            self._drop(self._closed.popleft())

    def _register(self, fileno: int) -> None:
        assert self._epoll is not None
        # One shot: a connection that only a forked child still holds open cannot be
        # unregistered, and its event would repeat forever.
        mask = select.EPOLLRDHUP | select.EPOLLONESHOT
        try:
            self._epoll.register(fileno, mask)
        except FileExistsError:
            self._epoll.modify(fileno, mask)

    def _drop(self, watched: Watched) -> None:
        fileno = watched.connection.fileno
        same_fileno = self._watched.get(fileno, {})
        if watched not in same_fileno:
            return
        del same_fileno[watched]
        self._polled.pop(watched, None)
        self._streams.pop(watched, None)
        if not self._streams:
            self._check_interval = _MAX_WAIT
        if not same_fileno:
            del self._watched[fileno]
            if self._epoll is not None and fileno >= 0:
                with suppress(OSError):  # the server has closed it
                    self._epoll.unregister(fileno)
        if not self._watched:
            self._wake()

    # -- the thread ----------------------------------------------------------------

    def _ensure_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._close_descriptors()
        # Looked up here, because gevent may remove epoll after this module's import.
        if _HANG_UP and hasattr(select, "epoll") and hasattr(os, "eventfd"):
            self._epoll = select.epoll()
            self._waker = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._epoll.register(self._waker, select.EPOLLIN)
        for fileno in self._watched:  # left by a thread that died
            if self._epoll is None or fileno < 0:
                continue
            with suppress(OSError):
                self._register(fileno)
        self._thread = threading.Thread(
            target=self._work, name="syncagent-watch", daemon=True
        )
        start_thread(self._thread)

    def _wake(self) -> None:
        if self._waker >= 0:
            with suppress(OSError):
                os.eventfd_write(self._waker, 1)

    def _work(self) -> None:
        is_idle = False
        while True:
            events = self._wait(is_idle)
            with self._lock:
                if self._thread is not threading.current_thread():
                    return  # this watcher was replaced after a fork
                self._drop_closed()
                lost = self._take_lost(events)
            for watched in lost:
                try:
                    watched.on_lost()
                except Exception:
                    _log.exception("the callback for a lost connection raised")
            with self._lock:
                if self._watched or events or not is_idle:
                    is_idle = not self._watched
                else:
                    self._thread = None
                    self._close_descriptors()
                    return

    def _wait(self, is_idle: bool) -> list[int]:
        """Wait for events; return their descriptors."""
        timeout = self._check_interval
        if self._polled or self._epoll is None:
            timeout = _POLL_INTERVAL
        if is_idle:
            timeout = _LINGER
        if self._closed:
            timeout = 0.0
        epoll = self._epoll
        if epoll is None:
            _never.wait(timeout)
            return []
        events = [fileno for fileno, _ in epoll.poll(timeout)]
        if self._waker in events:
            with suppress(OSError):
                os.eventfd_read(self._waker)
        return events

    def _take_lost(self, events: list[int]) -> list[Watched]:
        """Remove the connections whose clients are lost, and return them.

        Those of stalled clients are shut down first.
        """
        lost = [each for each in self._polled if each.connection.is_lost()]
        for fileno in events:
            for watched in self._watched.get(fileno, {}):
                if watched in lost:
                    continue
                if watched.connection.is_lost():
                    lost.append(watched)
                else:
                    with suppress(OSError):  # the event of an earlier connection
                        self._register(fileno)
        now = clock.now()
        if now >= self._next_check:
            self._next_check = now + self._check_interval
            for watched, stall in self._streams.items():
                if watched not in lost and stall.has_stalled():
                    watched.connection.shut_down()
                    lost.append(watched)
        for watched in lost:
            self._drop(watched)
        return lost

    def _close_descriptors(self) -> None:
        epoll, self._epoll = self._epoll, None
        if epoll is not None:
            epoll.close()
        waker, self._waker = self._waker, -1
        if waker >= 0:
            os.close(waker)

    def end_in_child(self) -> None:
        """Close the descriptors that a forked child has inherited."""
        self._thread = None
        self._close_descriptors()


#: Never set. Waited on where the system has no epoll.
_never: Final = threading.Event()
_watcher = _Watcher()


def watch(
    connection: Connection,
    on_lost: Callable[[], object],
    stall: StallCheck | None = None,
) -> Watched:
    """Call *on_lost* once when the client hangs up, unless the result is closed first.

    :param on_lost: called on the watcher's thread; it must not block.
    :param stall: shut the connection down when it has stalled, and call *on_lost*.
    :raises OSError: the connection is closed, or too many descriptors are open.
    :raises RuntimeError: no thread can be started.
    """
    watcher = _watcher  # a fork may replace it
    watched = Watched(connection, on_lost, stall, watcher.remove)
    watcher.add(watched)
    return watched


@in_child
def _renew_in_child() -> None:
    global _watcher
    inherited, _watcher = _watcher, _Watcher()
    inherited.end_in_child()
