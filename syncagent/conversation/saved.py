"""The state of an agent as JSON: messages, the paused run, rules and usage.

A state holds no secret that the SDK knows of: no key of a model, no credentials of a
tool. Those are asked for again.
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
from ..run.progress import RunProgress, ToolRound
from ..tools.invocation import Ending, Invocation
from ..transcript.transcript import Transcript
from ..usage import Usage
from .conversation import Conversation
from .pause import Pause

__all__ = ["restore", "save"]

_FORMAT: Final = "syncagent.agent"
#: Raised whenever older versions could not read the new states.
_VERSION: Final = 1


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The base of all parts of a state."""


class _SavedEnding(_Record, frozen=True):
    """How a call ended."""

    outcome: Outcome
    #: Only for the open round; the others have theirs in the messages.
    content: tuple[ResultBlock, ...] = ()
    error: str = ""
    timed_out: bool = False


class _SavedCall(_Record, frozen=True):
    """A tool call of the run, and its progress."""

    call: ToolCall
    key: str
    #: As they will be passed; None for a call that was not checked yet.
    arguments: dict[str, Any] | None = None
    is_approved: bool = False
    changes: int = 0
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
    #: The number of calls in the open round: the last ones.
    in_round: int = 0
    questions: tuple[Interrupt, ...] = ()
    text: str = ""
    start: int = 0
    unanswered: UserMessage | None = None
    #: The JSON schema of the answer.
    output: dict[str, Any] | None = None
    turns: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    cost: float | None = None


class _SavedAgent(_Record, frozen=True, kw_only=True):
    """A whole state."""

    format: str
    version: int
    messages: tuple[Message, ...]
    run: _SavedRun | None = None
    rules: tuple[Rule, ...] = ()
    usage: Usage = Usage()
    unheard: tuple[UserMessage, ...] = ()
    #: The number of claims before this state was saved; see claimed.py.
    claims: int = 0


class _Envelope(msgspec.Struct):
    """The part that says whether the rest can be read."""

    format: str
    version: int


# -- saving ----------------------------------------------------------------------------


def save(
    conversation: Conversation,
    untaken_input: tuple[UserMessage, ...] = (),
    *,
    is_still: bool = False,
) -> str:
    """Return the state of an agent.

    :param untaken_input: input that its run has not taken yet.
    :param is_still: true if no thread is in the middle of a step of its run.
    :raises AgentBusy: another thread drives a run of it right now.
    :raises ConfigurationError: something in it is not JSON.
    """
    run, pause = conversation.run, conversation.pause
    may_read = is_still or (run is not None and run.is_here)
    if conversation.slot.live is not None and not may_read:
        raise AgentBusy(
            "another thread drives a run of this agent; save it there, in a hook or "
            "between two events, or when the run has ended"
        )
    if run is not None:
        untaken_input = untaken_input or run.respondent.pending_inputs
    progress: RunProgress | None = None if run is None else run.progress
    if run is None and pause is not None and pause.is_open:
        progress = pause.progress
    state = _SavedAgent(
        format=_FORMAT,
        version=_VERSION,
        messages=tuple(conversation.transcript) if progress else conversation.messages,
        run=None if progress is None else _saved_run(progress, pause),
        rules=tuple(conversation.rules),
        usage=conversation.total_usage if progress is None else conversation.usage,
        unheard=untaken_input or conversation.untaken_input,
        claims=conversation.claims,
    )
    try:
        return msgspec.json.encode(state).decode()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the agent cannot be saved: part of it is not JSON: {error}; did a hook "
            "put that into the arguments of a call?"
        ) from None


def _saved_run(run: RunProgress, pause: Pause | None) -> _SavedRun:
    round = run.open_round
    open_calls = [] if round is None else round.invocations
    format = None if run.output is None else run.output.format
    missing = None if pause is None else pause.missing_output
    return _SavedRun(
        run_id=run.run_id,
        calls=tuple(_saved_call(call, call in open_calls) for call in run.invocations),
        in_round=len(open_calls),
        questions=() if round is None else round.questions,
        text=run.text,
        start=run.start,
        unanswered=run.unanswered,
        output=missing if format is None else format.schema,
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
        # A call that has ended is not made again.
        arguments=call.arguments if call.is_seen and call.is_open else None,
        is_approved=call.is_approved,
        changes=call.changes,
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


# -- restoring ------------------------------------------------------------------------


def restore(conversation: Conversation, state: str | bytes) -> None:
    """Bring a new conversation into a saved state.

    :raises StateInvalid: the state is damaged, from a newer version, or does not fit.
    """
    saved = _decode(state)
    # The rules given to load() come last: they beat the saved ones.
    conversation.rules = RuleBook([*saved.rules, *conversation.rules])
    conversation.usage = saved.usage
    conversation.untaken_input = saved.unheard
    conversation.claims = saved.claims
    if saved.run is None:
        conversation.transcript = Transcript(saved.messages)
        conversation.transcript.repair()
        return
    conversation.transcript = _restored_transcript(saved.messages, saved.run)
    conversation.pause = _pause(conversation, saved.run)


def _decode(state: str | bytes) -> _SavedAgent:
    if not isinstance(state, (str, bytes)):
        raise StateInvalid(
            f"a state must be a string made by agent.save(); got {state!r:.80}"
        )
    try:
        saved = msgspec.json.decode(state, type=_SavedAgent)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        _check(_envelope(state))
        raise StateInvalid(
            f"the state cannot be read; it was cut off or changed: {error}"
        ) from None
    _check(saved)
    return saved


def _envelope(state: str | bytes) -> _Envelope:
    """Return format and version of a state that cannot be decoded as a whole."""
    try:
        return msgspec.json.decode(state, type=_Envelope)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _Envelope(_FORMAT, _VERSION)


def _check(state: _Envelope | _SavedAgent) -> None:
    """Check that it is a state, of a version this code understands.

    :raises StateInvalid: it is not.
    """
    if state.format != _FORMAT:
        raise StateInvalid(f"this is not the state of an agent: {state.format!r:.80}")
    if state.version < 1:
        raise StateInvalid(f"state version {state.version} does not exist")
    if state.version > _VERSION:
        raise StateInvalid(
            f"state version {state.version} is newer than this syncagent understands "
            f"({_VERSION}); upgrade syncagent"
        )


def _restored_transcript(messages: tuple[Message, ...], run: _SavedRun) -> Transcript:
    """Return the transcript, whose last calls may be open."""
    if not messages or not 0 <= run.in_round <= len(run.calls):
        raise StateInvalid("the state was changed: its run has no open calls")
    if not run.in_round:
        transcript = Transcript(messages)
        transcript.repair()
        return transcript
    last = messages[-1]
    open_calls = tuple(saved.call for saved in run.calls[-run.in_round :])
    if not isinstance(last, AssistantMessage) or open_calls != last.tool_calls:
        raise StateInvalid(
            "the state was changed: its open calls are not those of its last message"
        )
    # Repair without the last message: its calls wait for their results.
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
    start = max(0, min(run.start, len(conversation.transcript)))
    progress = RunProgress(run.run_id, meter, start=start, unanswered=run.unanswered)
    progress.text = run.text
    progress.invocations, progress.open_round = invocations, round
    pause = Pause(progress, conversation.setup.policy.marker)
    pause.missing_output = run.output
    return pause


def _check_questions(round: ToolRound) -> None:
    """Check that every question is about an open call, as it will be made."""
    known = {call.call.call_id: call for call in round.invocations if call.is_seen}
    ids = {question.id for question in round.questions}
    for question in round.questions:
        call_id = "" if isinstance(question, AfterToolResult) else question.call_id
        call = known.pop(call_id, None)  # there is one question about a call at most
        if call is None or not call.is_open or not _is_about(question, call):
            raise StateInvalid(
                f"the state was changed: {question.id!r} is about no open call"
            )
    if len(ids) != len(round.questions):
        raise StateInvalid("the state was changed: two questions have one id")


def _is_about(question: Interrupt, call: Invocation) -> bool:
    name = call.call.name
    if isinstance(question, ApprovalRequest):
        return (question.tool, question.arguments) == (name, call.arguments)
    if isinstance(question, AwaitingInput):
        return (question.tool, question.question) == (name, call.question)
    return isinstance(question, AuthRequest) and question.tool == name


def _invocation(
    conversation: Conversation, saved: _SavedCall, *, is_open: bool
) -> Invocation:
    invocation = Invocation(saved.call, saved.key)
    invocation.is_approved, invocation.question = saved.is_approved, saved.question
    invocation.answers, invocation.seconds = list(saved.said), saved.seconds
    invocation.times_asked, invocation.changes = saved.times_asked, saved.changes
    invocation.is_announced = not is_open
    if saved.ending is not None:
        invocation.ending = Ending(
            *(saved.ending.outcome, saved.ending.content),
            *(saved.ending.error, saved.ending.timed_out),
        )
        return invocation
    if not is_open or saved.arguments is None:
        return invocation
    tool = conversation.setup.tools.get(saved.call.name)
    if tool is None:
        names = ", ".join(conversation.setup.tools) or "none"
        raise StateInvalid(
            f"the state has an open call of {saved.call.name!r}, which is not among "
            f"the tools: {names}; give it to Agent.load(tools=...)"
        )
    invocation.tool, invocation.is_seen = tool, True
    try:
        invocation.bind(saved.arguments)
    except ValueError as error:
        raise StateInvalid(
            f"the state has an open call of {saved.call.name!r} with arguments that do "
            f"not fit: {error}"
        ) from None
    if saved.has_begun and not tool.idempotent:
        invocation.lose()  # it was running when its process ended: it is not run twice
    return invocation
