"""How the Gemini API says an answer."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ....messages import (
    AssistantMessage,
    Image,
    ProviderBlock,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from ....usage import Usage

_STOPS: Final = {
    "max_tokens": "MAX_TOKENS",
    "refusal": "SAFETY",
    "pause": "OTHER",
    "other": "OTHER",
}
_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def frames(
    message: AssistantMessage, usage: Usage, *, model: str = "fake", piece: int = 5
) -> Iterator[str]:
    """Yield the server-sent events of an answer, complete with their blank lines."""
    if _is_blocked(message):
        yield _data(_blocked(message, usage, model))
        return
    begun = {
        "promptTokenCount": usage.input_tokens,
        "totalTokenCount": usage.input_tokens,
    }
    for part in _parts(message, piece):
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0}
        yield _data(_answer([candidate], begun, model))
    # The end comes with an empty text of its own.
    candidate = _last(message, [{"text": ""}])
    yield _data(_answer([candidate], _usage(usage), model))


def body(
    message: AssistantMessage, usage: Usage, *, model: str = "fake"
) -> dict[str, Any]:
    """Return an answer as one document."""
    if _is_blocked(message):
        return _blocked(message, usage, model)
    candidate = _last(message, _parts(message, None))
    return _answer([candidate], _usage(usage), model)


def error(status: int, message: str) -> dict[str, Any]:
    """Return what is said with an error of that status."""
    word = _STATUSES.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    return {"error": {"code": status, "message": message, "status": word}}


def error_frames(message: str) -> Iterator[str]:
    """Yield an error that comes in the middle of a stream."""
    yield _data(error(503, message))


def _is_blocked(message: AssistantMessage) -> bool:
    """Is there nothing but a refusal, so that the prompt itself was blocked?"""
    blocks = message.content
    return bool(blocks) and all(isinstance(block, Refusal) for block in blocks)


def _blocked(message: AssistantMessage, usage: Usage, model: str) -> dict[str, Any]:
    feedback = {
        "blockReason": _finish(message, "SAFETY"),
        "blockReasonMessage": message.refusal,
    }
    asked = msgspec.structs.replace(usage, output_tokens=0, reasoning_tokens=0)
    return {"promptFeedback": feedback, **_tail(_usage(asked), model)}


def _finish(message: AssistantMessage, otherwise: str) -> str:
    # The provider's own words are all written so; others are another provider's.
    raw = message.raw_stop_reason
    return raw if raw.isupper() else otherwise


def _last(message: AssistantMessage, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the candidate of the chunk that ends an answer."""
    said: dict[str, Any] = {
        "content": {"parts": parts, "role": "model"},
        "finishReason": _finish(message, _STOPS.get(message.stop_reason, "STOP")),
        "index": 0,
    }
    if message.refusal:
        said["finishMessage"] = message.refusal
    texts = [block for block in message.content if isinstance(block, Text)]
    if texts and texts[-1].citations:
        said["groundingMetadata"] = {
            "groundingChunks": [
                cited.data or {"web": {"uri": cited.url, "title": cited.title}}
                for cited in texts[-1].citations
            ]
        }
    return said


def _parts(message: AssistantMessage, piece: int | None) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, (Text, Thinking)):
            parts += _words(block, piece)
        elif isinstance(block, ToolCall):
            call = _call(block, is_whole=piece is None)
            parts.append(_signed({"functionCall": call}, block.signature))
        elif isinstance(block, Image):
            data = b64encode(block.data).decode()
            parts.append({"inlineData": {"mimeType": block.media_type, "data": data}})
        elif isinstance(block, ProviderBlock) and block.provider == "gemini":
            if block.data.keys() == {"thoughtSignature"} and parts:
                parts[-1] = {**parts[-1], **block.data}
            else:
                parts.append(block.data)
    return parts


def _words(block: Text | Thinking, piece: int | None) -> Iterator[dict[str, Any]]:
    kind = {"thought": True} if isinstance(block, Thinking) else {}
    # What is signed is a part, so such a part comes as a whole.
    if piece is None or block.signature:
        yield _signed({"text": block.text, **kind}, block.signature)
        return
    for begin in range(0, len(block.text), piece):
        yield {"text": block.text[begin : begin + piece], **kind}


def _signed(part: dict[str, Any], signature: str) -> dict[str, Any]:
    return {**part, "thoughtSignature": signature} if signature else part


def _call(call: ToolCall, *, is_whole: bool) -> dict[str, Any]:
    try:
        args: Any = call.parse()
    except ValueError:  # they are a value here, and never anything else
        args = {}
    else:
        if not is_whole:  # as they are written
            args = msgspec.Raw((call.arguments or "{}").encode())
    said = {"name": call.name, "args": args}
    return {**said, "id": call.call_id} if call.call_id else said


def _answer(
    candidates: list[dict[str, Any]], tokens: dict[str, int], model: str
) -> dict[str, Any]:
    return {"candidates": candidates, **_tail(tokens, model)}


def _tail(tokens: dict[str, int], model: str) -> dict[str, Any]:
    return {
        "usageMetadata": tokens,
        "modelVersion": model,
        "responseId": "fake-response",
    }


def _usage(usage: Usage) -> dict[str, int]:
    said = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "totalTokenCount": usage.total_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
    }
    # As ever in this provider's JSON, what is 0 is left out.
    return {name: count for name, count in said.items() if count}


def _data(said: dict[str, Any]) -> str:
    return f"data: {msgspec.json.encode(said).decode()}\n\n"
