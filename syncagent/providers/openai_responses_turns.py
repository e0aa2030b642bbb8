"""What is said in a conversation, in the words of the Responses API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ..messages import (
    AssistantMessage,
    File,
    Image,
    ProviderBlock,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    UserBlock,
)
from ..transcript import AssistantTurn, Turn, UserTurn
from .blocks import arguments_of, encoded, name_of, url_of, words_of

_Data = dict[str, Any]

#: The dialect's name; reasoning of messages with another is of no use to it.
NAME: Final = "openai-responses"


def encode(turn: Turn) -> bytes:
    """Return a turn as JSON: items, with a comma between."""
    said = _user(turn) if isinstance(turn, UserTurn) else _assistant(turn)
    return b",".join(map(encoded, said))


def _user(turn: UserTurn) -> Iterator[_Data]:
    for result in turn.results:
        item = {"type": "function_call_output", "call_id": result.call_id}
        yield {**item, "output": _output(result)}
    if turn.content:
        yield {"role": "user", "content": [_part(block) for block in turn.content]}


def _output(result: ToolResult) -> str | list[_Data]:
    shown = [_part(b) for b in result.content if isinstance(b, (Image, File))]
    told = [words_of(b) for b in result.content if not isinstance(b, (Image, File))]
    words = "Error: " * result.is_error + "\n".join(told)
    if not shown:
        return words or "(no output)"
    return [_part(Text(words)), *shown] if words.strip() else shown


def _part(block: UserBlock) -> _Data:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    if isinstance(block, Image):
        return {"type": "input_image", "image_url": url_of(block), "detail": "auto"}
    if block.url:
        return {"type": "input_file", "file_url": block.url}
    return {"type": "input_file", "filename": block.name, "file_data": url_of(block)}


def _assistant(turn: AssistantTurn) -> list[_Data]:
    calls = dict(turn.calls)
    items = [item for said in turn.messages for item in _items(said, calls)]
    return items or _items(AssistantMessage((Text("(nothing)"),)), calls)


def _items(message: AssistantMessage, calls: dict[str, ToolCall]) -> list[_Data]:
    """Return *message* as items; of its calls those that are left in *calls*."""
    items: list[_Data] = []
    parts: list[_Data] | None = None
    phase = ""
    for block in message.content:
        if isinstance(block, (Text, Refusal)) and block.text.strip():
            is_ours = message.provider == NAME
            now = block.signature if is_ours and isinstance(block, Text) else ""
            if parts is None or now != phase:
                parts, phase = [], now
                items.append({"type": "message", "role": "assistant", "content": parts})
                if phase:
                    items[-1]["phase"] = phase
            is_text = isinstance(block, Text)
            kind, field = ("output_text", "text") if is_text else ("refusal",) * 2
            parts.append({"type": kind, field: block.text})
        elif isinstance(block, ToolCall) and block.call_id in calls:
            items.append(_call(calls.pop(block.call_id)))
            parts = None
        elif isinstance(block, ProviderBlock) and _is_welcome(block):
            items.append(block.data)
            parts = None
    # Reasoning that nothing has come of is rejected.
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _is_welcome(block: ProviderBlock) -> bool:
    # Bare reasoning is but an id, of something that the server has not kept.
    is_whole = bool(block.data.get("encrypted_content") or block.data.get("content"))
    is_usable = is_whole or block.data.get("type") != "reasoning"
    return is_usable and block.provider == NAME


def _call(call: ToolCall) -> _Data:
    return {
        "type": "function_call",
        "call_id": call.call_id,
        "name": name_of(call, 64),
        "arguments": bytes(arguments_of(call)).decode(),
    }
