"""Process groups that a token holds: signalled by a cancel, and never by mistake.

The rule about process numbers: a child that nobody has waited for keeps its number,
even after its end. So an end is only looked at until the last signal has been sent, and
the wait, which gives the number back to the system, comes last of all.
"""

from __future__ import annotations

import io
import os
import select
import signal
from contextlib import suppress
from itertools import chain, starmap
from typing import Final

from ...cancel import Bell, CancelToken, Killable, clock
from ...exceptions import ConfigurationError

__all__ = [
    "Lifeline",
    "ProcessGroup",
    "add_pidfd",
    "add_pipe",
    "check_system",
    "describe_end",
    "has_ended",
    "mark_as_worker",
    "needs_lifeline",
    "signal_group",
]

#: Seconds that a canceller may take from its claim to its signal.
_SIGNALLING: Final = 5.0


def check_system() -> None:
    """Refuse to work where processes cannot be ended safely.

    :raises ConfigurationError: this is such a system.
    """
    if not (
        hasattr(os, "killpg") and hasattr(os, "waitid") and hasattr(select, "poll")
    ):
        raise ConfigurationError(
            "programs and worker processes need process groups, poll() and waitid(): "
            "use Linux, or macOS with Python 3.13; elsewhere use isolation='thread'"
        )


def signal_group(pid: int, number: int) -> None:
    """Send a signal to the group of a child that nobody has waited for yet."""
    try:
        os.killpg(pid, number)
    except OSError:  # nobody is left in it
        pass


def has_ended(pid: int) -> bool:
    """Look whether a child has ended; its number stays its own."""
    try:
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, pid, how) is not None
    except ChildProcessError:  # somebody else has waited for it
        return True


def describe_end(returncode: int) -> str:
    """Return how a process ended, in words."""
    if returncode >= 0:
        return f"ended with exit status {returncode}"
    try:
        return f"was ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was ended by signal {-returncode}"


# A descriptor that nobody owns yet would be lost if a signal handler raised now. So
# it is made, wrapped and put into the list of its owner in one step, all of it in C.


def add_pipe(ends: list[io.FileIO]) -> None:
    """Make a pipe and add its two ends, the readable one first."""
    ends.extend(map(io.FileIO, chain.from_iterable(starmap(os.pipe, ((),)))))


def add_pidfd(ends: list[io.FileIO], pid: int) -> None:
    """Add a descriptor that is readable once *pid* has ended, where there are such."""
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):  # an old kernel: whoever waits has to look
            ends.extend(map(io.FileIO, map(os.pidfd_open, (pid,))))


class ProcessGroup(Killable):
    """A process group as a token holds it: fired, it gets a signal.

    :param pid: its leader, a child of ours that nobody has waited for.
    :param number: the signal.
    :param wake: closed after that, so that whoever polls its other end sees it.
    """

    __slots__ = ("_bell", "_is_over", "_is_told", "_number", "_pid", "_wake")

    def __init__(self, pid: int, number: int, wake: io.FileIO | None = None) -> None:
        super().__init__()
        self._pid = pid
        self._number = number
        self._wake = wake
        self._bell = Bell()
        self._is_told = self._is_over = False

    def fire(self) -> None:
        # A signal handler may raise after each step, and then all of this is done
        # again; but once it is over, the number may be a stranger's.
        if not self._is_told:
            signal_group(self._pid, self._number)
            self._is_told = True
        self.let_go()

    def let_go(self) -> None:
        if self._wake is not None:
            self._wake.close()
        self._is_over = True
        self._bell.ring()

    def settle(self, *tokens: CancelToken) -> bool:
        """Take it back from *tokens*; after that nobody signals in its name.

        Cancellation: not needed; a canceller has only its signal still to send.

        :return: false if a cancel came first.
        """
        taken = self.take()
        for token in tokens:
            token.detach(self)
        if not taken and not self._is_over:
            self._bell.wait(clock.now() + _SIGNALLING)
        return taken


class Lifeline:
    """Have the system kill a process group when this process is gone, however.

    It is a pipe. The group has its readable end, and for that the system is told to
    send SIGKILL to the group when the other end, which is ours, is closed. No code of
    the group has to run, so this ends one that is stuck in C, too. Only Linux does it.
    """

    def __init__(self) -> None:
        self._ends: list[io.FileIO] = []
        add_pipe(self._ends)

    @property
    def inherited(self) -> int:
        """The descriptor that the group's leader must inherit."""
        return self._ends[0].fileno()

    def hold(self, group: int) -> None:
        """Begin: *group* dies with this process."""
        self._own(-group)

    def hold_here(self) -> None:
        """The same for the group that the calling process leads."""
        self.hold(os.getpid())

    def release(self) -> None:
        """Let the group live on, and close both ends."""
        if not self._ends[0].closed:
            self._own(0)
        self.forget()

    def forget(self) -> None:
        """Close both ends in a forked child, where they are only copies."""
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


def needs_lifeline() -> bool:
    """Must groups that are started here die with this process?

    In a worker, yes: a kill of its group does not reach groups below it.
    """
    return _is_worker
