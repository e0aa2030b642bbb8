"""Responses as OpenAI's Chat Completions write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ....messages import AssistantMessage, Refusal, Text, Thinking, ToolCall
from ....usage import Usage
from ..sse import frame, pieces

_STOPS: Final = {
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "refusal": "content_filter",
}


def frames(
    message: AssistantMessage, usage: Usage, *, model: str = "fake", piece: int = 5
) -> Iterator[str]:
    """Yield the server-sent events of a response, complete with their blank lines."""
    yield _chunk(model, {"role": "assistant", "content": ""})
    calls = 0
    for block in message.content:
        if isinstance(block, Text):
            for text in pieces(block.text, piece):
                yield _chunk(model, {"content": text})
        elif isinstance(block, Thinking):
            for text in pieces(block.text, piece):
                yield _chunk(model, {"reasoning_content": text})
        elif isinstance(block, Refusal):
            for text in pieces(block.text, piece):
                yield _chunk(model, {"refusal": text})
        elif isinstance(block, ToolCall):
            function = {"name": block.name, "arguments": ""}
            start = {"index": calls, "id": block.call_id, "type": "function"}
            yield _chunk(model, {"tool_calls": [{**start, "function": function}]})
            for text in pieces(block.arguments, piece):
                delta = {"index": calls, "function": {"arguments": text}}
                yield _chunk(model, {"tool_calls": [delta]})
            calls += 1
    yield _chunk(model, {}, finish=_STOPS.get(message.stop_reason, "stop"))
    yield frame({**_head(model), "choices": [], "usage": _usage(usage)})
    yield "data: [DONE]\n\n"


def body(
    message: AssistantMessage, usage: Usage, *, model: str = "fake"
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
            }
            for call in message.tool_calls
        ]
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
