"""Many runs in the background: find them, and end them together."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from .._closeable import Closeable
from ..cancel import CancelMode, Receipt, clock
from ..cancel.deadlines import check_timeout
from ..cancel.deferred import check_mode
from ..cancel.reason import make_cause
from ..conversation.conversation import Background, check_background
from ..exceptions import AgentBusy, ConfigurationError, Origin, WrongThread
from ..messages import Prompt
from .handle import Handle

if TYPE_CHECKING:
    from ..agent import Agent

__all__ = ["Runtime", "ShutdownReport"]

#: How long runs that were told to end have for that, in seconds, before they are
#: reported as still running.
_GRACE: Final = 5.0
#: What a shell reports for a process that SIGTERM has ended.
_TERMINATED: Final = 128 + signal.SIGTERM


class ShutdownReport(msgspec.Struct, frozen=True):
    """What became of the runs when everything was shut down, by their ids."""

    #: They came to their end.
    drained: tuple[str, ...] = ()
    #: They were told to end, and have.
    cancelled: tuple[str, ...] = ()
    #: They were told to end, and have not: a tool does not stop.
    running: tuple[str, ...] = ()


class Runtime(Closeable):
    """Handles by their ids. A finished one leaves by itself.

    Everything here may be called from any thread. At the end of a ``with`` block, and
    at the latest when the interpreter exits, it is shut down.

    :param drain: how many seconds runs have to come to their end then.
    """

    def __init__(self, *, drain: float | None = 10.0) -> None:
        check_timeout(drain, "drain")
        self._drain = drain
        self._handles: dict[str, Handle] = {}
        self._is_closed = False
        self._pid = os.getpid()
        _runtimes.add(self)

    # -- runs ----------------------------------------------------------------------

    def start(
        self, agent: Agent, prompt: Prompt | None = None, **settings: Any
    ) -> Handle:
        """Begin a run in the background.

        :param settings: as for :meth:`syncagent.Agent.start`.
        :raises ConfigurationError: it is shut down.
        """
        self._check_open()
        start = getattr(agent, "start", None)
        if isinstance(agent, type) or not callable(start):
            raise ConfigurationError(f"start() takes an Agent; got {agent!r:.80}")
        return self.add(start(prompt, **settings))

    def add(self, handle: Handle) -> Handle:
        """Take in a handle that somebody else has started, and return it."""
        if not isinstance(handle, Handle):
            raise ConfigurationError(f"add() takes a Handle; got {handle!r:.80}")
        self._handles[handle.run_id] = handle
        handle.callbacks.add_last(self._leave)  # publish first, then look
        if handle.callbacks.returned.cancelled:
            self._leave(handle)
        if self._is_closed:  # at this very moment
            handle.shutdown()
            self._check_open()
        return handle

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigurationError(
                "the runtime is shut down, and begins nothing more"
            )

    def _leave(self, handle: Handle) -> None:
        if self._handles.get(handle.run_id) is handle:  # a run may go on in another
            self._handles.pop(handle.run_id, None)

    def get(self, run_id: str) -> Handle | None:
        """Return a handle that is not done, if there is one of that id.

        :raises TypeError: that is no id; a handle has one in its ``run_id``.
        """
        if not isinstance(run_id, str):
            raise TypeError(f"a run id is a string; got {run_id!r:.80}")
        handle = self._handles.get(run_id)
        return None if handle is None or handle.done() else handle

    def list(self) -> list[Handle]:
        """Return all handles that are not done, oldest first."""
        return [each for each in self._registered() if not each.done()]

    def _registered(self) -> Sequence[Handle]:
        """Return all handles, those included whose done callbacks still run.

        A runtime that keeps more than handles overrides this; it takes no lock.
        """
        return list(self._handles.values())

    # -- ending them ---------------------------------------------------------------

    def cancel(
        self,
        run_id: str,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
        background: Background = "keep",
    ) -> Receipt:
        """Cancel a run, with its sub-agents.

        As safe as :meth:`syncagent.Agent.cancel`.

        :param background: ``cancel`` also ends the handles that its tools have started.
        :return: true if and only if it was live.
        """
        check_mode(mode)
        check_background(background)
        handle = self.get(run_id)
        if handle is None:
            return Receipt(None, make_cause(reason, origin))
        return handle.cancel(
            reason, origin, mode=mode, force=force, background=background
        )

    def cancel_all(
        self, reason: str = "", origin: Origin = "user", *, force: bool = False
    ) -> tuple[Receipt, ...]:
        """Cancel all runs. As safe as :meth:`syncagent.Agent.cancel`."""
        live = self.list()
        return tuple(each.cancel(reason, origin, force=force) for each in live)

    def shutdown(
        self, timeout: float | None = 10.0, *, grace: float = _GRACE
    ) -> ShutdownReport:
        """Begin no more runs, let live ones come to their end, then cancel the rest.

        Cancellation: it waits for the end of runs, which their cancel brings.

        :param timeout: seconds for the first; ``None`` is as long as it takes.
        :param grace: seconds for the second.
        """
        check_timeout(timeout)
        check_timeout(grace, "grace")
        self._is_closed = True
        is_ours = self._pid == os.getpid()
        handles = self._registered() if is_ours else ()
        until = None if timeout is None else clock.now() + timeout
        drained = [each for each in handles if _wait(each, until)]
        late = [each for each in handles if each not in drained]
        for handle in handles:
            handle.shutdown()
        end = clock.now() + grace
        for handle in handles:
            handle.join(max(0.0, end - clock.now()))
        running = [each for each in late if not each.done()]
        cancelled = [each for each in late if each not in running]
        return ShutdownReport(*(_ids(each) for each in (drained, cancelled, running)))

    def close(self) -> None:
        """Shut it down.

        Cancellation: as for :meth:`shutdown`.
        """
        self.shutdown(self._drain)

    @contextmanager
    def drain_on_sigterm(self) -> Iterator[Runtime]:
        """Make SIGTERM leave the block by :exc:`SystemExit`, and drain at its end.

        A second SIGTERM cancels what is still running. One that comes when the block
        has ended, and drains already, takes effect after that.

        :raises WrongThread: not called on the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            raise WrongThread(
                "drain_on_sigterm() works on the main thread only, as Python delivers "
                "signals there"
            )
        catcher = _Catcher(self)
        before = signal.getsignal(signal.SIGTERM)
        try:
            signal.signal(signal.SIGTERM, catcher.handle)
            yield self
        finally:
            try:
                catcher.is_draining = True
            finally:
                try:
                    self.close()
                finally:
                    signal.signal(signal.SIGTERM, before)
            if catcher.is_late:
                raise SystemExit(_TERMINATED)

    def __repr__(self) -> str:
        return f"<Runtime: {len(self.list())} runs>"


class _Catcher:
    """What SIGTERM does in one block."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._has_come = False
        #: Has the block ended?
        self.is_draining = False
        #: Has the first one come after that?
        self.is_late = False

    def handle(self, signum: int, frame: FrameType | None) -> None:
        # Runs between two steps of the main thread: nothing here may take a lock.
        if self._has_come:
            for handle in self._runtime.list():
                handle.shutdown("SIGTERM")
            return
        self._has_come = True
        self.is_late = self.is_draining
        if not self.is_late:
            self._runtime._is_closed = True
            raise SystemExit(_TERMINATED)


def _wait(handle: Handle, until: float | None) -> bool:
    """Wait until a handle has nothing left to do; tell whether that is so."""
    try:
        return handle.wait(None if until is None else max(0.0, until - clock.now()))
    except AgentBusy:  # it is one of its tools that shuts everything down
        return False


def _ids(handles: list[Handle]) -> tuple[str, ...]:
    return tuple(handle.run_id for handle in handles)


#: Those to be shut down at the end.
_runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()


def _drain_all() -> None:
    for runtime in list(_runtimes):
        if runtime._registered():
            runtime.close()


atexit.register(_drain_all)
