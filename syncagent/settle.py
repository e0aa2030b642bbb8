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
    run.spend_on_answer()
    if policy.partial_text == "rollback":
        run.answer = run.round = None
        run.text = ""
        run.transcript.truncate(run.start)
        return
    if run.round is not None:
        was_waiting = run.round.is_waiting
        finish_round(run)
        if was_waiting:
            run.transcript.append(marked(policy.marker))
    elif run.answer is not None:
        _close_answer(run, policy.marker, policy.notice)


def settle_failed(run: Run, marker: str = _CUT_BY_ERROR) -> None:
    """Leave what an error leaves: all that came, and nothing if nothing did."""
    run.spend_on_answer()
    if run.round is not None:
        finish_round(run)
    elif run.answer is not None and run.answer.partial() is not None:
        _close_answer(run, marker)
    run.answer = None


def _close_answer(run: Run, marker: str, notice: str = "") -> None:
    answer, run.answer = run.answer, None
    assert answer is not None
    partial = answer.partial()
    is_discarded = notice and run.setup.policy.partial_text == "discard"
    if is_discarded:
        run.transcript.append(marked(notice))
    elif partial is None:
        run.transcript.append(marked(marker))
    else:
        run.text = partial.text
        cut = msgspec.structs.replace(
            partial, content=(*partial.content, Text(marker)), is_cut=True
        )
        run.transcript.append(cut)


def marked(marker: str) -> AssistantMessage:
    """Return a message that says no more than that it was cut off."""
    return AssistantMessage((Text(marker),), "other", is_cut=True)
