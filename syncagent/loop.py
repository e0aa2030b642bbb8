"""The loop: ask the model, run the tools that it calls, again until it is done.

This is the whole story of a run, on the thread that drives it::

    run_loop            until the model is done, or a limit is reached
     ├ take_turn        ask the model, and pass on what it says
     └ run_tool_round   make the calls that it wants
        ├ ask_first     look at them, and ask who must be asked
        ├ make_calls    run the tools
        └ hear_user     let whoever steers the run say something

It is one generator. It yields events; and, where somebody has to be asked, a tuple of
interrupts, for which it is sent the answers. Every step between two waits begins with a
look at the token. Whatever ends it early leaves :class:`~syncagent.run.run.Run` in a
state from which :mod:`~syncagent.conversation.settling` makes a valid transcript.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any, Final

from .events import (
    InterruptRaised,
    MessageFinished,
    RunEvent,
    State,
    ToolStarted,
    TurnFinished,
)
from .exceptions import Cancelled, SyncAgentError
from .hooks import AfterModel, BeforeModel, Retry, invalid_return
from .interrupts import AfterToolResult, ApprovalRequest, AuthRequest, Interrupt
from .messages import AssistantMessage, MessageStop, ToolMessage
from .result import StopReason
from .run.run import Run, ToolRound
from .run.tool_round import after_tool, apply_answers, prepare
from .tools.executor import Executor

__all__ = [
    "Answers",
    "Steps",
    "ask_first",
    "finish_round",
    "hear_user",
    "make_calls",
    "run_loop",
    "run_tool_round",
    "show",
    "take_turn",
]

#: What was answered, by the id of the interrupt; nothing if nobody can answer now.
Answers = Mapping[str, Any] | None


Steps = Generator[RunEvent | tuple[Interrupt, ...], Answers, StopReason]


_STOPS: Final[dict[MessageStop, StopReason]] = {
    "max_tokens": "max_tokens",
    "refusal": "refusal",
}


def run_loop(run: Run) -> Steps:
    """Ask, run tools, again until the model is done.

    Cancellation: ends at once where it waits, and at the next step where it does not.

    :return: why it ended.
    :raises Cancelled: it was cancelled; the run is to be settled.
    """
    if not run.has_calls():
        yield from hear_user(run)  # it may go on from there
    message = run.last_heard  # it may have been saved right after a turn
    while True:
        if message is None and not run.has_calls():
            run.claim.raise_if_cancel_due("after_turn", "after_tools")
            if run.meter.reached() is not None:
                return "limit"
            run.warn()
            message = yield from take_turn(run)
            if message is None:  # a hook wants another one
                continue
        if message is not None:
            stop = _STOPS.get(message.stop_reason)
            if stop is not None:
                if run.has_calls():  # the last of them may be half a one
                    finish_round(run)
                return stop
            is_last = not run.has_calls() and message.stop_reason != "pause"
            if is_last and run.take_output(message):
                return "end_turn"
            message = None
        if run.has_calls():
            is_answered = yield from run_tool_round(run)
            if not is_answered:
                return "interrupt"


def take_turn(
    run: Run,
) -> Generator[RunEvent, Any, AssistantMessage | None]:
    """Ask the model, and pass on what it says.

    :return: the message, or nothing if a hook wants another one.
    """
    show(run, "before_model", BeforeModel(run.id, run.meter.turns + 1, run.transcript))
    yield from run.change_state("processing")
    run.token.checkpoint()
    finished: MessageFinished | None = None
    try:
        with run.ask() as answer:
            for event in answer:
                if event.__class__ is MessageFinished:
                    assert isinstance(event, MessageFinished)
                    finished = event
                    run.accept(event)
                else:
                    yield event  # type: ignore[misc]
    except Cancelled:
        # It may have been only this answer that was to end.
        run.claim.raise_if_cancel_due("after_tools")
        raise
    except SyncAgentError:
        if finished is None:
            raise
    finally:
        run.claim.later.answered()
    assert finished is not None
    run.enter("turn")
    seen = AfterModel(run.id, run.meter.turns, finished.message, finished.usage)
    wants_another = show(run, "after_model", seen)
    run.token.checkpoint()
    is_last = run.claim.later.is_asked  # what a hook asks for after that is ignored
    if wants_another and not is_last and run.meter.reached() is None:
        run.discard(finished.message)
        return None
    yield TurnFinished(finished.message, finished.usage)
    return finished.message


def show(run: Run, method: str, event: BeforeModel | AfterModel) -> bool:
    """Show hooks an event; tell whether one of them wants it to happen again."""
    wants_again = False
    for hook in getattr(run.setup.hooks, method):
        wish = hook(event)
        if isinstance(wish, Retry) and method == "after_model":
            wants_again = True
        elif wish is not None:
            raise invalid_return(method, wish)
    return wants_again


def run_tool_round(
    run: Run,
) -> Generator[RunEvent | tuple[Interrupt, ...], Answers, bool]:
    """Make the calls of a turn.

    :return: false if somebody has to be asked first, who cannot answer now.
    """
    round = run.round
    assert round is not None
    run.enter("before tools")
    run.claim.raise_if_cancel_due("after_tools")
    while True:
        is_answered = yield from ask_first(run, round)
        if not is_answered:
            return False
        yield from make_calls(run, round)
        if all(call.question is None for call in round.invocations):
            break
    finish_round(run)
    yield from hear_user(run)
    return True


def ask_first(
    run: Run, round: ToolRound
) -> Generator[RunEvent | tuple[Interrupt, ...], Answers, bool]:
    """Ask whoever must be asked before calls are made, or made again.

    :return: false if that is not answered now.
    """
    while round.questions or prepare(run, round):
        questions = round.questions
        state, phase = _waiting(questions[0])
        run.respondent.show(run, questions)  # before anybody hears of it
        yield from run.change_state(state)
        run.enter(phase)
        round.is_waiting = True
        # Again: somebody else may attend to the run by now.
        shown = run.respondent.show(run, questions)
        if shown:
            yield InterruptRaised(shown)
        answers = yield questions
        if answers is None:
            return False
        # A "yes" that comes after a cancel starts nothing.
        run.claim.raise_if_cancel_due("after_tools")
        round.is_waiting = False
        apply_answers(run, questions, answers)
        round.questions = ()
    return True


def _waiting(question: Interrupt) -> tuple[State, str]:
    """Return what a run that asks this is doing."""
    if isinstance(question, ApprovalRequest):
        return "waiting_for_approval", "approval"
    if isinstance(question, AuthRequest):
        return "waiting_for_auth", "auth"
    return "waiting_for_input", "input"


def make_calls(run: Run, round: ToolRound) -> Generator[RunEvent, Any, None]:
    """Run the tools of a round; what they ask is left to be answered."""
    for invocation in round.invocations:
        if not invocation.is_open and not invocation.is_announced:  # nothing will run
            yield invocation.finished()
    executor = Executor(
        run.services,
        run.token,
        width=run.setup.width,
        after=lambda invocation: after_tool(run, invocation),
        leaving=run.token.background if run.may_leave else None,
    )
    run.services.begin_round(executor.post)
    run.enter("tool")
    waiting = [call for call in round.invocations if call.is_open]
    again = {call.call.call_id for call in waiting if call.answers}
    try:
        with closing(executor.run(waiting)) as events:  # what runs ends with it
            for event in events:
                if event.__class__ is ToolStarted:
                    assert isinstance(event, ToolStarted)
                    run.meter.tool_calls += event.call_id not in again
                    yield from run.change_state(
                        "executing_tool", event.name, event.call_id
                    )
                yield event
    finally:
        run.services.end_round()


def hear_user(
    run: Run,
) -> Generator[RunEvent | tuple[Interrupt, ...], Answers, None]:
    """Let whoever steers the run say something between a tool round and a turn."""
    last = run.transcript[-1]
    if not run.is_steered or not isinstance(last, ToolMessage):
        return
    # A run that is cancelled hears nothing: it is still to be said to the next one.
    run.claim.raise_if_cancel_due("after_turn", "after_tools")
    run.enter("after tools")
    turn = run.meter.turns
    calls = run.invocations[len(run.invocations) - len(last.content) :]
    outcomes = tuple(call.report() for call in calls)
    pause = AfterToolResult(f"after_tools:{run.id}:{turn}", turn, outcomes)
    shown = run.respondent.show(run, (pause,))
    if shown:
        yield InterruptRaised(shown)
    answers = yield (pause,)
    for message in (answers or {}).get(pause.id, ()):
        run.transcript.append(message)


def finish_round(run: Run) -> None:
    """Put the results of a round into the transcript."""
    round = run.round
    assert round is not None
    # May be done again: a signal handler may have raised between two steps.
    if round.told is None or run.transcript[-1] is not round.told:
        round.told = round.message()
        run.transcript.append(round.told)
    run.round = None
