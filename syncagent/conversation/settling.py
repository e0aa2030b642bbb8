"""How a run ends: a valid transcript, and a result."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from ..cancel import CancelReason, clock
from ..exceptions import Cancelled, RunStopped, SyncAgentError
from ..loop import finish_round
from ..messages import AssistantMessage, Text
from ..result import Cancellation, RunResult, StopReason
from ..run.run import Run

__all__ = [
    "make_result",
    "marked",
    "settle_cancelled",
    "settle_failed",
]

_log = logging.getLogger("syncagent.run")

#: Tells the model that a message was cut off, and not by the user.
_CUT_BY_ERROR: Final = "<system>This message was cut off by an error</system>"


def settle_cancelled(run: Run) -> None:
    """Leave what a cancel leaves, by the policy of the agent."""
    policy = run.setup.policy
    run.commit()
    run.spend_on_answer()
    partial = None if run.answer is None else run.answer.partial()
    if partial is not None:
        run.text = partial.text
    if policy.partial_text == "rollback":
        run.answer = run.round = None
        run.transcript.truncate(run.start)
        if run.unanswered is not None:
            run.transcript.append(run.unanswered)
        return
    if run.round is not None:
        was_waiting = run.round.is_waiting
        finish_round(run)
        if was_waiting:
            run.transcript.append(marked(policy.marker))
    elif run.answer is not None:
        run.answer = None
        if policy.partial_text == "discard":
            run.transcript.append(marked(policy.notice))
        else:
            run.transcript.append(_cut(partial, policy.marker))


def settle_failed(run: Run, marker: str = _CUT_BY_ERROR) -> None:
    """Leave what an error leaves: all that came, and nothing if nothing did."""
    run.commit()
    run.spend_on_answer()
    if run.round is not None:
        finish_round(run)
    elif run.answer is not None:
        answer, run.answer = run.answer, None
        partial = answer.partial()
        if partial is not None:
            run.transcript.append(_cut(partial, marker))


def _cut(partial: AssistantMessage | None, marker: str) -> AssistantMessage:
    """Return what came of a message, marked as cut off."""
    if partial is None:
        return marked(marker)
    content = (*partial.content, Text(marker))
    return msgspec.structs.replace(partial, content=content, is_cut=True)


def marked(marker: str) -> AssistantMessage:
    """Return a message that says no more than that it was cut off."""
    return AssistantMessage((Text(marker),), "other", is_cut=True)


def make_result(
    run: Run,
    stop_reason: StopReason,
    cause: CancelReason | None,
    *,
    phase: str,
    latency: float,
) -> RunResult:
    """Return what *run*, which is settled, has come to.

    :param cause: why it was cancelled, if it was.
    :param phase: what it was doing then.
    """
    cancellation = None
    if cause is not None:
        cancellation = Cancellation(str(cause), cause.origin, phase, latency)
    is_paused = stop_reason == "interrupt" and run.round is not None
    return RunResult(
        text=run.text,
        stop_reason=stop_reason,
        run_id=run.id,
        messages=tuple(run.transcript[:]),
        output=run.value,
        cancellation=cancellation,
        usage=run.meter.usage,
        cost=run.meter.cost,
        turns=run.meter.turns,
        tool_outcomes=tuple(call.report() for call in run.invocations),
        interrupts=run.round.questions if is_paused and run.round else (),
        limit=run.meter.limit if stop_reason == "limit" else None,
        start=min(run.start, len(run.transcript)),
    )


def show_error(run: Run, error: BaseException) -> None:
    """Show hooks what a run ends with; what they say about it cannot replace it."""
    for hook in run.setup.hooks.on_error:
        try:
            hook(error)
        except Exception:
            _log.exception("run %s: a hook's on_error() raised", run.id)


def is_cancel(error: BaseException, cause: CancelReason | None) -> bool:
    """Is this what comes out of a run that was cancelled? By the token first."""
    # A stream that is closed has cancelled its run; any other GeneratorExit goes up.
    is_usual = isinstance(error, (Exception, Cancelled, GeneratorExit))
    return cause is not None and is_usual and not isinstance(error, MemoryError)


def settle_raised(run: Run, error: BaseException) -> None:
    if isinstance(error, Exception):
        settle_failed(run)
    else:
        settle_failed(run, run.setup.policy.marker)
    if isinstance(error, SyncAgentError):
        error.usage = run.meter.usage
    if isinstance(error, RunStopped):
        error.result = make_result(run, "end_turn", None, phase="", latency=0.0)


def seconds_since(cause: CancelReason | None) -> float:
    return 0.0 if cause is None else clock.now() - cause.at


def report(run: Run, error: BaseException) -> None:
    """Log what a cancel has hidden, unless it is what cancels look like."""
    if isinstance(error, (Cancelled, GeneratorExit, SyncAgentError)):
        return
    _log.warning(
        "run %s: it was cancelled, and this came out of it meanwhile",
        run.id,
        exc_info=error,
    )
