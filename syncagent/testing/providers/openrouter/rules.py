"""Requests that OpenRouter rejects."""

from __future__ import annotations

import re
from typing import Any, Final

from ..openai_chat.rules import (
    COMMON,
    Rule,
    check_format,
    check_other_content,
    complaint_of,
)

_EFFORTS: Final = (None, "none", "minimal", "low", "medium", "high", "xhigh")
#: Models whose calls are worth nothing without a signature.
_SIGNING: Final = re.compile(r"google/gemini-[3-9]")
_DETAILS: Final = ("reasoning.text", "reasoning.summary", "reasoning.encrypted")


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error with that status."""
    return {"error": {"message": message, "code": status}}


def check_thinking(payload: dict[str, Any]) -> str | None:
    effort = payload.get("reasoning_effort")
    if effort not in _EFFORTS:
        return f"Invalid option: expected one of {_EFFORTS[1:]} - reasoning_effort"
    for message in payload["messages"]:
        for detail in message.get("reasoning_details", ()):
            if detail["type"] not in _DETAILS:
                return f"Invalid reasoning_details: {detail['type']!r}"
    return None


def check_signatures(payload: dict[str, Any]) -> str | None:
    """Refuse calls of Gemini since the last prompt without their details."""
    if not _SIGNING.match(payload["model"]):
        return None
    for message in reversed(payload["messages"]):
        if message["role"] == "user":
            break
        first = next(iter(message.get("tool_calls", ())), {"extra_content": None})
        if not message.get("reasoning_details") and "extra_content" not in first:
            return (
                "Gemini models require OpenRouter reasoning details to be preserved in "
                "each request."
            )
    return None


def check_server_tools(payload: dict[str, Any]) -> str | None:
    for tool in payload.get("tools", ()):
        if not tool.get("type", "").startswith(("function", "openrouter:")):
            return f"Invalid tool type: {tool.get('type')!r}"
    return None


RULES: Final[tuple[Rule, ...]] = (
    *COMMON,
    check_other_content,
    check_format,
    check_thinking,
    check_signatures,
    check_server_tools,
)

complaint = complaint_of(RULES)
