"""Requests that xAI's Responses API rejects."""

from __future__ import annotations

import re
from typing import Any, Final

from ..openai_responses import rules as openai_responses
from ..openai_responses.rules import (
    check_calls,
    check_input,
    check_messages,
    check_numbers,
    check_results,
    check_tools,
)
from ..openai_responses.speech import SEAL as OPENAI_SEAL

_MAX_TOOLS: Final = 128
#: The efforts of each model, by the beginning of its name; the first that fits counts.
_EFFORTS: Final = {
    r"grok-4\.3": {"none", "low", "medium", "high"},
    r"grok-4\.5": {"low", "medium", "high"},
    r"grok-4\.20-multi": {"low", "medium", "high", "xhigh"},
    r"grok-(?:3-mini)": {"low", "high"},
    r"grok-(?:2|3|4(?!\.)|4\.20|code|build)": set[str](),
    r"grok": {"low", "medium", "high", "xhigh"},
}


def complaint(payload: dict[str, Any], path: str = "") -> str | None:
    """Return the provider's message for status 400, or None if it takes *payload*."""
    try:
        return next(filter(None, (rule(payload) for rule in RULES)), None)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return f"Failed to deserialize the JSON body into the target type: {error}"


def check_fields(payload: dict[str, Any]) -> str | None:
    if not isinstance(payload.get("model"), str) or not payload["model"]:
        return "Failed to deserialize the JSON body: missing field `model`"
    if payload.get("background"):
        return "Argument not supported: background"
    if payload.get("previous_response_id") and payload.get("instructions"):
        return "`instructions` cannot be used with `previous_response_id`"
    return None


def check_effort(payload: dict[str, Any]) -> str | None:
    model, effort = payload["model"], (payload.get("reasoning") or {}).get("effort")
    found = (words for name, words in _EFFORTS.items() if re.match(name, model))
    efforts = next(found, None)
    if effort is None or efforts is None or effort in efforts:
        return None
    if not efforts:
        return f"Model {model} does not support parameter reasoningEffort."
    return f"Invalid reasoning effort: {effort}"


def check_number_of_tools(payload: dict[str, Any]) -> str | None:
    if len(payload.get("tools") or ()) > _MAX_TOOLS:
        return f"A maximum of {_MAX_TOOLS} tools are supported."
    return None


def check_seals(payload: dict[str, Any]) -> str | None:
    for item in openai_responses.items_of(payload):
        sealed = item.get("encrypted_content")
        if sealed and sealed.startswith(OPENAI_SEAL):
            return "Could not decrypt the provided encrypted_content."
    return None


#: Each returns what the provider would say, in the order in which it looks.
RULES: Final = (
    check_fields,
    check_effort,
    check_numbers,
    check_tools,
    check_number_of_tools,
    check_input,
    check_messages,
    check_calls,
    check_seals,
    check_results,
)
