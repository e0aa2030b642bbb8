"""Requests that OpenAI's Responses API rejects."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from ..strict_schemas import schema_complaint
from ..xai.speech import SEAL as XAI_SEAL
from . import speech
from .models import check_model

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_IMAGE: Final = re.compile(r"https?://|data:image/(?:png|jpeg|gif|webp);base64,.")
_FIELDS: Final = frozenset(
    {
        *{"model", "input", "instructions", "stream", "store", "include"},
        *{"temperature", "top_p", "tools", "tool_choice", "parallel_tool_calls"},
        *{"max_output_tokens", "max_tool_calls", "reasoning", "text", "metadata"},
        *{"previous_response_id", "conversation", "truncation", "service_tier"},
        *{"background", "user", "prompt", "prompt_cache_key"},
        *{"prompt_cache_options", "prompt_cache_retention", "safety_identifier"},
        *{"stream_options", "context_management", "top_logprobs", "moderation"},
        *{"access_programs", "image"},
    }
)
_USER_PARTS: Final = frozenset({"input_text", "input_image", "input_file"})
_ASSISTANT_PARTS: Final = frozenset({"output_text", "refusal"})
#: The codes of errors, by the beginning of their messages.
_CODES: Final = (
    ("Unknown parameter", "unknown_parameter"),
    ("Unsupported value", "unsupported_value"),
    ("Unsupported parameter", "unsupported_parameter"),
    ("Invalid value", "invalid_value"),
    ("Missing required", "missing_required_parameter"),
    ("The encrypted content", "invalid_encrypted_content"),
)
_QUOTED: Final = re.compile("'(.*?)'")
#: The fields with the text of a part.
_TEXT_FIELDS: Final = {
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
}


def complaint(payload: dict[str, Any], path: str = "") -> str | None:
    """Return the provider's message for status 400, or None if it takes *payload*."""
    try:
        return next(filter(None, (rule(payload) for rule in RULES)), None)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return f"Invalid type in the request: {error}"


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error with that status."""
    body = speech.error(status, message)
    code = next((code for begin, code in _CODES if message.startswith(begin)), None)
    quoted = _QUOTED.search(message) if code == "unknown_parameter" else None
    if code is not None:
        body["error"] |= {"code": code, "param": quoted[1] if quoted else None}
    return body


def check_fields(payload: dict[str, Any]) -> str | None:
    for name in payload:
        if name not in _FIELDS:
            return f"Unknown parameter: '{name}'."
    if not isinstance(payload.get("model"), str) or not payload["model"]:
        return "Missing required parameter: 'model'."
    for name, kind in (("stream", bool), ("store", bool), ("instructions", str)):
        if payload.get(name) is not None and not isinstance(payload[name], kind):
            return f"Invalid type for '{name}': expected a {kind.__name__}."
    metadata = payload.get("metadata") or {}
    if len(metadata) > 16 or not all(isinstance(v, str) for v in metadata.values()):
        return "Invalid 'metadata': expected at most 16 strings."
    return None


def check_numbers(payload: dict[str, Any]) -> str | None:
    for name, high in (("temperature", 2), ("top_p", 1)):
        value = payload.get(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is not None and not (is_number and 0 <= value <= high):
            return f"Invalid '{name}': expected a number between 0 and {high}."
    tokens = payload.get("max_output_tokens")
    if tokens is not None and not (isinstance(tokens, int) and tokens >= 16):
        return "Invalid 'max_output_tokens': expected a value >= 16."
    return None


def check_tools(payload: dict[str, Any]) -> str | None:
    tools = payload.get("tools") or []
    names: list[str] = []
    for tool in tools:
        if tool.get("type") != "function":  # one of the provider's own
            continue
        name = tool.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return f"Invalid 'tools[].name': {name!r}."
        if (tool.get("parameters") or {}).get("type") != "object":
            return f"Invalid schema for function {name!r}: type must be 'object'."
        names.append(name)
    if len(set(names)) < len(names):
        return "Tool names must be unique."
    choice = payload.get("tool_choice", "auto")
    if choice == "required" and not tools:
        return "Tool choice 'required' must be specified with 'tools' parameter."
    if isinstance(choice, dict):
        if choice.get("type") == "function" and choice.get("name") not in names:
            return f"Tool choice {choice.get('name')!r} not found in 'tools' parameter."
    elif choice not in ("auto", "none", "required"):
        return f"Invalid value: {choice!r} - 'tool_choice'."
    return None


def check_input(payload: dict[str, Any]) -> str | None:
    items = payload.get("input")
    if isinstance(items, str) and items:
        return None
    if not isinstance(items, list) or not items:
        return "Missing required parameter: 'input'."
    return None


def check_messages(payload: dict[str, Any]) -> str | None:
    for item in items_of(payload, "message"):
        role, content = item.get("role"), item.get("content")
        if role not in ("user", "assistant", "system", "developer"):
            return f"Invalid value: {role!r} - 'input[].role'."
        if isinstance(content, str) and content:
            continue
        if not isinstance(content, list) or not content:
            return "Invalid 'input[].content': expected a string or parts."
        known = _ASSISTANT_PARTS if role == "assistant" else _USER_PARTS
        problem = _parts(content, known)
        if problem is not None:
            return problem
    return None


def check_calls(payload: dict[str, Any]) -> str | None:
    for item in items_of(payload, "function_call"):
        if not 1 <= len(item.get("call_id") or "") <= 64:
            return "Invalid 'input[].call_id': expected 1 to 64 characters."
        if not _NAME.fullmatch(item.get("name") or ""):
            return f"Invalid 'input[].name': {item.get('name')!r}."
        if not isinstance(item.get("arguments"), str):
            return "Invalid type for 'input[].arguments': expected a string."
    return None


def check_reasoning(payload: dict[str, Any]) -> str | None:
    items = items_of(payload)
    is_stored = payload.get("store") is not False
    for item, after in pairwise([*items, {"role": "user"}]):
        kind, name = item.get("type"), item.get("id")
        sealed = item.get("encrypted_content")
        if sealed and sealed.startswith(XAI_SEAL):
            ends = f"{sealed[:4]}...{sealed[-4:]}"
            return f"The encrypted content {ends} could not be verified."
        is_kept = is_stored or sealed or item.get("content")
        if kind in ("reasoning", "item_reference") and not is_kept:
            return (
                f"Item with id {name!r} not found. Items are not persisted when `store`"
                " is set to false. Try again with `store` set to true, or remove this "
                "item from your input."
            )
        if kind != "reasoning":
            continue
        if not isinstance(item.get("summary"), list):
            return "Missing required parameter: 'input[].summary'."
        is_assistants = after.get("role", "assistant") == "assistant"
        if not is_assistants or after.get("type") == "function_call_output":
            return (
                f"Item {name!r} of type 'reasoning' was provided without its required "
                "following item."
            )
    return None


def items_of(payload: dict[str, Any], kind: str = "") -> list[dict[str, Any]]:
    items = payload["input"] if isinstance(payload["input"], list) else []
    return [i for i in items if not kind or i.get("type", "message") == kind]


def _parts(parts: list[dict[str, Any]], known: frozenset[str]) -> str | None:
    for part in parts:
        kind = part.get("type")
        if kind not in known:
            return f"Invalid value: {kind!r} - 'input[].content[].type'."
        if kind in _TEXT_FIELDS and not part.get(_TEXT_FIELDS[kind]):
            return f"Invalid 'input[].content[].{_TEXT_FIELDS[kind]}': it is empty."
        if kind == "input_image" and not _IMAGE.match(part.get("image_url", "")):
            return "Invalid 'input[].content[].image_url': no supported image."
        if kind == "input_file":
            ways = [n for n in ("file_data", "file_url", "file_id") if part.get(n)]
            if len(ways) != 1:
                return "Invalid 'input[].content[]': expected one source of the file."
            if "file_data" in ways and not part.get("filename"):
                return "Missing required parameter: 'input[].content[].filename'."
    return None


def check_results(payload: dict[str, Any]) -> str | None:
    waiting: list[str] = []
    for item in items_of(payload):
        kind = item.get("type", "message")
        if kind == "function_call":
            if item["call_id"] in waiting:
                return f"Duplicate call_id {item['call_id']!r}."
            waiting.append(item["call_id"])
        elif kind == "function_call_output":
            call_id = item.get("call_id")
            if call_id not in waiting:
                return (
                    "No tool call found for function call output with call_id "
                    f"{call_id}."
                )
            waiting.remove(item["call_id"])
            output = item.get("output")
            if not isinstance(output, (str, list)) or output == []:
                return "Invalid type for 'input[].output'."
            problem = _parts(output, _USER_PARTS) if isinstance(output, list) else None
            if problem is not None:
                return problem
        elif waiting and item.get("role") == "user":
            break
    if waiting:
        return f"No tool output found for function call {waiting[0]}."
    return None


def check_client_tools(payload: dict[str, Any]) -> str | None:
    """Complain about calls of the provider's own tools that a client runs."""
    items = items_of(payload)
    outputs = [i.get("call_id") for i in items if str(i.get("type")).endswith("output")]
    for item in items:
        words = str(item.get("type")).split("_")
        if words[-1] != "call" or words[0] == "function" or not item.get("call_id"):
            continue
        if item["call_id"] not in outputs:
            return f"No tool output found for {' '.join(words)} {item['call_id']}."
    return None


def check_format(payload: dict[str, Any]) -> str | None:
    output = (payload.get("text") or {}).get("format") or {"type": "text"}
    if output.get("type") not in ("text", "json_object", "json_schema"):
        return f"Invalid value: {output.get('type')!r} - 'text.format.type'."
    if output["type"] == "json_schema":
        if not _NAME.fullmatch(output.get("name") or ""):
            return "Invalid 'text.format.name'."
        if not isinstance(output.get("schema"), dict):
            return "Missing required parameter: 'text.format.schema'."
        return schema_complaint(output["schema"]) if output.get("strict") else None
    return None


#: Each returns what the provider would say, in the order in which it looks.
RULES: Final[tuple[Callable[[dict[str, Any]], str | None], ...]] = (
    check_fields,
    check_model,
    check_numbers,
    check_tools,
    check_input,
    check_messages,
    check_calls,
    check_reasoning,
    check_results,
    check_client_tools,
    check_format,
)
