"""Scripts for fake models: responses, and how they are delivered."""

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
    """Send the next events of the response, or all the rest without a number.

    Of a response that is not streamed, the same share of the body is sent; if that is
    not all of it, the connection ends in the middle.
    """

    number: int | None = None


class Split(msgspec.Struct, frozen=True):
    """Send the next event in pieces of *size* bytes."""

    size: int = 1


class Comment(msgspec.Struct, frozen=True):
    """Send a comment, as providers do to keep a connection alive."""

    text: str = "keep-alive"
    times: int = 1


class Delay(msgspec.Struct, frozen=True):
    """Wait for some seconds."""

    seconds: float


class Stall(msgspec.Struct, frozen=True):
    """Send nothing until the client hangs up, or until a gate is opened."""

    gate: Gate | None = None
    #: True to hold back the headers, too; for the first act only. A response that is
    #: not streamed always holds them back.
    before_headers: bool = False


class Drop(msgspec.Struct, frozen=True):
    """End the connection in the middle."""


class Broken(msgspec.Struct, frozen=True):
    """Send an error in the middle of the stream, as a provider would."""

    message: str = "overloaded"


class Status(msgspec.Struct, frozen=True):
    """Respond with an error in the provider's own form."""

    status: int
    message: str = "a scripted error"
    headers: Mapping[str, str] = {}


Act = Send | Split | Comment | Delay | Stall | Drop | Broken | Status


class ScriptedResponse(msgspec.Struct, frozen=True):
    """One response, and the way it is delivered."""

    message: AssistantMessage
    usage: Usage = Usage(10, 5)
    #: Steps of the delivery, in order.
    acts: tuple[Act, ...] = (Send(),)


def say(
    *content: str | AssistantBlock, acts: Sequence[Act] = (), usage: Usage | None = None
) -> ScriptedResponse:
    """Return a response with this content; a string is a block of text."""
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
