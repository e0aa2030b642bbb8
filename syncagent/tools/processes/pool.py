"""Worker processes as their parent sees them, and the pool of idle ones."""

from __future__ import annotations

import atexit
import io
import os
import select
import signal
import socket
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from ...cancel import CancelToken, clock
from ...cancel import threads as services
from ...cancel.once import finish_despite_signals
from ...exceptions import ConfigurationError
from .groups import Lifeline, ProcessGroup, add_pidfd, has_ended, signal_group
from .worker import ANSWER, CALL, PROGRESS, QUESTION, Channel

__all__ = [
    "CallEnd",
    "IDLE_SECONDS",
    "MAX_IDLE",
    "Pool",
    "WorkerProcess",
    "close_idle",
    "current",
]

#: Idle workers that are kept.
MAX_IDLE: Final = 4
#: Seconds that a worker stays idle; then the SDK's timer ends it.
IDLE_SECONDS: Final = 60.0
#: Seconds that a worker has to exit after its connection is closed.
_LEAVING: Final = 1.0
#: Seconds to wait for the end of a killed worker.
_END: Final = 5.0
#: The same on the timer thread, which must not block.
_GLANCE: Final = 0.01
#: Longest block, in seconds: a signal right before it is then late, not lost.
_NAP: Final = 1.0
#: The same where the system has no pidfd and the end of a process must be polled.
_LOOK: Final = 0.02

# Not with -m: that puts the working directory, with any file in it, first in the path.
_PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from syncagent.tools.processes.worker import main; main(int(sys.argv[1]))"
)


class CallEnd(NamedTuple):
    """How a call in a worker ended."""

    #: The last frame; ``None`` if the worker is gone.
    frame: tuple[bytes, bytearray] | None
    #: True if the worker got the call.
    was_sent: bool
    #: True if a cancel killed the worker.
    was_killed: bool


class WorkerProcess:
    """A worker, from before its start to its end; one thread owns it at a time."""

    def __init__(self) -> None:
        # Made without __init__: if a signal handler raises while it starts, end() still
        # finds its pid.
        self._process: subprocess.Popen[bytes] = subprocess.Popen.__new__(
            subprocess.Popen
        )
        self._lifeline = Lifeline()
        self._pidfds: list[io.FileIO] = []
        self._poll = select.poll()
        self._path: list[str] | None = None
        self._is_forgotten = False
        self._socket, self._remote_socket = socket.socketpair()
        self._channel = Channel(self._socket.fileno())
        #: When its last call ended, or it was retired.
        self.idle_since = 0.0

    def start(self) -> None:
        """Start the process; the first call may be sent at once.

        :raises ConfigurationError: the Python executable is unknown.
        """
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
        descriptor = self._remote_socket.fileno()
        self._process.__init__(  # type: ignore[misc]
            [*python, "-c", _PROGRAM, str(descriptor), *_absolute(sys.path)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(descriptor, self._lifeline.inherited),
        )
        self._lifeline.hold(self._process.pid)
        self._remote_socket.close()
        self._poll.register(self._socket, select.POLLIN)
        add_pidfd(self._pidfds, self._process.pid)
        for pidfd in self._pidfds:
            self._poll.register(pidfd, select.POLLIN)

    @property
    def is_usable(self) -> bool:
        """True if it waits for a call."""
        # A worker that sends anything between calls is gone or out of step.
        return not self._poll.poll(0) and not has_ended(self._process.pid)

    @property
    def returncode(self) -> int:
        """Its exit status, or minus the number of a signal."""
        code: int | None = self._process.returncode
        return -signal.SIGKILL if code is None else code

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
        serve: Callable[[bytes, bytearray], bytes | None],
    ) -> CallEnd:
        """Send a call and wait for its end.

        Cancellation: of a token in *kill_on* kills the group at once.

        :param serve: given the kind and the payload of each frame that the function
            sends while it runs; returns the answer to a question.
        """
        group = ProcessGroup(self._process.pid, signal.SIGKILL)
        frame, was_sent = None, False
        try:
            for token in kill_on:
                token.attach(group)
            was_sent = self._send(CALL, packed)
            if was_sent:
                while (frame := self._receive()) is not None:
                    if frame[0] not in (PROGRESS, QUESTION):
                        break
                    answer = serve(*frame)
                    if answer is not None:
                        self._send(ANSWER, answer)
        finally:
            # For a forked child the worker is as good as killed.
            was_killed = not group.settle(*kill_on) or self._is_forgotten
        if frame is None and not was_killed:
            self.wait_gone(clock.now() + _LEAVING)  # so that its exit status is known
        return CallEnd(frame, was_sent, was_killed)

    def _send(self, kind: bytes, payload: bytes) -> bool:
        try:
            if not self._is_forgotten:
                self._channel.send(kind, payload)
                return True
        except OSError:  # it is gone
            pass
        return False

    def _receive(self) -> tuple[bytes, bytearray] | None:
        """Return the next frame, ``None`` if the worker is gone."""
        nap = int(1000 * (_NAP if self._pidfds else _LOOK))
        while not self._is_forgotten:
            ready = [descriptor for descriptor, _ in self._poll.poll(nap)]
            if self._socket.fileno() in ready:
                try:
                    return self._channel.receive()
                except (EOFError, OSError):
                    return None
            # It is gone; a process that it started may still hold the connection open.
            if ready or (not self._pidfds and has_ended(self._process.pid)):
                return None
        return None

    # -- its end -------------------------------------------------------------------

    def retire(self) -> None:
        """Close the connection, which makes it exit."""
        if self._socket.fileno() >= 0:
            with suppress(KeyError):
                self._poll.unregister(self._socket)
            self._socket.close()

    def wait_gone(self, until: float) -> bool:
        """Wait until it has ended, at most until a monotonic time; true if it has.

        Cancellation: not needed; the time is short.
        """
        pid = self._process.pid
        ended = select.poll()
        for pidfd in self._pidfds:
            ended.register(pidfd, select.POLLIN)
        while not self._is_forgotten and not has_ended(pid):
            seconds = min(until - clock.now(), _NAP if self._pidfds else _LOOK)
            if seconds <= 0:
                return False
            ended.poll(max(1, int(1000 * seconds)))
        return True

    def end(self, seconds: float = _END) -> bool:
        """Kill the rest of its group and release everything.

        Cancellation: not needed; it takes a moment.

        :return: true if it is gone; if not, this can be called again.
        """
        process = self._process
        started = getattr(process, "pid", None) is not None
        if started and process.returncode is None:
            signal_group(process.pid, signal.SIGKILL)
            self.wait_gone(clock.now() + seconds)
            process.kill()  # it may not have got as far as having a group
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
        self._lifeline.release()
        self._close()
        return not started or process.returncode is not None

    def forget(self) -> None:
        """Leave it to the parent, in a forked child."""
        self._is_forgotten = True
        self._process.returncode = 0  # not a child of this process
        self._lifeline.forget()
        self._close()

    def _close(self) -> None:
        for pidfd in self._pidfds:
            pidfd.close()
        self._socket.close()
        self._remote_socket.close()


def _absolute(path: list[str]) -> list[str]:
    return [os.path.abspath(entry) for entry in path]


# -- the pool ----------------------------------------------------------------------


class Pool:
    """Workers that wait for a call, or were told to exit.

    There is no lock: the thread that takes a worker out of a deque owns it, and taking
    one out is a single atomic operation.
    """

    def __init__(self) -> None:
        self._idle: deque[WorkerProcess] = deque()
        self._leaving: deque[WorkerProcess] = deque()
        self._is_timed = False

    def lease(self) -> tuple[WorkerProcess, bool]:
        """Return a worker, and true if it is new.

        :raises OSError: no process can be started.
        """
        while self._idle:
            with suppress(IndexError):  # another thread was faster
                idle = self._idle.pop()
                if idle.is_usable:
                    return idle, False
                idle.end()
        new = WorkerProcess()
        _alive[weakref.ref(new, _alive.__delitem__)] = None
        try:
            new.start()
        except BaseException:
            finish_despite_signals(new.end)
            raise
        return new, True

    def give_back(self, worker: WorkerProcess) -> None:
        """Keep *worker* for the next call."""
        worker.idle_since = clock.now()
        self._idle.append(worker)
        while len(self._idle) > MAX_IDLE:
            self._retire_oldest()
        self._set_timer()

    def _retire_oldest(self) -> None:
        try:
            worker = self._idle.popleft()
        except IndexError:  # another thread was faster
            return
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
                if not (worker.wait_gone(now) or is_late) or not worker.end(_GLANCE):
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
                worker.wait_gone(until)
                worker.end()


#: Weak references to all workers of this process.
_alive: dict[weakref.ref[WorkerProcess], None] = {}
#: The pool of this process. Always read it through the module: a fork replaces it.
current = Pool()


def close_idle() -> None:
    """End the idle worker processes; done automatically at exit.

    Cancellation: not needed; it takes some milliseconds, a second at most.
    """
    current.close()


def _forget_in_child() -> None:
    global current
    current = Pool()
    for ref in list(_alive):
        worker = ref()
        if worker is not None:
            worker.forget()
    _alive.clear()


atexit.register(close_idle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
