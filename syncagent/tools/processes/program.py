"""Run a program whose whole process group ends with a cancel."""

from __future__ import annotations

import io
import math
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

import msgspec

from ...cancel import CancelToken, clock
from ...cancel.once import finish_despite_signals
from ...exceptions import Cancelled, ConfigurationError
from .groups import (
    Lifeline,
    ProcessGroup,
    add_pidfd,
    add_pipe,
    check_system,
    describe_end,
    has_ended,
    needs_lifeline,
    signal_group,
)

__all__ = ["ProcessFailed", "ProcessResult", "run_process"]

#: Seconds for which output is read on after the end of a program whose pipes are held
#: open by what it has left in the background.
_DRAIN: Final = 0.2
#: Seconds that a killed process may take to be gone.
_END: Final = 5.0
#: Longest blocking, in seconds: a signal in the instant before is late then, not lost.
_NAP: Final = 1.0
#: The same where the system cannot tell us of an end, so that we have to look.
_LOOK: Final = 0.02
_READ: Final = 65536
#: How much of what a failed program said is in the message of the exception.
_TAIL: Final = 500


class ProcessResult(msgspec.Struct, frozen=True):
    """How a program ended, and what it said."""

    args: tuple[str, ...]
    #: The exit status, or minus the number of the signal that ended it.
    returncode: int
    stdout: str
    stderr: str
    #: Was it stopped because it took too long?
    timed_out: bool = False

    def check(self) -> ProcessResult:
        """Return this, if the program did well.

        :raises ProcessFailed: it did not, or it took too long.
        """
        if self.returncode or self.timed_out:
            raise ProcessFailed(self)
        return self


class ProcessFailed(Exception):
    """A program failed; its message has the end of what it said about that.

    :param result: all of it.
    """

    def __init__(self, result: ProcessResult) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        result = self.result
        end = "took too long" if result.timed_out else describe_end(result.returncode)
        said = result.stderr.strip()[-_TAIL:]
        return f"{result.args[0]} {end}" + (f": {said}" if said else "")


def run_process(
    command: Sequence[str],
    *,
    token: CancelToken,
    forced: CancelToken | None = None,
    grace: float = 2.0,
    input: str | bytes | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    limit: int = 1_000_000,
) -> ProcessResult:
    """Run a program in a session of its own, and return what it said.

    What it leaves in the background when it ends by itself is neither killed nor waited
    for, as with :func:`subprocess.run` on a file: somebody who starts a server wants to
    have it. When it is stopped, all of its group is.

    Cancellation: SIGTERM goes to the whole group at once, SIGKILL when the program has
    gone or after *grace*; then it raises, with the output so far in ``partial``.

    :param command: program and arguments; there is no shell.
    :param forced: its cancel ends the grace, too.
    :param grace: seconds between SIGTERM and SIGKILL; with 0, SIGKILL comes at once.
    :param input: what it reads; nothing, if not given.
    :param env: its whole environment, if it is not to be ours.
    :param timeout: seconds after which it is stopped in the same way.
    :param limit: bytes of each output that are kept, half from its end.
    :raises Cancelled: *token* was cancelled.
    :raises ConfigurationError: an argument cannot work.
    :raises OSError: the program cannot be started.
    """
    arguments = _checked(command, grace=grace, timeout=timeout, limit=limit)
    token.checkpoint()
    end = math.inf if timeout is None else clock.now() + timeout
    running = _Running(arguments, token, limit, input)
    try:
        try:
            running.start(cwd, env, signal.SIGTERM if grace else signal.SIGKILL)
            running.watch(end)
            was_cancelled = not running.take_back()
            timed_out = not (was_cancelled or running.has_exited)
            if was_cancelled or timed_out:
                running.stop(forced, grace, is_told=was_cancelled)
            result = running.collect(timed_out=timed_out)
        finally:
            finish_despite_signals(running.clean_up)
    except BaseException:  # a signal handler may have raised just before that
        finish_despite_signals(running.clean_up)
        raise
    if was_cancelled:
        raise _cancelled(token, result)
    return result


def _checked(
    command: Sequence[str], *, grace: float, timeout: float | None, limit: int
) -> tuple[str, ...]:
    """Return the command, if everything can work."""
    check_system()
    if isinstance(command, str):
        raise ConfigurationError(
            "run_process() takes a list, as it uses no shell: "
            f'["sh", "-c", {command!r}] runs this text in one'
        )
    arguments = tuple(command)
    if not arguments or not all(isinstance(part, str) for part in arguments):
        raise ConfigurationError(
            f"a command is a list of strings, the program first; got {command!r}"
        )
    for name, value in (("grace", grace), ("timeout", timeout), ("limit", limit)):
        if value is not None and not value >= 0:
            raise ConfigurationError(f"{name} must not be negative; got {value!r}")
    return arguments


def _cancelled(token: CancelToken, partial: ProcessResult) -> Cancelled:
    try:
        token.checkpoint()
        cancelled = Cancelled("the token was reset since")
    except Cancelled as raised:
        cancelled = raised.with_traceback(None)
    cancelled.partial = partial
    return cancelled


# -- one program -------------------------------------------------------------------


class _Capture:
    """The beginning and the end of what a program says."""

    def __init__(self, limit: int) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._first = limit // 2
        self._last = limit - self._first
        self._left_out = 0

    def feed(self, data: bytes) -> None:
        """Take in more of it."""
        room = self._first - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room else data
        if len(self._tail) > 2 * self._last + _READ:  # not each time: it moves bytes
            self._trim()

    def _trim(self) -> None:
        surplus = len(self._tail) - self._last
        if surplus > 0:
            del self._tail[:surplus]
            self._left_out += surplus

    def text(self) -> str:
        """Return what is kept of it, with a word about what is not."""
        self._trim()
        marker = f"\n[... {self._left_out} bytes left out ...]\n"
        middle = marker.encode() if self._left_out else b""
        return (self._head + middle + self._tail).decode("utf-8", "replace")


class _Group(ProcessGroup):
    """The group of a program; a forked child lets go of its pipes, too."""

    __slots__ = ("_pipes",)

    def __init__(
        self, pid: int, number: int, wake: io.FileIO, pipes: list[IO[bytes]]
    ) -> None:
        super().__init__(pid, number, wake)
        self._pipes = pipes

    def drop(self) -> None:
        # Else the program would never see the end of its input, nor we that of its
        # output, while the forked child lives. The thread that uses them is not there.
        for pipe in self._pipes:
            pipe.close()
        super().drop()


class _Running:
    """A program, its pipes and its output, from before its start to the last of it."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        token: CancelToken,
        limit: int,
        input: str | bytes | None,
    ) -> None:
        self._arguments = arguments
        self._token = token
        given = input.encode() if isinstance(input, str) else input
        self._input = None if given is None else memoryview(given)
        self._said, self._complained = _Capture(limit), _Capture(limit)
        # Empty so far: if a signal handler raises while it starts, we know its number.
        self._process: subprocess.Popen[bytes] = subprocess.Popen.__new__(
            subprocess.Popen
        )
        self._group: _Group | None = None
        self._lifeline = Lifeline() if needs_lifeline() else None
        #: Both ends of the pipe that a cancel closes, then what tells of the end.
        self._ends: list[io.FileIO] = []
        self._poll = select.poll()
        self._open: dict[int, IO[bytes]] = {}
        self.has_exited = self.is_cancelled = False

    def start(
        self,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        number: int,
    ) -> None:
        """Start it, and hang its group on the token."""
        add_pipe(self._ends)
        lifeline, is_single = self._lifeline, threading.active_count() == 1
        self._process.__init__(  # type: ignore[misc]
            self._arguments,
            bufsize=0,
            stdin=subprocess.DEVNULL if self._input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,
            pass_fds=() if lifeline is None else (lifeline.inherited,),
            # Else a kill between the start and the hold would pass the program by. It
            # is Python in a forked child, which is no place for one with threads.
            preexec_fn=lifeline.hold_here if lifeline and is_single else None,
        )
        pid = self._process.pid
        if lifeline is not None:
            lifeline.hold(pid)
        self._group = _Group(pid, number, self._ends[1], self._pipes())
        self._token.attach(self._group)
        add_pidfd(self._ends, pid)
        self._register()

    def _pipes(self) -> list[IO[bytes]]:
        names = ("stdin", "stdout", "stderr")
        pipes = [getattr(self._process, name, None) for name in names]
        return [pipe for pipe in pipes if pipe is not None]

    def _register(self) -> None:
        for end in (self._ends[0], *self._ends[2:]):
            self._poll.register(end, select.POLLIN)
        for pipe in self._pipes():
            self._open[pipe.fileno()] = pipe
            self._poll.register(pipe, select.POLLIN)
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
            self._poll.register(self._process.stdin, select.POLLOUT)

    # -- moving bytes --------------------------------------------------------------

    def watch(self, end: float) -> None:
        """Serve it until it has ended and said all, or the cancel, or *end*."""
        self._pump(end, lambda: self.is_cancelled or self.has_exited)
        if self.has_exited:
            # What it said is in the pipes by now; what it left may go on for ever.
            last = clock.now() + _DRAIN
            self._pump(last, lambda: self.is_cancelled or not self._open)

    def _pump(self, end: float, is_over: Callable[[], bool]) -> None:
        tells_its_end = len(self._ends) > 2
        nap = _NAP if tells_its_end else _LOOK
        while not is_over() and (left := end - clock.now()) > 0:
            # Rounded up: not awake for nothing just before the end.
            for number, _ in self._poll.poll(math.ceil(min(left, nap) * 1000)):
                self._serve(number)
            if not tells_its_end:
                self.has_exited = has_ended(self._process.pid)

    def _serve(self, number: int) -> None:
        pipe = self._open.get(number)
        if pipe is None:
            self._poll.unregister(number)
            if number == self._ends[0].fileno():
                self.is_cancelled = True
            else:
                self.has_exited = True
        elif not (self._feed if pipe is self._process.stdin else self._read)(number):
            self._poll.unregister(number)
            pipe.close()
            del self._open[number]

    def _read(self, number: int) -> bool:
        """Take in what is there; false at the end of it."""
        is_stdout = self._open[number] is self._process.stdout
        data = os.read(number, _READ)
        (self._said if is_stdout else self._complained).feed(data)
        return bool(data)

    def _feed(self, number: int) -> bool:
        """Give it some of its input; false when it has all, or wants no more."""
        assert self._input is not None
        try:
            self._input = self._input[os.write(number, self._input[:_READ]) :]
        except BlockingIOError:
            return True
        except OSError:  # it has closed its end: its own affair
            return False
        return len(self._input) > 0

    # -- ending --------------------------------------------------------------------

    def take_back(self) -> bool:
        """Take its group back from the token; false if that was cancelled before."""
        return self._group is None or self._group.settle(self._token)

    def stop(self, forced: CancelToken | None, grace: float, *, is_told: bool) -> None:
        """End its whole group within *grace*."""
        pid = self._process.pid
        if grace:
            if not is_told:
                signal_group(pid, signal.SIGTERM)
            self._wait_for_grace(forced, grace)
        signal_group(pid, signal.SIGKILL)
        last = clock.now() + _DRAIN
        self._pump(last, lambda: self.has_exited and not self._open)

    def _wait_for_grace(self, forced: CancelToken | None, grace: float) -> None:
        tokens = () if forced is None else (forced,)
        hurry = ProcessGroup(self._process.pid, signal.SIGKILL)
        try:
            for token in tokens:
                token.attach(hurry)
            self._pump(clock.now() + grace, lambda: self.has_exited)
        finally:
            hurry.settle(*tokens)

    def collect(self, *, timed_out: bool) -> ProcessResult:
        """Wait for it, which gives its number back, and return how it was."""
        with suppress(subprocess.TimeoutExpired):  # not even SIGKILL has ended it
            self._process.wait(_END)
        code: int | None = self._process.returncode
        return ProcessResult(
            args=self._arguments,
            returncode=-signal.SIGKILL if code is None else code,
            stdout=self._said.text(),
            stderr=self._complained.text(),
            timed_out=timed_out,
        )

    def clean_up(self) -> None:
        """Leave nothing behind, however far it came; may be called again."""
        self.take_back()
        process = self._process
        if getattr(process, "pid", None) is not None and process.returncode is None:
            signal_group(process.pid, signal.SIGKILL)
            process.kill()  # it may not have come so far as to have a group
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END)
        if self._lifeline is not None:
            self._lifeline.release()
        for end in (*self._ends, *self._pipes()):
            end.close()
