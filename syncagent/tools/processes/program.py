"""Run a program whose whole process group is ended by a cancel."""

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
from ...cancel.handler_errors import raised_by_signal_handler
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

#: Seconds of reading output after the end of a program whose pipes are held open by its
#: background processes.
_DRAIN: Final = 0.2
#: Seconds to wait for the end of a killed process.
_END: Final = 5.0
#: Longest block, in seconds: a signal right before it is then late, not lost.
_NAP: Final = 1.0
#: The same where the system has no pidfd and the end of a process must be polled.
_LOOK: Final = 0.02
_READ: Final = 65536
#: Characters of the error output that are in the message of the exception.
_TAIL: Final = 500


class ProcessResult(msgspec.Struct, frozen=True):
    """The exit status and the output of a program."""

    args: tuple[str, ...]
    #: The exit status, or minus the number of the signal that ended it.
    returncode: int
    stdout: str
    stderr: str
    #: True if it was stopped by its timeout.
    timed_out: bool = False

    def check(self) -> ProcessResult:
        """Return this result if the program succeeded.

        :raises ProcessFailed: the program failed or timed out.
        """
        if self.returncode or self.timed_out:
            raise ProcessFailed(self)
        return self


class ProcessFailed(Exception):
    """A program failed; the message has the end of its error output.

    :param result: the complete result.
    """

    def __init__(self, result: ProcessResult) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        result = self.result
        end = "timed out" if result.timed_out else describe_end(result.returncode)
        output = result.stderr.strip()[-_TAIL:]
        return f"{result.args[0]} {end}" + (f": {output}" if output else "")


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
    """Run a program in its own session, and return its exit status and output.

    Background processes that a program leaves at its normal end are neither killed nor
    awaited, as with :func:`subprocess.run` on a file: a program may start a server.
    When the program is stopped, its whole group is.

    Cancellation: the whole group gets SIGTERM at once, and SIGKILL when the program has
    ended or after *grace*; then it raises, with the output so far in ``partial``.

    :param command: program and arguments; no shell is involved.
    :param forced: a cancel of this token also ends the grace.
    :param grace: seconds between SIGTERM and SIGKILL; with 0, SIGKILL is sent at once.
    :param input: the standard input; by default it is empty.
    :param env: the whole environment; by default that of this process.
    :param timeout: seconds after which the program is stopped in the same way.
    :param limit: bytes of each output that are kept, half of them from its end.
    :raises Cancelled: *token* was cancelled.
    :raises ConfigurationError: an argument is invalid.
    :raises OSError: the program cannot be started.
    """
    arguments = _checked_command(command, grace=grace, timeout=timeout, limit=limit)
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
                running.stop(forced, grace, is_signalled=was_cancelled)
            result = running.collect(timed_out=timed_out)
        finally:
            finish_despite_signals(running.clean_up)
    except BaseException:  # a signal handler may have raised before clean_up
        finish_despite_signals(running.clean_up)
        raise
    if was_cancelled:
        raise _cancelled(token, result)
    return result


def _checked_command(
    command: Sequence[str], *, grace: float, timeout: float | None, limit: int
) -> tuple[str, ...]:
    """Return the command, if all arguments are valid."""
    check_system()
    if isinstance(command, str):
        raise ConfigurationError(
            "run_process() takes a list, because no shell is involved; to use a shell, "
            f'pass ["sh", "-c", {command!r}]'
        )
    arguments = tuple(command)
    if not arguments or not all(isinstance(part, str) for part in arguments):
        raise ConfigurationError(
            f"a command must be a list of strings, the program first; got {command!r}"
        )
    for name, value in (("grace", grace), ("timeout", timeout), ("limit", limit)):
        if value is not None and not value >= 0:
            raise ConfigurationError(f"{name} must not be negative; got {value!r}")
    return arguments


def _cancelled(token: CancelToken, partial: ProcessResult) -> Cancelled:
    try:
        token.checkpoint()
        cancelled = Cancelled("the token was cancelled and then reset")
    except Cancelled as raised:
        cancelled = raised.with_traceback(None)
    cancelled.partial = partial
    return cancelled


# -- one program -------------------------------------------------------------------


class _Capture:
    """The beginning and the end of an output."""

    def __init__(self, limit: int) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._first = limit // 2
        self._last = limit - self._first
        self._left_out = 0

    def feed(self, data: bytes) -> None:
        """Add output."""
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
        """Return the output, with a note in place of the part left out."""
        self._trim()
        marker = f"\n[... {self._left_out} bytes left out ...]\n"
        middle = marker.encode() if self._left_out else b""
        return (self._head + middle + self._tail).decode("utf-8", "replace")


class _Group(ProcessGroup):
    """The group of a program; a forked child also closes its pipes."""

    __slots__ = ("_pipes",)

    def __init__(
        self, pid: int, number: int, wake: io.FileIO, pipes: list[IO[bytes]]
    ) -> None:
        super().__init__(pid, number, wake)
        self._pipes = pipes

    def drop(self) -> None:
        # Otherwise the forked child would hold the pipes open: the program would not
        # see the end of its input, nor this process the end of the output. The thread
        # that uses them does not exist in the child.
        for pipe in self._pipes:
            pipe.close()
        super().drop()


class _Running:
    """A program with its pipes and its output, from before its start to its end."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        token: CancelToken,
        limit: int,
        input: str | bytes | None,
    ) -> None:
        self._arguments = arguments
        self._token = token
        data = input.encode() if isinstance(input, str) else input
        self._input = None if data is None else memoryview(data)
        self._stdout, self._stderr = _Capture(limit), _Capture(limit)
        # Made without __init__: if a signal handler raises while it starts, clean_up()
        # still finds its pid.
        self._process: subprocess.Popen[bytes] = subprocess.Popen.__new__(
            subprocess.Popen
        )
        self._group: _Group | None = None
        self._lifeline = Lifeline() if needs_lifeline() else None
        #: Both ends of the pipe that a cancel closes, then the pidfd, if there is one.
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
        """Start the program, and attach its group to the token."""
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
            # Otherwise a kill of this process between the start and the hold would miss
            # the program. It runs Python in a forked child, which is only safe in a
            # process without threads.
            preexec_fn=lifeline.hold_here if lifeline and is_single else None,
        )
        pid = self._process.pid
        if lifeline is not None:
            lifeline.hold(pid)
        self._group = _Group(pid, number, self._ends[1], self._pipes())
        self._token.attach(self._group)
        add_pidfd(self._ends, pid)
        for end in (self._ends[0], *self._ends[2:]):
            self._poll.register(end, select.POLLIN)
        for pipe in self._pipes():
            self._open[pipe.fileno()] = pipe
            self._poll.register(pipe, select.POLLIN)
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
            self._poll.register(self._process.stdin, select.POLLOUT)

    def _pipes(self) -> list[IO[bytes]]:
        names = ("stdin", "stdout", "stderr")
        pipes = [getattr(self._process, name, None) for name in names]
        return [pipe for pipe in pipes if pipe is not None]

    # -- moving bytes --------------------------------------------------------------

    def watch(self, end: float) -> None:
        """Move bytes until it has ended and its output is read, a cancel, or *end*."""
        self._pump(end, lambda: self.is_cancelled or self.has_exited)
        if self.has_exited:
            # All its output is in the pipes by now; background processes may add to it
            # for ever.
            last = clock.now() + _DRAIN
            self._pump(last, lambda: self.is_cancelled or not self._open)

    def _pump(self, end: float, is_over: Callable[[], bool]) -> None:
        has_pidfd = len(self._ends) > 2
        nap = _NAP if has_pidfd else _LOOK
        while not is_over() and (seconds := end - clock.now()) > 0:
            # Rounded up: no wake-up right before the end.
            for descriptor, _ in self._poll.poll(math.ceil(min(seconds, nap) * 1000)):
                self._serve(descriptor)
            if not has_pidfd:
                self.has_exited = has_ended(self._process.pid)

    def _serve(self, descriptor: int) -> None:
        pipe = self._open.get(descriptor)
        if pipe is None:
            self._poll.unregister(descriptor)
            if descriptor == self._ends[0].fileno():
                self.is_cancelled = True
            else:
                self.has_exited = True
            return
        if pipe is self._process.stdin:
            assert self._input is not None
            try:
                self._input = self._input[os.write(descriptor, self._input[:_READ]) :]
                is_done = len(self._input) == 0
            except BlockingIOError:
                is_done = False
            except OSError as error:  # the program has closed its end
                if raised_by_signal_handler(error):
                    raise
                is_done = True
        else:
            data = os.read(descriptor, _READ)
            is_stdout = pipe is self._process.stdout
            (self._stdout if is_stdout else self._stderr).feed(data)
            is_done = not data
        if is_done:
            self._poll.unregister(descriptor)
            pipe.close()
            del self._open[descriptor]

    # -- ending --------------------------------------------------------------------

    def take_back(self) -> bool:
        """Take the group back from the token; false if a cancel came first."""
        return self._group is None or self._group.settle(self._token)

    def stop(
        self, forced: CancelToken | None, grace: float, *, is_signalled: bool
    ) -> None:
        """End the whole group within *grace* seconds."""
        pid = self._process.pid
        if grace:
            if not is_signalled:
                signal_group(pid, signal.SIGTERM)
            tokens = () if forced is None else (forced,)
            hurry = ProcessGroup(pid, signal.SIGKILL)
            try:
                for token in tokens:
                    token.attach(hurry)
                self._pump(clock.now() + grace, lambda: self.has_exited)
            finally:
                hurry.settle(*tokens)
        signal_group(pid, signal.SIGKILL)
        last = clock.now() + _DRAIN
        self._pump(last, lambda: self.has_exited and not self._open)

    def collect(self, *, timed_out: bool) -> ProcessResult:
        """Reap the program, which frees its pid, and return its result."""
        with suppress(subprocess.TimeoutExpired):  # not even SIGKILL has ended it
            self._process.wait(_END)
        code: int | None = self._process.returncode
        return ProcessResult(
            args=self._arguments,
            returncode=-signal.SIGKILL if code is None else code,
            stdout=self._stdout.text(),
            stderr=self._stderr.text(),
            timed_out=timed_out,
        )

    def clean_up(self) -> None:
        """Release everything, at any stage; may be called again."""
        self.take_back()
        process = self._process
        if getattr(process, "pid", None) is not None and process.returncode is None:
            signal_group(process.pid, signal.SIGKILL)
            process.kill()  # it may not have got as far as having a group
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END)
        if self._lifeline is not None:
            self._lifeline.release()
        for end in (*self._ends, *self._pipes()):
            end.close()
