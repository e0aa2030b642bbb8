"""What is said in a conversation, in the words of Anthropic's Messages."""

from __future__ import annotations

from typing import Any, Final

from ..exceptions import ConfigurationError
from ..messages import (
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
from ..transcript import AssistantTurn, Turn, UserTurn
from .blocks import arguments_of, base64_of, encoded, name_of, words_of

#: The dialect's name; signatures of messages with another are of no use to it.
NAME: Final = "anthropic"
#: Asks the provider to keep all up to here in its cache.
MARK: Final = {"type": "ephemeral"}
_THINKING: Final = ("thinking", "redacted_thinking")
_PICTURES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def encode(turn: Turn) -> bytes:
    """Return a turn as JSON."""
    said = _user(turn) if isinstance(turn, UserTurn) else _assistant(turn)
    return encoded(said)


def encode_marked(turn: Turn) -> bytes:
    """Return the last turn, marked for the provider's cache."""
    assert isinstance(turn, UserTurn)
    said = _user(turn)
    said["content"][-1]["cache_control"] = MARK
    return encoded(said)


def encode_results(turn: Turn) -> bytes:
    """Return the results in the last turn, nothing if there are none."""
    return encode(turn) if isinstance(turn, UserTurn) and turn.results else b""


def begins_with_thinking(turn: AssistantTurn) -> bool:
    """Is thinking the first thing in *turn*, as the provider gets it?"""
    return _assistant(turn)["content"][0]["type"] in _THINKING


def _user(turn: UserTurn) -> dict[str, Any]:
    content = [_result(result) for result in turn.results]
    for result in turn.results:
        if result.is_error:  # it is words alone; the user shows the rest
            content += [_part(b) for b in result.content if _is_to_see(b)]
    content += [_part(block) for block in turn.content]
    return {"role": "user", "content": content}


def _result(result: ToolResult) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for block in result.content:
        if _is_to_see(block) and not result.is_error:
            parts.append(_part(block))
        else:
            words = _words(block)
            parts += [{"type": "text", "text": words}] if words.strip() else []
    said: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": parts or [{"type": "text", "text": "(no output)"}],
    }
    if result.is_error:
        said["is_error"] = True
    return said


def _words(block: ResultBlock) -> str:
    if isinstance(block, (Image, File)) and not _is_to_see(block):
        return f"(something of type {block.media_type}, which cannot be shown)"
    return words_of(block)


def _is_to_see(block: object) -> bool:
    """Is it a picture or a document, of a kind that the provider takes?"""
    if isinstance(block, Image):
        return block.url != "" or _media_type(block) in _PICTURES
    return isinstance(block, File) and (
        block.url != "" or block.media_type == "application/pdf" or _is_plain(block)
    )


def _media_type(image: Image) -> str:
    return "image/jpeg" if image.media_type == "image/jpg" else image.media_type


def _is_plain(file: File) -> bool:
    return file.media_type.startswith(("text/", "application/json"))


def _part(block: UserBlock | ResultBlock) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if not isinstance(block, (Image, File)) or not _is_to_see(block):
        kind = getattr(block, "media_type", "json")
        raise ConfigurationError(
            f"{NAME} models take no {kind}; they take JPEG, PNG, GIF and WebP, PDF "
            "and plain text"
        )
    if isinstance(block, Image):
        return {"type": "image", "source": _source(block, _media_type(block))}
    said = {"type": "document", "source": _source(block, block.media_type)}
    return {**said, "title": block.name} if block.name else said


def _source(block: Image | File, media_type: str) -> dict[str, str]:
    if block.url:
        return {"type": "url", "url": block.url}
    if isinstance(block, File) and _is_plain(block):
        text = block.data.decode("utf-8", "replace")
        return {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "base64", "media_type": media_type, "data": base64_of(block)}


def _assistant(turn: AssistantTurn) -> dict[str, Any]:
    calls = dict(turn.calls)
    content: list[dict[str, Any]] = []
    for message in turn.messages:
        for block in message.content:
            if isinstance(block, ToolCall):
                # Of several with the same id, the first is the one that has a result.
                call = calls.pop(block.call_id, None)
                part = _call(call) if call is not None else None
            else:
                part = _own(block, message) or _common(block)
            if part is not None:
                content.append(part)
    while content and content[-1]["type"] in _THINKING:
        content.pop()  # the provider wants something to follow it
    return {
        "role": "assistant",
        "content": content or [{"type": "text", "text": "(nothing)"}],
    }


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": call.call_id,
        "name": name_of(call, 128),
        "input": arguments_of(call),
    }


def _common(block: AssistantBlock) -> dict[str, Any] | None:
    """Return words that may be from anybody, None if there are none."""
    if isinstance(block, (Text, Refusal)) and block.text.strip():
        return {"type": "text", "text": block.text}
    return None


def _own(block: AssistantBlock, message: AssistantMessage) -> dict[str, Any] | None:
    """Return a block that only this provider understands, if it is from there."""
    if isinstance(block, ProviderBlock):
        is_ours = block.provider == NAME
        return block.data if is_ours and not _is_half(block, message) else None
    if message.provider != NAME:
        return None
    if isinstance(block, Thinking) and block.signature:
        said = {"type": "thinking", "thinking": block.text}
        return {**said, "signature": block.signature}
    if isinstance(block, RedactedThinking) and block.data:
        return {"type": "redacted_thinking", "data": block.data}
    if isinstance(block, Text) and block.citations and block.text.strip():
        found = [citation.data for citation in block.citations if citation.data]
        return {"type": "text", "text": block.text, "citations": found}
    return None


def _is_half(block: ProviderBlock, message: AssistantMessage) -> bool:
    """Is it a call of the provider's own whose result was cut off?"""
    if not message.is_cut or "input" not in block.data:
        return False
    others = (b.data for b in message.content if isinstance(b, ProviderBlock))
    return all(other.get("tool_use_id") != block.data.get("id") for other in others)
