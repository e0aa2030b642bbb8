"""A live run: four functions around the loop, and who owns it.

::

    run_to_end           on the caller's thread
     └ driven            can be seen to be over, whatever a signal handler raises
        └ settled        ends well: result, transcript, agent free
           └ answered    sends in the answers of handlers, handles and drivers
              └ run_loop   loop.py, the story

One thread owns a run and drives its generator; another may take it over once, when the
background is requested::

                 close() before the first step
        NEW ──────────────────────────────────────▶ CLOSED
         │ first step
         ▼         background requested       the handle's thread takes it
       CALLER ───────────────────────▶ MOVING ───────────────────────▶ HANDLE
         │                               │                               │
         │                               │ no thread can be started, or  │
         │                               ▼ a signal handler raised       │
         │                             KEPT                              │
         ▼                               ▼                               ▼
       conclude()  ◀──────────────── conclude()                     conclude()

Guarantees:

- Each state is left once, for one target: the first target that is claimed wins, in one
  atomic step without a lock, and a thread that claims another target learns that it
  lost. The two targets of a state belong to two threads, so a run is driven by one
  thread, or closed by one, and never by two or none.
- A caller whose run ends with an error claims KEPT as well: from then on no handle can
  take the run.
- ``conclude()`` runs on the owner's thread, for every end of a run: it settles the
  transcript, makes the result, and frees the agent, in this order, also if hooks raise
  in between. It is safe to repeat: what a signal handler's exception has cut short is
  done again.
- Any number of such exceptions, at any moment, leave a run that can be settled: by
  ``settled()``, else by the stream when it is closed, else by the next run, which finds
  that nothing drives this one any more (see ``RunClaim.drivers``).
- Nothing here keeps the exception that ended a run: its traceback has the frames that
  hold the run, and the caller's.
- The agent is freed last. Until then a cancel reaches this run; after that, none does.
- A run that is moved keeps its loop, its connection and its open questions: nothing is
  sent twice, and no event is lost or repeated.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

import msgspec

from .._context import run_id
from ..asking.answering import NOT_YET, Answering
from ..cancel.handler_errors import raised_by_signal_handler
from ..cancel.once import Once, finish_despite_signals
from ..cancel.signal_event import EventRegistration
from ..events import RunEvent, RunFinished, StreamEvent
from ..exceptions import Cancelled
from ..interrupts import Interrupt
from ..loop import Answers, run_loop
from ..result import RunResult, StopReason
from ..run.run import Run
from ..tools.executor import ShownEvent
from .settling import (
    call_error_hooks,
    is_cancel,
    log_hidden_error,
    make_result,
    seconds_since,
    settle_cancelled,
    settle_failed,
    settle_raised,
)

if TYPE_CHECKING:
    from .conversation import Conversation
    from .request import AdmittedRun, RunRequest

__all__ = ["CLOSE_REASON", "LiveRun", "answered", "driven", "run_to_end", "settled"]

#: The reason of the cancel when a stream is closed.
CLOSE_REASON: Final = "the stream was closed"

_NEW: Final = "new"
_CALLER: Final = "caller"
_CLOSED: Final = "closed"
_MOVING: Final = "moving"
_KEPT: Final = "kept"
_HANDLE: Final = "handle"


class LiveRun:
    """A run, its loop, its owner, and its end.

    :param conversation: the agent's; freed when the run has ended.
    :param answering: answers the questions of the run.
    :param registration: with the caller's event; closed at the end.
    """

    def __init__(
        self,
        conversation: Conversation,
        run: Run,
        answering: Answering,
        registration: EventRegistration | None = None,
    ) -> None:
        self.run: Final = run
        self.answering: Final = answering
        self.loop: Final = run_loop(run)
        #: The questions whose answers the loop waits for.
        self.questions: tuple[Interrupt, ...] = ()
        self.result: RunResult | None = None
        #: The error of a run without a result, as text.
        self.error = ""
        #: The result for the caller of a run that goes on in the background.
        self.handoff_result: RunResult | None = None
        #: The generator that has made the stream of this run, kept as long as the run.
        self.opening: Generator[Any, Any, Any] | None = None
        #: Drives the run once the handle has taken it.
        self.handle_driver: weakref.ref[Generator[Any, Any, Any]] | None = None
        #: True once nothing of the run is left.
        self.is_released = False
        self._conversation: Final = conversation
        self._registration: Final = registration
        #: The way out of each state that was left.
        self._left: Final[dict[str, str]] = {}
        #: The thread that settles a run which nothing drives.
        self._settler: Final[Once[int]] = Once()

    # -- who owns it ---------------------------------------------------------------

    def _leave(self, state: str, target: str) -> bool:
        # One atomic step, as in Once: the first target stays. Repeating it is safe.
        return self._left.setdefault(state, target) is target

    def begin(self) -> bool:
        """Claim the first step for the thread that drives the run."""
        return self._leave(_NEW, _CALLER)

    def close_unbegun(self) -> bool:
        """End a run that made no step yet; false if a thread drives it."""
        if not self._leave(_NEW, _CLOSED):
            return False
        self.run.claim.cancel(CLOSE_REASON, "closed")
        self.conclude(GeneratorExit())
        return True

    def move_to_handle(self) -> bool:
        """Let the handle's thread drive the run; false if the caller has kept it."""
        is_moved = self._leave(_MOVING, _HANDLE)
        if is_moved:  # not before: until then a foreground cancel must hit it
            self.run.claim.is_background = True
            if self.handle_driver is not None:
                self.run.claim.drivers = (self.handle_driver,)
        return is_moved

    def keep(self) -> bool:
        """Keep the run on the caller's thread; false if the handle has taken it."""
        return self._leave(_MOVING, _KEPT)

    @property
    def is_moved(self) -> bool:
        """True once the handle's thread owns the run."""
        return self._left.get(_MOVING) is _HANDLE

    def hand_over(self) -> RunResult:
        """Have a new handle's thread drive the run from here on.

        :return: the result for the caller.
        :raises RuntimeError: no thread can be started; the run is still the caller's.
        """
        run = self.run
        partial = None if run.response is None else run.response.partial()
        handoff = msgspec.structs.replace(
            make_result(run, "backgrounded", None, phase="", latency=0.0),
            text=run.progress.text if partial is None else partial.text,
            messages=tuple(run.transcript.repaired()),
            # Calls that run or wait have no outcome yet.
            tool_outcomes=tuple(
                call.report() for call in run.progress.invocations if not call.is_open
            ),
        )
        try:
            handle = self._conversation.move_to_background(self)
            self.move_to_handle()
            self.handoff_result = handoff = handoff.with_handle(handle)
        except BaseException:
            if not self.keep():
                self.handoff_result = handoff
            raise
        return handoff

    # -- how it ends ---------------------------------------------------------------

    def conclude(self, end: StopReason | BaseException) -> bool:
        """Settle the run, make its result, and free the agent. Safe to repeat.

        :param end: why the loop returned, or what it raised.
        :return: true if *end* is dealt with; false if it must be raised.
        """
        if self.is_released:  # and this was raised on the way out
            return False
        has_outcome = self.result is not None or self.error != ""
        try:
            return not has_outcome and self._conclude(end)
        finally:
            error = end if isinstance(end, BaseException) else None
            finish_despite_signals(lambda: self._release(error))

    def settle_left(self, error: BaseException) -> bool:
        """End a run that nothing drives, because its end was interrupted.

        :param error: the exception that did it.
        :return: false if another thread is doing that.
        """
        if self._settler.claim(get_ident()) != get_ident():
            return self.is_released
        try:
            self.close_loop()
        finally:
            self.conclude(error)
        return True

    def _conclude(self, end: StopReason | BaseException) -> bool:
        run = self.run
        phase = run.claim.phase
        if isinstance(end, Cancelled) and not run.token.cancelled:
            # A token of the user's own, raised in a hook or tool: it is the run's now.
            run.claim.cancel(end.reason, end.origin)
        if end == "interrupt":
            self._conversation.keep(run)  # before finish(): a cancel finds one of them
        cause = run.claim.finish()
        if cause is not None and run.recording is not None:
            run.recording.cancelled(cause, phase)
        stop: StopReason = "cancelled"
        if isinstance(end, BaseException) and not is_cancel(end, cause):
            finish_despite_signals(lambda: settle_raised(run, end))
            cause = None if run.keeper is None else run.keeper.fail(end)
            if cause is None:
                self.error = f"{end!r:.200}"
                call_error_hooks(run, end)
                return False
            phase = "end"
        elif cause is not None:
            if isinstance(end, BaseException):
                log_hidden_error(run, end)
            why = cause  # of this type in the lambda, too
            stop = "stopped" if why.origin == "hook" else "cancelled"
            finish_despite_signals(lambda: settle_cancelled(run, why))
        else:
            assert not isinstance(end, BaseException)
            stop = end
        if run.has_empty_blocks and stop != "interrupt":
            run.transcript.repair()
        result = make_result(
            run, stop, cause, phase=phase, latency=seconds_since(cause)
        )
        self.result = result if run.keeper is None else self._keep_result(result)
        for hook in run.setup.hooks.on_finish:
            hook(self.result)
        return not isinstance(end, GeneratorExit)

    def _keep_result(self, result: RunResult) -> RunResult:
        """Store *result*; return the one that counts, which may be a cancelled one."""
        run = self.run
        assert run.keeper is not None
        cause = run.keeper.finish(result)
        if cause is None:
            return result
        if result.interrupts:
            finish_despite_signals(lambda: settle_cancelled(run, cause))
        result = make_result(
            run, "cancelled", cause, phase="end", latency=seconds_since(cause)
        )
        run.keeper.finish(result)
        return result

    def _release(self, error: BaseException | None) -> None:
        """Let go of everything. Safe to repeat."""
        run = self.run
        if self._registration is not None:
            self._registration.close()
        run.meter.release()
        run.services.end_round()  # it has ended, unless that was interrupted
        if run.response is not None:
            run.response.close()
        if self.result is None:
            settle_failed(run, run.setup.policy.marker, "signal")
        if run.recording is not None:
            run.recording.end(self.result, error, tuple(run.progress.invocations))
        self._conversation.release(run, self.result, error)
        self.is_released = True

    def close_loop(self) -> None:
        """End the loop, and leave a handler that still works on an answer."""
        try:
            self.loop.close()
        finally:
            self.answering.close()


# -- the four functions around the loop ------------------------------------------------


def run_to_end(
    conversation: Conversation,
    request: RunRequest,
    observer: Callable[[StreamEvent], object] | None = None,
) -> RunResult:
    """Drive a run to its end on this thread.

    Cancellation: ends at once; the result says so.

    :param observer: called with every event.
    """
    admitted = conversation.admit(request)
    driver = driven(conversation, admitted, observer)
    admitted.claim.drivers = (weakref.ref(driver),)
    try:
        try:
            next(driver)
        except StopIteration as end:
            result: RunResult = end.value
            return result
    except BaseException:
        # If it came on the way out, a handle may drive the run, and the caller will
        # never learn of that.
        admitted.claim.cancel(CLOSE_REASON, "closed")
        raise
    raise AssertionError("a driver that yields")


def driven(
    conversation: Conversation,
    admitted: AdmittedRun,
    observer: Callable[[StreamEvent], object] | None,
) -> Generator[None, None, RunResult]:
    """Begin an admitted run, drive it to its end, and return its result.

    A generator, because other threads, and the next run, can see that one is over: also
    if it was interrupted while it ended the run.

    Cancellation: ends at once; the result says so.
    """
    stream = None
    try:
        yield from ()  # nothing: only a generator has an end that others can see
        # Inside the try: a signal handler may raise right after the run has begun.
        stream = conversation.start(admitted, can_move=True)
        if observer is not None:
            stream.observe(observer)
        for _ in stream:
            pass
        return stream.result  # noqa: TRY300, a signal handler may raise here, too
    except BaseException as error:
        if stream is not None:
            cause, give_up = error, stream.give_up
            try:
                finish_despite_signals(lambda: give_up(cause))
            finally:
                del cause
        raise


def settled(live_run: LiveRun) -> Generator[StreamEvent, None, None]:
    """Yield the events of a run up to its end, or until a handle takes it over.

    Cancellation: ends at once; the last event says so.
    """
    if not live_run.begin():
        return  # another thread closed it at this very moment
    run = live_run.run
    is_handle = live_run.is_moved
    try:
        stop = yield from answered(live_run)
        while stop == "backgrounded":
            try:
                handoff = live_run.hand_over()
            except RuntimeError as error:
                if not live_run.keep() or raised_by_signal_handler(error):
                    raise
                # No thread can be started: the run stays here.
                run.can_move = False
                stop = yield from answered(live_run)
            else:
                yield RunFinished(handoff)
                return
        live_run.conclude(stop)
    except BaseException as error:
        if not is_handle and not live_run.keep():
            # The handle has it. If a signal handler raised, its caller never learns of
            # the handle: end the run there.
            if not isinstance(error, GeneratorExit):
                run.claim.cancel(CLOSE_REASON, "closed")
            raise
        try:
            live_run.close_loop()  # it is still open if the run was about to move
        finally:
            is_handled = live_run.conclude(error)
        if not is_handled:
            raise
    result = live_run.result
    assert result is not None
    if not result.interrupts:
        for invocation in run.progress.invocations:
            if not invocation.is_announced:
                yield _notify(run, invocation.finished())
    yield _notify(run, RunFinished(result))


def _notify(run: Run, event: Any) -> Any:
    """Call the observers of a run with *event*, and return it."""
    for observer in run.on_event:
        observer(event)
    return event


def answered(live_run: LiveRun) -> Generator[RunEvent, None, StopReason]:
    """Drive the loop, and send in the answers to its questions.

    Cancellation: ends at once.

    :return: why the loop ended; ``backgrounded`` if it has not, and a handle is to
        drive it.
    """
    run, loop, answering = live_run.run, live_run.loop, live_run.answering
    services, observers = run.services, run.on_event
    generation, can_move = run.token.generation(), run.can_move
    answers: Answers = None
    observer: Any = None
    is_moving = False
    try:
        while True:
            if generation.background_requested and can_move:
                is_moving = True
                return "backgrounded"
            # set() and not reset(): a signal handler may raise before we hold a token.
            outer_run_id = run_id.get()
            try:
                run_id.set(run.id)
                if get_ident() != services.thread:
                    services.drive_here()
                if live_run.questions:
                    answers = answering.answer(live_run.questions, run)
                    if answers is NOT_YET:
                        continue
                    live_run.questions = ()
                try:
                    step = loop.send(answers)
                except StopIteration as end:
                    stop: StopReason = end.value
                    return stop
                answers = None
            finally:
                run_id.set(outer_run_id)
            if isinstance(step, tuple):
                live_run.questions = step
                continue
            if observers:  # else no event was shown before
                seen = 0
                if isinstance(step, ShownEvent):
                    seen = step.observer_count
                    step = step.event
                for observer in observers[seen:]:
                    observer(step)
            yield step  # type: ignore[misc]
    except GeneratorExit:
        run.claim.cancel(CLOSE_REASON, "closed")
        raise
    finally:
        # A handle among them holds the error, and so this frame.
        observers, observer = (), None
        if not is_moving:
            loop.close()
