"""The state of an agent as JSON: messages, the paused run, rules and usage.

A state holds no secret that the SDK knows of: no key of a model, no credentials of a
tool. Those are asked for again.

A store keeps the same state in parts, so that a checkpoint costs as much as what is
new: messages, which are only appended, and a small tail, which is written again each
time. :func:`save_delta` returns the parts that are new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ..exceptions import AgentBusy, ConfigurationError
from ..messages import Message, ToolMessage, UserMessage
from ..run.progress import RunProgress, ToolRound
from ..run.run import Run
from ..tools.invocation import Invocation
from .conversation import Conversation
from .pause import Resumable
from .state import (
    FORMAT,
    VERSION,
    Delta,
    SavedAgent,
    SavedCall,
    SavedEnding,
    SavedRun,
    SavedUnfinished,
    StoredMessage,
)

__all__ = ["save", "save_delta"]


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
    saved_run = None
    if progress is not None:
        calls, round = progress.invocations, progress.open_round
        saved_run = _saved_run(progress, pause, calls, progress.text, round)
        saved_run = _with_before(saved_run, conversation, progress)
    state = SavedAgent(
        format=FORMAT,
        version=VERSION,
        messages=tuple(conversation.transcript) if progress else conversation.messages,
        run=saved_run,
        unfinished=None if progress else _saved_unfinished(conversation),
        rules=tuple(conversation.rules),
        usage=conversation.total_usage if progress is None else conversation.usage,
        unheard=untaken_input or conversation.untaken_input,
        claims=conversation.claims,
    )
    return _encode(state).decode()


def _encode(part: Any) -> bytes:
    try:
        return msgspec.json.encode(part)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the agent cannot be saved: part of it is not JSON: {error}; did a hook "
            "put that into the arguments of a call?"
        ) from None


def _saved_unfinished(conversation: Conversation) -> SavedUnfinished | None:
    """Return the run that was cut short, if there is one."""
    found = conversation.unfinished
    if found is None:
        return None
    run, round = found.progress, found.reopened_round()
    calls = list(run.invocations)
    if round is not None:
        calls[-found.in_round :] = round.invocations
    saved_run = _saved_run(run, found, calls, run.text, round)
    return SavedUnfinished(
        saved_run, found.length, found.usage_before, found.keeps_approvals
    )


def _saved_run(
    run: RunProgress,
    resumable: Resumable | None,
    calls: Sequence[Invocation],
    text: str | None,
    round: ToolRound | None,
) -> SavedRun:
    open_calls = [] if round is None else round.invocations
    format = None if run.output is None else run.output.format
    missing = None if resumable is None else resumable.missing_output
    return SavedRun(
        run_id=run.run_id,
        calls=tuple(_saved_call(call, call in open_calls) for call in calls),
        in_round=len(open_calls),
        questions=() if round is None else round.questions,
        text=text,
        start=run.start,
        unanswered=run.unanswered,
        output=missing if format is None else format.schema,
        turns=run.meter.turns,
        tool_calls=run.meter.tool_calls,
        usage=run.meter.usage,
        cost=run.meter.cost,
        metadata=run.given.metadata,
        compactions=run.compactions,
    )


def _with_before(
    saved: SavedRun, conversation: Conversation, run: RunProgress
) -> SavedRun:
    """Return *saved* with the messages before the run, if a cancel restores them."""
    is_rollback = conversation.setup.policy.partial_text == "rollback"
    if not is_rollback or run.before is None:
        return saved
    return msgspec.structs.replace(saved, before=run.before)


def _saved_call(call: Invocation, is_open: bool) -> SavedCall:
    ending = call.ending
    return SavedCall(
        call=call.call,
        key=call.key,
        # A call that has ended is not made again.
        arguments=call.arguments if call.is_seen and call.is_open else None,
        is_approved=call.is_approved,
        changes=call.changes,
        has_begun=call.is_open and call.has_begun,
        question=call.question,
        form=call.form,
        said=tuple(call.answers),
        times_asked=call.times_asked,
        ending=None
        if ending is None
        else SavedEnding(
            ending.outcome,
            ending.content if is_open else (),
            ending.error,
            ending.timed_out,
        ),
        is_stopped=ending is not None and call.is_stopped,
        seconds=call.seconds,
    )


# -- in parts --------------------------------------------------------------------------


def save_delta(conversation: Conversation, run: Run, *, is_over: bool = False) -> Delta:
    """Return what has changed since ``transcript.stored`` was set.

    Its cost does not depend on the length of the conversation. Call it on the thread of
    the run; set ``transcript.stored`` to ``delta.total`` once it is stored.

    :param is_over: true if the run has ended: the tail is that of an idle agent.
    :raises ConfigurationError: something in it is not JSON.
    """
    progress, transcript = run.progress, run.transcript
    first = transcript.stored
    messages = transcript[first:]
    saved_run, usage = None, conversation.usage
    if is_over:
        usage += run.meter.usage
    else:
        open_calls = [] if run.open_round is None else run.open_round.invocations
        text = None if transcript.last_text == progress.text else progress.text
        saved_run = _saved_run(progress, None, open_calls, text, run.open_round)
        saved_run = _with_before(saved_run, conversation, progress)
    tail = SavedAgent(
        format=FORMAT,
        version=VERSION,
        messages=(),
        run=saved_run,
        rules=tuple(conversation.rules),
        usage=usage,
        unheard=run.respondent.pending_inputs or conversation.untaken_input,
    )
    if not messages:
        return Delta(first, (), _encode(tail))
    stored = tuple(
        StoredMessage(_encode(message), _encode(calls) if calls else b"")
        for message, calls in zip(
            messages, _calls_of(progress, messages, first), strict=True
        )
    )
    return Delta(first, stored, _encode(tail))


def _calls_of(
    progress: RunProgress, messages: Sequence[Message], first: int
) -> Iterable[tuple[SavedCall, ...]]:
    """Yield the calls whose results stand in each message.

    :param first: the number of the first message.
    """
    # From the end: the calls of the run are long, and few of them are new.
    end = len(progress.invocations)
    if progress.open_round is not None:
        end -= len(progress.open_round.invocations)
    calls: list[tuple[SavedCall, ...]] = []
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if progress.compactions and first + number == progress.start:
            # Those whose messages were removed go with the record of them.
            removed = progress.invocations[:end]
            calls.append(tuple(_saved_call(each, is_open=False) for each in removed))
            end = 0
            continue
        if not isinstance(message, ToolMessage) or first + number < progress.start:
            calls.append(())
            continue
        begin = max(0, end - len(message.content))
        round = progress.invocations[begin:end]
        calls.append(tuple(_saved_call(call, is_open=False) for call in round))
        end = begin
    return reversed(calls)
