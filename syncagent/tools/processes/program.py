"""Run a program whose whole process group is ended by a cancel."""

from __future__ import annotations

import io
import math
import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Final

import msgspec

from ...cancel import CancelToken, clock
from ...cancel.handler_errors import raised_by_signal_handler
from ...exceptions import Cancelled, ConfigurationError
from .child import LOOK, NAP, ChildProcess
from .groups import ProcessGroup, add_pipe, check_system, describe_end

__all__ = ["ProcessFailed", "ProcessResult", "run_process"]

#: Seconds of reading output after the end of a program whose pipes are held open by its
#: background processes.
_DRAIN: Final = 0.2
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
            running.run(cwd, env, signal.SIGTERM if grace else signal.SIGKILL)
            running.watch(end)
            was_cancelled = not running.take_back()
            timed_out = not (was_cancelled or running.has_exited)
            if was_cancelled or timed_out:
                running.stop(forced, grace, is_signalled=was_cancelled)
            result = running.collect(timed_out=timed_out)
            running.end()
        except BaseException:
            running.end_despite_signals()
            raise
    except BaseException:  # a signal handler may have raised before that
        running.end_despite_signals()
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


class _Running(ChildProcess):
    """A program with its pipes and its output, from before its start to its end."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        token: CancelToken,
        limit: int,
        input: str | bytes | None,
    ) -> None:
        super().__init__()
        self._arguments = arguments
        self._token = token
        data = input.encode() if isinstance(input, str) else input
        self._input = None if data is None else memoryview(data)
        self._stdout, self._stderr = _Capture(limit), _Capture(limit)
        self._options: dict[str, Any] = {}
        self._group: ProcessGroup | None = None
        #: Both ends of the pipe that a cancel closes.
        self._ends: list[io.FileIO] = []
        self._poll = select.poll()
        self._open_pipes: dict[int, IO[bytes]] = {}
        self.has_exited = self.is_cancelled = False

    def run(
        self,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        number: int,
    ) -> None:
        """Start the program, and attach its group to the token."""
        self._options = {"cwd": cwd, "env": env}
        self.start()
        self._group = ProcessGroup(self.signal, number, self._ends[1])
        self._token.attach(self._group)
        for end in (self._ends[0], *self._pidfds):
            self._poll.register(end, select.POLLIN)
        for pipe in self._pipes():
            self._open_pipes[pipe.fileno()] = pipe
            self._poll.register(pipe, select.POLLIN)
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
            self._poll.register(self._process.stdin, select.POLLOUT)

    def _open(self) -> None:
        add_pipe(self._ends)
        self._spawn(
            self._arguments,
            bufsize=0,
            stdin=subprocess.DEVNULL if self._input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **self._options,
        )

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
            # forever.
            last = clock.now() + _DRAIN
            self._pump(last, lambda: self.is_cancelled or not self._open_pipes)

    def _pump(self, end: float, is_over: Callable[[], bool]) -> None:
        nap = NAP if self._pidfds else LOOK
        while not is_over() and (seconds := end - clock.now()) > 0:
            # Rounded up: no wake-up right before the end.
            for descriptor, _ in self._poll.poll(math.ceil(min(seconds, nap) * 1000)):
                self._serve(descriptor)
            if not self._pidfds:
                self.has_exited = self.has_ended

    def _serve(self, descriptor: int) -> None:
        pipe = self._open_pipes.get(descriptor)
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
            del self._open_pipes[descriptor]

    # -- ending --------------------------------------------------------------------

    def take_back(self) -> bool:
        """Take the group back from the token; false if a cancel came first."""
        return self._group is None or self._group.settle(self._token)

    def stop(
        self, forced: CancelToken | None, grace: float, *, is_signalled: bool
    ) -> None:
        """End the whole group within *grace* seconds."""
        if grace:
            if not is_signalled:
                self.signal(signal.SIGTERM)
            tokens = () if forced is None else (forced,)
            hurry = ProcessGroup(self.signal, signal.SIGKILL)
            try:
                for token in tokens:
                    token.attach(hurry)
                self._pump(clock.now() + grace, lambda: self.has_exited)
            finally:
                hurry.settle(*tokens)
        self.kill()
        last = clock.now() + _DRAIN
        self._pump(last, lambda: self.has_exited and not self._open_pipes)

    def collect(self, *, timed_out: bool) -> ProcessResult:
        """Reap the program, which frees its pid, and return its result."""
        self.reap()
        return ProcessResult(
            args=self._arguments,
            returncode=self.returncode,
            stdout=self._stdout.text(),
            stderr=self._stderr.text(),
            timed_out=timed_out,
        )

    def end(self, seconds: float = 5.0) -> bool:
        self.take_back()
        return super().end(seconds)

    def _close(self) -> None:
        # In a forked child, too: it would hold the pipes open, and then the program
        # would not see the end of its input, nor its parent the end of the output.
        super()._close()
        for end in (*self._ends, *self._pipes()):
            end.close()
