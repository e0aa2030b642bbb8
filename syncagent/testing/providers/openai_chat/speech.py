"""Responses as OpenAI's Chat Completions write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ....messages import (
    AssistantMessage,
    RedactedThinking,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from ....usage import Usage
from ..sse import frame, pieces

_STOPS: Final = {
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "refusal": "content_filter",
}


def frames(
    message: AssistantMessage,
    usage: Usage,
    *,
    model: str = "fake",
    piece: int = 5,
    is_signed: bool = False,
) -> Iterator[str]:
    """Yield the server-sent events of a response, complete with their blank lines.

    :param is_signed: True to send signatures, as gateways to other vendors do.
    """
    yield _chunk(model, {"role": "assistant", "content": ""})
    calls = 0
    for block in message.content:
        if isinstance(block, Text):
            for text in pieces(block.text, piece):
                yield _chunk(model, {"content": text})
        elif isinstance(block, Thinking):
            for text in pieces(block.text, piece):
                yield _chunk(model, {"reasoning_content": text})
            if is_signed and block.signature:
                yield _chunk(model, {"reasoning_details": [_detail(block)]})
        elif isinstance(block, RedactedThinking) and is_signed:
            yield _chunk(model, {"reasoning_details": [_detail(block)]})
        elif isinstance(block, Refusal):
            for text in pieces(block.text, piece):
                yield _chunk(model, {"refusal": text})
        elif isinstance(block, ToolCall):
            function = {"name": block.name, "arguments": ""}
            start = {"index": calls, "id": block.call_id, "type": "function"}
            start |= _signature(block) if is_signed else {}
            yield _chunk(model, {"tool_calls": [{**start, "function": function}]})
            for text in pieces(block.arguments, piece):
                delta = {"index": calls, "function": {"arguments": text}}
                yield _chunk(model, {"tool_calls": [delta]})
            calls += 1
    yield _chunk(model, {}, finish=_STOPS.get(message.stop_reason, "stop"))
    yield frame({**_head(model), "choices": [], "usage": _usage(usage)})
    yield "data: [DONE]\n\n"


def body(
    message: AssistantMessage,
    usage: Usage,
    *,
    model: str = "fake",
    is_signed: bool = False,
) -> dict[str, Any]:
    """Return a response that is not streamed."""
    content: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.thinking:
        content["reasoning_content"] = message.thinking
    if message.refusal:
        content["refusal"] = message.refusal
    if message.tool_calls:
        content["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
                **(_signature(call) if is_signed else {}),
            }
            for call in message.tool_calls
        ]
    details = [
        _detail(block)
        for block in message.content
        if isinstance(block, RedactedThinking)
        or (isinstance(block, Thinking) and block.signature)
    ]
    if is_signed and details:
        content["reasoning_details"] = details
    finish = _STOPS.get(message.stop_reason, "stop")
    choice = {"index": 0, "message": content, "finish_reason": finish}
    head = {**_head(model), "object": "chat.completion"}
    return {**head, "choices": [choice], "usage": _usage(usage)}


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error with that status."""
    kind = {401: "authentication_error", 429: "rate_limit_exceeded"}.get(
        status, "invalid_request_error" if status < 500 else "server_error"
    )
    return {"error": {"message": message, "type": kind, "code": None}}


def error_frames(message: str) -> Iterator[str]:
    """Yield an error in the middle of a stream."""
    yield frame({"error": {"message": message, "code": 502}})


def _detail(block: Thinking | RedactedThinking) -> dict[str, Any]:
    if isinstance(block, RedactedThinking):
        return {"type": "reasoning.encrypted", "data": block.data, "index": 1}
    signature = {"signature": block.signature, "index": 0}
    return {"type": "reasoning.text", "text": block.text, **signature}


def _signature(call: ToolCall) -> dict[str, Any]:
    google = {"thought_signature": call.signature}
    return {"extra_content": {"google": google}} if call.signature else {}


def _chunk(model: str, delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return frame({**_head(model), "choices": [choice], "usage": None})


def _head(model: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion.chunk",
        "created": 1760000000,
        "model": model,
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
