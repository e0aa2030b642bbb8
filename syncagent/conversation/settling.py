"""How a run ends: a valid transcript, and a result."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from ..cancel import CancelReason, clock
from ..cancel.handler_errors import raised_by_signal_handler
from ..exceptions import Cancelled, RunStopped, SyncAgentError
from ..loop import finish_round
from ..messages import AssistantMessage, Text
from ..result import Cancellation, RunResult, StopReason
from ..run.run import Run

__all__ = [
    "call_error_hooks",
    "is_cancel",
    "log_hidden_error",
    "make_result",
    "marked",
    "seconds_since",
    "settle_cancelled",
    "settle_failed",
    "settle_raised",
]

_log = logging.getLogger("syncagent.run")

#: Tells the model that an error, and not the user, cut its message off.
_CUT_BY_ERROR: Final = "<system>This message was cut off by an error</system>"
#: The same for a hook that stopped the run.
_CUT_BY_HOOK: Final = "<system>A policy stopped this message</system>"
#: The end of the note on an error.
_GOES_ON: Final = "; agent.resume() continues from there"


# -- the transcript --------------------------------------------------------------------


def settle_cancelled(run: Run, cause: CancelReason) -> None:
    """Leave the transcript as the agent's cancel policy says. Safe to repeat."""
    policy, progress = run.setup.policy, run.progress
    marker, notice = policy.marker, policy.notice
    if cause.origin == "hook":
        marker = notice = _CUT_BY_HOOK
    run.commit()
    _note_resume_point(run)
    run.charge_partial_response()
    partial = None if run.response is None else run.response.partial()
    if partial is not None:
        progress.text = partial.text
    if policy.partial_text == "rollback" and progress.can_roll_back:
        run.response = progress.open_round = None
        _roll_back(run)
        return
    if progress.open_round is not None:
        was_waiting = progress.open_round.is_waiting
        finish_round(run)
        if was_waiting:
            run.transcript.append(marked(marker, cause, cause.origin))
    elif run.response is not None:
        run.response = None
        if policy.partial_text == "discard":
            run.transcript.append(marked(notice, cause, cause.origin))
        else:
            run.transcript.append(_cut_off(partial, marker, cause, cause.origin))


def _roll_back(run: Run) -> None:
    """Take the whole run out of the transcript. Safe to repeat."""
    progress, transcript = run.progress, run.transcript
    if progress.before is not None:  # a compaction has replaced the conversation
        transcript.replace(progress.messages_before(transcript))
        progress.start = len(progress.before)
        return
    transcript.truncate(progress.start)
    if progress.unanswered is not None:
        transcript.append(progress.unanswered)


def _note_resume_point(run: Run) -> None:
    """Note where the run goes on if it is resumed. Safe to repeat: the first counts."""
    progress, length = run.progress, len(run.transcript)
    if progress.resume_from is not None:
        return
    round = progress.open_round
    if round is not None and run.transcript[-1] is round.committed:
        length -= 1  # a signal handler has raised right after that
    progress.resume_from = (length, 0 if round is None else len(round.invocations))


def settle_failed(run: Run, marker: str = _CUT_BY_ERROR, origin: str = "error") -> None:
    """Keep everything that came before an error. Safe to repeat."""
    run.commit()
    _note_resume_point(run)
    run.charge_partial_response()
    if run.open_round is not None:
        finish_round(run)
    elif run.response is not None:
        response, run.response = run.response, None
        partial = response.partial()
        if partial is not None:
            run.transcript.append(_cut_off(partial, marker, "", origin))


def settle_raised(run: Run, error: BaseException) -> None:
    """Settle a run that raises *error*, and give the error what it should carry."""
    if isinstance(error, Exception):
        settle_failed(run)
    else:  # KeyboardInterrupt, SystemExit: the user's doing
        settle_failed(run, run.setup.policy.marker, "signal")
    if isinstance(error, SyncAgentError):
        error.usage = run.meter.usage
        error.can_resume = run.keeper is None
    if isinstance(error, Exception) and run.keeper is None:
        _say_how_to_resume(run, error)
    if isinstance(error, RunStopped):
        error.result = make_result(run, "end_turn", None, phase="", latency=0.0)


def _say_how_to_resume(run: Run, error: Exception) -> None:
    """Add to *error* that the run can go on, where Python shows such notes."""
    add_note = getattr(error, "add_note", None)
    if add_note is None:  # before Python 3.11
        return
    progress = run.progress
    kept = run.transcript[: (progress.resume_from or (0, 0))[0]]
    turns = sum(isinstance(each, AssistantMessage) for each in kept[progress.start :])
    what = f"the run is kept up to turn {turns}" if turns else "the prompt is kept"
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, list):  # an error that is raised again has an old note
        notes[:] = [note for note in notes if not str(note).endswith(_GOES_ON)]
    add_note(what + _GOES_ON)


def _cut_off(
    partial: AssistantMessage | None, marker: str, reason: str, origin: str
) -> AssistantMessage:
    """Return the part of a message that came, marked as cut off."""
    if partial is None:
        return marked(marker, reason, origin)
    return msgspec.structs.replace(
        partial,
        content=(*partial.content, Text(marker)),
        is_cut=True,
        cut_reason=str(reason),
        cut_origin=origin,
    )


def marked(marker: str, reason: str = "", origin: str = "") -> AssistantMessage:
    """Return a message that only says it was cut off.

    :param reason: of the cancel.
    :param origin: of the cancel; ``error`` if there was none.
    """
    return AssistantMessage(
        (Text(marker),),
        "other",
        is_cut=True,
        cut_reason=str(reason),
        cut_origin=origin,
    )


# -- the result ------------------------------------------------------------------------


def make_result(
    run: Run,
    stop_reason: StopReason,
    cause: CancelReason | None,
    *,
    phase: str,
    latency: float,
) -> RunResult:
    """Return the result of *run*, whose transcript is settled.

    :param cause: why it was cancelled, if it was.
    :param phase: what it was doing then.
    :param latency: seconds from the cancel to now.
    """
    progress = run.progress
    cancellation = None
    if cause is not None:
        cancellation = Cancellation(str(cause), cause.origin, phase, latency)
    round = progress.open_round if stop_reason == "interrupt" else None
    raw_stop_reason, stop_detail = progress.last_stop
    return RunResult(
        text=progress.text,
        stop_reason=stop_reason,
        raw_stop_reason=raw_stop_reason,
        stop_detail=stop_detail,
        run_id=run.id,
        messages=tuple(run.transcript[:]),
        output=run.value,
        cancellation=cancellation,
        usage=run.meter.usage,
        cost=run.meter.cost,
        model=run.meter.model.full_name if run.meter.turns else "",
        turns=run.meter.turns,
        tool_outcomes=tuple(call.report() for call in progress.invocations),
        interrupts=() if round is None else round.questions,
        limit=run.meter.limit if stop_reason == "limit" else None,
        start=min(progress.start, len(run.transcript)),
        metadata=run.metadata,
        compactions=progress.compactions,
    )


def seconds_since(cause: CancelReason | None) -> float:
    """Return the seconds since a cancel; 0 if there was none."""
    return 0.0 if cause is None else clock.now() - cause.at


# -- errors ----------------------------------------------------------------------------


def is_cancel(error: BaseException, cause: CancelReason | None) -> bool:
    """Return whether *error* is how a cancelled run ends: by the token first."""
    # A closed stream has cancelled its run; any other GeneratorExit goes up, as
    # KeyboardInterrupt and MemoryError do.
    is_usual = isinstance(error, (Exception, Cancelled, GeneratorExit))
    if cause is None or not is_usual or isinstance(error, MemoryError):
        return False
    return not raised_by_signal_handler(error)


def log_hidden_error(run: Run, error: BaseException) -> None:
    """Log an error that a cancel hides, unless cancels look like that."""
    if isinstance(error, (Cancelled, GeneratorExit, SyncAgentError)):
        return
    _log.warning(
        "run %s: cancelled; this error came out of it at the same time",
        run.id,
        exc_info=error,
    )


def call_error_hooks(run: Run, error: BaseException) -> None:
    """Show hooks the error that ends a run; what they raise cannot replace it."""
    for hook in run.setup.hooks.on_error:
        try:
            hook(error)
        except Exception as raised:
            if raised_by_signal_handler(raised):
                raise
            _log.exception("run %s: a hook's on_error() raised", run.id)
