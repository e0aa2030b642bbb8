"""Requests that DeepSeek rejects."""

from __future__ import annotations

from typing import Any, Final

from ..openai_chat.rules import (
    COMMON,
    Rule,
    call_without_thinking,
    check_other_content,
    complaint_of,
    is_forced,
)

_EFFORTS: Final = (None, "minimal", "low", "medium", "high", "xhigh", "max", "ultra")


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error with that status."""
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    parts = {"message": message, "type": kind, "param": None}
    return {"error": {**parts, "code": "invalid_request_error"}}


def check_thinking(payload: dict[str, Any]) -> str | None:
    effort = payload.get("reasoning_effort")
    if effort not in _EFFORTS:
        return f"Invalid reasoning_effort: {effort}"
    if payload.get("thinking", {}).get("type") == "disabled":
        return None
    if call_without_thinking(payload) is not None:
        return (
            "The `reasoning_content` in the thinking mode must be passed back to the "
            "API."
        )
    if is_forced(payload):
        return "Thinking mode does not support this tool_choice"
    return None


def check_format(payload: dict[str, Any]) -> str | None:
    kind = (payload.get("response_format") or {}).get("type", "text")
    is_known = kind in ("text", "json_object")
    return None if is_known else "This response_format type is unavailable now"


RULES: Final[tuple[Rule, ...]] = (
    *COMMON,
    check_other_content,
    check_thinking,
    check_format,
)

complaint = complaint_of(RULES)
