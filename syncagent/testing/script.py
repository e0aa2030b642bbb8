"""What a fake model is to say, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..messages import AssistantBlock, AssistantMessage, Text, ToolCall
from ..usage import Usage
from .gate import Gate

__all__ = [
    "Act",
    "Broken",
    "Comment",
    "Delay",
    "Drop",
    "ScriptedResponse",
    "Send",
    "Split",
    "Stall",
    "Status",
    "call",
    "say",
]


class Send(msgspec.Struct, frozen=True):
    """Send the next events of the answer, all that are left if no number is given.

    Of an answer that is no stream as large a part is sent as it would be of a stream;
    if that is not all of it, the connection ends in the middle.
    """

    number: int | None = None


class Split(msgspec.Struct, frozen=True):
    """Send the next event in pieces of so many bytes."""

    size: int = 1


class Comment(msgspec.Struct, frozen=True):
    """Send a comment, as providers do to keep a connection alive."""

    text: str = "keep-alive"
    times: int = 1


class Delay(msgspec.Struct, frozen=True):
    """Wait for so many seconds."""

    seconds: float


class Stall(msgspec.Struct, frozen=True):
    """Say nothing until the client hangs up, or until a gate is opened."""

    gate: Gate | None = None
    #: Not even that there will be an answer? As the first act; without a stream it is
    #: always so.
    before_headers: bool = False


class Drop(msgspec.Struct, frozen=True):
    """End the connection in the middle."""


class Broken(msgspec.Struct, frozen=True):
    """Say in the middle of the stream that something is wrong, as a provider would."""

    message: str = "overloaded"


class Status(msgspec.Struct, frozen=True):
    """Answer with an error of the provider's own form."""

    status: int
    message: str = "a scripted error"
    headers: Mapping[str, str] = {}


Act = Send | Split | Comment | Delay | Stall | Drop | Broken | Status


class ScriptedResponse(msgspec.Struct, frozen=True):
    """One answer, and what is done to it on its way."""

    message: AssistantMessage
    usage: Usage = Usage(10, 5)
    #: In this order; without any, the whole answer is sent.
    acts: tuple[Act, ...] = (Send(),)


def say(
    *content: str | AssistantBlock, acts: Sequence[Act] = (), usage: Usage | None = None
) -> ScriptedResponse:
    """Return an answer with this content; strings are words."""
    blocks = tuple(Text(part) if isinstance(part, str) else part for part in content)
    has_calls = any(isinstance(block, ToolCall) for block in blocks)
    message = AssistantMessage(blocks, "tool_calls" if has_calls else "end_turn")
    return ScriptedResponse(message, usage or Usage(10, 5), tuple(acts) or (Send(),))


def call(
    name: str, arguments: Mapping[str, Any] | str = "{}", call_id: str = ""
) -> ToolCall:
    """Return a tool call, for :func:`say`."""
    text = (
        arguments
        if isinstance(arguments, str)
        else msgspec.json.encode(arguments).decode()
    )
    return ToolCall(call_id or f"call_{name}", name, text)
