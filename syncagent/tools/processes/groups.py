"""Process groups: what a token holds of them, and what ends them with this process."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, starmap
from typing import Final

from ...cancel import Bell, CancelToken, Killable, clock
from ...cancel.handler_errors import raised_by_signal_handler
from ...exceptions import ConfigurationError

__all__ = [
    "Lifeline",
    "ProcessGroup",
    "add_pidfd",
    "add_pipe",
    "check_system",
    "describe_end",
    "is_worker",
    "mark_as_worker",
]

#: Seconds that a canceller may need between its claim and its signal.
_SIGNALLING: Final = 5.0


def check_system() -> None:
    """Refuse systems on which processes cannot be ended safely.

    :raises ConfigurationError: this is such a system.
    """
    if hasattr(os, "killpg") and hasattr(os, "waitid") and hasattr(select, "poll"):
        return
    if "eventlet" in sys.modules:
        raise ConfigurationError(
            "programs and worker processes need select.poll(), which "
            "eventlet.monkey_patch() removes; use threads or gevent in place of "
            "eventlet"
        )
    raise ConfigurationError(
        "programs and worker processes need process groups, poll() and waitid(): use "
        "Linux, or macOS with Python 3.13; elsewhere use isolation='thread'"
    )


def describe_end(returncode: int) -> str:
    """Return how a process ended, as part of a sentence."""
    if returncode >= 0:
        return f"ended with exit status {returncode}"
    try:
        return f"was ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was ended by signal {-returncode}"


# If a signal handler raised between the creation of a descriptor and its first owner,
# the descriptor would leak. So each is created, wrapped and added to its owner's list
# in one step, all of it in C.


def add_pipe(ends: list[io.FileIO]) -> None:
    """Create a pipe and add its two ends, the readable one first."""
    ends.extend(map(io.FileIO, chain.from_iterable(starmap(os.pipe, ((),)))))


def add_pidfd(ends: list[io.FileIO], pid: int) -> None:
    """Add a descriptor that is readable once *pid* has ended, if the system has it."""
    if hasattr(os, "pidfd_open"):
        try:
            ends.extend(map(io.FileIO, map(os.pidfd_open, (pid,))))
        except OSError as error:  # an old kernel: the end must be polled
            if raised_by_signal_handler(error):
                raise


class ProcessGroup(Killable):
    """A process group that a token holds; a cancel sends it a signal.

    :param send: sends a signal to the group, and to no other.
    :param number: the signal.
    :param wake: closed after the signal, which wakes a poll of its other end.
    """

    __slots__ = ("_bell", "_is_over", "_is_signalled", "_number", "_send", "_wake")

    def __init__(
        self,
        send: Callable[[int], None],
        number: int,
        wake: io.FileIO | None = None,
    ) -> None:
        super().__init__()
        self._send = send
        self._number = number
        self._wake = wake
        self._bell = Bell()
        self._is_signalled = self._is_over = False

    def fire(self) -> None:
        # A signal handler may raise after each step, and then all steps are repeated.
        # The signal is not: the owner may have released the group by then.
        if not self._is_signalled:
            self._send(self._number)
            self._is_signalled = True
        self.let_go()

    def let_go(self) -> None:
        if self._wake is not None:
            self._wake.close()
        self._is_over = True
        self._bell.ring()

    def settle(self, *tokens: CancelToken) -> bool:
        """Take the group back from *tokens*; after that no cancel signals it.

        Cancellation: not needed; at most the signal of a canceller is awaited.

        :return: false if a cancel came first.
        """
        taken = self.take()
        for token in tokens:
            token.detach(self)
        if not taken and not self._is_over:
            self._bell.wait(clock.now() + _SIGNALLING)
        return taken


class Lifeline:
    """Makes the system kill a process group when this process ends, however it ends.

    It is a pipe. The group holds the readable end, and the system is told to send
    SIGKILL to the group when the other end, in this process, is closed. No code of the
    group has to run, so this also ends a group that is stuck in C. Linux only.
    """

    def __init__(self) -> None:
        self._ends: list[io.FileIO] = []
        add_pipe(self._ends)

    @property
    def inherited(self) -> int:
        """The descriptor that the group's leader must inherit."""
        return self._ends[0].fileno()

    def hold(self, group: int) -> None:
        """Tie the life of *group* to this process."""
        with suppress(ProcessLookupError):  # it is gone, and other code has reaped it
            self._own(-group)

    def hold_here(self) -> None:
        """Do the same for the group that the calling process leads."""
        self.hold(os.getpid())

    def cut(self) -> None:
        """Have the system kill the group now."""
        self._ends[1].close()

    def release(self, *, is_forked: bool = False) -> None:
        """Untie the group, and close both ends.

        :param is_forked: in a forked child both are only copies, and it stays tied.
        """
        if not (is_forked or self._ends[0].closed):
            self._own(0)
        for end in self._ends:
            end.close()

    def _own(self, owner: int) -> None:
        import fcntl

        if hasattr(fcntl, "F_SETSIG"):
            readable = self.inherited
            fcntl.fcntl(readable, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(readable, fcntl.F_SETOWN, owner)
            fcntl.fcntl(readable, fcntl.F_SETFL, os.O_ASYNC if owner else 0)


_is_worker = False


def mark_as_worker() -> None:
    """Note that this process is a worker, which may be killed at any moment."""
    global _is_worker
    _is_worker = True


def is_worker() -> bool:
    """True in a worker process."""
    return _is_worker
