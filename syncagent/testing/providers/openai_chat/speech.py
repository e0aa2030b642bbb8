"""How Chat Completions say an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ....messages import AssistantMessage, Refusal, Text, Thinking, ToolCall
from ....usage import Usage

_STOPS: Final = {
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "refusal": "content_filter",
}


def frames(
    message: AssistantMessage, usage: Usage, *, model: str = "fake", piece: int = 5
) -> Iterator[str]:
    """Yield the server-sent events of an answer, complete with their blank lines."""
    yield _frame(model, {"role": "assistant", "content": ""})
    calls = 0
    for block in message.content:
        if isinstance(block, Text):
            for text in _pieces(block.text, piece):
                yield _frame(model, {"content": text})
        elif isinstance(block, Thinking):
            for text in _pieces(block.text, piece):
                yield _frame(model, {"reasoning_content": text})
        elif isinstance(block, Refusal):
            for text in _pieces(block.text, piece):
                yield _frame(model, {"refusal": text})
        elif isinstance(block, ToolCall):
            yield from _call(model, calls, block, piece)
            calls += 1
    yield _frame(model, {}, finish=_STOPS.get(message.stop_reason, "stop"))
    yield _data({**_head(model), "choices": [], "usage": _usage(usage)})
    yield "data: [DONE]\n\n"


def body(
    message: AssistantMessage, usage: Usage, *, model: str = "fake"
) -> dict[str, Any]:
    """Return an answer as one document."""
    said: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.thinking:
        said["reasoning_content"] = message.thinking
    if message.refusal:
        said["refusal"] = message.refusal
    if message.tool_calls:
        said["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": _function(call)}
            for call in message.tool_calls
        ]
    finish = _STOPS.get(message.stop_reason, "stop")
    choice = {"index": 0, "message": said, "finish_reason": finish}
    head = {**_head(model), "object": "chat.completion"}
    return {**head, "choices": [choice], "usage": _usage(usage)}


def error(status: int, message: str) -> dict[str, Any]:
    """Return what is said with an error of that status."""
    kind = {401: "authentication_error", 429: "rate_limit_exceeded"}.get(
        status, "invalid_request_error" if status < 500 else "server_error"
    )
    return {"error": {"message": message, "type": kind, "code": None}}


def error_frames(message: str) -> Iterator[str]:
    """Yield an error that comes in the middle of a stream."""
    yield _data({"error": {"message": message, "code": 502}})


def _call(model: str, index: int, call: ToolCall, piece: int) -> Iterator[str]:
    function = {"name": call.name, "arguments": ""}
    begun = {
        "index": index,
        "id": call.call_id,
        "type": "function",
        "function": function,
    }
    yield _frame(model, {"tool_calls": [begun]})
    for text in _pieces(call.arguments, piece):
        more = {"index": index, "function": {"arguments": text}}
        yield _frame(model, {"tool_calls": [more]})


def _function(call: ToolCall) -> dict[str, str]:
    return {"name": call.name, "arguments": call.arguments}


def _frame(model: str, delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _data({**_head(model), "choices": [choice], "usage": None})


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


def _data(said: dict[str, Any]) -> str:
    return f"data: {msgspec.json.encode(said).decode()}\n\n"


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[begin : begin + size] for begin in range(0, len(text), size))
