"""Turns of a conversation as contents of Google's Gemini API."""

from __future__ import annotations

import re
from typing import Any, Final

from ...messages import (
    AssistantBlock,
    File,
    Image,
    Json,
    ProviderBlock,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from ...transcript.turns import AssistantTurn, Turn, UserTurn
from ..encoding import arguments_of, base64_of, json_bytes, text_of, tool_name_of
from .response import SIGNATURE

#: Newer models reject a step whose first call has no signature. Google documents this
#: value for calls of other models.
_FOREIGN_SIGNATURE: Final = "skip_thought_signature_validator"
_MAX_NAME: Final = 64
#: Parts of the provider's own that it takes back, and the field that each needs. It
#: rejects conversations with any other part, even with one that it has sent.
_OWN_PARTS: Final = {
    "inlineData": "data",
    "fileData": "fileUri",
    "executableCode": "code",
    "codeExecutionResult": "outcome",
    "toolCall": "",
    "toolResponse": "",
}
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
#: The types of data that may be in the result of a function.
_RESULT_TYPES: Final = frozenset(
    {"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"}
)


def encode_turn(turn: Turn, issuer: str, *, is_current: bool) -> bytes:
    """Return a turn as JSON, or several values with commas between them.

    :param is_current: True for Gemini 3 and later.
    """
    if isinstance(turn, AssistantTurn):
        parts = _model(turn, issuer, is_current=is_current)
        return json_bytes({"role": "model", "parts": parts})
    # A content with results and anything else is rejected, or answered with nothing.
    contents = filter(None, _user(turn, is_current=is_current))
    return b",".join(json_bytes({"role": "user", "parts": each}) for each in contents)


def _user(
    turn: UserTurn, *, is_current: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the parts with the results of calls, and the others."""
    results: list[dict[str, Any]] = []
    others: list[Text | Image | File] = []
    for result in turn.results:
        values = [block.value for block in result.content if isinstance(block, Json)]
        if len(values) == len(result.content) == 1 and not result.is_error:
            output = values[0]
        else:
            output = "\n".join(map(text_of, result.content)) or "(no output)"
        function: dict[str, Any] = {
            **_id(result.call_id),
            "name": tool_name_of(result, _MAX_NAME),
            "response": {"error" if result.is_error else "result": output},
        }
        inside: list[dict[str, Any]] = []
        for block in result.content:
            if isinstance(block, (Image, File)):
                if is_current and block.data and block.media_type in _RESULT_TYPES:
                    inside.append(_part(block))
                else:
                    others.append(block)
        if inside:
            function["parts"] = inside
        results.append({"functionResponse": function})
    return results, [_part(block) for block in (*others, *turn.content)]


def _id(call_id: str) -> dict[str, str]:
    # Many models give calls no ids, and those that we make up mean nothing to Google.
    # Google takes any other id that a call and its result share.
    return {} if call_id.startswith("call") else {"id": call_id}


def _part(block: Text | Image | File) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"text": block.text}
    if block.url:
        return {"fileData": {"fileUri": block.url, "mimeType": block.media_type}}
    return {"inlineData": {"mimeType": block.media_type, "data": base64_of(block)}}


def _model(
    turn: AssistantTurn, issuer: str, *, is_current: bool
) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    calls = dict(turn.calls)
    # Of parallel calls, only the first has a signature.
    spare_signature = _FOREIGN_SIGNATURE if is_current else ""
    for message in turn.messages:
        is_ours = message.provider == issuer
        for block in message.content:
            if isinstance(block, ToolCall):
                # Of several calls with the same id only one has a result.
                call = calls.pop(block.call_id, None)
                if call is not None:
                    parts.append(_call(call, spare_signature, is_ours=is_ours))
                    spare_signature = ""
            elif not isinstance(block, ProviderBlock):
                parts += _text(block, is_ours=is_ours)
            elif block.provider == issuer:
                if block.data.keys() != {SIGNATURE}:
                    parts += _own_part(block.data)
                elif parts and _is_base64(block.data[SIGNATURE]):
                    parts[-1] = {**parts[-1], **block.data}  # of the image before it
    return parts or [{"text": "(nothing)"}]


def _call(call: ToolCall, spare_signature: str, *, is_ours: bool) -> dict[str, Any]:
    """Return the part of a call.

    :param spare_signature: the signature of a call that has none of its own.
    """
    name, arguments = tool_name_of(call, _MAX_NAME), arguments_of(call)
    is_signed = is_ours and _is_base64(call.signature)
    signature = call.signature if is_signed else spare_signature
    function = {**_id(call.call_id), "name": name, "args": arguments}
    part: dict[str, Any] = {"functionCall": function}
    return {**part, SIGNATURE: signature} if signature else part


def _own_part(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a part of the provider's own, in a list that is empty if it is invalid."""
    fields = [field for field in data if field in _OWN_PARTS]
    value = data[fields[0]] if len(fields) == 1 else None
    if not isinstance(value, dict):
        return []
    needed = _OWN_PARTS[fields[0]]
    if needed and not (isinstance(value.get(needed), str) and value[needed]):
        return []
    if fields[0] == "inlineData" and not _is_base64(value["data"]):
        return []
    part: dict[str, Any] = {fields[0]: value}
    if data.get("thought") is True:
        part["thought"] = True
    if _is_base64(data.get(SIGNATURE)):
        part[SIGNATURE] = data[SIGNATURE]
    return [part]


def _is_base64(value: object) -> bool:
    if not isinstance(value, str) or not _BASE64.fullmatch(value):
        return False
    return bool(value) and len(value.rstrip("=")) % 4 != 1


def _text(block: AssistantBlock, *, is_ours: bool) -> list[dict[str, Any]]:
    if isinstance(block, (Text, Thinking)) and is_ours and _is_base64(block.signature):
        thought = {"thought": True} if isinstance(block, Thinking) else {}
        return [{"text": block.text, **thought, SIGNATURE: block.signature}]
    if isinstance(block, (Text, Refusal)) and block.text.strip():
        return [{"text": block.text}]
    return [_part(block)] if isinstance(block, Image) else []
