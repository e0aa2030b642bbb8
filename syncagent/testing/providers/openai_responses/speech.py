"""How the Responses API says an answer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
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

_REASONS: Final = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
#: What is not there yet when an item begins.
_EMPTY: Final[dict[str, dict[str, Any]]] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "reasoning": {"summary": []},
}

_Told = tuple[str, dict[str, Any]]


def frames(
    message: AssistantMessage, usage: Usage, *, model: str = "fake", piece: int = 5
) -> Iterator[str]:
    """Yield the server-sent events of an answer, complete with their blank lines."""
    whole = body(message, usage, model=model)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    begun["incomplete_details"] = None
    told: list[_Told] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
    ]
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index}
        empty = _EMPTY.get(item["type"], {})
        first = {**item, **empty, "status": "in_progress"}
        told.append(("response.output_item.added", {**at, "item": first}))
        told += _middle(item, {**at, "item_id": item["id"]}, piece)
        told.append(("response.output_item.done", {**at, "item": item}))
    told.append((f"response.{whole['status']}", {"response": whole}))
    for number, (kind, data) in enumerate(told):
        yield _frame(kind, {**data, "sequence_number": number})


def body(
    message: AssistantMessage, usage: Usage, *, model: str = "fake"
) -> dict[str, Any]:
    """Return an answer as one document."""
    reason = _REASONS.get(message.stop_reason)
    return {
        "id": "resp_fake",
        "object": "response",
        "created_at": 1760000000,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": model,
        "output": _items(message),
        "parallel_tool_calls": True,
        "store": False,
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.total_tokens,
        },
    }


def error(status: int, message: str) -> dict[str, Any]:
    """Return what is said with an error of that status."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def error_frames(message: str) -> Iterator[str]:
    """Yield an error that comes in the middle of a stream."""
    told = {"code": "server_error", "message": message}
    yield _frame("error", {**told, "param": None, "sequence_number": 2})
    failed = {"id": "resp_fake", "object": "response", "status": "failed"}
    response: dict[str, Any] = {**failed, "error": told, "output": [], "usage": None}
    yield _frame("response.failed", {"response": response, "sequence_number": 3})


def _items(message: AssistantMessage) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    numbers = count()
    spoken: Text | Refusal | None = None
    for block, after in zip(
        message.content, (*message.content[1:], None), strict=False
    ):
        if isinstance(block, Thinking) and _is_reasoning(after):
            continue  # it is the summary of what follows
        if isinstance(block, (Text, Refusal)):
            if spoken is None or _phase(spoken) != _phase(block):
                items.append(_message(f"msg_fake{next(numbers)}", _phase(block)))
            items[-1]["content"].append(_part(block))
            spoken = block
            continue
        item = _item(block, next(numbers))
        if item is not None:
            items.append(item)
            spoken = None
    return items


def _is_reasoning(block: AssistantBlock | None) -> bool:
    return isinstance(block, ProviderBlock) and block.data.get("type") == "reasoning"


def _phase(block: Text | Refusal) -> str:
    return block.signature if isinstance(block, Text) else ""


def _message(name: str, phase: str) -> dict[str, Any]:
    item = {"id": name, "type": "message", "status": "completed", "content": []}
    return {**item, "role": "assistant", **({"phase": phase} if phase else {})}


def _part(block: Text | Refusal) -> dict[str, Any]:
    if isinstance(block, Refusal):
        return {"type": "refusal", "refusal": block.text}
    cited = [citation.data for citation in block.citations]
    return {"type": "output_text", "annotations": cited, "text": block.text}


def _item(block: AssistantBlock, number: int) -> dict[str, Any] | None:
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
        return _reasoning(number, summary, block.signature or "fake")
    if isinstance(block, RedactedThinking):
        return _reasoning(number, [], block.data)
    if isinstance(block, ProviderBlock):
        return {"id": f"item_fake{number}", **block.data}
    return None


def _reasoning(number: int, summary: list[Any], sealed: str) -> dict[str, Any]:
    item = {"id": f"rs_fake{number}", "type": "reasoning", "summary": summary}
    return {**item, "encrypted_content": sealed}


def _middle(item: dict[str, Any], at: dict[str, Any], piece: int) -> Iterator[_Told]:
    """Yield what comes between the beginning of an item and its end."""
    if item["type"] == "message":
        for number, part in enumerate(item["content"]):
            yield from _spoken(part, {**at, "content_index": number}, piece)
    elif item["type"] == "reasoning":
        for number, part in enumerate(item.get("summary") or ()):
            yield from _summary(part, {**at, "summary_index": number}, piece)
    elif item["type"] == "function_call":
        kind, arguments = "response.function_call_arguments", item["arguments"]
        for delta in _pieces(arguments, piece):
            yield f"{kind}.delta", {**at, "delta": delta}
        yield f"{kind}.done", {**at, "arguments": arguments}


def _spoken(part: dict[str, Any], at: dict[str, Any], piece: int) -> Iterator[_Told]:
    field = "refusal" if part["type"] == "refusal" else "text"
    kind = f"response.{part['type']}"
    empty = {**part, field: "", **({"annotations": []} if field == "text" else {})}
    yield "response.content_part.added", {**at, "part": empty}
    for delta in _pieces(part[field], piece):
        yield f"{kind}.delta", {**at, "delta": delta}
    for number, cited in enumerate(part.get("annotations", ())):
        told = {**at, "annotation_index": number, "annotation": cited}
        yield f"{kind}.annotation.added", told
    yield f"{kind}.done", {**at, field: part[field]}
    yield "response.content_part.done", {**at, "part": part}


def _summary(part: dict[str, Any], at: dict[str, Any], piece: int) -> Iterator[_Told]:
    kind = "response.reasoning_summary"
    yield f"{kind}_part.added", {**at, "part": {**part, "text": ""}}
    for delta in _pieces(part["text"], piece):
        yield f"{kind}_text.delta", {**at, "delta": delta}
    yield f"{kind}_text.done", {**at, "text": part["text"]}
    yield f"{kind}_part.done", {**at, "part": part}


def _frame(kind: str, data: dict[str, Any]) -> str:
    said = msgspec.json.encode({"type": kind, **data}).decode()
    return f"event: {kind}\ndata: {said}\n\n"


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[begin : begin + size] for begin in range(0, len(text), size))
