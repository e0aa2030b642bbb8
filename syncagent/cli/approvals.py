"""The words of an approval, the same in ``syncagent run`` and ``syncagent chat``."""

from __future__ import annotations

from typing import Final, Literal, get_args

from ..interrupts import ApprovalRequest
from .formatting import call_text

__all__ = ["ApprovalChoice", "DENIED", "approval_question", "choices", "parse_choice"]

ApprovalChoice = Literal["yes", "no", "always", "edit"]
#: The reason that the model gets for a call which the user denied.
DENIED: Final = "The user said no."


def approval_question(request: ApprovalRequest) -> str:
    """Return the question, with the complete call and the reason for asking."""
    reason = f" ({request.reason})" if request.reason else ""
    return f"Allow {call_text(request.tool, request.arguments)}?{reason}"


def choices(*names: ApprovalChoice) -> str:
    """Return the prompt for an answer: ``[y]es  [n]o``."""
    return "  ".join(f"[{name[0]}]{name[1:]}" for name in names) + " "


def parse_choice(text: str) -> ApprovalChoice | None:
    """Return the choice that a user typed, in full or as its first letter."""
    word = text.strip().lower()
    names: tuple[ApprovalChoice, ...] = get_args(ApprovalChoice)
    return next((name for name in names if word in (name, name[0])), None)
