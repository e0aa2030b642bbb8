"""What is said in a conversation, in the words of the Gemini API."""

from __future__ import annotations

from typing import Any, Final

from ..messages import (
    AssistantBlock,
    File,
    Image,
    Json,
    ProviderBlock,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from ..transcript import AssistantTurn, Turn, UserTurn
from .blocks import arguments_of, base64_of, encoded, name_of, words_of

#: The dialect's name; signatures of messages with another are of no use to it.
NAME: Final = "gemini"
#: The field with what the provider wants back unchanged.
SIGNATURE: Final = "thoughtSignature"
#: Newer models reject a call without a signature. This is Google's own word for one
#: that no Gemini has made.
_FOREIGN: Final = "skip_thought_signature_validator"
_LONGEST_NAME: Final = 64


def encode(turn: Turn) -> bytes:
    """Return a turn as JSON."""
    if isinstance(turn, UserTurn):
        return encoded({"role": "user", "parts": _user(turn)})
    return encoded({"role": "model", "parts": _model(turn)})


def _user(turn: UserTurn) -> list[dict[str, Any]]:
    results = []
    shown: list[Text | Image | File] = []
    for result in turn.results:
        named = {**_id(result.call_id), "name": name_of(result, _LONGEST_NAME)}
        results.append({"functionResponse": {**named, "response": _response(result)}})
        # Results are values; what is to be seen follows them.
        shown += [b for b in result.content if isinstance(b, (Image, File))]
    return results + [_part(block) for block in (*shown, *turn.content)]


def _id(call_id: str) -> dict[str, str]:
    # Many models give calls no ids; what stands for them is of no use to the provider.
    # Any other id may go there, as long as a call and its result have the same.
    return {} if call_id.startswith("call") else {"id": call_id}


def _response(result: ToolResult) -> dict[str, Any]:
    values = [block.value for block in result.content if isinstance(block, Json)]
    if len(values) == len(result.content) == 1 and not result.is_error:
        return {"result": values[0]}
    text = "\n".join(map(words_of, result.content)) or "(no output)"
    return {"error": text} if result.is_error else {"result": text}


def _part(block: Text | Image | File) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"text": block.text}
    if block.url:
        return {"fileData": {"fileUri": block.url, "mimeType": block.media_type}}
    return {"inlineData": {"mimeType": block.media_type, "data": base64_of(block)}}


def _model(turn: AssistantTurn) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    calls = dict(turn.calls)
    for message in turn.messages:
        is_ours = message.provider == NAME
        foreign = _FOREIGN
        for block in message.content:
            if isinstance(block, ToolCall):
                # Of several with the same id only one has a result.
                call = calls.pop(block.call_id, None)
                if call is not None:
                    parts.append(_call(call, call.signature if is_ours else foreign))
                    foreign = ""  # one for all that are called at once
            elif isinstance(block, ProviderBlock):
                if block.provider == NAME:
                    _add_back(parts, block.data)
            else:
                parts += _said(block, is_ours=is_ours)
    return parts or [{"text": "(nothing)"}]


def _call(call: ToolCall, signature: str) -> dict[str, Any]:
    function = {"name": name_of(call, _LONGEST_NAME), "args": arguments_of(call)}
    part: dict[str, Any] = {"functionCall": {**_id(call.call_id), **function}}
    if signature:
        part[SIGNATURE] = signature
    return part


def _said(block: AssistantBlock, *, is_ours: bool) -> list[dict[str, Any]]:
    if is_ours and isinstance(block, (Text, Thinking)) and block.signature:
        thought = {"thought": True} if isinstance(block, Thinking) else {}
        return [{"text": block.text, **thought, SIGNATURE: block.signature}]
    if isinstance(block, (Text, Refusal)) and block.text.strip():
        return [{"text": block.text}]
    return [_part(block)] if isinstance(block, Image) else []


def _add_back(parts: list[dict[str, Any]], data: dict[str, Any]) -> None:
    if data.keys() != {SIGNATURE}:
        parts.append(data)
    elif parts:  # the note that an image was signed
        parts[-1] = {**parts[-1], **data}
