"""The loop: ask the model, run the tools that it calls, again until it is done.

This is the whole story of a run, on the thread that drives it::

    run_loop            until the model is done, or a limit is reached
     ├ take_turn        ask the model, and pass on what it says
     └ run_tool_round   look at the calls, ask who must be asked, make them

It is one generator. It yields events; and, where somebody has to be asked, a tuple of
interrupts, for which it is sent the answers. Every step between two waits begins with a
look at the token. Whatever ends it early leaves :class:`~syncagent.run.Run` in a state
from which :mod:`~syncagent.settle` makes a valid transcript.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any, Final, Literal

from .events import MessageFinished, RunEvent, ToolStarted, TurnFinished
from .exceptions import Cancelled, SyncAgentError
from .hooks import AfterModel, BeforeModel, Retry, unknown_answer
from .interrupts import AuthRequest, Interrupt
from .messages import AssistantMessage
from .messages import StopReason as _MessageStop
from .rounds import after_tool, apply_answers, prepare
from .run import Run
from .tools.executor import Executor

__all__ = [
    "Answers",
    "Steps",
    "StopReason",
    "finish_round",
    "make_calls",
    "run_loop",
    "run_tool_round",
    "show",
    "take_turn",
]

#: Why a run ended.
StopReason = Literal[
    "end_turn",
    "max_tokens",
    "refusal",
    "limit",
    "interrupt",
    "cancelled",
    "backgrounded",
    "shutdown",
]
#: What was answered, by the id of the interrupt; nothing if nobody can answer now.
Answers = Mapping[str, Any] | None
Steps = Generator[RunEvent | tuple[Interrupt, ...], Answers, StopReason]

_STOPS: Final[dict[_MessageStop, StopReason]] = {
    "max_tokens": "max_tokens",
    "refusal": "refusal",
}


def run_loop(run: Run) -> Steps:
    """Ask, run tools, again until the model is done.

    Cancellation: ends at once where it waits, and at the next step where it does not.

    :return: why it ended.
    :raises Cancelled: it was cancelled; the run is to be settled.
    """
    while True:
        if not run.has_calls():
            run.claim.come_due("after_turn", "after_tools")
            if run.meter.reached() is not None:
                return "limit"
            run.warn()
            message = yield from take_turn(run)
            if message is None:  # a hook wants another one
                continue
            stop = _STOPS.get(message.stop_reason)
            if stop is not None:
                if run.has_calls():  # the last of them may be half a one
                    finish_round(run)
                return stop
            if not run.has_calls():
                if message.stop_reason != "pause" and run.take_output(message):
                    return "end_turn"
                continue
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
                    run.hear(event)
                else:
                    yield event  # type: ignore[misc]
    except Cancelled:
        # It may have been only this answer that was to end.
        run.claim.come_due("after_tools")
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
        run.forget(finished.message)
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
            raise unknown_answer(method, wish)
    return wants_again


def run_tool_round(
    run: Run,
) -> Generator[RunEvent | tuple[Interrupt, ...], Answers, bool]:
    """Make the calls of a turn.

    :return: false if somebody has to be asked first, who cannot answer now.
    """
    assert run.round is not None
    run.enter("before tools")
    run.claim.come_due("after_tools")
    is_asking = bool(run.round.questions) or prepare(run, run.round)
    while is_asking:
        questions = run.round.questions
        is_auth = isinstance(questions[0], AuthRequest)
        yield from run.change_state(
            "waiting_for_auth" if is_auth else "waiting_for_approval"
        )
        run.enter("auth" if is_auth else "approval")
        run.round.is_waiting = True
        answers = yield questions
        if answers is None:
            return False
        # A "yes" that comes after a cancel starts nothing.
        run.claim.come_due("after_tools")
        run.round.is_waiting = False
        apply_answers(run.round, questions, answers)
        is_asking = prepare(run, run.round)  # what is approved may need credentials
    yield from make_calls(run)
    return True


def make_calls(run: Run) -> Generator[RunEvent, Any, None]:
    """Run the tools of a round, and put their results into the transcript."""
    assert run.round is not None
    for invocation in run.round.invocations:
        if not invocation.is_open:  # nothing will run
            yield invocation.finished()
    executor = Executor(
        run.lending.host(),
        run.token,
        width=run.setup.width,
        after=lambda invocation: after_tool(run, invocation),
    )
    run.lending.post = executor.post
    run.enter("tool")
    waiting = [call for call in run.round.invocations if call.is_open]
    try:
        with closing(executor.run(waiting)) as events:  # what runs ends with it
            for event in events:
                if event.__class__ is ToolStarted:
                    assert isinstance(event, ToolStarted)
                    run.meter.tool_calls += 1
                    yield from run.change_state(
                        "executing_tool", event.name, event.call_id
                    )
                yield event
    finally:
        run.lending.post = None  # it knows the run: without a circle it is gone at once
    finish_round(run)


def finish_round(run: Run) -> None:
    """Put the results of a round into the transcript."""
    round = run.round
    assert round is not None
    # May be done again: a signal handler may have raised between two steps.
    if round.told is None or run.transcript[-1] is not round.told:
        round.told = round.message()
        run.transcript.append(round.told)
    run.round = None
