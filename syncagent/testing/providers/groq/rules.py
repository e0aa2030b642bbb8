"""Requests that Groq rejects."""

from __future__ import annotations

from typing import Any, Final

from ..openai_chat.rules import COMMON, Rule, check_other_content, complaint_of

_MESSAGE_FIELDS: Final = {
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {
        "role",
        "content",
        "name",
        "tool_calls",
        "function_call",
        "reasoning",
    },
    "tool": {"role", "content", "tool_call_id", "name"},
}
#: The efforts of its models, by the beginnings of their names.
_EFFORTS: Final = {
    "openai/gpt-oss": ("low", "medium", "high"),
    "qwen/qwen3.8": ("none", "low", "medium", "high"),
    "qwen/qwen3": ("none", "default"),
}


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error with that status."""
    document: dict[str, Any] = {"message": message, "type": "invalid_request_error"}
    code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
    return {"error": {**document, "code": code} if code else document}


def check_message_fields(payload: dict[str, Any]) -> str | None:
    for number, message in enumerate(payload["messages"]):
        role = message["role"]
        for name in message.keys() - _MESSAGE_FIELDS[role]:
            return (
                f"'messages.{number}' : for 'role:{role}' the following must be "
                f"satisfied[('messages.{number}' : property '{name}' is unsupported)]"
            )
    return None


def check_effort(payload: dict[str, Any]) -> str | None:
    effort, model = payload.get("reasoning_effort"), payload["model"]
    words = next((w for name, w in _EFFORTS.items() if model.startswith(name)), ())
    if effort is None or effort in words:
        return None
    known = ", ".join(f"`{word}`" for word in words)
    return f"`reasoning_effort` must be one of {known}"


def check_format(payload: dict[str, Any]) -> str | None:
    kind = (payload.get("response_format") or {}).get("type", "text")
    if kind != "text" and payload.get("tools"):
        return "json mode cannot be combined with tool/function calling"
    return None


RULES: Final[tuple[Rule, ...]] = (
    *COMMON,
    check_other_content,
    check_message_fields,
    check_effort,
    check_format,
)

complaint = complaint_of(RULES)
