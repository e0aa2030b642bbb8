"""Conversations as Markdown, for notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from .._short import counted, shortened
from ..messages import (
    AssistantMessage,
    Message,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)

__all__ = ["conversation_markdown", "fenced", "safe_markdown"]

#: How many characters of the arguments or the result of a call are shown.
_SHOWN: Final = 2000
#: Code, in which nothing has a meaning: a fence with its lines, or a span.
_CODE: Final = re.compile(
    r"(^ {0,3}(?P<fence>`{3,}|~{3,}).*?(?:^ {0,3}(?P=fence)[`~]*\s*?$|\Z)"
    r"|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))",
    re.DOTALL | re.MULTILINE,
)


def safe_markdown(text: str) -> str:
    """Return Markdown of a model without its HTML and its pictures.

    The address of a picture is fetched when it is shown, and would tell a stranger
    whatever the model was made to put into it.
    """
    parts, end = [], 0
    for match in _CODE.finditer(text):
        parts += [_escaped(text[end : match.start()]), match[0]]
        end = match.end()
    parts.append(_escaped(text[end:]))
    return "".join(parts)


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("![", "!\\[")


def fenced(text: str, language: str = "") -> str:
    """Return *text* as a block of code, whatever is in it."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shortened(text, _SHOWN)}\n{fence}"


def conversation_markdown(messages: Iterable[Message]) -> str:
    """Return a conversation as Markdown: who said what, the calls and their results."""
    return "\n\n".join(part for message in messages for part in _parts(message))


def _parts(message: Message) -> Iterable[str]:
    if isinstance(message, UserMessage):
        yield "**User**"
    elif isinstance(message, AssistantMessage):
        yield "**Assistant**"
    for block in message.content:
        yield _block(block)
    if isinstance(message, AssistantMessage) and message.is_cut:
        yield "*(cut off)*"


def _block(block: Any) -> str:
    if isinstance(block, (Text, Refusal)):
        return safe_markdown(block.text)
    if isinstance(block, ToolCall):
        return f"Call of **{block.name}**\n\n{fenced(block.arguments, 'json')}"
    if isinstance(block, ToolResult):
        word = "Error" if block.is_error else "Result"
        text = "\n".join(
            each.text if isinstance(each, Text) else repr(each)
            for each in block.content
        )
        return f"{word} of **{block.name or block.call_id}**\n\n{fenced(text)}"
    kind, data = type(block).__name__.lower(), getattr(block, "data", "")
    size = f", {counted(len(data), 'byte')}" if isinstance(data, bytes) else ""
    return f"*({kind}{size})*"
