"""The events of a run, as they happen, and how it ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from typing import Final

import msgspec

from . import _clock
from ._closing import Closing
from .cancel import CancelMode, CancelReason, Receipt, RunClaim
from .cancel.again import until_done
from .cancel.following import Following
from .cancel.once import Once
from .exceptions import (
    Cancelled,
    ConfigurationError,
    Origin,
    RunStopped,
    SyncAgentError,
)
from .loop import StopReason
from .messages import Message
from .pump import CLOSED, Pump, drive
from .result import Cancellation, RunFinished, RunResult, StreamEvent, make_result
from .run import Run
from .settle import settle_cancelled, settle_failed

__all__ = ["RunEnd", "RunStream", "exhaust", "follow"]

_log = logging.getLogger("syncagent.run")

_DRIVEN: Final = "driven"
_SHUT: Final = "shut"
_HERE: Final = "here"
_THERE: Final = "there"


class RunStream(Closing, Iterator[StreamEvent]):
    """The events of a run: iterate over it, best in a ``with`` block.

    Each step of the run is made when its event is asked for, on the thread that asks.
    Whoever stops early closes it, which cancels the run with origin ``closed``; so does
    dropping it.
    """

    def __init__(self, end: RunEnd, pump: Pump) -> None:
        self.run_id = end.run.id
        self.claim = end.run.claim
        #: The number of messages that were there before.
        self.start = end.run.start
        #: Has another thread begun it?
        self.is_moved = False
        self._end: RunEnd | None = end
        self._over: RunResult | None = None
        # It knows the end, and not this object: without a circle, what is dropped is
        # closed at once.
        self._events = follow(end, pump)

    @classmethod
    def never_begun(cls, claim: RunClaim, messages: tuple[Message, ...]) -> RunStream:
        """Return one of a run that was cancelled before it had its turn."""
        cause = claim.token.reason
        assert cause is not None
        cancellation = Cancellation(
            str(cause), cause.origin, claim.phase, _seconds_since(cause)
        )
        claim.end()
        self = cls.__new__(cls)
        self.run_id, self.claim, self._end = claim.run_id, claim, None
        self.start, self.is_moved = len(messages), False
        self._over = result = RunResult(
            text="",
            stop_reason="cancelled",
            run_id=claim.run_id,
            messages=messages,
            start=len(messages),
            cancellation=cancellation,
        )
        self._events = (event for event in (RunFinished(result),))
        return self

    @classmethod
    def moved(cls, end: RunEnd, pump: Pump) -> RunStream:
        """Return one for the thread that is to go on with a run."""
        self = cls(end, pump)
        self.is_moved = True
        self._events = follow(end, pump, is_moved=True)
        return self

    @property
    def result(self) -> RunResult:
        """What the run has come to.

        :raises ConfigurationError: it has not ended, or has ended with an error.
        """
        result = self._over
        if self._end is not None:
            left = None if self.is_moved else self._end.left
            result = left or self._end.result
        if result is not None:
            return result
        error = None if self._end is None else self._end.error
        if error is not None:
            raise ConfigurationError(f"the run has no result: it raised {error!r:.200}")
        raise ConfigurationError(
            "the run has no result yet; iterate over the stream to its end, or close it"
        )

    @property
    def has_begun(self) -> bool:
        """Has it had its turn? One that was cancelled before has said nothing."""
        return self._end is not None

    @property
    def is_at_work(self) -> bool:
        """Is a thread in the middle of a step?"""
        return bool(getattr(self._events, "gi_running", False))

    def cancel(
        self,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
    ) -> Receipt:
        """Cancel this run, and no other. As safe as :meth:`syncagent.Agent.cancel`."""
        return self.claim.cancel(reason, origin, mode=mode, force=force)

    def close(self) -> None:
        """End the run if it has not ended."""
        end = self._end
        if end is not None and end.begun.put(_SHUT) is _SHUT:
            self.claim.cancel(CLOSED, "closed")
            end.conclude(GeneratorExit())
            return
        try:
            self._events.close()
        except ValueError:  # another thread is in the middle of a step, which ends now
            self.claim.cancel(CLOSED, "closed")

    def give_up(self) -> None:
        """End the run, wherever it is driven by now: nobody will know of it."""
        self.claim.cancel(CLOSED, "closed")
        self.close()

    def __iter__(self) -> Iterator[StreamEvent]:
        return self._events

    def __next__(self) -> StreamEvent:
        return next(self._events)

    def __repr__(self) -> str:
        return f"<RunStream of run {self.run_id}>"


class RunEnd:
    """How a run ends, whatever ends it: settled, with a result, and the agent free.

    :param pause: called when the run has to wait for answers, before it ends.
    :param release: frees the agent; called when the run has ended.
    :param move: has another thread go on with the run.
    :param following: the run's hold on somebody's event, which is let go then.
    """

    def __init__(
        self,
        run: Run,
        pause: Callable[[Run], object],
        release: Callable[[Run, RunResult | None, BaseException | None], object],
        move: Callable[[RunEnd, Pump], object] | None = None,
        following: Following | None = None,
    ) -> None:
        self.run = run
        #: By whom it was begun: who drives it, or who closes it before that.
        self.begun: Once[str] = Once()
        #: Who has it if it is moved, and a signal handler raises meanwhile.
        self.owner: Once[str] = Once()
        self.result: RunResult | None = None
        #: What it has raised, if it has no result.
        self.error: BaseException | None = None
        #: What whoever has begun it is told if it goes on in the background.
        self.left: RunResult | None = None
        self._pause = pause
        self._release = release
        self._move = move
        self._following = following
        self._is_over = False

    def conclude(self, end: StopReason | BaseException) -> bool:
        """Settle the run, make its result, and free the agent.

        :return: whether there is nothing to be raised.
        """
        if self._is_over:  # and something was raised on the way out
            return False
        try:
            self._is_over = True  # not before: what is tried is also released
            return self._finish(end)
        finally:
            error = end if isinstance(end, BaseException) else None
            until_done(lambda: self._let_go(error))

    def leave(self, pump: Pump) -> RunResult:
        """Have another thread go on with the run, as somebody has asked for that.

        :return: what is to be told here.
        :raises RuntimeError: there is no thread to be had; it is still ours.
        """
        run = self.run
        assert self._move is not None
        answer = None if run.answer is None else run.answer.partial()
        left = msgspec.structs.replace(
            make_result(run, "backgrounded", None, phase="", latency=0.0),
            text=run.text if answer is None else answer.text,
            messages=tuple(run.transcript.repaired()),
            # What runs, or waits for its turn, has come to nothing yet.
            tool_outcomes=tuple(
                call.report() for call in run.invocations if not call.is_open
            ),
        )
        try:
            handle = self._move(self, pump)
            self.take_over()
            self.left = left = left.with_handle(handle)
        except BaseException:
            if not self.keep():
                self.left = left
            raise
        return left

    def take_over(self) -> bool:
        """Let the thread to which the run was moved drive it, unless it is kept."""
        has_moved = self.owner.put(_THERE) is _THERE
        if has_moved:  # not before: until then it is what a cancel is to hit
            self.run.claim.is_background = True
        return has_moved

    def keep(self) -> bool:
        """Keep the run on the thread that has begun it, unless another has it."""
        return self.owner.put(_HERE) is _HERE

    def _let_go(self, error: BaseException | None) -> None:
        if self._following is not None:
            self._following.close()
        run = self.run
        if run.recording is not None:
            run.recording.end(self.result, error, tuple(run.invocations))
        self._release(self.run, self.result, error)

    def _finish(self, end: StopReason | BaseException) -> bool:
        run = self.run
        phase = run.claim.phase
        if isinstance(end, Cancelled) and not run.token.cancelled:
            run.claim.cancel(end.reason, end.origin)  # somebody's own: it is ours now
        if end == "interrupt":
            self._pause(run)  # before the last moment for a cancel: none is lost
        cause = run.claim.finish()
        if cause is not None and run.recording is not None:
            run.recording.cancelled(cause, phase)
        stop = "cancelled" if cause else end
        if isinstance(end, BaseException) and not _is_cancel(end, cause):
            until_done(lambda: _settle_raised(run, end))
            self.error = end
            _show_error(run, end)
            return False
        if isinstance(end, BaseException):
            _report(run, end)
            stop = "cancelled"
        if cause is not None:
            until_done(lambda: settle_cancelled(run))
        assert not isinstance(stop, BaseException)
        if run.has_blanks and stop != "interrupt":
            run.transcript.repair()
        self.result = make_result(
            run, stop, cause, phase=phase, latency=_seconds_since(cause)
        )
        for hook in run.setup.hooks.on_finish:
            hook(self.result)
        return not isinstance(end, GeneratorExit)


def follow(
    end: RunEnd, pump: Pump, *, is_moved: bool = False
) -> Generator[StreamEvent, None, None]:
    """Yield the events of a run up to its end, or until another thread takes it over.

    Cancellation: ends at once; the last event says so.
    """
    if end.begun.put(_DRIVEN) is not _DRIVEN:
        return  # closed by another thread at this very moment
    try:
        stop = yield from drive(pump)
        while stop == "backgrounded":
            try:
                left = end.leave(pump)
            except RuntimeError:  # no thread to be had: it stays here
                if not end.keep():
                    raise
                end.run.may_leave = False
                stop = yield from drive(pump)
            else:
                yield RunFinished(left)
                return
        end.conclude(stop)
    except BaseException as error:
        if not is_moved and not end.keep():
            if not isinstance(error, GeneratorExit):  # nobody will know of it
                end.run.claim.cancel(CLOSED, "closed")
            raise
        is_settled = end.result is not None
        try:
            pump.close()  # it was to be moved, perhaps
        finally:
            is_told = not is_settled and end.conclude(error)
        if not is_told:
            raise
    result, on_event = end.result, end.run.on_event
    assert result is not None
    if not result.interrupts:
        for invocation in end.run.invocations:
            if not invocation.is_announced:
                event = invocation.finished()
                for hook in on_event:
                    hook(event)
                yield event
    finished = RunFinished(result)
    for hook in on_event:
        hook(finished)
    yield finished


def exhaust(begin: Callable[[], RunStream]) -> RunResult:
    """Drive a run to its end on this thread.

    Cancellation: ends at once; the result says so.

    :param begin: makes the stream; not before, as a signal handler may raise meanwhile.
    """
    stream = None
    try:
        stream = begin()
        for _ in stream:
            pass
        return stream.result  # noqa: TRY300, a signal handler may raise here, too
    except BaseException:
        if stream is not None:
            until_done(stream.give_up)
        raise


def _show_error(run: Run, error: BaseException) -> None:
    """Show hooks what a run ends with; what they say about it cannot replace it."""
    for hook in run.setup.hooks.on_error:
        try:
            hook(error)
        except Exception:
            _log.exception("run %s: a hook's on_error() raised", run.id)


def _is_cancel(error: BaseException, cause: CancelReason | None) -> bool:
    """Is this what comes out of a run that was cancelled? By the token first."""
    # A stream that is closed has cancelled its run; any other GeneratorExit goes up.
    is_usual = isinstance(error, (Exception, Cancelled, GeneratorExit))
    return cause is not None and is_usual and not isinstance(error, MemoryError)


def _settle_raised(run: Run, error: BaseException) -> None:
    if isinstance(error, Exception):
        settle_failed(run)
    else:
        settle_failed(run, run.setup.policy.marker)
    if isinstance(error, SyncAgentError):
        error.usage = run.meter.usage
    if isinstance(error, RunStopped):
        error.result = make_result(run, "end_turn", None, phase="", latency=0.0)


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
