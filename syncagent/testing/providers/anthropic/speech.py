"""Responses as Anthropic's Messages API writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ....messages import (
    AssistantBlock,
    AssistantMessage,
    ProviderBlock,
    RedactedThinking,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from ....usage import Usage
from ..sse import frame, pieces

_STOPS: Final = {
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_use",
    "refusal": "refusal",
    "pause": "pause_turn",
}
_ERROR_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def frames(
    message: AssistantMessage, usage: Usage, *, model: str = "fake", piece: int = 5
) -> Iterator[str]:
    """Yield the server-sent events of a response, complete with their blank lines."""
    counts = _usage(usage)
    start = {**_head(model), "usage": {**counts, "output_tokens": 1}}
    yield _frame("message_start", message=start)
    yield _frame("ping")
    blocks = filter(None, map(_block, message.content))
    for index, block in enumerate(blocks):
        deltas = list(_take_deltas(block, piece))
        yield _frame("content_block_start", index=index, content_block=block)
        for kind, name, value in deltas:
            delta = {"type": kind, name: value}
            yield _frame("content_block_delta", index=index, delta=delta)
        yield _frame("content_block_stop", index=index)
    yield _frame("message_delta", delta=_end(message), usage=counts)
    yield _frame("message_stop")


def body(
    message: AssistantMessage, usage: Usage, *, model: str = "fake"
) -> dict[str, Any]:
    """Return a response that is not streamed."""
    return {
        **_head(model),
        "content": list(filter(None, map(_block, message.content))),
        **_end(message),
        "usage": _usage(usage),
    }


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error with that status."""
    kind = _ERROR_TYPES.get(
        status, "invalid_request_error" if status < 500 else "api_error"
    )
    details = {"type": kind, "message": message}
    return {"type": "error", "error": details, "request_id": "req_fake"}


def error_frames(message: str) -> Iterator[str]:
    """Yield an error in the middle of a stream."""
    yield _frame("error", error={"type": "overloaded_error", "message": message})


def _head(model: str) -> dict[str, Any]:
    return {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _end(message: AssistantMessage) -> dict[str, Any]:
    stop = _STOPS.get(message.stop_reason, "end_turn")
    if message.stop_reason in ("other", "pause"):
        stop = message.raw_stop_reason or stop
    elif stop == "end_turn" and message.tool_calls:
        stop = "tool_use"
    end: dict[str, Any] = {"stop_reason": stop}
    end["stop_sequence"] = "stop" if stop == "stop_sequence" else None
    if message.stop_detail:
        details = {"type": "refusal", "category": None}
        end["stop_details"] = {**details, "explanation": message.stop_detail}
    return end


def _usage(usage: Usage) -> dict[str, Any]:
    fresh = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
    return {
        "input_tokens": fresh,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def _block(block: AssistantBlock) -> dict[str, Any] | None:
    """Return a complete block."""
    if isinstance(block, Text):
        text: dict[str, Any] = {"type": "text", "text": block.text}
        if block.citations:
            text["citations"] = [citation.data for citation in block.citations]
        return text
    if isinstance(block, Refusal):
        return {"type": "text", "text": block.text}
    if isinstance(block, Thinking):
        thinking = {"type": "thinking", "thinking": block.text}
        return {**thinking, "signature": block.signature}
    if isinstance(block, RedactedThinking):
        return {"type": "redacted_thinking", "data": block.data}
    if isinstance(block, ToolCall):
        call = {"type": "tool_use", "id": block.call_id, "name": block.name}
        return {**call, "input": _Arguments(block)}
    return dict(block.data) if isinstance(block, ProviderBlock) else None


class _Arguments(dict[str, Any]):
    """The arguments of a call, with the text that the model wrote."""

    def __init__(self, call: ToolCall) -> None:
        self.text = call.arguments
        try:
            super().__init__(call.parse())
        except ValueError:  # only a stream can carry invalid JSON
            super().__init__()


def _take_deltas(block: dict[str, Any], piece: int) -> Iterator[tuple[str, str, Any]]:
    """Remove from a block what is streamed in deltas, and yield those."""
    for citation in block.get("citations", ()):
        yield "citations_delta", "citation", citation
    if "citations" in block:
        block["citations"] = []
    for name in ("text", "thinking"):
        if block["type"] == name:
            for text in pieces(block[name], piece):
                yield f"{name}_delta", name, text
            block[name] = ""
    if block["type"] == "compaction":
        for name in ("content", "encrypted_content"):
            yield "compaction_delta", name, block.get(name)
            block[name] = None
    if block.get("signature"):
        yield "signature_delta", "signature", block["signature"]
        block["signature"] = ""
    if isinstance(block.get("input"), dict):
        value, block["input"] = block["input"], {}
        yield "input_json_delta", "partial_json", ""
        whole = value.text if isinstance(value, _Arguments) else ""
        whole = whole or msgspec.json.encode(value).decode()
        for text in pieces("" if whole == "{}" else whole, piece):
            yield "input_json_delta", "partial_json", text


def _frame(event: str, **fields: Any) -> str:
    return frame({"type": event, **fields}, event)
