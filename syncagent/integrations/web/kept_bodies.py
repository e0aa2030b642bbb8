"""The JSON bodies of responses about conversations, open questions and answers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ...interrupts import Interrupt
from ...stores import AnswerKind

__all__ = [
    "AuditItem",
    "AuditList",
    "ConversationList",
    "ConversationSummary",
    "ConversationView",
    "DeleteResponse",
    "InboxItem",
    "InboxList",
    "ShownBlock",
    "ShownMessage",
]

# -- conversations -----------------------------------------------------------------


class ShownBlock(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a message, in a form that its owner may see."""

    type: Literal[
        "text", "thinking", "refusal", "tool_call", "tool_result", "image", "file"
    ]
    #: The text, or the result of a tool as text.
    text: str = ""
    #: For calls and results of tools.
    call_id: str = ""
    #: The name of the tool or of the file.
    name: str = ""
    #: The arguments as JSON, as the model wrote them.
    arguments: str = ""
    #: True if the call failed, was denied or was stopped.
    is_error: bool = False


class ShownMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message of a conversation, in a form that its owner may see."""

    role: Literal["user", "assistant", "tool"]
    content: tuple[ShownBlock, ...]
    #: True if the message was cut off.
    is_cut: bool = False


class ConversationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation in a list."""

    id: str
    title: str
    #: Grows with each run and each change; 0 for one that has not begun.
    version: int
    #: Seconds since 1970.
    changed_at: float
    #: The public id of the live run, or an empty string.
    live_run: str
    labels: dict[str, Any]


class ConversationView(ConversationSummary, frozen=True, kw_only=True):
    """A conversation with its messages."""

    #: Those of all runs that have ended.
    messages: tuple[ShownMessage, ...]
    #: The prompt of the live run.
    prompt: str = ""


class ConversationList(msgspec.Struct, frozen=True):
    """Conversations, last changed first."""

    conversations: tuple[ConversationSummary, ...]


class DeleteResponse(msgspec.Struct, frozen=True):
    """The result of a deletion."""

    id: str
    is_deleted: bool


# -- questions ---------------------------------------------------------------------


class InboxItem(msgspec.Struct, frozen=True, kw_only=True):
    """A question that waits for this person."""

    #: The public id of the run; ``POST /runs/<id>/answers`` answers the question.
    run: str
    question: Interrupt
    #: The owner of the run, in the application's own terms.
    owner: str
    #: The person or group that is asked.
    approver: str
    agent: str
    #: The title of the conversation.
    title: str
    #: The conversation, if it is this person's own.
    conversation: str = ""
    #: True if the run is this person's own.
    is_own: bool
    #: Seconds since 1970.
    asked_at: float | None
    expires_at: float | None


class InboxList(msgspec.Struct, frozen=True):
    """Open questions, those that wait longest first."""

    questions: tuple[InboxItem, ...]


class AuditItem(msgspec.Struct, frozen=True, kw_only=True):
    """A question that is closed: who answered what, and when."""

    id: str
    #: The run, by its id in logs.
    run_id: str
    question: Interrupt
    owner: str
    approver: str
    agent: str
    #: ``expired``: no one answered in time; ``withdrawn``: the run was cancelled.
    kind: AnswerKind
    #: The person who answered or cancelled; empty if no one did.
    by: str
    #: The answer, or the reason for a denial.
    text: str = ""
    #: The arguments that replaced those of the model, as JSON.
    arguments_text: str = ""
    #: Seconds since 1970.
    asked_at: float | None
    given_at: float


class AuditList(msgspec.Struct, frozen=True):
    """Closed questions, newest first."""

    entries: tuple[AuditItem, ...]
