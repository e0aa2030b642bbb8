"""Requests that Mistral rejects."""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise
from typing import Any, Final

from ..complaint import Complaint
from ..openai_chat.rules import (
    COMMON,
    Rule,
    check_format,
    check_other_content,
    complaint_of,
)

_FIELDS: Final = frozenset(
    {
        *("model", "messages", "stream", "temperature", "top_p", "max_tokens", "stop"),
        *("random_seed", "metadata", "response_format", "tools", "tool_choice", "n"),
        *("presence_penalty", "frequency_penalty", "prediction", "guardrails"),
        *("parallel_tool_calls", "reasoning_effort", "prompt_mode", "safe_prompt"),
    }
)
_MESSAGE_FIELDS: Final = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "prefix"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
_PARTS: Final = ("text", "image_url", "document_url", "thinking", "input_audio")
_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")
_EFFORTS: Final = (None, "none", "high")
_EXTRA: Final = "Extra inputs are not permitted"
#: The type and the code of an error, by a part of its message.
_KINDS: Final = {
    "role": ("invalid_request_message_order", "3230"),
    "Tool call id": ("invalid_function_call", "3280"),
    "Assistant message": ("invalid_request_assistant_message", "3240"),
}


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error with that status."""
    if message.startswith(_EXTRA):
        place = message.removeprefix(f"{_EXTRA}: ").split(".")
        detail = {"type": "extra_forbidden", "loc": place, "msg": _EXTRA}
        document: dict[str, Any] = {"object": "error", "message": {"detail": [detail]}}
        return {**document, "type": "invalid_request_error", "param": None}
    kinds = (kind for part, kind in _KINDS.items() if part in message)
    kind, code = next(kinds, ("invalid_request_error", None))
    document = {"object": "error", "message": message, "type": kind}
    return {**document, "param": None, "code": code}


def check_extra(payload: dict[str, Any]) -> str | None:
    for name in payload.keys() - _FIELDS:
        return Complaint(f"{_EXTRA}: body.{name}", 422)
    for number, message in enumerate(payload["messages"]):
        role = message["role"]
        for name in message.keys() - _MESSAGE_FIELDS[role]:
            place = f"body.messages.{number}.{role}.{name}"
            return Complaint(f"{_EXTRA}: {place}", 422)
    return None


def check_order(payload: dict[str, Any]) -> str | None:
    messages = payload["messages"]
    roles = [message["role"] for message in messages]
    for role, following in pairwise(roles):
        if role == "tool" and following not in ("tool", "assistant"):
            return f"Unexpected role '{following}' after role 'tool'"
    if roles[-1] not in ("user", "tool") and not messages[-1].get("prefix"):
        return (
            "Expected last role User or Tool (or Assistant with prefix True) for "
            f"serving but got {roles[-1]}"
        )
    return None


def check_calls(payload: dict[str, Any]) -> str | None:
    for message in payload["messages"]:
        for call in message.get("tool_calls", ()):
            if not _ID.fullmatch(call["id"]):
                return (
                    f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a "
                    "length of 9."
                )
        has_content = message.get("content") or message.get("tool_calls")
        if message["role"] == "assistant" and not has_content:
            return (
                "Assistant message must have either content or tool_calls, but not "
                "none."
            )
    return None


def check_effort(payload: dict[str, Any]) -> str | None:
    effort = payload.get("reasoning_effort")
    return f"Invalid reasoning_effort: {effort}" if effort not in _EFFORTS else None


RULES: Final[tuple[Rule, ...]] = (
    check_extra,
    *COMMON,
    partial(check_other_content, kinds=_PARTS),
    check_format,
    check_order,
    check_calls,
    check_effort,
)

complaint = complaint_of(RULES)
