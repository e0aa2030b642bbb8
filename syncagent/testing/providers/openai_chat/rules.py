"""Requests that OpenAI's Chat Completions, and compatible providers, reject."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from ..strict_schemas import schema_complaint

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
_EFFORTS: Final = frozenset({"none", "minimal", "low", "medium", "high", "xhigh"})
_MAX_ID: Final = 40
#: Models that think unless they are told otherwise, and then call no tools.
_TOOLLESS: Final = re.compile(r"gpt-(?:5\.[5-9]|[6-9])")

Rule = Callable[[dict[str, Any]], str | None]


def complaint_of(rules: Iterable[Rule]) -> Callable[..., str | None]:
    """Return a function that complains about what breaks one of *rules*."""

    def complaint(payload: dict[str, Any], path: str = "") -> str | None:
        try:
            return next(filter(None, (rule(payload) for rule in rules)), None)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            return f"Invalid type in the request: {error}"

    return complaint


# -- rules of all ----------------------------------------------------------------------


def check_fields(payload: dict[str, Any]) -> str | None:
    if not isinstance(payload.get("model"), str) or not payload["model"]:
        return "you must provide a model parameter"
    for name, low, high in (("temperature", 0, 2), ("top_p", 0, 1)):
        value = payload.get(name)
        if value is not None and not low <= value <= high:
            return f"{value} is not between {low} and {high} - '{name}'"
    for name in ("max_completion_tokens", "max_tokens"):
        tokens = payload.get(name)
        if tokens is not None and (not isinstance(tokens, int) or tokens < 1):
            return f"Invalid '{name}': {tokens}"
    stop = payload.get("stop")
    if isinstance(stop, list) and not 1 <= len(stop) <= 4:
        return "Invalid 'stop': expected between 1 and 4 sequences"
    if "stream_options" in payload and not payload.get("stream"):
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled"
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
    tools = [tool for tool in tools if tool.get("type", "function") == "function"]
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


def check_other_content(
    payload: dict[str, Any],
    kinds: Collection[str] = ("text", "image_url", "file", "input_audio"),
) -> str | None:
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
            if kind not in kinds:
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


def call_without_thinking(payload: dict[str, Any]) -> int | None:
    """Return the number of the first message with calls, but without thinking."""
    for number, message in enumerate(payload["messages"]):
        if message.get("tool_calls") and not isinstance(
            message.get("reasoning_content"), str
        ):
            return number
    return None


def is_forced(payload: dict[str, Any]) -> bool:
    """Return whether the model must call a tool."""
    return payload.get("tool_choice") not in (None, "auto", "none")


#: The rules of nearly all compatible providers. Each returns what the provider would
#: say, in the order in which it looks.
COMMON: Final[tuple[Rule, ...]] = (
    check_fields,
    check_tools,
    check_messages,
    check_assistant_content,
)


# -- rules of OpenAI -------------------------------------------------------------------


def check_own_fields(payload: dict[str, Any]) -> str | None:
    if payload.get("metadata") is not None and payload.get("store") is not True:
        return "The 'metadata' parameter is only allowed when 'store' is enabled."
    for tool in payload.get("tools", ()):
        if tool.get("type") not in ("function", "custom"):
            return f"Invalid value: {tool.get('type')!r} - 'tools[].type'"
    return None


def check_ids(payload: dict[str, Any]) -> str | None:
    for number, message in enumerate(payload["messages"]):
        for place, call in enumerate(message.get("tool_calls", ())):
            if len(call["id"]) > _MAX_ID:
                return (
                    f"Invalid 'messages[{number}].tool_calls[{place}].id': string too "
                    f"long. Expected a string with maximum length {_MAX_ID}, but got a "
                    f"string with length {len(call['id'])} instead."
                )
    return None


def check_thinking(payload: dict[str, Any]) -> str | None:
    effort, model = payload.get("reasoning_effort"), payload["model"]
    if effort is not None and effort not in _EFFORTS:
        return f"Invalid value: {effort!r} - 'reasoning_effort'"
    is_toolless = _TOOLLESS.match(model) is not None
    if is_toolless and effort == "minimal":
        return (
            "Unsupported value: 'reasoning_effort' does not support 'minimal' with "
            "this model. Supported values are: 'none', 'low', 'medium', 'high', and "
            "'xhigh'."
        )
    if is_toolless and payload.get("tools") and effort != "none":
        return (
            f"Function tools with reasoning_effort are not supported for {model} in "
            "/v1/chat/completions. To use function tools, use /v1/responses or set "
            "reasoning_effort to 'none'."
        )
    for name in ("temperature", "top_p"):
        value = payload.get(name)
        if is_toolless and effort != "none" and value not in (None, 1):
            return (
                f"Unsupported value: '{name}' does not support {value} with this "
                "model. Only the default (1) value is supported."
            )
    return None


RULES: Final[tuple[Rule, ...]] = (
    *COMMON,
    check_other_content,
    check_format,
    check_own_fields,
    check_ids,
    check_thinking,
)

#: Returns the provider's message for status 400, or None if it takes the payload.
complaint = complaint_of(RULES)
