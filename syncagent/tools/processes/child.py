"""A child process that is never lost: from before its start to its end.

Guarantees:

- A signal handler that raises, at any moment, loses no process and no descriptor.
  Handlers run on the main thread only, so there the start is left to another thread.
  Even if they raise so often that no clean-up is begun, closing the lifeline with the
  last reference to the child ends it.
- The child and its group end with this process, however it ends (:class:`Lifeline`).
- No signal reaches a stranger. A child that was not waited for keeps its pid, even
  after its end, so the wait comes last. Other code may wait for any child
  (``waitpid(-1)``, or SIGCHLD ignored), so a group is signalled by the child's pidfd,
  which never refers to another process, or if the system cannot do that, only while
  the child is still unreaped.
- In a forked child of this process it is forgotten, and left to its parent.
"""

from __future__ import annotations

import io
import math
import os
import select
import signal
import subprocess
import threading
import weakref
from _thread import start_new_thread
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ..._forks import in_child
from ...cancel import Bell, clock
from ...cancel.once import Once, finish_despite_signals
from .groups import Lifeline, add_pidfd, is_worker

__all__ = ["ChildProcess", "LOOK", "NAP"]

#: Longest block, in seconds: a signal right before it is then late, not lost.
NAP: Final = 1.0
#: The same where the system has no pidfd and the end of a process must be polled.
LOOK: Final = 0.02
#: Seconds to wait for the end of a killed process.
_END: Final = 5.0
#: PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9.
_TO_GROUP: Final = 4
#: Flags of waitid(): look at a child without waiting, and leave it unreaped.
_LOOK_ONLY: Final = os.WEXITED | os.WNOHANG | os.WNOWAIT if hasattr(os, "waitid") else 0


class _Undisturbed:
    """Work that no signal handler interrupts: the main thread leaves it to another.

    If a handler raises while the main thread waits, the work still runs to its end.
    """

    def __init__(self) -> None:
        self._bell = Bell()
        #: The thread, or the caller of withdraw(), that decides over the work.
        self._claimant: Once[object] = Once()
        self._error: BaseException | None = None
        self._is_over = False

    def do(
        self,
        work: Callable[[], object],
        *,
        is_direct: bool = False,
        seconds: float = math.inf,
    ) -> None:
        """Do the work and raise what it raises; called again, wait for its end.

        Cancellation: not needed; the work is short.

        :param is_direct: do it on this thread.
        :param seconds: the longest wait for another thread.
        """
        if is_direct or threading.get_ident() != threading.main_thread().ident:
            self._run(work)
        else:
            # A thread of the module threading cannot be started safely here: start()
            # waits in Python code, which a handler may interrupt.
            try:
                start_new_thread(self._run, (work,))
            except RuntimeError:  # the system, or the end of the program, refuses it
                self._run(work)
        self.wait_over(clock.now() + seconds)
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # or it would keep itself alive

    def _run(self, work: Callable[[], object]) -> None:
        if self._claimant.claim(me := object()) is not me:
            return  # another thread does it, or it was withdrawn
        try:
            work()
        except BaseException as error:
            self._error = error
        finally:
            self._set_over()

    def _set_over(self) -> None:
        self._is_over = True
        self._bell.ring()

    def withdraw(self) -> bool:
        """Keep the work from being done; false if it has begun."""
        return self._claimant.claim(self) is self

    def wait_over(self, until: float = math.inf) -> None:
        """Wait for the end of the work, at most until a monotonic time.

        Cancellation: not needed; the work is short.
        """
        while not self._is_over and (now := clock.now()) < until:
            self._bell.wait(min(until, now + NAP))

    def abandon(self) -> None:
        """End the wait in a forked child, where no thread does the work."""
        self._error = ChildProcessError("this process was forked in the meantime")
        self._set_over()


class ChildProcess:
    """A child in a session of its own; one thread at a time owns it.

    A subclass opens what it needs, and calls ``_spawn()``, in ``_open()``.
    """

    def __init__(self) -> None:
        # Made without __init__: if a signal handler raises while it starts, end() still
        # finds its pid.
        self._process: subprocess.Popen[bytes] = subprocess.Popen.__new__(
            subprocess.Popen
        )
        self._lifeline: Lifeline | None = None
        self._pidfds: list[io.FileIO] = []
        self._opening = _Undisturbed()
        self._ending = _Undisturbed()
        #: True in a forked child of the process that started it.
        self.is_forgotten = False
        #: True while it starts by running Python code in a forked child, which needs
        #: everything that other forked children must close: in a worker, see _spawn();
        #: and under gevent, whose Popen always does so.
        self._is_forking = False
        _alive[weakref.ref(self, _alive.__delitem__)] = None

    # -- its start -----------------------------------------------------------------

    def start(self) -> None:
        """Start the process. If this raises, :meth:`end_despite_signals` must follow.

        :raises OSError: the system refuses it.
        """
        self._opening.do(self._open, is_direct=_is_lone_worker())

    def _open(self) -> None:
        raise NotImplementedError

    def _spawn(
        self,
        arguments: Sequence[str],
        *,
        pass_fds: tuple[int, ...] = (),
        **options: Any,
    ) -> None:
        """Start a program with these options of :class:`subprocess.Popen`."""
        self._lifeline = lifeline = Lifeline()
        is_lone = _is_lone_worker()
        self._is_forking = is_lone or subprocess.Popen.__module__ != "subprocess"
        try:
            self._process.__init__(  # type: ignore[misc]
                arguments,
                start_new_session=True,
                pass_fds=(*pass_fds, lifeline.inherited),
                # Otherwise a kill of this process between the start and the hold would
                # miss the program, and workers are killed often. It runs Python in a
                # forked child, which is only safe in a process without threads.
                preexec_fn=lifeline.hold_here if is_lone else None,
                **options,
            )
        finally:
            self._is_forking = False
        lifeline.hold(self.pid)
        add_pidfd(self._pidfds, self.pid)

    @property
    def pid(self) -> int:
        """Its pid, which is also the number of its group."""
        return self._process.pid

    @property
    def returncode(self) -> int:
        """Its exit status, or minus the number of a signal."""
        code: int | None = self._process.returncode
        return -signal.SIGKILL if code is None else code

    # -- its end -------------------------------------------------------------------

    def signal(self, number: int) -> None:
        """Send a signal to its group, and never to another one."""
        for pidfd in self._pidfds:
            try:
                signal.pidfd_send_signal(pidfd.fileno(), number, None, _TO_GROUP)
            except ProcessLookupError:  # the group is empty
                return
            except OSError:  # an older kernel
                continue
            return
        try:
            os.waitid(os.P_PID, self.pid, _LOOK_ONLY)
            os.killpg(self.pid, number)
        except OSError:  # other code has waited for it; or the group is empty
            pass

    def kill(self) -> None:
        """Kill its group."""
        if getattr(self._process, "pid", None) is not None:
            self.signal(signal.SIGKILL)
        # On an older kernel, and after other code has waited for the child, only this
        # reaches the rest of the group.
        if self._lifeline is not None:
            self._lifeline.cut()

    @property
    def has_ended(self) -> bool:
        """True if the process has ended; its pid stays reserved."""
        if self.is_forgotten:
            return True
        if self._pidfds:
            return bool(self._end_poll().poll(0))
        try:
            return os.waitid(os.P_PID, self.pid, _LOOK_ONLY) is not None
        except ChildProcessError:  # other code has waited for it
            return True

    def _end_poll(self) -> select.poll:
        poll = select.poll()
        for pidfd in self._pidfds:
            poll.register(pidfd, select.POLLIN)
        return poll

    def wait_ended(self, until: float) -> bool:
        """Wait until it has ended, at most until a monotonic time; true if it has.

        Cancellation: not needed; the time is short.
        """
        poll = self._end_poll()
        while not self.has_ended:
            seconds = min(until - clock.now(), NAP if self._pidfds else LOOK)
            if seconds <= 0:
                return False
            poll.poll(max(1, int(1000 * seconds)))
        return True

    def reap(self, seconds: float = _END) -> bool:
        """Wait for its end, which frees its pid; true if it has ended."""
        if self._process.returncode is None and self.wait_ended(clock.now() + seconds):
            self._process.poll()
        return self._process.returncode is not None

    def end(self, seconds: float = _END) -> bool:
        """Kill its group, unless it was waited for, and release everything.

        It may be called at any stage, and again.

        Cancellation: not needed; it takes a moment.

        :return: true if the process is gone; if not, this can be called again.
        """
        if not self._opening.withdraw():
            self._opening.wait_over()
        process = self._process
        is_known = getattr(process, "pid", None) is not None
        if not is_known or process.returncode is None:
            self.kill()
        if is_known and process.returncode is None:
            process.kill()  # it may not have got as far as having a group
            self.reap(seconds)
        self._close()
        return not is_known or process.returncode is not None

    def end_despite_signals(self) -> None:
        """Do the same where a signal handler may have raised, and may raise again.

        Once it has begun, it is done by another thread, even if this one is interrupted
        so often that it waits no longer.
        """
        finish_despite_signals(partial(self._ending.do, self.end, seconds=2 * _END))

    def forget(self) -> None:
        """Leave it to the parent, in a forked child."""
        if self._is_forking:
            return
        self.is_forgotten = True
        self._process.returncode = 0  # not a child of this process
        self._opening.abandon()
        self._ending.abandon()
        self._close()

    def _close(self) -> None:
        """Close every descriptor."""
        if self._lifeline is not None:
            self._lifeline.release(is_forked=self.is_forgotten)
        while self._pidfds:
            self._pidfds.pop().close()


def _is_lone_worker() -> bool:
    return is_worker() and threading.active_count() == 1


#: Weak references to all children of this process, running or not.
_alive: dict[weakref.ref[ChildProcess], None] = {}


@in_child
def _forget_in_child() -> None:
    for ref in list(_alive):
        child = ref()
        if child is not None:
            child.forget()
    _alive.clear()
