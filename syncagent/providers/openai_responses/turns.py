"""Turns of a conversation in the dialect of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ...messages import (
    AssistantMessage,
    File,
    Image,
    ProviderBlock,
    Refusal,
    Text,
    ToolCall,
    UserBlock,
)
from ...transcript.turns import Turn, UserTurn
from ..encoding import arguments_of, json_bytes, text_of, tool_name_of, url_of
from ..json_values import as_string
from ..quirks import Quirks
from .items import call_fields, is_whole, waiting_calls

_Data = dict[str, Any]

_MAX_NAME: Final = 64


def encode_turn(
    turn: Turn, issuer: str, quirks: Quirks, *, reasons: bool = True
) -> bytes:
    """Return a turn as JSON, or several values with commas between them.

    :param reasons: False for a model that rejects the reasoning of others.
    """
    items: Iterable[_Data]
    if isinstance(turn, UserTurn):
        items = _user(turn)
    else:
        calls = dict(turn.calls)
        parts = (_items(message, calls, issuer, quirks) for message in turn.messages)
        items = [
            item
            for part in parts
            for item in part
            if reasons or item.get("type") != "reasoning"
        ]
        items = items or [_said({"type": "output_text", "text": "(nothing)"})]
    return b",".join(map(json_bytes, items))


def _user(turn: UserTurn) -> Iterable[_Data]:
    for result in turn.results:
        shown = [_part(b) for b in result.content if isinstance(b, (Image, File))]
        texts = [text_of(b) for b in result.content if not isinstance(b, (Image, File))]
        text = "Error: " * result.is_error + "\n".join(texts)
        output: str | list[_Data] = text or "(no output)"
        if shown:
            output = [_part(Text(text)), *shown] if text.strip() else shown
        item = {"type": "function_call_output", "call_id": result.call_id}
        yield {**item, "output": output}
    if turn.content:
        yield {"role": "user", "content": [_part(block) for block in turn.content]}


def _part(block: UserBlock) -> _Data:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    if isinstance(block, Image):
        return {"type": "input_image", "image_url": url_of(block), "detail": "auto"}
    if block.url:
        return {"type": "input_file", "file_url": block.url}
    return {"type": "input_file", "filename": block.name, "file_data": url_of(block)}


def _items(
    message: AssistantMessage, calls: dict[str, ToolCall], issuer: str, quirks: Quirks
) -> list[_Data]:
    """Return *message* as items, and take those of its calls that it has from *calls*.

    Text and refusals become parts of one message item, as long as nothing is between
    them and they are of the same phase.
    """
    items: list[_Data] = []
    parts: list[_Data] | None = None
    last_phase = ""
    is_ours = message.provider == issuer
    waiting = waiting_calls(message.content) if quirks.has_client_tools else set()
    for block in message.content:
        if isinstance(block, (Text, Refusal)) and block.text.strip():
            is_text = isinstance(block, Text)
            phase = block.signature if is_ours and isinstance(block, Text) else ""
            if parts is None or phase != last_phase:
                items.append(_said(phase=phase))
                parts, last_phase = items[-1]["content"], phase
            kind, field = ("output_text", "text") if is_text else ("refusal",) * 2
            parts.append({"type": kind, field: block.text})
        elif isinstance(block, ToolCall) and block.call_id in calls:
            items.append(_call(calls.pop(block.call_id), is_ours))
            parts = None
        elif isinstance(block, ProviderBlock) and block.provider == issuer:
            if as_string(block.data.get("call_id")) in waiting:
                _drop_reasoning(items)
            elif block.data.get("type") != "reasoning" or is_whole(block.data):
                items.append(block.data)
                parts = None
    _drop_reasoning(items)
    return items


def _said(*parts: _Data, phase: str = "") -> _Data:
    item = {"type": "message", "role": "assistant", "content": [*parts]}
    return {**item, "phase": phase} if phase else item


def _call(call: ToolCall, is_ours: bool) -> _Data:
    name, arguments = tool_name_of(call, _MAX_NAME), arguments_of(call)
    function = {"name": name, "arguments": bytes(arguments).decode()}
    item = {"type": "function_call", "call_id": call.call_id, **function}
    return {**item, **call_fields(call.signature)} if is_ours else item


def _drop_reasoning(items: list[_Data]) -> None:
    """Remove reasoning from the end: the provider rejects it if nothing follows."""
    while items and items[-1].get("type") == "reasoning":
        items.pop()
