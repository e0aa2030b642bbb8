"""Bring a new agent into a saved state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ..exceptions import StateInvalid
from ..interrupts import (
    AfterToolResult,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    Interrupt,
    RuleBook,
)
from ..messages import AssistantMessage, Message, Outcome, ToolOutcome
from ..result import Cancellation, RunResult
from ..run.given import Given
from ..run.meter import Meter
from ..run.progress import RunProgress, ToolRound
from ..tools.invocation import Ending, Invocation
from ..transcript.transcript import Transcript
from .conversation import Conversation
from .pause import Pause
from .state import (
    FORMAT,
    VERSION,
    Envelope,
    SavedAgent,
    SavedCall,
    SavedRun,
    SavedUnfinished,
    StoredMessage,
)
from .unfinished import Unfinished

__all__ = [
    "decode_state",
    "join_state",
    "restore",
    "unfinished_result",
    "whole_messages",
]


# Made here and not when first needed: msgspec collects the fields of a type at first
# use, and crashes if another thread uses the type at that moment.
_STATE: Final = msgspec.json.Decoder(SavedAgent)
_MESSAGE: Final[msgspec.json.Decoder[Message]] = msgspec.json.Decoder(Message)
_ENVELOPE: Final = msgspec.json.Decoder(Envelope)


def restore(conversation: Conversation, state: str | bytes) -> None:
    """Bring a new conversation into a saved state.

    :raises StateInvalid: the state is damaged, from a newer version, or does not fit.
    """
    saved = decode_state(state)
    # The rules given to load() come last: they beat the saved ones.
    conversation.rules = RuleBook([*saved.rules, *conversation.rules])
    conversation.usage = saved.usage
    conversation.untaken_input = saved.unheard
    conversation.claims = saved.claims
    if saved.run is None:
        conversation.transcript = Transcript(saved.messages)
        conversation.transcript.repair()
        if saved.unfinished is not None:
            _restore_unfinished(conversation, saved.unfinished)
    else:
        conversation.transcript = _restored_transcript(saved.messages, saved.run)
        conversation.pause = _pause(conversation, saved.run)
    transcript = conversation.transcript
    pairs = enumerate(zip(saved.messages, transcript, strict=False))
    same = (number for number, (before, now) in pairs if before is not now)
    transcript.stored = next(same, min(len(saved.messages), len(transcript)))


def decode_state(state: str | bytes) -> SavedAgent:
    """Return the parts of a saved state.

    :raises StateInvalid: it is damaged, or from a newer version.
    """
    if not isinstance(state, (str, bytes)):
        raise StateInvalid(
            f"a state must be a string made by agent.save(); got {state!r:.80}"
        )
    try:
        saved = _STATE.decode(state)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        _check(_envelope(state))
        raise StateInvalid(
            f"the state cannot be read; it was cut off or changed: {error}"
        ) from None
    _check(saved)
    return saved


def _envelope(state: str | bytes) -> Envelope:
    """Return format and version of a state that cannot be decoded as a whole."""
    try:
        return _ENVELOPE.decode(state)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return Envelope(FORMAT, VERSION)


def _check(state: Envelope | SavedAgent) -> None:
    """Check that it is a state, of a version this code understands.

    :raises StateInvalid: it is not.
    """
    if state.format != FORMAT:
        raise StateInvalid(f"this is not the state of an agent: {state.format!r:.80}")
    if state.version < 1:
        raise StateInvalid(f"state version {state.version} does not exist")
    if state.version > VERSION:
        raise StateInvalid(
            f"state version {state.version} is newer than this syncagent understands "
            f"({VERSION}); upgrade syncagent"
        )


def _restored_transcript(messages: tuple[Message, ...], run: SavedRun) -> Transcript:
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


def _restore_unfinished(conversation: Conversation, saved: SavedUnfinished) -> None:
    """Let the agent resume a run that was cut short, if it has the tools for that.

    If it has not, the agent is idle: another prompt needs nothing of that run.
    """
    run, transcript = saved.run, conversation.transcript
    length, in_round = min(saved.length, len(transcript)), run.in_round
    is_valid = length > 0 and 0 <= in_round <= len(run.calls)
    if is_valid and in_round:
        last = transcript[length - 1]
        open_calls = tuple(call.call for call in run.calls[-in_round:])
        is_valid = isinstance(last, AssistantMessage) and last.tool_calls == open_calls
    try:
        if not is_valid:
            raise StateInvalid("the state was changed: its run has other calls")
        progress = _progress(conversation, run)
    except StateInvalid as error:
        conversation.no_resume = f"cannot continue here ({error})"
        return
    unfinished = Unfinished(
        *(progress, length, in_round, saved.usage_before),
        keeps_approvals=saved.keeps_approvals,
    )
    unfinished.missing_output = run.output
    conversation.unfinished = unfinished


def _pause(conversation: Conversation, run: SavedRun) -> Pause:
    pause = Pause(_progress(conversation, run), conversation.setup.policy.marker)
    pause.missing_output = run.output
    return pause


def _progress(conversation: Conversation, run: SavedRun) -> RunProgress:
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
    setup = conversation.setup
    meter = Meter(setup.limits, setup.model, budgets=(setup.budget,))
    meter.turns, meter.tool_calls = run.turns, run.tool_calls
    meter.add(run.usage, run.cost)
    start = max(0, min(run.start, len(conversation.transcript)))
    progress = RunProgress(run.run_id, meter, start=start, unanswered=run.unanswered)
    progress.text = (
        run.text if run.text is not None else conversation.transcript.last_text
    )
    progress.invocations, progress.open_round = invocations, round
    progress.compactions, progress.before = run.compactions, run.before
    if run.metadata:
        progress.given = Given(metadata=run.metadata)
    return progress


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
        asked = (question.tool, question.question, question.form)
        return asked == (name, call.question, call.form)
    return isinstance(question, AuthRequest) and question.tool == name


def _invocation(
    conversation: Conversation, saved: SavedCall, *, is_open: bool
) -> Invocation:
    invocation = Invocation(saved.call, saved.key)
    invocation.is_approved = saved.is_approved
    invocation.question, invocation.form = saved.question, saved.form
    invocation.answers, invocation.seconds = list(saved.said), saved.seconds
    invocation.times_asked, invocation.changes = saved.times_asked, saved.changes
    invocation.is_announced, invocation.was_stopped = not is_open, saved.is_stopped
    if saved.ending is not None:
        invocation.ending = Ending(
            *(saved.ending.outcome, saved.ending.content),
            *(saved.ending.error, saved.ending.timed_out),
        )
        return invocation
    if not is_open or saved.arguments is None:
        return invocation
    toolbox = conversation.setup.toolbox
    tool = toolbox.own.by_name.get(saved.call.name)
    if tool is None and toolbox.sources:
        # Without a tool: the sources are asked when the run is resumed.
        invocation.arguments, invocation.is_seen = saved.arguments, True
        if saved.has_begun:
            # Open, so that it can be saved again; interrupted if the run ends before.
            invocation.lose()
            invocation.begin_again()
        return invocation
    if tool is None:
        names = ", ".join(toolbox.own.by_name) or "none"
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
    if saved.has_begun:
        invocation.lose()  # it was running when its process ended
        if tool.idempotent:  # others are not called twice
            invocation.begin_again()
    return invocation


def join_state(tail: bytes, messages: Sequence[StoredMessage]) -> bytes:
    """Return the state that a tail and all messages make.

    :raises StateInvalid: the tail is damaged, or from a newer version.
    """
    try:
        parts = msgspec.json.decode(tail, type=dict[str, msgspec.Raw])
        parts["messages"] = _raw_list(message.body for message in messages)
        run = msgspec.json.decode(
            parts.get("run", b"null"), type=dict[str, msgspec.Raw] | None
        )
        if run is not None:
            start = msgspec.json.decode(run.get("start", b"0"), type=int)
            open_calls = bytes(run.get("calls", b"[]"))
            rounds = [m.calls for m in messages[start:] if m.calls]
            lists = (part[1:-1] for part in (*rounds, open_calls))
            run["calls"] = _raw_list(part for part in lists if part)
            parts["run"] = msgspec.Raw(msgspec.json.encode(run))
        return msgspec.json.encode(parts)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise StateInvalid(
            f"the stored state cannot be read; it was cut off or changed: {error}"
        ) from None


def _raw_list(parts: Iterable[bytes]) -> msgspec.Raw:
    return msgspec.Raw(b"[" + b",".join(parts) + b"]")


def whole_messages(messages: Sequence[StoredMessage]) -> tuple[Message, ...]:
    """Return stored messages as messages, with a result for every call.

    A run that ended while no worker had it may have open calls.
    """
    transcript = Transcript(_MESSAGE.decode(message.body) for message in messages)
    transcript.repair()
    return tuple(transcript)


def unfinished_result(
    run_id: str,
    tail: bytes,
    messages: Sequence[StoredMessage],
    cancellation: Cancellation,
) -> RunResult:
    """Return the result of a stored run that is cancelled while no worker has it.

    :param tail: empty if the run has not begun.
    """
    result = RunResult(
        text="",
        stop_reason="cancelled",
        run_id=run_id,
        messages=(),
        cancellation=cancellation,
    )
    run = decode_state(join_state(tail, messages)).run if tail else None
    if run is None:
        return result
    return replace(
        result,
        text=run.text or "",
        usage=run.usage,
        cost=run.cost,
        turns=run.turns,
        tool_outcomes=tuple(_outcome(saved) for saved in run.calls),
        metadata=run.metadata,
    )


def _outcome(saved: SavedCall) -> ToolOutcome:
    names = (saved.call.call_id, saved.call.name)
    ending = saved.ending
    if ending is None:
        outcome: Outcome = "interrupted" if saved.has_begun else "not_started"
        return ToolOutcome(*names, outcome)
    seconds, error = saved.seconds, ending.error
    return ToolOutcome(*names, ending.outcome, seconds, error, ending.timed_out)
