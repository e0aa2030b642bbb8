"""What a model's answer yields as it comes."""

from __future__ import annotations

import msgspec

from .messages import AssistantMessage, ToolCall
from .usage import Usage

__all__ = [
    "Event",
    "MessageFinished",
    "MessageStarted",
    "TextDelta",
    "ThinkingDelta",
    "ToolCallDelta",
    "ToolCallReady",
    "ToolCallStarted",
    "UsageUpdated",
]


class _Event(msgspec.Struct, frozen=True, tag_field="type", gc=False):
    """What all events have in common."""


class MessageStarted(_Event, frozen=True, tag="message_started", gc=False):
    """The model begins to answer."""

    model: str = ""
    #: The provider's own name for the answer.
    message_id: str = ""


class TextDelta(_Event, frozen=True, tag="text_delta", gc=False):
    """More words."""

    text: str


class ThinkingDelta(_Event, frozen=True, tag="thinking_delta", gc=False):
    """More thinking."""

    text: str


class ToolCallStarted(_Event, frozen=True, tag="tool_call_started", gc=False):
    """The model begins to write a tool call."""

    call_id: str
    name: str


class ToolCallDelta(_Event, frozen=True, tag="tool_call_delta", gc=False):
    """More of the arguments."""

    call_id: str
    arguments: str


class ToolCallReady(_Event, frozen=True, tag="tool_call_ready"):
    """A tool call is written; nothing of it will change."""

    call: ToolCall


class UsageUpdated(_Event, frozen=True, tag="usage_updated"):
    """The provider says how many tokens this answer has taken so far."""

    usage: Usage


class MessageFinished(_Event, frozen=True, tag="message_finished"):
    """The answer is complete."""

    message: AssistantMessage
    usage: Usage


Event = (
    MessageStarted
    | TextDelta
    | ThinkingDelta
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallReady
    | UsageUpdated
    | MessageFinished
)
