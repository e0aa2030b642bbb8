"""Worker processes as their parent sees them, and those that wait for the next call."""

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
from .worker import ANSWER, ASK, CALL, PROGRESS, Channel

__all__ = [
    "WorkerExchange",
    "IDLE_SECONDS",
    "MAX_IDLE",
    "Pool",
    "WorkerProcess",
    "close_idle",
    "current",
]

#: So many workers wait for the next call at most.
MAX_IDLE: Final = 4
#: So many seconds a worker waits for the next call; then the SDK's timer ends it.
IDLE_SECONDS: Final = 60.0
#: Seconds for a worker whose connection is closed to leave by itself.
_LEAVING: Final = 1.0
#: Seconds that a killed worker may take to be gone.
_END: Final = 5.0
#: The same for the timer, which must not be held up.
_GLANCE: Final = 0.01
#: Longest blocking, in seconds: a signal in the instant before is late then, not lost.
_NAP: Final = 1.0
#: The same where the system cannot tell us of an end, so that we have to look.
_LOOK: Final = 0.02

# Not with -m: that puts the working directory, where anything may lie, before all else.
_PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from syncagent.tools.processes.worker import main; main(int(sys.argv[1]))"
)


class WorkerExchange(NamedTuple):
    """What became of one call."""

    #: How it ended; ``None`` if the worker is gone.
    frame: tuple[bytes, bytearray] | None
    #: Did the worker get the call?
    was_sent: bool
    #: Did a cancel kill the worker?
    was_killed: bool


class WorkerProcess:
    """One worker, from before its start to the last of it; one thread has it."""

    def __init__(self) -> None:
        # Empty so far: if a signal handler raises while it starts, we know its number.
        self._process: subprocess.Popen[bytes] = subprocess.Popen.__new__(
            subprocess.Popen
        )
        self._lifeline = Lifeline()
        self._pidfds: list[io.FileIO] = []
        self._poll = select.poll()
        self._path: list[str] | None = None
        self._is_forgotten = False
        self._socket, self._theirs = socket.socketpair()
        self._channel = Channel(self._socket.fileno())
        #: When its last call ended, or it was told to leave.
        self.idle_since = 0.0

    def start(self) -> None:
        """Start the process; its first call may be sent at once."""
        number = self._theirs.fileno()
        self._process.__init__(  # type: ignore[misc]
            [*_interpreter(), "-c", _PROGRAM, str(number), *_absolute(sys.path)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(number, self._lifeline.inherited),
        )
        self._lifeline.hold(self._process.pid)
        self._theirs.close()
        self._poll.register(self._socket, select.POLLIN)
        add_pidfd(self._pidfds, self._process.pid)
        for pidfd in self._pidfds:
            self._poll.register(pidfd, select.POLLIN)

    @property
    def is_usable(self) -> bool:
        """Does it wait for a call, as it should?"""
        # One that says something without being asked has gone, or is out of step.
        return not self._poll.poll(0) and not has_ended(self._process.pid)

    @property
    def returncode(self) -> int:
        """How it ended."""
        code: int | None = self._process.returncode
        return -signal.SIGKILL if code is None else code

    def news(self, path: list[str]) -> list[str] | None:
        """Return *path* as the worker needs it, ``None`` if it knows it already."""
        if path == self._path:
            return None
        self._path = list(path)
        return _absolute(path)

    # -- a call --------------------------------------------------------------------

    def exchange(
        self,
        request: bytes,
        kill_on: Sequence[CancelToken],
        reply: Callable[[bytes, bytearray], bytes | None],
    ) -> WorkerExchange:
        """Send a call and wait for its end.

        Cancellation: of a token in *kill_on* kills the group at once.

        :param reply: answers what the function says meanwhile.
        """
        group = ProcessGroup(self._process.pid, signal.SIGKILL)
        frame, was_sent = None, False
        try:
            for token in kill_on:
                token.attach(group)
            was_sent = self._send(CALL, request)
            if was_sent:
                frame = self._listen(reply)
        finally:
            # A forked child has lost the worker in the same way: it is not there.
            was_killed = not group.settle(*kill_on) or self._is_forgotten
        if frame is None and not was_killed:
            self.wait_gone(clock.now() + _LEAVING)  # so that it can say how it ended
        return WorkerExchange(frame, was_sent, was_killed)

    def _listen(
        self, reply: Callable[[bytes, bytearray], bytes | None]
    ) -> tuple[bytes, bytearray] | None:
        while (frame := self._receive()) is not None:
            if frame[0] not in (PROGRESS, ASK):
                return frame
            answer = reply(*frame)
            if answer is not None:
                self._send(ANSWER, answer)
        return None

    def _send(self, kind: bytes, payload: bytes) -> bool:
        try:
            if not self._is_forgotten:
                self._channel.send(kind, payload)
                return True
        except OSError:  # it has gone
            pass
        return False

    def _receive(self) -> tuple[bytes, bytearray] | None:
        """Return the next frame, ``None`` if there will be none."""
        nap = int(1000 * (_NAP if self._pidfds else _LOOK))
        while not self._is_forgotten:
            ready = [number for number, _ in self._poll.poll(nap)]
            if self._socket.fileno() in ready:
                try:
                    return self._channel.receive()
                except (EOFError, OSError):
                    return None
            # It has gone, and what it has started may still hold the connection open.
            if ready or (not self._pidfds and has_ended(self._process.pid)):
                return None
        return None

    # -- its end -------------------------------------------------------------------

    def retire(self) -> None:
        """Have it leave by itself, by closing the connection."""
        if self._socket.fileno() >= 0:
            with suppress(KeyError):
                self._poll.unregister(self._socket)
            self._socket.close()

    def wait_gone(self, until: float) -> bool:
        """Block until it has ended, at most until a monotonic time; true if it has.

        Cancellation: not needed, as the time is short.
        """
        pid = self._process.pid
        ended = select.poll()
        for pidfd in self._pidfds:
            ended.register(pidfd, select.POLLIN)
        while not self._is_forgotten and not has_ended(pid):
            left = until - clock.now()
            if left <= 0:
                return False
            ended.poll(max(1, int(1000 * min(left, _NAP if self._pidfds else _LOOK))))
        return True

    def end(self, seconds: float = _END) -> bool:
        """Kill what is left of its group and let go of everything.

        Cancellation: not needed, as it takes a moment.

        :return: whether it is gone; if not, this can be called again.
        """
        process = self._process
        started = getattr(process, "pid", None) is not None
        if started and process.returncode is None:
            signal_group(process.pid, signal.SIGKILL)
            self.wait_gone(clock.now() + seconds)
            process.kill()  # it may not have come so far as to have a group
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
        self._lifeline.release()
        self._close()
        return not started or process.returncode is not None

    def forget(self) -> None:
        """Leave it to the parent, in a forked child."""
        self._is_forgotten = True
        self._process.returncode = 0  # it is no child of this process
        self._lifeline.forget()
        self._close()

    def _close(self) -> None:
        for pidfd in self._pidfds:
            pidfd.close()
        self._socket.close()
        self._theirs.close()


def _interpreter() -> list[str]:
    """Return what starts a Python like this one.

    :raises ConfigurationError: nobody knows.
    """
    from multiprocessing.spawn import get_executable

    executable = get_executable()
    if not executable or getattr(sys, "frozen", False):
        raise ConfigurationError(
            "a worker process needs a Python to run in, and this program does not know "
            "one; call multiprocessing.set_executable(), or use isolation='thread'"
        )
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [os.fsdecode(executable), *flags]


def _absolute(path: list[str]) -> list[str]:
    return [os.path.abspath(entry) for entry in path]


# -- those that wait ---------------------------------------------------------------


class Pool:
    """Workers that wait for a call, or are about to leave.

    There is no lock: whoever takes a worker out of a deque, in one step, has it.
    """

    def __init__(self) -> None:
        self._idle: deque[WorkerProcess] = deque()
        self._leaving: deque[WorkerProcess] = deque()
        self._is_timed = False

    def lease(self) -> tuple[WorkerProcess, bool]:
        """Return a worker, and whether it is new.

        :raises OSError: none can be started.
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
        """Have :meth:`sweep` called when it is due, unless it will be."""
        if self._is_timed:
            return
        due = [worker.idle_since + IDLE_SECONDS for worker in list(self._idle)[:1]]
        due += [worker.idle_since + _LEAVING for worker in list(self._leaving)[:1]]
        if due:
            self._is_timed = True
            with suppress(RuntimeError):  # no thread to be had: they wait for the exit
                services.current.timer.call_at(min(due), Pool.sweep, self)

    def sweep(self) -> None:
        """End what has waited too long. The timer calls it: it does not block."""
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
        """End all that wait, and wait for their end, for a second or so.

        Cancellation: not needed, as it takes some milliseconds.
        """
        while self._idle:
            self._retire_oldest()
        until = clock.now() + _LEAVING
        while self._leaving:
            with suppress(IndexError):  # another thread was faster
                worker = self._leaving.popleft()
                worker.wait_gone(until)
                worker.end()


#: All workers of this process, weakly.
_alive: dict[weakref.ref[WorkerProcess], None] = {}
#: That of this process. Always read it through the module: a fork replaces it.
current = Pool()


def close_idle() -> None:
    """End the worker processes that wait for a call; done at exit by itself.

    Cancellation: not needed, as it takes some milliseconds, a second at most.
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
