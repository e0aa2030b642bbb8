"""The runs in the background of a program: find them, and end them together."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import msgspec

from .._checks import check_timeout
from .._closeable import Closeable
from ..cancel import CancelMode, Receipt, clock
from ..cancel.claim import check_cancel
from ..conversation.conversation import Background, check_background
from ..exceptions import AgentBusy, ConfigurationError, Origin, WrongThread
from ..messages import Prompt
from .handle import Handle

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._arguments import StartArguments
    from .._deps import Deps
    from ..agent import Agent

__all__ = ["Runtime", "ShutdownReport"]

_T = TypeVar("_T")
#: Seconds that cancelled runs have before they are reported as still running.
_GRACE: Final = 5.0
#: The exit code of a process that SIGTERM ended, as shells report it.
_TERMINATED: Final = 128 + signal.SIGTERM


class ShutdownReport(msgspec.Struct, frozen=True):
    """How the runs ended when everything was shut down, by their ids."""

    #: They finished.
    drained: tuple[str, ...] = ()
    #: They were cancelled.
    cancelled: tuple[str, ...] = ()
    #: They were cancelled and still run: a tool does not stop.
    running: tuple[str, ...] = ()


class Runtime(Closeable):
    """Handles by their ids. A handle that is done is removed.

    Call everything here from any thread. The runtime is shut down at the end of a
    ``with`` block, and at the latest when the interpreter exits.

    :param drain: seconds that runs then have to finish.
    """

    def __init__(self, *, drain: float | None = 10.0) -> None:
        check_timeout(drain, "drain")
        self._drain = drain
        self._handles: dict[str, Handle] = {}
        self._is_closed = False
        self._pid = os.getpid()
        _runtimes.add(self)

    # -- runs ----------------------------------------------------------------------

    @overload
    def start(
        self,
        agent: Agent[Deps],
        prompt: Prompt | None = None,
        *,
        output: type[_T],
        **settings: Unpack[StartArguments[Deps]],
    ) -> Handle[_T]: ...

    @overload
    def start(
        self,
        agent: Agent[Deps],
        prompt: Prompt | None = None,
        *,
        output: object = None,
        **settings: Unpack[StartArguments[Deps]],
    ) -> Handle[Any]: ...

    def start(
        self,
        agent: Agent[Deps],
        prompt: Prompt | None = None,
        *,
        output: Any = None,
        **settings: Unpack[StartArguments[Deps]],
    ) -> Handle[Any]:
        """Start a run in the background.

        :param settings: as for :meth:`syncagent.Agent.start`.
        :raises ConfigurationError: the runtime is shut down.
        """
        self._check_open()
        start = getattr(agent, "start", None)
        if isinstance(agent, type) or not callable(start):
            raise ConfigurationError(f"start() takes an Agent; got {agent!r:.80}")
        return self.add(start(prompt, output=output, **settings))

    def add(self, handle: Handle[_T]) -> Handle[_T]:
        """Add a handle that was started elsewhere, and return it."""
        if not isinstance(handle, Handle):
            raise ConfigurationError(f"add() takes a Handle; got {handle!r:.80}")
        self._handles[handle.run_id] = handle
        leave = partial(self._leave, handle)
        handle.thread.callbacks.add_last(handle.run_id, leave)
        if self._is_closed:  # at this very moment
            handle.shutdown()
            self._check_open()
        return handle

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigurationError("the runtime is shut down and starts no more runs")

    def _leave(self, handle: Handle) -> None:
        if self._handles.get(handle.run_id) is handle:  # a later handle may have its id
            self._handles.pop(handle.run_id, None)

    def get(self, run_id: str) -> Handle | None:
        """Return the handle with that id, or None; one that is done has left.

        :raises TypeError: *run_id* is not a string.
        """
        if not isinstance(run_id, str):
            raise TypeError(f"run_id must be a string; got {run_id!r:.80}")
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
        cause = check_cancel(reason, origin, mode)
        check_background(background)
        handle = self.get(run_id)
        if handle is None:
            return Receipt(None, cause)
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
        """Start no more runs, let the live ones finish, then cancel the rest.

        Cancellation: a cancel of the runs ends the wait for them.

        :param timeout: seconds to let them finish; ``None`` for no limit.
        :param grace: seconds for cancelled runs to end.
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
        lists = (drained, cancelled, running)
        return ShutdownReport(*(tuple(one.run_id for one in each) for each in lists))

    def close(self) -> None:
        """Shut down.

        Cancellation: as for :meth:`shutdown`.
        """
        self.shutdown(self._drain)

    @contextmanager
    def drain_on_sigterm(self) -> Iterator[Runtime]:
        """Make SIGTERM leave the block by :exc:`SystemExit`, and drain at its end.

        A second SIGTERM cancels the runs that are left. One that arrives while the end
        of the block drains takes effect after that.

        :raises WrongThread: this is not the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            raise WrongThread(
                "drain_on_sigterm() works on the main thread only: Python delivers "
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
    """The SIGTERM handler of one block."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._was_called = False
        #: True once the block has ended.
        self.is_draining = False
        #: True if the first SIGTERM came after that.
        self.is_late = False

    def handle(self, signum: int, frame: FrameType | None) -> None:
        # Runs between two steps of the main thread: nothing here may take a lock.
        if self._was_called:
            for handle in self._runtime.list():
                handle.shutdown("SIGTERM")
            return
        self._was_called = True
        self.is_late = self.is_draining
        if not self.is_late:
            self._runtime._is_closed = True
            raise SystemExit(_TERMINATED)


def _wait(handle: Handle, until: float | None) -> bool:
    """Wait until a handle has nothing left to do; false if it is still busy."""
    try:
        return handle.wait(None if until is None else max(0.0, until - clock.now()))
    except AgentBusy:  # one of its own tools shuts everything down
        return False


#: Shut down when the interpreter exits.
_runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()


@atexit.register
def _drain_all() -> None:
    for runtime in list(_runtimes):
        if runtime._registered():
            runtime.close()
