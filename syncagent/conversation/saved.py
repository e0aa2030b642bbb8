"""An agent as JSON: its conversation, what it waits for, what it was told to remember.

Nothing in there is a secret that the SDK knows of: no key of a model, no credentials of
a tool. Those are asked for again.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ..exceptions import AgentBusy, ConfigurationError, StateInvalid
from ..interrupts import (
    AfterToolResult,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    Interrupt,
    Rule,
    RuleBook,
)
from ..messages import (
    AssistantMessage,
    Message,
    Outcome,
    ResultBlock,
    ToolCall,
    UserMessage,
)
from ..run.meter import Meter
from ..run.run import Paused, ToolRound
from ..tools.invocation import Ending, Invocation
from ..transcript.transcript import Transcript
from ..usage import Usage
from .conversation import Conversation
from .pause import Pause

__all__ = ["restore", "save"]

_FORMAT: Final = "syncagent.agent"
#: Raised whenever an older version could not read what is written.
_VERSION: Final = 1


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """What all parts of a state have in common."""


class _SavedEnding(_Record, frozen=True):
    """What became of a call."""

    outcome: Outcome
    #: Of a round that is over, it is in the messages.
    content: tuple[ResultBlock, ...] = ()
    error: str = ""
    timed_out: bool = False


class _SavedCall(_Record, frozen=True):
    """A tool call of the run, and how far it is."""

    call: ToolCall
    key: str
    #: As they are to be used; nothing if nobody has looked at the call yet.
    arguments: dict[str, Any] | None = None
    is_approved: bool = False
    has_begun: bool = False
    question: str | None = None
    said: tuple[tuple[str, str | None], ...] = ()
    times_asked: int = 0
    ending: _SavedEnding | None = None
    seconds: float = 0.0


class _SavedRun(_Record, frozen=True):
    """A run that has not ended."""

    run_id: str
    calls: tuple[_SavedCall, ...] = ()
    #: How many of the calls, the last ones, are of the round that is open.
    in_round: int = 0
    questions: tuple[Interrupt, ...] = ()
    text: str = ""
    start: int = 0
    unanswered: UserMessage | None = None
    #: The form that the answer is to have.
    output: dict[str, Any] | None = None
    turns: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    cost: float | None = None


class _SavedAgent(_Record, frozen=True, kw_only=True):
    """All of it."""

    format: str
    version: int
    messages: tuple[Message, ...]
    run: _SavedRun | None = None
    rules: tuple[Rule, ...] = ()
    usage: Usage = Usage()
    unheard: tuple[UserMessage, ...] = ()


class _Envelope(msgspec.Struct):
    """What says whether the rest can be read."""

    format: str
    version: int


# -- saving ----------------------------------------------------------------------------


def save(
    conversation: Conversation,
    unheard: tuple[UserMessage, ...] = (),
    *,
    is_still: bool = False,
) -> str:
    """Return the state of an agent.

    :param is_still: does nobody drive its run right now?
    :raises AgentBusy: another thread drives a run of it right now.
    :raises ConfigurationError: something in there cannot be said in JSON.
    """
    run, pause = conversation.run, conversation.pause
    is_ours = is_still or (run is not None and run.is_here)
    if conversation.slot.live is not None and not is_ours:
        raise AgentBusy(
            "another thread drives a run of this agent; save it there, in a hook or "
            "between two events, or when the run has ended"
        )
    if run is not None:
        unheard = unheard or run.respondent.unheard
    paused: Paused | None = run
    run_id = "" if run is None else run.id
    if run is None and pause is not None and pause.is_open:
        paused, run_id = pause, pause.run_id
    state = _SavedAgent(
        format=_FORMAT,
        version=_VERSION,
        messages=tuple(conversation.transcript) if paused else conversation.messages,
        run=None if paused is None else _saved_run(run_id, paused),
        rules=tuple(conversation.rules),
        usage=conversation.total_usage if paused is None else conversation.usage,
        unheard=unheard or conversation.unheard,
    )
    try:
        return msgspec.json.encode(state).decode()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the agent cannot be saved, as something in it is no JSON: {error}; did a "
            "hook put it into the arguments of a call?"
        ) from None


def _saved_run(run_id: str, run: Paused) -> _SavedRun:
    round = run.round
    open_calls = [] if round is None else round.invocations
    form = None if run.output is None else run.output.format
    missing = getattr(run, "missing_output", None)
    return _SavedRun(
        run_id=run_id,
        calls=tuple(_saved_call(call, call in open_calls) for call in run.invocations),
        in_round=len(open_calls),
        questions=() if round is None else round.questions,
        text=run.text,
        start=run.start,
        unanswered=run.unanswered,
        output=missing if form is None else form.schema,
        turns=run.meter.turns,
        tool_calls=run.meter.tool_calls,
        usage=run.meter.usage,
        cost=run.meter.cost,
    )


def _saved_call(call: Invocation, is_open: bool) -> _SavedCall:
    ending = call.ending
    return _SavedCall(
        call=call.call,
        key=call.key,
        # What has ended is not called again.
        arguments=call.arguments if call.is_seen and call.is_open else None,
        is_approved=call.is_approved,
        has_begun=call.is_open and call.began is not None,
        question=call.question,
        said=tuple(call.answers),
        times_asked=call.times_asked,
        ending=None
        if ending is None
        else _SavedEnding(
            ending.outcome,
            ending.content if is_open else (),
            ending.error,
            ending.timed_out,
        ),
        seconds=call.seconds,
    )


# -- going on --------------------------------------------------------------------------


def restore(conversation: Conversation, state: str | bytes) -> None:
    """Make a new conversation what *state* says.

    :raises StateInvalid: it is damaged, from a newer version, or does not fit.
    """
    saved = _decode(state)
    conversation.rules = RuleBook(
        [*saved.rules, *conversation.rules]
    )  # what is given now counts
    conversation.usage = saved.usage
    conversation.unheard = saved.unheard
    if saved.run is None:
        conversation.transcript = Transcript(saved.messages)
        conversation.transcript.repair()
        return
    conversation.transcript = _transcript(saved.messages, saved.run)
    conversation.pause = _pause(conversation, saved.run)


def _decode(state: str | bytes) -> _SavedAgent:
    if not isinstance(state, (str, bytes)):
        raise StateInvalid(
            f"a state is what agent.save() returns, a string; got {state!r:.80}"
        )
    try:
        saved = msgspec.json.decode(state, type=_SavedAgent)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        _check(_envelope(state))
        raise StateInvalid(
            f"the state cannot be read, so it was cut off or changed: {error}"
        ) from None
    _check(saved)
    return saved


def _envelope(state: str | bytes) -> _Envelope:
    """Return what can be read of a state that is no state for us."""
    try:
        return msgspec.json.decode(state, type=_Envelope)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _Envelope(_FORMAT, _VERSION)


def _check(read: _Envelope | _SavedAgent) -> None:
    """See that it is a state, and that we know what it means.

    :raises StateInvalid: it is not, or we do not.
    """
    if read.format != _FORMAT:
        raise StateInvalid(f"this is no state of an agent: {read.format!r:.80}")
    if read.version < 1:
        raise StateInvalid(f"there is no version {read.version} of a state")
    if read.version > _VERSION:
        raise StateInvalid(
            f"the state is of version {read.version}, and this is a syncagent that "
            f"knows {_VERSION} at most; update it"
        )


def _transcript(messages: tuple[Message, ...], run: _SavedRun) -> Transcript:
    """Return the conversation, whose last calls may be open."""
    if not messages or not 0 <= run.in_round <= len(run.calls):
        raise StateInvalid("the state was changed: there is nothing that it waits for")
    if not run.in_round:
        transcript = Transcript(messages)
        transcript.repair()
        return transcript
    last = messages[-1]
    made = tuple(saved.call for saved in run.calls[-run.in_round :])
    if not isinstance(last, AssistantMessage) or made != last.tool_calls:
        raise StateInvalid(
            "the state was changed: the calls that it waits for are not those of its "
            "last message"
        )
    # Without them: a call that waits for its result is nothing to be repaired.
    transcript = Transcript(messages[:-1])
    transcript.repair()
    transcript.append(last)
    return transcript


def _pause(conversation: Conversation, run: _SavedRun) -> Pause:
    count = len(run.calls) - run.in_round
    invocations = [
        _invocation(conversation, saved, is_open=number >= count)
        for number, saved in enumerate(run.calls)
    ]
    round = None
    if run.in_round:
        round = ToolRound(invocations[count:])
        round.questions = run.questions
        round.is_waiting = bool(run.questions)
        _check_questions(round)
    meter = Meter(conversation.setup.limits, conversation.setup.model)
    meter.turns, meter.tool_calls = run.turns, run.tool_calls
    meter.add(run.usage, run.cost)
    pause = Pause(
        run_id=run.run_id,
        round=round,
        invocations=invocations,
        text=run.text,
        start=max(0, min(run.start, len(conversation.transcript))),
        unanswered=run.unanswered,
        meter=meter,
        output=None,
        marker=conversation.setup.policy.marker,
    )
    pause.missing_output = run.output
    return pause


def _check_questions(round: ToolRound) -> None:
    """See that somebody is asked about what is called, and not about something else."""
    known = {call.call.call_id: call for call in round.invocations if call.is_seen}
    names = {asked.id for asked in round.questions}
    for asked in round.questions:
        name = "" if isinstance(asked, AfterToolResult) else asked.call_id
        call = known.pop(name, None)  # nobody is asked two things about one call
        if call is None or not call.is_open or not _is_about(asked, call):
            raise StateInvalid(
                f"the state was changed: {asked.id!r} is about a call that is not there"
            )
    if len(names) != len(round.questions):
        raise StateInvalid("the state was changed: two questions have one id")


def _is_about(asked: Interrupt, call: Invocation) -> bool:
    if isinstance(asked, ApprovalRequest):
        return (asked.tool, asked.arguments) == (call.call.name, call.arguments)
    if isinstance(asked, AwaitingInput):
        return (asked.tool, asked.question) == (call.call.name, call.question)
    return isinstance(asked, AuthRequest) and asked.tool == call.call.name


def _invocation(
    conversation: Conversation, saved: _SavedCall, *, is_open: bool
) -> Invocation:
    made = Invocation(saved.call, saved.key)
    made.is_approved, made.question = saved.is_approved, saved.question
    made.answers, made.seconds = list(saved.said), saved.seconds
    made.times_asked = saved.times_asked
    made.is_announced = not is_open
    if saved.ending is not None:
        made.ending = Ending(
            *(saved.ending.outcome, saved.ending.content),
            *(saved.ending.error, saved.ending.timed_out),
        )
        return made
    if not is_open or saved.arguments is None:
        return made
    tool = conversation.setup.tools.get(saved.call.name)
    if tool is None:
        there = ", ".join(conversation.setup.tools) or "none"
        raise StateInvalid(
            f"the state waits for a call of {saved.call.name!r}, and there is no such "
            f"tool; there are: {there}; give it to Agent.load(tools=...)"
        )
    made.tool, made.is_seen = tool, True
    try:
        made.bind(saved.arguments)
    except ValueError as error:
        raise StateInvalid(
            f"the state waits for a call of {saved.call.name!r} with arguments that it "
            f"does not take: {error}"
        ) from None
    if saved.has_begun and not tool.idempotent:
        made.lose()  # it was running when that process ended: it is not run twice
    return made
