"""The loop: ask the model, run the tools it calls, and repeat until it is done.

This is the whole story of a run, on the thread that drives it::

    run_loop            until the model is done, or a limit is reached: take_turns
     ├ resume_point     where a resumed run goes on
     ├ make_room        shorten a conversation that becomes too long
     ├ take_turn        send a request, pass on the response
     └ run_tool_round   make the calls of that turn
        ├ ask_questions   approvals, credentials, input
        ├ make_calls      run the tools
        └ offer_input     let the user add something before the next turn

It is one generator. It yields events; and where a person has to answer, it yields a
tuple of interrupts and is sent the answers. Each step between two waits begins with a
look at the token. Whatever ends the loop early leaves
:class:`~syncagent.run.run.Run` in a state from which
:mod:`~syncagent.conversation.settling` makes a valid transcript.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any, TypeVar

from .events import (
    Compacted,
    InterruptRaised,
    MessageFinished,
    RunEvent,
    State,
    ToolStarted,
    TurnFinished,
)
from .exceptions import Cancelled, ContextTooLong, SyncAgentError
from .hooks import AfterModel, BeforeModel, Replace, Retry, Stop, invalid_return
from .interrupts import AfterToolResult, ApprovalRequest, AuthRequest, Interrupt
from .messages import AssistantMessage, ToolMessage
from .models.budget import OverBudget
from .result import StopReason
from .run.compacting import replace_conversation
from .run.progress import ToolRound
from .run.run import Run
from .run.tool_round import (
    after_tool,
    apply_answers,
    find_questions,
    find_saved_tools,
)
from .tools.executor import Executor, ShownEvent
from .transcript.transcript import TranscriptView

__all__ = [
    "Answers",
    "LoopStep",
    "Steps",
    "ask_questions",
    "call_hooks",
    "finish_round",
    "make_calls",
    "make_room",
    "offer_input",
    "receive_message",
    "resume_point",
    "run_loop",
    "run_tool_round",
    "stop_reason_after",
    "take_turn",
    "take_turns",
]

_T = TypeVar("_T")

#: Answers by the id of their interrupt; ``None`` if no one can answer now.
Answers = Mapping[str, Any] | None
#: A step of the loop: an event to pass on, or questions for a person.
LoopStep = RunEvent | ShownEvent | tuple[Interrupt, ...]
#: A part of the loop: it yields steps, is sent answers, and returns a value.
Steps = Generator[LoopStep, Answers, _T]


def run_loop(run: Run) -> Steps[StopReason]:
    """Run until the model is done, a limit is reached, or the budget is used up.

    Cancellation: ends at once where it waits, else at the next step.

    :return: why the run ended.
    :raises Cancelled: the run was cancelled and must be settled.
    """
    try:
        return (yield from take_turns(run))
    except OverBudget:  # before a request
        run.stop_at_budget()
        return "limit"


def take_turns(run: Run) -> Steps[StopReason]:
    """Take turns and run tools until the model is done, or a limit is reached."""
    message = yield from resume_point(run)  # None for a new run
    while True:
        if message is None and run.open_round is None:
            run.raise_if_cancel_due("after_turn")  # deferred cancels count here
            if run.meter.reached() is not None:
                return "limit"
            if run.compacting is not None and run.compacting.is_due(run):
                yield from make_room(run)  # <- I/O: perhaps the model
                continue  # that may have reached a limit
            message = yield from take_turn(run)  # <- I/O: the model
        if message is not None:
            stop = stop_reason_after(run, message)  # end_turn, refusal, ...
            if stop is not None:
                return stop
            message = None
        if run.open_round is not None:
            is_complete = yield from run_tool_round(run)  # <- I/O: the tools
            if not is_complete:
                return "interrupt"


def resume_point(run: Run) -> Steps[AssistantMessage | None]:
    """Find where a resumed run goes on.

    :return: the response to look at first, if the run was saved right after a turn.
    """
    if run.open_round is None:
        yield from offer_input(run)  # it may have been saved right after its tools
    elif run.progress.toolset is None and run.setup.toolbox.sources:
        find_saved_tools(run, run.open_round)  # it was loaded
    last = run.transcript[-1]
    return last if isinstance(last, AssistantMessage) else None


def make_room(run: Run) -> Steps[None]:
    """Replace the conversation by a shorter one, if the agent's compaction can.

    Cancellation: ends at once; the conversation is then the old one.
    """
    assert run.compacting is not None
    yield from run.change_state("processing")
    run.token.checkpoint()
    run.enter("compaction")
    compacted = run.compacting.compact(run)  # <- I/O: perhaps a summary
    if compacted is not None:
        yield compacted


def take_turn(run: Run) -> Steps[AssistantMessage | None]:
    """Send the transcript to the model, and pass on the response as it comes.

    :return: the message; ``None`` to take the turn again, because a hook discarded it,
        or the conversation is too long and can be made shorter.
    """
    run.warn_near_limit()
    turn, view = run.meter.turns + 1, TranscriptView(run.transcript)
    replaced: list[Compacted] = []
    call_hooks(run, "before_model", BeforeModel(run.id, turn, view), replaced)
    yield from replaced
    yield from run.change_state("processing")
    run.token.checkpoint()
    run.find_tools()  # <- I/O: only with a source of tools
    try:
        finished = yield from receive_message(run)
    except ContextTooLong as error:
        compacting, response = run.compacting, run.response
        has_begun = response is not None and response.partial() is not None
        if compacting is None or has_begun or not compacting.take(error, run):
            raise
        run.response = None
        return None
    run.enter("turn")
    seen = AfterModel(run.id, run.meter.turns, finished.message, finished.usage)
    wants_another = call_hooks(run, "after_model", seen)
    run.token.checkpoint()
    # Once a cancel was requested, even a deferred one, hooks can repeat nothing.
    is_ending = run.claim.deferred.is_pending
    if wants_another and not is_ending and run.meter.reached() is None:
        run.discard(finished.message)
        return None
    yield TurnFinished(finished.message, finished.usage)
    return finished.message


def receive_message(run: Run) -> Steps[MessageFinished]:
    """Send the request, pass on the events of the response, and commit its message."""
    finished: MessageFinished | None = None
    try:
        with run.send_request() as response:
            for event in response:
                # Thousands of events: a look at the class is faster than isinstance().
                if event.__class__ is MessageFinished:
                    assert isinstance(event, MessageFinished)
                    finished = event
                    run.accept(event)
                else:
                    yield event  # type: ignore[misc]
    except Cancelled:
        # A cancel "after_tools" has ended only the response: raise it for the run.
        run.raise_if_cancel_due("after_tools")
        raise
    except SyncAgentError:
        if finished is None:  # else the message is complete, and the error too late
            raise
    finally:
        run.claim.deferred.operation_ended()
    assert finished is not None
    return finished


def stop_reason_after(run: Run, message: AssistantMessage) -> StopReason | None:
    """Return why the run ends with *message*; ``None`` if it goes on."""
    stop = message.stop_reason
    if stop == "max_tokens" or stop == "refusal":
        if run.open_round is not None:  # the last call may be cut in half: make none
            finish_round(run)
        return stop
    if run.open_round is not None or stop == "pause":
        return None
    if stop == "other":  # a word that we do not know is never taken for a regular end
        return "other"
    return "end_turn" if run.read_output(message) else None


def call_hooks(
    run: Run,
    method: str,
    event: BeforeModel | AfterModel,
    replaced: list[Compacted] | None = None,
) -> bool:
    """Call one method of all hooks; return whether one of them wants a retry.

    :param replaced: gets an event for each hook that replaces the conversation.
    :raises Cancelled: one of them wants the run to end.
    """
    wants_retry = False
    for hook in getattr(run.setup.hooks, method):
        decision = hook(event.showing(run.deps, run.metadata))
        if isinstance(decision, Stop):
            run.claim.stop(decision.reason)
            run.token.checkpoint()
        elif isinstance(decision, Retry) and method == "after_model":
            wants_retry = True
        elif isinstance(decision, Replace) and replaced is not None:
            # Values returned after a cancel are ignored.
            run.token.checkpoint()
            replaced.append(replace_conversation(run, decision.messages))
        elif decision is not None:
            raise invalid_return(method, decision)
    return wants_retry


def run_tool_round(run: Run) -> Steps[bool]:
    """Make the tool calls of a turn.

    :return: false if a question cannot be answered now: the run pauses.
    """
    round = run.open_round
    assert round is not None
    run.enter("before tools")
    run.raise_if_cancel_due("after_tools")
    while True:
        is_answered = yield from ask_questions(run, round)
        if not is_answered:
            return False
        yield from make_calls(run, round)
        # A tool that asked something is called again, with the answer.
        if all(call.question is None for call in round.invocations):
            break
    finish_round(run)
    yield from offer_input(run)
    return True


def ask_questions(run: Run, round: ToolRound) -> Steps[bool]:
    """Ask every question of the round before any of its tools runs.

    :return: false if no one can answer now.
    """
    while round.questions or find_questions(run, round):
        questions = round.questions
        state, phase = _waiting_for(questions[0])
        run.respondent.show(run, questions)  # open before an event tells of them
        yield from run.change_state(state)
        run.enter(phase)
        round.is_waiting = True
        # Again: the run may have moved to a handle, which has its own questions.
        shown = run.respondent.show(run, questions)
        if shown:
            yield InterruptRaised(shown)
        answers = yield questions
        if answers is None:
            return False
        # A "yes" that arrives after a cancel starts nothing.
        run.raise_if_cancel_due("after_tools")
        round.is_waiting = False
        apply_answers(run, questions, answers)
    return True


def _waiting_for(question: Interrupt) -> tuple[State, str]:
    """Return the state and the phase of a run that waits for an answer."""
    if isinstance(question, ApprovalRequest):
        return "waiting_for_approval", "approval"
    if isinstance(question, AuthRequest):
        return "waiting_for_auth", "auth"
    return "waiting_for_input", "input"


def make_calls(run: Run, round: ToolRound) -> Steps[None]:
    """Run the tools of a round. What they ask stays open for the next pass."""
    for invocation in round.invocations:
        # Denied or skipped: no tool will run, so its end is announced here.
        if not invocation.is_open and not invocation.is_announced:
            yield invocation.finished()
    executor = Executor(
        run.services,
        run.token,
        width=run.setup.width,
        after=lambda invocation: after_tool(run, invocation),
        leaving=run.token.background if run.can_move else None,
    )
    run.services.begin_round(executor)
    run.enter("tool")
    open_calls = [call for call in round.invocations if call.is_open]
    # A call that is made again with an answer counts once.
    repeated = {call.call.call_id for call in open_calls if call.answers}
    try:
        with closing(executor.run(open_calls)) as events:  # ends the tools with it
            for event in events:
                if event.__class__ is ToolStarted:
                    assert isinstance(event, ToolStarted)
                    run.meter.tool_calls += event.call_id not in repeated
                    yield from run.change_state(
                        "executing_tool", event.name, event.call_id
                    )
                yield event
    finally:
        run.services.end_round()


def offer_input(run: Run) -> Steps[None]:
    """Let the user add something between a tool round and the next turn."""
    last = run.transcript[-1]
    if not run.accepts_input or not isinstance(last, ToolMessage):
        return
    # A cancelled run takes no input; the input is kept for the next run.
    run.raise_if_cancel_due("after_turn")
    run.enter("after tools")
    calls = run.progress.invocations[-len(last.content) :]  # of the last round
    outcomes = tuple(call.report() for call in calls)
    turn = run.meter.turns
    pause = AfterToolResult(f"after_tools:{run.id}:{turn}", turn, outcomes)
    shown = run.respondent.show(run, (pause,))
    if shown:
        yield InterruptRaised(shown)
    answers = yield (pause,)
    for message in (answers or {}).get(pause.id, ()):
        run.transcript.append(message)


def finish_round(run: Run) -> None:
    """Commit the results of the open round to the transcript.

    Safe to repeat: a signal handler may have raised between two steps.
    """
    round = run.open_round
    assert round is not None
    if round.committed is None or run.transcript[-1] is not round.committed:
        round.committed = round.results()
        run.transcript.append(round.committed)
    run.progress.open_round = None
