"""A live run: who owns it, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Generator
from threading import get_ident
from typing import Final

import msgspec

from .._context import run_id
from ..asking.answering import NOT_YET, Answering
from ..cancel.once import Once, finish_despite_signals
from ..cancel.signal_event import EventRegistration
from ..events import RunEvent, RunFinished, StreamEvent
from ..exceptions import Cancelled
from ..interrupts import Interrupt
from ..loop import Answers, run_loop
from ..result import RunResult, StopReason
from ..run.run import Run
from .settling import (
    is_cancel,
    make_result,
    report,
    seconds_since,
    settle_cancelled,
    settle_raised,
    show_error,
)

__all__ = [
    "CLOSED",
    "Pump",
    "RunEnd",
    "answered",
    "settled",
]

#: Why a run is cancelled whose stream is closed.
CLOSED: Final = "the stream was closed"


class Pump:
    """The loop of a run, and what it waits for; it may be handed to another thread."""

    def __init__(self, run: Run, answering: Answering) -> None:
        self.run = run
        self.answering = answering
        self.loop = run_loop(run)
        #: What the loop is to be sent the answers of.
        self.asked: tuple[Interrupt, ...] = ()

    def close(self) -> None:
        """End what was to go on elsewhere, and does not."""
        try:
            self.loop.close()
        finally:
            self.answering.close()


def answered(pump: Pump) -> Generator[RunEvent, None, StopReason]:
    """Pump the loop of a run, until it has ended, or is to go on elsewhere.

    Cancellation: ends at once.

    :return: why it ended; ``backgrounded`` if it has not, and another thread is to
        drive the same pump.
    """
    run, loop, answering = pump.run, pump.loop, pump.answering
    lending, on_event = run.services, run.on_event
    generation, may_leave = run.token.generation(), run.may_leave
    answers: Answers = None
    has_left = False
    try:
        while True:
            if generation.background_requested and may_leave:
                has_left = True
                return "backgrounded"
            # No reset(): a signal handler may raise before its token is in our hands.
            before = run_id.get()
            try:
                run_id.set(run.id)
                if get_ident() != lending.thread:
                    lending.drive_here()
                if pump.asked:
                    answers = answering.answer(pump.asked, run)
                    if answers is NOT_YET:
                        continue
                    pump.asked = ()
                try:
                    step = loop.send(answers)
                except StopIteration as end:
                    stop: StopReason = end.value
                    return stop
                answers = None
                if isinstance(step, tuple):
                    pump.asked = step
                    continue
            finally:
                run_id.set(before)
            if on_event:
                early, told = lending.early, 0
                if early and early[0][0] is step:
                    told = early.popleft()[1]
                for hook in on_event[told:]:
                    hook(step)
            yield step
    except GeneratorExit:
        run.claim.cancel(CLOSED, "closed")
        raise
    finally:
        if not has_left:
            loop.close()


_DRIVEN: Final = "driven"


SHUT: Final = "shut"


_HERE: Final = "here"


_THERE: Final = "there"


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
        following: EventRegistration | None = None,
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
            finish_despite_signals(lambda: self._let_go(error))

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
        has_moved = self.owner.claim(_THERE) is _THERE
        if has_moved:  # not before: until then it is what a cancel is to hit
            self.run.claim.is_background = True
        return has_moved

    def keep(self) -> bool:
        """Keep the run on the thread that has begun it, unless another has it."""
        return self.owner.claim(_HERE) is _HERE

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
        if isinstance(end, BaseException) and not is_cancel(end, cause):
            finish_despite_signals(lambda: settle_raised(run, end))
            self.error = end
            show_error(run, end)
            return False
        if isinstance(end, BaseException):
            report(run, end)
            stop = "cancelled"
        if cause is not None:
            finish_despite_signals(lambda: settle_cancelled(run))
        assert not isinstance(stop, BaseException)
        if run.has_blanks and stop != "interrupt":
            run.transcript.repair()
        self.result = make_result(
            run, stop, cause, phase=phase, latency=seconds_since(cause)
        )
        for hook in run.setup.hooks.on_finish:
            hook(self.result)
        return not isinstance(end, GeneratorExit)


def settled(
    end: RunEnd, pump: Pump, *, is_moved: bool = False
) -> Generator[StreamEvent, None, None]:
    """Yield the events of a run up to its end, or until another thread takes it over.

    Cancellation: ends at once; the last event says so.
    """
    if end.begun.claim(_DRIVEN) is not _DRIVEN:
        return  # closed by another thread at this very moment
    try:
        stop = yield from answered(pump)
        while stop == "backgrounded":
            try:
                left = end.leave(pump)
            except RuntimeError:  # no thread to be had: it stays here
                if not end.keep():
                    raise
                end.run.may_leave = False
                stop = yield from answered(pump)
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
