"""What is left behind when a run ends early: a transcript that can be sent."""

from __future__ import annotations

from typing import Final

import msgspec

from .loop import finish_round
from .messages import AssistantMessage, Text
from .run import Run

__all__ = ["marked", "settle_cancelled", "settle_failed"]

#: Tells the model that a message was cut off, and not by the user.
_CUT_BY_ERROR: Final = "<system>This message was cut off by an error</system>"


def settle_cancelled(run: Run) -> None:
    """Leave what a cancel leaves, by the policy of the agent."""
    policy = run.setup.policy
    run.take_in()
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
    run.take_in()
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
