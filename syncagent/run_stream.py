"""The events of a run, as they happen."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from types import TracebackType

from . import _clock
from .cancel import CancelMode, CancelReason, Receipt, RunClaim
from .driver import Handlers, drive
from .exceptions import Cancelled, ConfigurationError, Origin, SyncAgentError
from .loop import StopReason
from .result import Cancellation, RunEvents, RunFinished, RunResult, make_result
from .run import Run
from .settle import settle_cancelled, settle_failed

__all__ = ["RunStream"]

_log = logging.getLogger("syncagent.run")


class RunStream(Iterator[RunEvents]):
    """The events of a run: iterate over it, best in a ``with`` block.

    Each step of the run is made when its event is asked for, on the thread that asks.
    Whoever stops early closes it, which cancels the run with origin ``closed``; so does
    dropping it.

    :param pause: called when the run has to wait for answers, before it ends.
    :param release: frees the agent; called once, when the run has ended.
    """

    def __init__(
        self,
        run: Run,
        handlers: Handlers,
        pause: Callable[[Run], object],
        release: Callable[[Run, RunResult | None], object],
    ) -> None:
        self._run = run
        self._claim = run.claim
        self.run_id = run.id
        self._pause = pause
        self._release = release
        self._result: RunResult | None = None
        self._has_begun = False
        self._events = self._follow(drive(run, handlers))

    @classmethod
    def never_begun(cls, run_id: str, claim: RunClaim) -> RunStream:
        """Return one of a run that was cancelled before it had its turn."""
        self = cls.__new__(cls)
        self._claim, self.run_id, self._has_begun = claim, run_id, True
        cause = claim.token.reason
        assert cause is not None
        self._result = RunResult(
            text="",
            stop_reason="cancelled",
            run_id=run_id,
            messages=(),
            cancellation=Cancellation(
                str(cause), cause.origin, claim.phase, _seconds_since(cause)
            ),
        )
        claim.end()
        self._events = (RunFinished(result) for result in (self._result,))
        return self

    @property
    def result(self) -> RunResult:
        """What the run has come to.

        :raises ConfigurationError: it has not ended, or has ended with an error.
        """
        if self._result is None:
            raise ConfigurationError(
                "the run has no result yet; iterate over the stream to its end, or "
                "close it"
            )
        return self._result

    def cancel(
        self,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
    ) -> Receipt:
        """Cancel this run, and no other. As safe as :meth:`syncagent.Agent.cancel`."""
        return self._claim.cancel(reason, origin, mode=mode, force=force)

    def close(self) -> None:
        """End the run if it has not ended."""
        if not self._has_begun:
            self._has_begun = True
            self._claim.cancel("the stream was closed", "closed")
            self._conclude(GeneratorExit())
        self._events.close()

    def __iter__(self) -> Iterator[RunEvents]:
        return self._events

    def __next__(self) -> RunEvents:
        return next(self._events)

    def __enter__(self) -> RunStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RunStream of run {self.run_id}>"

    # -- from begin to end ---------------------------------------------------------

    def _follow(
        self, events: Generator[RunEvents, None, StopReason]
    ) -> Generator[RunEvents, None, None]:
        self._has_begun = True
        try:
            stop = yield from events
            self._conclude(stop)
        except BaseException as error:
            if self._result is not None or not self._conclude(error):
                raise
        run = self._run
        for invocation in run.invocations:
            if not invocation.is_announced and not self.result.interrupts:
                yield invocation.finished()
        yield RunFinished(self.result)

    def _conclude(self, end: StopReason | BaseException) -> bool:
        """Settle the run, make its result, and free the agent.

        :return: whether there is nothing to be raised.
        """
        run = self._run
        try:
            return self._settle(run, end)
        finally:
            self._release(run, self._result)

    def _settle(self, run: Run, end: StopReason | BaseException) -> bool:
        phase = run.claim.phase
        if isinstance(end, Cancelled) and not run.token.cancelled:
            run.claim.cancel(end.reason, end.origin)  # somebody's own: it is ours now
        if end == "interrupt":
            self._pause(run)  # before the last moment for a cancel: none is lost
        cause = run.claim.finish()
        if isinstance(end, BaseException):
            is_cancel = isinstance(end, (Exception, Cancelled)) and cause is not None
            if not is_cancel and not isinstance(end, GeneratorExit):
                self._settle_raised(run, end)
                return False
            _report(run, end)
        if cause is not None:
            settle_cancelled(run)
        stop = "cancelled" if isinstance(end, BaseException) or cause else end
        self._result = make_result(
            run, stop, cause, phase=phase, latency=_seconds_since(cause)
        )
        for hook in run.setup.hooks.on_finish:
            hook(self._result)
        return not isinstance(end, GeneratorExit)

    def _settle_raised(self, run: Run, error: BaseException) -> None:
        if isinstance(error, Exception):
            settle_failed(run)
        else:
            settle_failed(run, run.setup.policy.marker)
        if isinstance(error, SyncAgentError):
            error.usage = run.usage


def _seconds_since(cause: CancelReason | None) -> float:
    return 0.0 if cause is None else _clock.now() - cause.at


def _report(run: Run, error: BaseException) -> None:
    """Log what a cancel has hidden, unless it is what cancels look like."""
    if isinstance(error, (Cancelled, GeneratorExit, SyncAgentError)):
        return
    _log.warning(
        "run %s: it was cancelled, and this came out of it meanwhile",
        run.id,
        exc_info=error,
    )
