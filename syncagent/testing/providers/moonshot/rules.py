"""Requests that Moonshot rejects."""

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

_EFFORTS: Final = (None, "low", "high", "max")


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error with that status."""
    kind = "invalid_authentication_error" if status == 401 else "invalid_request_error"
    return {"error": {"message": message, "type": kind}}


def check_thinking(payload: dict[str, Any]) -> str | None:
    effort = payload.get("reasoning_effort")
    if effort not in _EFFORTS:
        return f"invalid reasoning_effort: {effort}"
    thinks = not payload["model"].startswith("moonshot")
    if not thinks or payload.get("thinking", {}).get("type") == "disabled":
        return None
    number = call_without_thinking(payload)
    if number is not None:
        return (
            "thinking is enabled but reasoning_content is missing in assistant tool "
            f"call message at index {number}"
        )
    if is_forced(payload):
        choice = payload["tool_choice"]
        word = choice if isinstance(choice, str) else "specified"
        return f"tool_choice '{word}' is incompatible with thinking enabled"
    return None


RULES: Final[tuple[Rule, ...]] = (*COMMON, check_other_content, check_thinking)

complaint = complaint_of(RULES)
