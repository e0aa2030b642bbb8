"""Worker processes as their parent sees them, and the pool of idle ones."""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import starmap
from typing import Final, NamedTuple

from ..._forks import in_child
from ...cancel import CancelToken, clock
from ...cancel import threads as services
from ...exceptions import ConfigurationError
from .channel import (
    ANSWER,
    CALL,
    PROGRESS,
    QUESTION,
    FrameReader,
    OutOfStep,
    frame_parts,
    new_number,
)
from .child import LOOK, NAP, ChildProcess
from .groups import ProcessGroup

__all__ = [
    "CallEnd",
    "IDLE_SECONDS",
    "MAX_IDLE",
    "Pool",
    "WorkerProcess",
    "close_idle",
    "current",
    "end_despite_signals",
]

#: Idle workers that are kept.
MAX_IDLE: Final = 4
#: Seconds that a worker stays idle; then the SDK's timer ends it.
IDLE_SECONDS: Final = 60.0
#: Seconds that a worker has to exit after its connection is closed.
_LEAVING: Final = 1.0
#: Seconds to wait for the end of a killed worker on the timer thread, which must not
#: block.
_GLANCE: Final = 0.01
#: No SIGPIPE, which ends programs that have not left it ignored.
_NO_SIGNAL: Final = getattr(socket, "MSG_NOSIGNAL", 0)

# Not with -m: that puts the working directory, with any file in it, first in the path.
_PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from syncagent.tools.processes.worker import main; main(int(sys.argv[1]))"
)


class CallEnd(NamedTuple):
    """How a call in a worker ended."""

    #: The last frame; ``None`` if the worker is gone.
    frame: tuple[bytes, memoryview] | None
    #: True if the worker got the call.
    was_sent: bool
    #: True if a cancel killed the worker.
    was_killed: bool
    #: True if the worker has sent nothing after that frame.
    is_clean: bool


class WorkerProcess(ChildProcess):
    """A worker as its parent sees it.

    Guarantee: a wait for it ends when it has ended, at any byte of a frame, though a
    process that it started may hold the connection open.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sockets: list[socket.socket] = []
        self._poll = select.poll()
        #: The descriptor of the socket, and the longest poll in milliseconds.
        self._number = self._nap = -1
        self._path: list[str] | None = None
        #: The bytes still to be read, at most, once it has ended.
        self._rest: int | None = None
        #: When its last call ended, or it was retired.
        self.idle_since = 0.0

    def _open(self) -> None:
        """Start the process; the first call may be sent at once."""
        from multiprocessing.spawn import get_executable

        executable = get_executable()
        if not executable or getattr(sys, "frozen", False):
            raise ConfigurationError(
                "a worker process needs a Python executable, and none is known to this "
                "program; call multiprocessing.set_executable(), or use "
                "isolation='thread'"
            )
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        python = (os.fsdecode(executable), *flags)
        self._sockets.extend(socket.socketpair())
        ours, remote = self._sockets
        os.set_blocking(remote.fileno(), True)  # it is not under gevent
        self._spawn(
            [*python, "-c", _PROGRAM, str(remote.fileno()), *_absolute(sys.path)],
            stdin=subprocess.DEVNULL,
            pass_fds=(remote.fileno(),),
        )
        remote.close()
        ours.setblocking(False)
        self._number = ours.fileno()
        self._nap = int(1000 * (NAP if self._pidfds else LOOK))
        self._poll.register(ours, select.POLLIN)
        for pidfd in self._pidfds:
            self._poll.register(pidfd, select.POLLIN)

    @property
    def is_usable(self) -> bool:
        """True if it waits for a call."""
        # A worker that sends anything between calls is gone or out of step.
        is_quiet = not self._poll.poll(0)
        return is_quiet and (bool(self._pidfds) or not self.has_ended)

    def path_update(self, path: list[str]) -> list[str] | None:
        """Return *path* for the worker, ``None`` if it has not changed."""
        if path == self._path:
            return None
        self._path = list(path)
        return _absolute(path)

    # -- a call --------------------------------------------------------------------

    def call(
        self,
        packed: bytes,
        kill_on: Sequence[CancelToken],
        serve: Callable[[bytes, memoryview], bytes | None],
        limit: int,
    ) -> CallEnd:
        """Send a call and wait for its end.

        Cancellation: of a token in *kill_on* kills the group at once.

        :param serve: given the kind and the payload of each frame that the function
            sends while it runs; returns the answer to a question.
        :param limit: the bytes of the largest frame that the worker may send.
        :raises OutOfStep: it has sent something else. It cannot be used again.
        """
        group = ProcessGroup(self.signal, signal.SIGKILL)
        number = new_number()
        reader = FrameReader(number, limit)
        frame, was_sent = None, False
        try:
            for token in kill_on:
                token.attach(group)
            was_sent = self._send(CALL, number, packed)
            while was_sent and (frame := self._receive(reader)) is not None:
                if frame[0] not in (PROGRESS, QUESTION):
                    break
                answer = serve(*frame)
                if answer is not None:
                    self._send(ANSWER, number, answer)
        finally:
            # For a forked child the worker is as good as killed.
            was_killed = not group.settle(*kill_on) or self.is_forgotten
        if frame is None and not was_killed:
            self.wait_ended(clock.now() + _LEAVING)  # so that its exit status is known
        return CallEnd(frame, was_sent, was_killed, reader.is_empty)

    def _send(self, kind: bytes, number: bytes, payload: bytes) -> bool:
        """Send a frame; false if the worker is gone."""
        for part in frame_parts(kind, number, payload):
            rest: bytes | memoryview = part
            while rest:
                try:
                    sent = self._sockets[0].send(rest, _NO_SIGNAL)
                except BlockingIOError:
                    self._poll.modify(self._number, select.POLLOUT)
                    if not self._wait() or self._rest is not None:
                        return False
                    self._poll.modify(self._number, select.POLLIN)
                except OSError:  # it is gone
                    return False
                else:
                    rest = b"" if sent == len(rest) else memoryview(rest)[sent:]
        return True

    def _receive(self, reader: FrameReader) -> tuple[bytes, memoryview] | None:
        """Return the next frame, ``None`` if the worker is gone."""
        while (frame := reader.next()) is None:
            if not self._wait():
                return None
            try:
                data = self._sockets[0].recv(reader.wanted)
            except BlockingIOError:
                continue
            except OSError:  # it is gone
                return None
            if not data:
                return None
            try:
                reader.feed(data)
            except MemoryError:
                raise OutOfStep("its result does not fit into the memory") from None
            if self._rest is not None:
                self._rest -= len(data)
        return frame

    def _wait(self) -> bool:
        """Wait until the socket is ready; false if the worker has ended."""
        while not self.is_forgotten:
            rest = self._rest
            ready = self._poll.poll(self._nap if rest is None else 0)
            # There are two at most, and gevent does not keep their order.
            is_ready = self._number in (ready[0][0], ready[-1][0]) if ready else False
            if rest is not None:
                return is_ready and rest > 0
            if is_ready and len(ready) == 1:
                return True
            if ready or (not self._pidfds and self.has_ended):
                # All that it has sent is in the socket. There may be more, of a process
                # that it has left behind; and poll() may have looked at the socket a
                # moment before the last bytes came.
                size = self._sockets[0].getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
                self._rest = 2 * size
        return False

    # -- its end -------------------------------------------------------------------

    def retire(self) -> None:
        """Close the connection, which makes it exit."""
        ours = self._sockets[0]
        if ours.fileno() >= 0:
            with suppress(KeyError):
                self._poll.unregister(ours)
            ours.close()

    def _close(self) -> None:
        super()._close()
        for each in self._sockets:
            each.close()


def _absolute(path: list[str]) -> list[str]:
    return [os.path.abspath(entry) for entry in path]


# -- the pool ----------------------------------------------------------------------


class Pool:
    """Workers that wait for a call, or were told to exit.

    There is no lock: the thread that takes a worker out of a deque owns it, and taking
    one out is a single atomic operation. So is moving one from the pool to the list of
    its user, or back: a signal handler that raises never finds it in neither or both.
    """

    def __init__(self) -> None:
        self._idle: deque[WorkerProcess] = deque()
        self._leaving: deque[WorkerProcess] = deque()
        self._is_timed = False

    def lease(self, owned: list[WorkerProcess]) -> bool:
        """Add a worker to *owned*, which is empty; true if it is new.

        If this raises, the caller ends what is in the list.

        :raises OSError: no process can be started.
        """
        while self._idle:
            with suppress(IndexError):  # another thread was faster
                owned.extend(starmap(self._idle.pop, ((),)))
                if owned[0].is_usable:
                    return False
                owned[0].end()
                owned.clear()
        owned.append(WorkerProcess())
        owned[0].start()
        return True

    def give_back(self, owned: list[WorkerProcess], *, is_spent: bool) -> None:
        """Keep the worker in *owned* for the next call, or end it if it is spent."""
        if is_spent:
            owned[0].end()
            owned.clear()
            return
        owned[0].idle_since = clock.now()
        self._idle.extend(starmap(owned.pop, ((),)))
        while len(self._idle) > MAX_IDLE:
            self._retire_oldest()
        self._set_timer()

    def _retire_oldest(self) -> None:
        with suppress(IndexError):  # another thread was faster
            worker = self._idle.popleft()
            worker.idle_since = clock.now()
            worker.retire()
            self._leaving.append(worker)

    def _set_timer(self) -> None:
        """Schedule :meth:`sweep`, unless it is scheduled."""
        if self._is_timed:
            return
        due = [worker.idle_since + IDLE_SECONDS for worker in list(self._idle)[:1]]
        due += [worker.idle_since + _LEAVING for worker in list(self._leaving)[:1]]
        if due:
            self._is_timed = True
            with suppress(RuntimeError):  # no thread: the workers end at exit
                services.current.timer.call_at(min(due), Pool.sweep, self)

    def sweep(self) -> None:
        """End workers that waited too long. Called by the timer: it does not block."""
        self._is_timed = False
        now = clock.now()
        while self._idle and self._idle[0].idle_since + IDLE_SECONDS <= now:
            self._retire_oldest()
        for _ in range(len(self._leaving)):
            with suppress(IndexError):  # another thread was faster
                worker = self._leaving.popleft()
                is_late = worker.idle_since + _LEAVING <= now
                if not (worker.wait_ended(now) or is_late) or not worker.end(_GLANCE):
                    self._leaving.append(worker)
        self._set_timer()

    def close(self) -> None:
        """End all idle workers, and wait about a second for them.

        Cancellation: not needed; it takes some milliseconds.
        """
        while self._idle:
            self._retire_oldest()
        until = clock.now() + _LEAVING
        while self._leaving:
            with suppress(IndexError):  # another thread was faster
                worker = self._leaving.popleft()
                worker.wait_ended(until)
                worker.end()


#: The pool of this process. Always read it through the module: a fork replaces it.
current = Pool()


def end_despite_signals(owned: list[WorkerProcess]) -> None:
    """End the worker in *owned*, if there is one; see :class:`ChildProcess`."""
    while owned:
        owned[0].end_despite_signals()
        owned.clear()


def close_idle() -> None:
    """End the idle worker processes; done automatically at exit.

    Cancellation: not needed; it takes some milliseconds, a second at most.
    """
    current.close()


@in_child
def _renew_in_child() -> None:
    global current
    current = Pool()


atexit.register(close_idle)
