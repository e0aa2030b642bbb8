"""Responses as OpenAI's Responses API writes them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Final

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

_REASONS: Final = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
#: The fields of an item that are empty when it starts.
_EMPTY: Final[dict[str, dict[str, Any]]] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "reasoning": {"summary": []},
}

#: The beginning of encrypted content; other providers with this API have another.
SEAL: Final = "gAAAA"

_Event = tuple[str, dict[str, Any]]


def frames(
    message: AssistantMessage,
    usage: Usage,
    *,
    model: str = "fake",
    piece: int = 5,
    seal: str = SEAL,
) -> Iterator[str]:
    """Yield the server-sent events of a response, complete with their blank lines."""
    whole = body(message, usage, model=model, seal=seal)
    start = {**whole, "status": "in_progress", "output": [], "usage": None}
    start["incomplete_details"] = None
    events: list[_Event] = [
        ("response.created", {"response": start}),
        ("response.in_progress", {"response": start}),
    ]
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index}
        empty = _EMPTY.get(item["type"], {})
        first = {**item, **empty, "status": "in_progress"}
        events.append(("response.output_item.added", {**at, "item": first}))
        events += _item_events(item, {**at, "item_id": item["id"]}, piece)
        events.append(("response.output_item.done", {**at, "item": item}))
    events.append((f"response.{whole['status']}", {"response": whole}))
    for number, (kind, data) in enumerate(events):
        yield _frame(kind, {**data, "sequence_number": number})


def body(
    message: AssistantMessage, usage: Usage, *, model: str = "fake", seal: str = SEAL
) -> dict[str, Any]:
    """Return a response that is not streamed."""
    reason = _REASONS.get(message.stop_reason)
    return {
        "id": "resp_fake",
        "object": "response",
        "created_at": 1760000000,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": model,
        "output": _items(message, seal),
        "parallel_tool_calls": True,
        "store": False,
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {
                "cached_tokens": usage.cached_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            },
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.total_tokens,
        },
    }


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error with that status."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def error_frames(message: str) -> Iterator[str]:
    """Yield an error in the middle of a stream."""
    details = {"code": "server_error", "message": message}
    yield _frame("error", {**details, "param": None, "sequence_number": 2})
    failed = {"id": "resp_fake", "object": "response", "status": "failed"}
    response: dict[str, Any] = {**failed, "error": details, "output": [], "usage": None}
    yield _frame("response.failed", {"response": response, "sequence_number": 3})


def _items(message: AssistantMessage, seal: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    numbers = count()
    last: Text | Refusal | None = None
    for block, after in zip(
        message.content, (*message.content[1:], None), strict=False
    ):
        own = after.data if isinstance(after, ProviderBlock) else {}
        if isinstance(block, Thinking) and own.get("type") == "reasoning":
            continue  # the next block has it as its summary
        if isinstance(block, (Text, Refusal)):
            phase = _phase(block)
            if last is None or _phase(last) != phase:
                item: dict[str, Any] = {"id": f"msg_fake{next(numbers)}"}
                item |= {"type": "message"}
                item |= {"status": "completed", "content": [], "role": "assistant"}
                items.append({**item, "phase": phase} if phase else item)
            items[-1]["content"].append(_part(block))
            last = block
            continue
        other = _item(block, next(numbers), seal)
        if other is not None:
            items.append(other)
            last = None
    return items


def _phase(block: Text | Refusal) -> str:
    return block.signature if isinstance(block, Text) else ""


def _part(block: Text | Refusal) -> dict[str, Any]:
    if isinstance(block, Refusal):
        return {"type": "refusal", "refusal": block.text}
    annotations = [citation.data for citation in block.citations]
    return {"type": "output_text", "annotations": annotations, "text": block.text}


def _item(block: AssistantBlock, number: int, seal: str) -> dict[str, Any] | None:
    if isinstance(block, ToolCall):
        return {
            "id": f"fc_fake{number}",
            "type": "function_call",
            "status": "completed",
            "arguments": block.arguments,
            "call_id": block.call_id,
            "name": block.name,
        }
    if isinstance(block, Thinking):
        summary = [{"type": "summary_text", "text": block.text}]
        return _reasoning(number, summary, seal + (block.signature or "fake"))
    if isinstance(block, RedactedThinking):
        return _reasoning(number, [], seal + block.data)
    if isinstance(block, ProviderBlock):
        return {"id": f"item_fake{number}", **block.data}
    return None


def _reasoning(number: int, summary: list[Any], sealed: str) -> dict[str, Any]:
    item = {"id": f"rs_fake{number}", "type": "reasoning", "summary": summary}
    return {**item, "encrypted_content": sealed}


def _item_events(
    item: dict[str, Any], at: dict[str, Any], piece: int
) -> Iterator[_Event]:
    """Yield the events between the start of an item and its end."""
    if item["type"] == "message":
        for number, part in enumerate(item["content"]):
            yield from _text_events(part, {**at, "content_index": number}, piece)
    elif item["type"] == "reasoning":
        for number, part in enumerate(item.get("summary") or ()):
            place, kind = {**at, "summary_index": number}, "response.reasoning_summary"
            yield f"{kind}_part.added", {**place, "part": {**part, "text": ""}}
            for delta in pieces(part["text"], piece):
                yield f"{kind}_text.delta", {**place, "delta": delta}
            yield f"{kind}_text.done", {**place, "text": part["text"]}
            yield f"{kind}_part.done", {**place, "part": part}
    elif item["type"] == "function_call":
        kind, arguments = "response.function_call_arguments", item["arguments"]
        for delta in pieces(arguments, piece):
            yield f"{kind}.delta", {**at, "delta": delta}
        yield f"{kind}.done", {**at, "arguments": arguments}


def _text_events(
    part: dict[str, Any], at: dict[str, Any], piece: int
) -> Iterator[_Event]:
    field = "refusal" if part["type"] == "refusal" else "text"
    kind = f"response.{part['type']}"
    empty = {**part, field: "", **({"annotations": []} if field == "text" else {})}
    yield "response.content_part.added", {**at, "part": empty}
    for delta in pieces(part[field], piece):
        yield f"{kind}.delta", {**at, "delta": delta}
    for number, annotation in enumerate(part.get("annotations", ())):
        yield (
            f"{kind}.annotation.added",
            {
                **at,
                "annotation_index": number,
                "annotation": annotation,
            },
        )
    yield f"{kind}.done", {**at, field: part[field]}
    yield "response.content_part.done", {**at, "part": part}


def _frame(kind: str, data: dict[str, Any]) -> str:
    return frame({"type": kind, **data}, kind)
