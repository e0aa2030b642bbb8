"""Keep a run in its store: a checkpoint before and after each tool, and its end.

::

    ToolStarted    gate: "begun" is stored, unless the run is cancelled or lost
    ToolFinished   its result is stored: it is never run again
    the end        finish(), park() for open questions, or release() to another worker

Guarantees:

- A tool runs only after the store has recorded that it begins. So none begins after a
  cancel was recorded, none runs twice, and a worker that lost its run starts nothing.
- A wait for the store ends at once when the run is cancelled.
- A worker that cannot renew its lease in time ends its runs, with origin ``lost``,
  before another worker may take them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from ..asking.answering import Attendance
from ..asking.inbox import Inbox
from ..asking.questions import OpenQuestions
from ..cancel import CancelReason, CancelToken, clock
from ..cancel.claim import check_cancel
from ..conversation.conversation import Conversation
from ..conversation.restored import unfinished_result
from ..conversation.saved import save_delta
from ..conversation.state import Delta
from ..events import (
    InterruptRaised,
    Resumed,
    RunFinished,
    StateChanged,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from ..exceptions import ConfigurationError, StoreUnavailable
from ..interrupts import Interrupt
from ..result import Cancellation, RunResult
from ..run.run import Run, RunKeeper
from .backend import Backend
from .event_log import PendingEvents
from .inbox import find_approvers
from .records import (
    CancelRecord,
    Claim,
    EndState,
    StoredAnswer,
    StoredEnd,
    StoredError,
    Verdict,
)
from .rows import to_json

if TYPE_CHECKING:
    from .worker import StoreWorker

__all__ = ["StoreKeeper", "SubAgentKeeper"]

_log = logging.getLogger("syncagent.store")
_T = TypeVar("_T")

#: Seconds between two attempts to reach the store: at first, and at most.
_FIRST_RETRY: Final = 0.002
_LAST_RETRY: Final = 0.25
#: After these a run can be released without losing work.
_RELEASE_POINTS: Final = frozenset((TurnFinished, ToolFinished))
_SHUTTING_DOWN: Final = "the worker is shutting down; another one resumes the run"
_TAKEN_AWAY: Final = "another worker has taken over the run"
_CUT_OFF: Final = "the store could not be reached before the lease ended"


class StoreKeeper:
    """Keeps one run, for one worker.

    The thread of the run calls it, unless a method says otherwise.
    """

    def __init__(self, worker: StoreWorker, claim: Claim) -> None:
        self.id: Final = claim.run.id
        self.run_id: Final = claim.run.run_id
        self.claim: Final = claim
        self.pending: Final = PendingEvents(
            self.run_id, claim.attempt, claim.run.events, worker.wake_soon
        )
        #: The questions of sub-agents, which wait for answers while the run goes on.
        self.questions: Final = OpenQuestions()
        #: Tells the run that its own questions park it.
        self.attendance: Final = Attendance(
            self.questions, Inbox(), is_for_sub_agents=True
        )
        self._worker: Final = worker
        self._run: Run | None = None
        self._conversation: Conversation | None = None
        #: The deadline of the run, by the clock of this process.
        self._deadline = (
            None if claim.seconds_left is None else clock.now() + claim.seconds_left
        )
        #: All cancels so far, and whether each one forces.
        self._cancels: Final[list[tuple[CancelRecord, bool]]] = []
        #: The questions of sub-agents, as the store has them.
        self._asked: tuple[Interrupt, ...] = ()
        #: The number of checkpoints so far.
        self._step = 0
        #: Why the run is no longer this worker's; empty while it is.
        self.lost_reason = ""
        #: True if the run was parked and has its answers, so that nothing was lost.
        self.is_answered = False
        #: True once this worker is about to release the run.
        self.is_releasing = False
        #: True once no more events of it belong in the log.
        self.has_concluded = False
        #: True once the store knows how the work of this worker ended.
        self.is_over = False

    # -- for other threads ---------------------------------------------------------

    def cancel(self, record: CancelRecord, *, force: bool = False) -> None:
        """Cancel the run in this process, from any thread."""
        self._cancels.append((record, force))  # publish first, then look
        if self._run is not None:
            self._cancel(self._run, record, force=force)

    def _cancel(self, run: Run, record: CancelRecord, *, force: bool) -> None:
        first, _ = self._cancels[0]  # the first reason wins, whichever thread is faster
        cause = check_cancel(first.reason, first.origin, record.mode)
        run.claim.cancel_for(cause, record.mode, force=force)

    def lose(self, reason: str) -> None:
        """End the run here, because it is another worker's; from any thread."""
        self.lost_reason = self.lost_reason or reason
        if self._run is not None:
            self._run.claim.cancel(reason, "lost")

    def release(self, *, now: bool = False) -> None:
        """Release the run at its next checkpoint, or now; from any thread."""
        self.is_releasing = True  # publish first, then look
        if self._run is not None and now:
            self._run.claim.cancel(_SHUTTING_DOWN, "shutdown")

    # -- the run -------------------------------------------------------------------

    def begin(self, run: Run, conversation: Any) -> None:
        """Observe the run, before all other observers."""
        self._conversation = conversation
        self._run = run  # publish first, then look
        run.keeper = self
        run.on_event = (self.observe, *run.on_event)
        for record, force in list(self._cancels):
            self._cancel(run, record, force=force)
        if self.lost_reason:
            self.lose(self.lost_reason)
        if self.is_releasing:
            self.release(now=True)
        if self.claim.attempt > 1 and not self.is_answered:
            self.pending.add(Resumed(self.claim.attempt))
        self.pending.add(StateChanged("processing"))

    def for_agent(self) -> RunKeeper:
        """Return the keeper of a sub-agent."""
        return SubAgentKeeper(self)

    def observe(self, event: Any) -> None:
        """Store a checkpoint around a tool, and put the event into the log."""
        if self.has_concluded:
            return
        kind = event.__class__
        if kind is ToolStarted:
            if not self._checkpoint(is_gate=True):
                return  # the tool does not begin
        elif kind is ToolFinished:
            is_stored = self._checkpoint(is_gate=False)
            if not is_stored and (self.lost_reason or self.is_releasing):
                return  # the next worker logs how the call ended
            self.close_questions()
        elif kind is InterruptRaised:
            self._show(event)
            return
        self.pending.add(event)
        if self.is_releasing and kind in _RELEASE_POINTS:
            self._release_here()

    def _show(self, event: InterruptRaised) -> None:
        """Put questions into the log, once they can be answered."""
        assert self._run is not None
        round = self._run.open_round
        if round is not None and round.is_waiting:
            self.pending.hold(event)  # until the run waits in the store
            return
        self._store_questions(self._run.token)
        self.pending.add(event)

    def _store_questions(self, token: CancelToken) -> None:
        """Store the questions that sub-agents wait for; on any thread."""
        self._asked = questions = self.questions.open
        body, approvers = to_json(questions).encode(), self._approvers(questions)
        self._write(
            lambda store: store.ask(self.id, self.claim.attempt, body, approvers), token
        )

    def close_questions(self) -> None:
        """Take questions out of the store that were withdrawn or are too old."""
        if self._asked and self._asked != self.questions.open:
            self._store_questions(self._run.token if self._run else CancelToken())

    def _approvers(self, questions: Iterable[Interrupt]) -> dict[str, str]:
        return find_approvers(self._worker.approver_of, self.claim.run, questions)

    def take_answers(self, answers: Mapping[str, StoredAnswer]) -> None:
        """Pass answers to sub-agents that wait for them, from any thread."""
        open_ids = {question.id for question in self.questions.open}
        taken = open_ids & answers.keys()
        for id in taken:
            try:
                self.questions.answer(id, answers[id].value)
            except ConfigurationError as error:
                _log.warning("run %s: an answer was not taken: %s", self.run_id, error)
        if taken and self._run is not None:
            self._store_questions(self._run.token)

    def _release_here(self) -> None:
        """Release the run between a turn and its tools, or after them."""
        assert self._run is not None
        round = self._run.open_round
        if round is not None and round.invocations and not self._begun_calls:
            self._checkpoint(is_gate=False)
            self.release(now=True)

    def ask_gate(self) -> bool:
        """Return whether a tool of a sub-agent may begin; on any thread."""
        token = self._run.token if self._run is not None else CancelToken()
        verdict = self._write(
            lambda store: store.checkpoint(
                self.id, self.claim.attempt, None, is_gate=True
            ),
            token,
        )
        return self._judge(verdict)

    def _checkpoint(self, *, is_gate: bool) -> bool:
        run, conversation = self._run, self._conversation
        assert run is not None
        assert conversation is not None
        delta = save_delta(conversation, run)
        self._step += 1
        step, begun = self._step, self._begun_calls
        verdict = self._write(
            lambda store: store.checkpoint(
                *(self.id, self.claim.attempt, delta),
                step=step,
                begun=begun,
                seconds_left=self._seconds_left,
                is_gate=is_gate,
            ),
            run.token,
        )
        if verdict is not None and verdict.is_stored:
            run.transcript.stored = delta.total
        return self._judge(verdict)

    @property
    def _begun_calls(self) -> list[str]:
        """The ids of the calls that have begun and not ended."""
        assert self._run is not None
        round = self._run.open_round
        return [
            call.call.call_id
            for call in (() if round is None else round.invocations)
            if call.is_open and call.has_begun
        ]

    @property
    def _seconds_left(self) -> float | None:
        deadline = self._deadline
        return None if deadline is None else max(0.0, deadline - clock.now())

    def _judge(self, verdict: Verdict | None) -> bool:
        """Obey the verdict of the store; return whether the run may continue."""
        if verdict is None:
            return False
        if verdict.is_stored and verdict.cancel is None:
            return True  # nearly always
        if verdict.is_lost:
            self.lose(_TAKEN_AWAY)
        elif verdict.cancel is not None:
            self.cancel(verdict.cancel)
        return verdict.is_stored

    def _write(
        self, operation: Callable[[Backend], _T], token: CancelToken
    ) -> _T | None:
        """Do *operation* as soon as the store can be reached.

        Cancellation: ends at once.

        :return: ``None`` if *token* was cancelled, or the run is lost.
        """
        pause = _FIRST_RETRY
        while not token.cancelled:
            try:
                return self._worker.perform(operation, token)
            except StoreUnavailable as error:
                if self._worker.is_lease_over:
                    _log.warning("run %s: %s: %s", self.run_id, _CUT_OFF, error)
                    self.lose(_CUT_OFF)
                    return None
            token.wait(pause)
            pause = min(2 * pause, _LAST_RETRY)
        return None

    # -- the end -------------------------------------------------------------------

    def finish(self, result: RunResult) -> CancelReason | None:
        """Store how the run ended; return why it is cancelled after all, if it is."""
        assert self._run is not None
        assert self._conversation is not None
        self.has_concluded = True
        cause = result.cancellation
        is_released = cause is not None and cause.origin == "shutdown"
        if is_released and not self._cancels:
            # A signal handler, for example: the process ends, but not the run.
            self.is_releasing = self._worker.is_leaving = True
        if self.lost_reason or (self.is_releasing and is_released):
            return None  # close() releases it
        if result.stop_reason == "interrupt":
            return self._park(result)
        short = msgspec.structs.replace(result, messages=(), start=0)
        run = self._run
        events = [
            ToolFinished(call.call.call_id, call.outcome, call.call.name, call.result)
            for call in run.progress.invocations
            if not call.is_announced
        ]
        state: EndState = "done"
        record = None
        if cause is not None:
            state = "cancelled"
            record = CancelRecord(cause.reason, cause.origin)
            first = self._cancels[0][0] if self._cancels else record
            if (first.reason, first.origin) == (cause.reason, cause.origin):
                record = first  # its nonce tells the canceller that it was the first
        elif result.stop_reason == "limit":
            state = "limit"
        ending = StoredEnd(state, to_json(short).encode(), cancel=record)
        last = [*events, RunFinished(short), StateChanged("done")]
        return self._end(ending, last)

    def fail(self, error: BaseException) -> CancelReason | None:
        """Store that the run ended with *error*."""
        self.has_concluded = True
        if self.lost_reason or self.is_releasing or not isinstance(error, Exception):
            return None  # the process is ending: close() releases the run
        stored = StoredError(type(error).__name__, _text_of(error))
        ending = StoredEnd("failed", error=to_json(stored).encode())
        return self._end(ending, [StateChanged("failed", message=repr(error))])

    def fail_unbegun(self, error: Exception) -> None:
        """Store that there is no agent for the run, because of *error*."""
        cause = self.fail(error)
        if cause is None or self.lost_reason:
            return
        cancellation = Cancellation(str(cause), cause.origin, "begin", 0.0)
        claim = self.claim
        result = unfinished_result(
            self.run_id, claim.tail, claim.messages, cancellation
        )
        ending = StoredEnd("cancelled", to_json(result).encode())
        self._end(ending, [RunFinished(result), StateChanged("done")])

    def _end(self, ending: StoredEnd, events: list[Any]) -> CancelReason | None:
        delta = self._last_delta()
        with self.pending.lock:
            batch = self.pending.take(events)
            verdict = self._write(
                lambda store: store.finish(
                    self.id, self.claim.attempt, ending, delta, batch
                ),
                CancelToken(),
            )
            return self._settle(verdict, len(events))

    def _last_delta(self) -> Delta | None:
        """Return the rest of the conversation; ``None`` if it cannot be stored."""
        run, conversation = self._run, self._conversation
        if run is None or conversation is None:
            return None
        try:
            return save_delta(conversation, run, is_over=True)
        except (ConfigurationError, ValueError) as error:  # the run has to end anyway
            _log.error("run %s: its last messages are lost: %s", self.run_id, error)
            return None

    def _park(self, result: RunResult) -> CancelReason | None:
        run, conversation = self._run, self._conversation
        assert run is not None
        assert conversation is not None
        delta = save_delta(conversation, run)
        approvers = self._approvers(result.interrupts)
        with self.pending.lock:
            batch = self.pending.take(())
            verdict = self._write(
                lambda store: store.park(
                    *(self.id, self.claim.attempt, delta),
                    to_json(result.interrupts).encode(),
                    batch,
                    seconds_left=self._seconds_left,
                    answer_seconds=conversation.handlers.timeout,
                    approvers=approvers,
                ),
                CancelToken(),
            )
            return self._settle(verdict, 0)

    def _settle(self, verdict: Verdict | None, last: int) -> CancelReason | None:
        """Do what the store says about the end.

        :param last: how many events tell of the end. If it is refused they never
            happened: another end follows, here or elsewhere.
        """
        if verdict is not None and verdict.is_stored:
            self.pending.stored()
            self.is_over = True
            return None
        self.pending.take_back(last)
        if verdict is None or verdict.is_lost:
            self.lost_reason = self.lost_reason or _TAKEN_AWAY
            return CancelReason(self.lost_reason, "lost", clock.now())
        assert verdict.cancel is not None
        cancel = verdict.cancel
        return CancelReason(cancel.reason, cancel.origin, clock.now())

    def give_back(self, *, is_urgent: bool = False, has_crashed: bool = False) -> None:
        """Have another worker resume the run.

        :param is_urgent: resume it at once, not after a while.
        :param has_crashed: it counts as one of the workers that died with the run.
        """
        self.is_over = True
        self._write(
            lambda store: store.release(
                *(self.id, self.claim.attempt),
                is_urgent=is_urgent,
                has_crashed=has_crashed,
            ),
            CancelToken(),
        )

    def close(self) -> None:
        """Release the run, unless the store knows how the work of this worker ended."""
        if not self.is_over and not self.lost_reason:
            # sys.exit() in a tool, say: that must not be repeated forever.
            self.give_back(is_urgent=True, has_crashed=not self.is_releasing)


def _text_of(error: BaseException) -> str:
    """Return the text of *error*, without what JSON cannot hold."""
    try:
        return str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:  # a user's __str__ may raise anything
        return ""


class SubAgentKeeper:
    """The keeper of a sub-agent: its tools pass the gate of the outer run.

    Its conversation is a part of the outer call, and is not stored.
    """

    def __init__(self, outer: StoreKeeper) -> None:
        self._outer: Final = outer

    def begin(self, run: Run, conversation: Any) -> None:
        """Observe the run, before all other observers."""
        run.keeper = self
        run.on_event = (self._observe, *run.on_event)

    def _observe(self, event: Any) -> None:
        if event.__class__ is ToolStarted:
            self._outer.ask_gate()
        elif event.__class__ is StateChanged:
            self._outer.close_questions()

    def for_agent(self) -> RunKeeper:
        """Return this keeper: a sub-agent's sub-agent passes the same gate."""
        return self

    def finish(self, result: RunResult) -> CancelReason | None:
        """Do nothing: the outer call has the result."""
        return None

    def fail(self, error: BaseException) -> CancelReason | None:
        """Do nothing: the outer call has the error."""
        return None
