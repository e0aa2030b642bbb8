"""Turns of a conversation as Anthropic's Messages API takes them."""

from __future__ import annotations

from typing import Any, Final

from ...exceptions import ConfigurationError
from ...messages import (
    AssistantBlock,
    AssistantMessage,
    File,
    Image,
    ProviderBlock,
    RedactedThinking,
    Refusal,
    ResultBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserBlock,
)
from ...options import Options
from ...transcript.turns import AssistantTurn, Turn, UserTurn
from ..encoding import arguments_of, base64_of, json_bytes, text_of, tool_name_of
from .response import NAME

_THINKING: Final = ("thinking", "redacted_thinking")
_IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_MAX_NAME: Final = 128


def encode_turn(turn: Turn, issuer: str) -> bytes:
    """Return a turn as JSON."""
    if isinstance(turn, UserTurn):
        return json_bytes(_user(turn))
    return json_bytes(_assistant(turn, issuer))


def cache_mark(options: Options) -> dict[str, str]:
    """Return the mark that has the provider cache everything up to it."""
    mark = {"type": "ephemeral"}
    return {**mark, "ttl": "1h"} if options.cache == "1h" else mark


def encode_marked(turn: Turn, mark: dict[str, str]) -> bytes:
    """Return the last turn, marked for the provider's cache."""
    assert isinstance(turn, UserTurn)
    message = _user(turn)
    message["content"][-1]["cache_control"] = mark
    return json_bytes(message)


def encode_results(turn: Turn) -> bytes:
    """Return the last turn if it has tool results, else nothing."""
    assert isinstance(turn, UserTurn)
    return json_bytes(_user(turn)) if turn.results else b""


def begins_with_thinking(turn: AssistantTurn, issuer: str) -> bool:
    """Return whether the turn is sent with thinking as its first block."""
    return _assistant(turn, issuer)["content"][0]["type"] in _THINKING


def _user(turn: UserTurn) -> dict[str, Any]:
    content = [_result(result) for result in turn.results]
    for result in turn.results:
        if result.is_error:  # it takes text only; the user turn shows the rest
            content += [_part(b) for b in result.content if _is_attachment(b)]
    content += [_part(block) for block in turn.content]
    return {"role": "user", "content": content}


def _result(result: ToolResult) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for block in result.content:
        is_attachment = _is_attachment(block)
        if is_attachment and not result.is_error:
            parts.append(_part(block))
            continue
        if isinstance(block, (Image, File)) and not is_attachment:
            text = f"(something of type {block.media_type}, which cannot be shown)"
        else:
            text = text_of(block)
        parts += [{"type": "text", "text": text}] if text.strip() else []
    encoded: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": parts or [{"type": "text", "text": "(no output)"}],
    }
    if result.is_error:
        encoded["is_error"] = True
    return encoded


def _is_attachment(block: object) -> bool:
    """Return whether it is an image or a document of a type that the provider takes."""
    if isinstance(block, Image):
        return block.url != "" or _media_type(block) in _IMAGE_TYPES
    return isinstance(block, File) and (
        block.url != "" or block.media_type == "application/pdf" or _is_plain(block)
    )


def _media_type(block: Image | File) -> str:
    return "image/jpeg" if block.media_type == "image/jpg" else block.media_type


def _is_plain(file: File) -> bool:
    return file.media_type.startswith(("text/", "application/json"))


def _part(block: UserBlock | ResultBlock) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if not isinstance(block, (Image, File)) or not _is_attachment(block):
        kind = getattr(block, "media_type", "json")
        raise ConfigurationError(
            f"{NAME} models take no {kind}; they take JPEG, PNG, GIF and WebP, PDF "
            "and plain text"
        )
    if block.url:
        source = {"type": "url", "url": block.url}
    elif isinstance(block, File) and _is_plain(block):
        text = block.data.decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        data = base64_of(block)
        source = {"type": "base64", "media_type": _media_type(block), "data": data}
    if isinstance(block, Image):
        return {"type": "image", "source": source}
    document: dict[str, Any] = {"type": "document", "source": source}
    return {**document, "title": block.name} if block.name else document


def _assistant(turn: AssistantTurn, issuer: str) -> dict[str, Any]:
    calls = dict(turn.calls)
    content: list[dict[str, Any]] = []
    for message in turn.messages:
        for block in message.content:
            if not isinstance(block, ToolCall):
                part = _own_part(block, message, issuer)
                if part is not None:
                    content.append(part)
                elif isinstance(block, (Text, Refusal)) and block.text.strip():
                    content.append({"type": "text", "text": block.text})
            # Of several calls with the same id, the first is the one with a result.
            elif (call := calls.pop(block.call_id, None)) is not None:
                name, arguments = tool_name_of(call, _MAX_NAME), arguments_of(call)
                tool_use = {"type": "tool_use", "id": call.call_id, "name": name}
                content.append({**tool_use, "input": arguments})
    while content and content[-1]["type"] in _THINKING:
        content.pop()  # the provider wants something after it
    return {
        "role": "assistant",
        "content": content or [{"type": "text", "text": "(nothing)"}],
    }


def _own_part(
    block: AssistantBlock, message: AssistantMessage, issuer: str
) -> dict[str, Any] | None:
    """Return a block that only this provider understands, if it made the block."""
    if isinstance(block, ProviderBlock):
        is_ours = block.provider == issuer
        return block.data if is_ours and not is_partial(block, message) else None
    if message.provider != issuer:
        return None
    if isinstance(block, Thinking) and block.signature:
        thinking = {"type": "thinking", "thinking": block.text}
        return {**thinking, "signature": block.signature}
    if isinstance(block, RedactedThinking) and block.data:
        return {"type": "redacted_thinking", "data": block.data}
    if isinstance(block, Text) and block.citations and block.text.strip():
        citations = [citation.data for citation in block.citations if citation.data]
        return {"type": "text", "text": block.text, "citations": citations}
    return None


def is_partial(block: ProviderBlock, message: AssistantMessage) -> bool:
    """Return whether it was cut off: a summary, or a call whose result is missing."""
    if block.data.get("type") == "compaction":
        return not block.data.get("content")
    if not message.is_cut or "input" not in block.data:
        return False
    others = (b.data for b in message.content if isinstance(b, ProviderBlock))
    return all(other.get("tool_use_id") != block.data.get("id") for other in others)
