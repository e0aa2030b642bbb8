"""Responses as Google's Gemini API writes them."""

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
from ..sse import frame, pieces

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
    """Yield the server-sent events of a response, complete with their blank lines."""
    if _is_blocked(message):
        yield frame(_blocked(message, usage, model))
        return
    start = {
        "promptTokenCount": usage.input_tokens,
        "totalTokenCount": usage.input_tokens,
    }
    for part in _parts(message, piece):
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0}
        yield frame(_response([candidate], start, model))
    # The last chunk has an empty text.
    candidate = _last(message, [{"text": ""}])
    yield frame(_response([candidate], _usage(usage), model))


def body(
    message: AssistantMessage, usage: Usage, *, model: str = "fake"
) -> dict[str, Any]:
    """Return a response that is not streamed."""
    if _is_blocked(message):
        return _blocked(message, usage, model)
    candidate = _last(message, _parts(message, None))
    return _response([candidate], _usage(usage), model)


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error with that status."""
    word = _STATUSES.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    return {"error": {"code": status, "message": message, "status": word}}


def error_frames(message: str) -> Iterator[str]:
    """Yield an error in the middle of a stream."""
    yield frame(error(503, message))


def _is_blocked(message: AssistantMessage) -> bool:
    """Return whether there is nothing but a refusal: then the prompt was blocked."""
    blocks = message.content
    return bool(blocks) and all(isinstance(block, Refusal) for block in blocks)


def _blocked(message: AssistantMessage, usage: Usage, model: str) -> dict[str, Any]:
    feedback = {
        "blockReason": _finish(message, "SAFETY"),
        "blockReasonMessage": message.refusal,
    }
    prompt_only = msgspec.structs.replace(usage, output_tokens=0, reasoning_tokens=0)
    return {"promptFeedback": feedback, **_tail(_usage(prompt_only), model)}


def _finish(message: AssistantMessage, default: str) -> str:
    # This provider's reasons are upper case; others are another provider's.
    raw = message.raw_stop_reason
    return raw if raw.isupper() else default


def _last(message: AssistantMessage, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the candidate of the last chunk."""
    candidate: dict[str, Any] = {
        "content": {"parts": parts, "role": "model"},
        "finishReason": _finish(message, _STOPS.get(message.stop_reason, "STOP")),
        "index": 0,
    }
    if message.refusal or message.stop_detail:
        candidate["finishMessage"] = message.refusal or message.stop_detail
    texts = [block for block in message.content if isinstance(block, Text)]
    if texts and texts[-1].citations:
        candidate["groundingMetadata"] = {
            "groundingChunks": [
                cited.data or {"web": {"uri": cited.url, "title": cited.title}}
                for cited in texts[-1].citations
            ]
        }
    return candidate


def _parts(message: AssistantMessage, piece: int | None) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, (Text, Thinking)):
            thought = {"thought": True} if isinstance(block, Thinking) else {}
            if piece is None or block.signature:  # a signed part is never divided
                part = {"text": block.text, **thought}
                parts.append(_signed(part, block.signature))
            else:
                texts = pieces(block.text, piece)
                parts += [{"text": text, **thought} for text in texts]
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


def _signed(part: dict[str, Any], signature: str) -> dict[str, Any]:
    return {**part, "thoughtSignature": signature} if signature else part


def _call(call: ToolCall, *, is_whole: bool) -> dict[str, Any]:
    try:
        args: Any = call.parse()
    except ValueError:  # arguments are an object here; invalid text has no place
        args = {}
    else:
        if not is_whole:  # as the model wrote them
            args = msgspec.Raw((call.arguments or "{}").encode())
    function = {"name": call.name, "args": args}
    return {**function, "id": call.call_id} if call.call_id else function


def _response(
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
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "totalTokenCount": usage.total_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
    }
    # This provider leaves out zeros.
    return {name: count for name, count in counts.items() if count}
