"""Requests that OpenAI's Chat Completions reject."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from ..strict_schemas import schema_complaint

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
_PARTS: Final = frozenset({"text", "image_url", "file", "input_audio"})
_EFFORTS: Final = frozenset({"none", "minimal", "low", "medium", "high"})


def complaint(payload: dict[str, Any], path: str = "") -> str | None:
    """Return the provider's message for status 400, or None if it takes *payload*."""
    try:
        return next(filter(None, (rule(payload) for rule in RULES)), None)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return f"Invalid type in the request: {error}"


def check_fields(payload: dict[str, Any]) -> str | None:
    if not isinstance(payload.get("model"), str) or not payload["model"]:
        return "you must provide a model parameter"
    for name, low, high in (("temperature", 0, 2), ("top_p", 0, 1)):
        value = payload.get(name)
        if value is not None and not low <= value <= high:
            return f"{value} is not between {low} and {high} - '{name}'"
    tokens = payload.get("max_completion_tokens")
    if tokens is not None and (not isinstance(tokens, int) or tokens < 1):
        return f"Invalid 'max_completion_tokens': {tokens}"
    stop = payload.get("stop")
    if isinstance(stop, list) and not 1 <= len(stop) <= 4:
        return "Invalid 'stop': expected between 1 and 4 sequences"
    effort = payload.get("reasoning_effort")
    if effort is not None and effort not in _EFFORTS:
        return f"Invalid value: {effort!r} - 'reasoning_effort'"
    if "stream_options" in payload and not payload.get("stream"):
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled"
    if payload.get("metadata") is not None and payload.get("store") is not True:
        return "The 'metadata' parameter is only allowed when 'store' is enabled."
    return None


def check_tools(payload: dict[str, Any]) -> str | None:
    if "tools" not in payload:
        for name in ("tool_choice", "parallel_tool_calls"):
            if name in payload:
                return f"'{name}' is only allowed when 'tools' are specified"
        return None
    tools = payload["tools"]
    if not tools:
        return "[] is too short - 'tools'"
    names = [tool.get("function", {}).get("name", "") for tool in tools]
    for name in names:
        if not _NAME.fullmatch(name):
            return f"Invalid 'tools[].function.name': {name!r}"
    if len(set(names)) < len(names):
        return "Tool names must be unique"
    for tool in tools:
        if tool["function"].get("parameters", {}).get("type") != "object":
            return "Invalid schema for function: type must be 'object'"
    choice = payload.get("tool_choice")
    if isinstance(choice, dict) and choice["function"]["name"] not in names:
        return f"Tool choice {choice['function']['name']!r} not found in 'tools'"
    return None


def check_messages(payload: dict[str, Any]) -> str | None:
    messages = payload.get("messages")
    if not isinstance(messages, list) or not messages:
        return "[] is too short - 'messages'"
    open_calls: list[str] = []
    for message in messages:
        role = message.get("role")
        if role not in _ROLES:
            return f"Invalid value: {role!r} - 'messages[].role'"
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                return (
                    "messages with role 'tool' must be a response to a preceding "
                    "message with 'tool_calls'"
                )
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return (
                "An assistant message with 'tool_calls' must be followed by tool "
                f"messages responding to each 'tool_call_id'; missing: {open_calls}"
            )
        if role == "assistant":
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
            if len(set(open_calls)) < len(open_calls):
                return "Duplicate value for 'tool_call_id'"
    if open_calls:
        return f"tool_call_ids did not have response messages: {open_calls}"
    return None


def check_assistant_content(payload: dict[str, Any]) -> str | None:
    for message in payload["messages"]:
        if message["role"] != "assistant":
            continue
        if "tool_calls" in message and not message["tool_calls"]:
            return "[] is too short - 'messages[].tool_calls'"
        for call in message.get("tool_calls", ()):
            if not _NAME.fullmatch(call["function"]["name"]):
                return f"Invalid 'messages[].tool_calls[].function.name': {call}"
            if not isinstance(call["function"].get("arguments"), str):
                return "Invalid type for 'messages[].tool_calls[].function.arguments'"
        has_content = message.get("tool_calls") or "refusal" in message
        if message.get("content") is None and not has_content:
            return "Invalid value for 'content': expected a string, got null"
    return None


def check_other_content(payload: dict[str, Any]) -> str | None:
    for message in payload["messages"]:
        content, role = message.get("content"), message["role"]
        if role == "assistant":
            continue
        if isinstance(content, str):
            if not content and role != "tool":
                return "empty 'content'"
            continue
        if role == "tool" or not isinstance(content, list) or not content:
            return f"Invalid type for 'messages[].content' of role {role!r}"
        for part in content:
            kind = part.get("type")
            if kind not in _PARTS:
                return f"Invalid value: {kind!r} - 'messages[].content[].type'"
            if kind == "text" and not part["text"]:
                return "empty text part"
            url = part.get("image_url", {}).get("url", "https://")
            if not url.startswith(("https://", "http://", "data:image/")):
                return f"Invalid image_url: {url[:40]!r}"
    return None


def check_format(payload: dict[str, Any]) -> str | None:
    response_format = payload.get("response_format") or {}
    if response_format.get("type") != "json_schema":
        return None
    output = response_format.get("json_schema", {})
    name, schema = output.get("name", ""), output.get("schema")
    if not (_NAME.fullmatch(name) and isinstance(schema, dict)):
        return "Invalid type for 'response_format.json_schema': expected name, schema"
    return schema_complaint(schema) if output.get("strict") else None


#: Each returns what the provider would say, in the order in which it looks.
RULES: Final[tuple[Callable[[dict[str, Any]], str | None], ...]] = (
    check_fields,
    check_tools,
    check_messages,
    check_assistant_content,
    check_other_content,
    check_format,
)
