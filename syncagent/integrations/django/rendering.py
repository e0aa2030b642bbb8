"""Messages, questions and values as the admin shows them: plain text, cut where long.

Nothing here is HTML: templates escape it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ...interrupts import ApprovalRequest, AuthRequest, AwaitingInput, Interrupt
from ...messages import (
    File,
    Image,
    Json,
    Message,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

__all__ = ["show_json", "show_messages", "show_question"]

#: Characters of a block, and how many of the last messages, a page shows.
_LONGEST: Final = 20_000
_MOST: Final = 200


def show_json(value: Any) -> str:
    """Return a value as JSON that people can read; the rest as its ``repr()``."""
    plain = msgspec.to_builtins(value, enc_hook=repr)
    return json.dumps(plain, indent=2, ensure_ascii=False)[:_LONGEST]


def show_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the last messages of a conversation, for a template."""
    return [
        {"role": message.__struct_config__.tag, "blocks": list(_show_blocks(message))}
        for message in messages[-_MOST:]
    ]


def _show_blocks(message: Message) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each block."""
    for block in message.content:
        if isinstance(block, (Text, Refusal)):
            yield "", block.text[:_LONGEST]
        elif isinstance(block, Thinking):
            yield "thinking", block.text[:_LONGEST]
        elif isinstance(block, ToolCall):
            yield f"call of {block.name}", block.arguments[:_LONGEST]
        elif isinstance(block, ToolResult):
            kind = "error" if block.is_error else "result"
            texts = [_show_part(part) for part in block.content]
            yield f"{kind} of {block.name}", "\n".join(texts)[:_LONGEST]
        else:
            yield str(block.__struct_config__.tag), ""


def _show_part(part: Text | Json | Image | File) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Json):
        return show_json(part.value)
    return f"({part.__struct_config__.tag}, {part.media_type})"


def show_question(question: Interrupt) -> dict[str, str]:
    """Return the tool of a question, its text and its arguments."""
    shown = {"tool": str(getattr(question, "tool", "")), "text": "", "arguments": ""}
    if isinstance(question, ApprovalRequest):
        shown["text"] = question.reason
        shown["arguments"] = show_json(question.arguments)
    elif isinstance(question, AwaitingInput):
        shown["text"] = question.question
        if question.form is not None:
            shown["arguments"] = show_json(question.form)
    elif isinstance(question, AuthRequest):
        shown["text"] = f"needs credentials of {question.provider}"
    return shown
