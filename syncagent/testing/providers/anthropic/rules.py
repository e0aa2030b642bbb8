"""Requests that Anthropic's Messages API rejects."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any, Final

from ..strict_schemas import objects, subschemas
from .generations import (
    check_effort,
    check_forced_tools,
    check_prefill,
    check_sampling,
    check_thinking_type,
)

_FIELDS: Final = frozenset(
    {
        *{"model", "messages", "max_tokens", "system", "stream", "metadata"},
        *{"temperature", "top_p", "top_k", "stop_sequences", "thinking"},
        *{"tools", "tool_choice", "output_format", "output_config", "cache_control"},
        *{"container", "context_management", "mcp_servers", "service_tier"},
        *{"anthropic_version", "anthropic_beta", "compaction", "diagnostics"},
        *{"fallbacks", "inference_geo", "speed", "user_profile_id"},
    }
)
#: The name of the model in the address, where it is not in the body.
_MODEL_IN_PATH: Final = re.compile(r"/models/([^/:]+):")
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
#: Blocks of other providers. Unknown ones may be new, and come back as they came.
_FOREIGN_BLOCKS: Final = frozenset(
    {
        *{"input_text", "output_text", "input_image", "input_file", "image_url"},
        *{"message", "reasoning", "refusal", "function_call", "function_call_output"},
        *{"web_search_call", "file_search_call", "code_interpreter_call"},
    }
)
_SERVER_TOOL: Final = re.compile(r"[a-z0-9_]+_20\d{6}")
#: Blocks by role. All others are the provider's own, and come back from the assistant.
_USER_BLOCKS: Final = frozenset(
    {"text", "image", "document", "tool_result", "search_result"}
)
_RESULT_BLOCKS: Final = frozenset({"text", "image", "document", "search_result"})
_FORMAT_TYPES: Final = frozenset({"json_schema"})
_MAX_UNIONS: Final = 16
#: Keywords of JSON schemas that the provider does not enforce.
_UNENFORCED: Final = frozenset(
    {
        *{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
        *{"minLength", "maxLength", "maxItems", "uniqueItems", "prefixItems", "oneOf"},
    }
)


def complaint(payload: dict[str, Any], path: str = "") -> str | None:
    """Return the provider's message for status 400, or None if it takes *payload*.

    :param path: has the name of the model if the body has a version in its place.
    """
    if "anthropic_version" in payload:
        if "model" in payload:
            return "model: Extra inputs are not permitted"
        found = _MODEL_IN_PATH.search(path)
        payload = {**payload, "model": found[1] if found else "claude"}
    try:
        return next((each for rule in RULES for each in rule(payload)), None)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return f"Input has a wrong form: {error}"


# -- options ---------------------------------------------------------------------------


def check_fields(payload: dict[str, Any]) -> Iterator[str]:
    for name, kind in (("model", str), ("max_tokens", int), ("messages", list)):
        if name not in payload:
            yield f"{name}: Field required"
        if not isinstance(payload[name], kind) or isinstance(payload[name], bool):
            yield f"{name}: Input should be a valid {kind.__name__}"
    if not payload["model"]:
        yield "model: String should have at least 1 character"
    if payload["max_tokens"] < 1:
        yield "max_tokens: Input should be greater than or equal to 1"
    for name in sorted(payload.keys() - _FIELDS):
        yield f"{name}: Extra inputs are not permitted"
    for name in ("temperature", "top_p"):
        value = payload.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            yield f"{name}: Input should be a valid number"
        if not 0 <= value <= 1:
            yield f"{name}: range: 0..1"
    if "temperature" in payload and "top_p" in payload:
        yield "`temperature` and `top_p` cannot both be specified for this model."
    if not isinstance(payload.get("stream", False), bool):
        yield "stream: Input should be a valid boolean"
    for number, stop in enumerate(payload.get("stop_sequences", ())):
        if not isinstance(stop, str) or not stop.strip():
            yield f"stop_sequences.{number}: each must contain non-whitespace"
    for name, value in payload.get("metadata", {}).items():
        if name != "user_id":
            yield f"metadata.{name}: Extra inputs are not permitted"
        if not isinstance(value, str) or len(value) > 256:
            yield "metadata.user_id: Input should be a string of at most 256 characters"


def check_thinking(payload: dict[str, Any]) -> Iterator[str]:
    thinking = payload.get("thinking", {"type": "disabled"})
    kind = thinking.get("type")
    if kind not in ("enabled", "disabled", "adaptive", "between_tools"):
        yield f"thinking: Input tag {kind!r} does not match any of the expected tags"
    if kind in ("disabled", "between_tools"):
        return
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int):
            yield "thinking.enabled.budget_tokens: Field required"
        if budget < 1024:
            yield (
                "thinking.enabled.budget_tokens: Input should be greater than or equal "
                "to 1024"
            )
        if budget >= payload["max_tokens"]:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`"
    if payload.get("temperature", 1) != 1:
        yield "`temperature` may only be set to 1 when thinking is enabled"
    if payload.get("top_p", 1) < 0.95:
        yield (
            "`top_p` must be greater than or equal to 0.95 or unset when thinking is "
            "enabled"
        )
    is_forced = payload.get("tool_choice", {}).get("type") in ("any", "tool")
    if kind == "enabled" and is_forced:
        yield "Thinking may not be enabled when tool_choice forces tool use."


def check_tools(payload: dict[str, Any]) -> Iterator[str]:
    tools = payload.get("tools", [])
    names: set[str] = set()
    for number, tool in enumerate(tools):
        where = f"tools.{number}"
        kind = tool.get("type", "custom")
        if kind != "custom":
            yield from _server_tool(tool, kind)
        name = tool.get("name")
        if kind.endswith("_toolset") or "_toolset_" in kind:
            continue
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"{where}.custom.name: String should match pattern '{_NAME.pattern}'"
        if name in names:
            yield "tools: Tool names must be unique."
        names.add(name)
        if kind != "custom":
            continue
        schema = tool.get("input_schema")
        if not isinstance(schema, dict):
            yield f"{where}.custom.input_schema: Field required"
        if schema.get("type") != "object":
            yield f"{where}.custom.input_schema.type: Input should be 'object'"
    choice = payload.get("tool_choice")
    if choice is None:
        return
    if not tools:
        yield "tool_choice may only be specified while providing tools"
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind not in ("auto", "any", "none", "tool"):
        yield f"tool_choice: Input tag {kind!r} does not match any of the expected tags"
    if kind == "tool" and choice.get("name") not in names:
        yield f"Tool '{choice.get('name')}' not found in provided tools"
    if kind == "none" and "disable_parallel_tool_use" in choice:
        yield (
            "tool_choice.none.disable_parallel_tool_use: Extra inputs are not permitted"
        )


def _server_tool(tool: dict[str, Any], kind: str) -> Iterator[str]:
    if not _SERVER_TOOL.fullmatch(kind) and kind != "mcp_toolset":
        yield f"tools: Input tag '{kind}' does not match any of the expected tags"
    if kind.startswith("web_") and "input_schema" in tool:
        yield f"tools.{kind}.input_schema: Extra inputs are not permitted"
    if tool.get("allowed_domains") and tool.get("blocked_domains"):
        yield "Only one of `allowed_domains` and `blocked_domains` may be specified."


def check_format(payload: dict[str, Any]) -> Iterator[str]:
    # The field had the first name in the beta, and has had the second since.
    for where, output in (
        ("output_format", payload.get("output_format")),
        ("output_config.format", payload.get("output_config", {}).get("format")),
    ):
        if output is None:
            continue
        if output.get("type") not in _FORMAT_TYPES:
            yield f"{where}.type: Input should be 'json_schema'"
        if not isinstance(output.get("schema"), dict):
            yield f"{where}.schema: Field required"
        each = list(subschemas(output["schema"]))
        unions = sum("anyOf" in e or isinstance(e.get("type"), list) for e in each)
        if unions > _MAX_UNIONS:
            yield f"{where}.schema: too many union types (limit: {_MAX_UNIONS})"
        for schema in each:
            if "$ref" in schema:
                yield f"{where}.schema: Circular reference detected"
            for name in sorted(schema.keys() & _UNENFORCED):
                yield (
                    f"{where}.schema: For '{schema.get('type')}' type, property "
                    f"'{name}' is not supported"
                )
        for name, schema in objects(f"{where}.schema", output["schema"]):
            if schema.get("additionalProperties") is not False:
                yield (
                    f"{name}: For 'object' type, 'additionalProperties' must be "
                    "explicitly set to false"
                )


def check_system(payload: dict[str, Any]) -> Iterator[str]:
    system = payload.get("system", "")
    if isinstance(system, str):
        return
    if not isinstance(system, list):
        yield "system: Input should be a valid list"
    for number, block in enumerate(system):
        if block.get("type") != "text":
            yield f"system.{number}.type: Input should be 'text'"
        yield from _text(block, "system")


# -- messages --------------------------------------------------------------------------


def check_messages(payload: dict[str, Any]) -> Iterator[str]:
    messages = payload["messages"]
    if not messages:
        yield "messages: at least one message is required"
    before = None
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant"):
            yield f"messages: Unexpected role {role!r}"
        if before is None and role != "user":
            yield 'messages: first message must use the "user" role'
        if role == before:
            yield (
                'messages: roles must alternate between "user" and "assistant", but '
                f'found multiple "{role}" roles in a row'
            )
        before = role
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list):
            yield f"{where}.content: Input should be a valid list"
        if not content:
            yield f"{where}: all messages must have non-empty content"
        for place, block in enumerate(content):
            yield from _block(block, role, f"{where}.content.{place}")
        if content[-1].get("type") in _THINKING:
            yield f"{where}: The final block in an assistant message cannot be thinking"


def _block(block: Any, role: str, where: str) -> Iterator[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        yield f"{where}.type: Field required"
    if kind in _FOREIGN_BLOCKS:
        yield (
            f"{where}: Input tag '{kind}' found using 'type' does not match any of the "
            "expected tags"
        )
    is_users = kind in _USER_BLOCKS - {"text"}
    if (role == "user" and kind not in _USER_BLOCKS) or (
        role == "assistant" and is_users
    ):
        yield f"{where}: `{kind}` blocks are not allowed in `{role}` messages"
    if kind in _THINKING and "cache_control" in block:
        yield f"{where}.cache_control: Extra inputs are not permitted"
    if kind in _BLOCK_RULES:
        yield from _BLOCK_RULES[kind](block, f"{where}.{kind}")
    elif kind == "text":
        yield from _text(block, "messages")
    elif kind == "thinking":
        for name in ("thinking", "signature"):
            if not isinstance(block.get(name), str):
                yield f"{where}.thinking.{name}: Field required"
        if not block["signature"]:
            yield f"{where}: Invalid `signature` in `thinking` block"
    elif kind == "compaction" and block.get("content") == "":
        yield f"{where}.compaction.content: String should have at least 1 character"
    elif kind == "redacted_thinking" and not block.get("data"):
        yield f"{where}: Invalid `data` in `redacted_thinking` block"


def _text(block: dict[str, Any], where: str) -> Iterator[str]:
    text = block.get("text")
    if not isinstance(text, str):
        yield f"{where}: text: Field required"
    elif not text:
        yield f"{where}: text content blocks must be non-empty"
    elif not text.strip():
        yield f"{where}: text content blocks must contain non-whitespace text"


def check_attachment(block: dict[str, Any], where: str) -> Iterator[str]:
    where = f"{where}.source"
    source, is_image = block.get("source"), block["type"] == "image"
    kind = source.get("type") if isinstance(source, dict) else None
    if not isinstance(source, dict):
        yield f"{where}: Field required"
    elif kind == "url":
        if not str(source.get("url", "")).startswith(("https://", "http://")):
            yield f"{where}.url.url: Only HTTPS URLs are supported."
    elif kind == "base64":
        allowed = _IMAGE_TYPES if is_image else {"application/pdf"}
        if source.get("media_type") not in allowed:
            yield f"{where}.base64.media_type: Input should be one of {sorted(allowed)}"
        try:
            is_empty = not b64decode(source.get("data", ""), validate=True)
        except (ValueError, TypeError):
            is_empty = True
        if is_empty:
            yield f"{where}.base64.data: invalid base64 data"
    elif kind == "text" and not is_image:
        if source.get("media_type") != "text/plain" or not source.get("data"):
            yield f"{where}.text.media_type: Input should be 'text/plain'"
    elif kind not in ("file", "content") or (is_image and kind == "content"):
        yield f"{where}: Input tag {kind!r} does not match any of the expected tags"


def check_tool_use(block: dict[str, Any], where: str) -> Iterator[str]:
    if not _CALL_ID.fullmatch(str(block.get("id", ""))):
        yield f"{where}.id: String should match pattern '{_CALL_ID.pattern}'"
    if not _NAME.fullmatch(str(block.get("name", ""))):
        yield f"{where}.name: String should match pattern '{_NAME.pattern}'"
    if not isinstance(block.get("input"), dict):
        yield f"{where}.input: Input should be a valid dictionary"


def check_tool_result(block: dict[str, Any], where: str) -> Iterator[str]:
    if not _CALL_ID.fullmatch(str(block.get("tool_use_id", ""))):
        yield f"{where}.tool_use_id: String should match pattern '{_CALL_ID.pattern}'"
    content = block.get("content", [])
    parts = [] if isinstance(content, str) else content
    if not isinstance(parts, list):
        yield f"{where}.content: Input should be a valid list"
    for number, part in enumerate(parts):
        kind = part.get("type")
        if kind not in _RESULT_BLOCKS:
            yield f"{where}.content.{number}: Input tag {kind!r} does not match"
        if block.get("is_error") and kind != "text":
            yield f"{where}: all content must be type `text` if `is_error` is true"
        yield from _block(part, "user", f"{where}.content.{number}")
    if block.get("is_error") and not content:
        yield f"{where}: content cannot be empty if `is_error` is true"


_BLOCK_RULES: Final[dict[str, Callable[[dict[str, Any], str], Iterator[str]]]] = {
    "image": check_attachment,
    "document": check_attachment,
    "tool_use": check_tool_use,
    "tool_result": check_tool_result,
}


def check_pairs(payload: dict[str, Any]) -> Iterator[str]:
    """Every call has one result, at the beginning of the next message."""
    messages = payload["messages"]
    seen: set[str] = set()
    calls: list[str] = []
    for number, message in enumerate(messages):
        blocks = message["content"] if isinstance(message["content"], list) else []
        end = next(
            (n for n, b in enumerate(blocks) if b["type"] != "tool_result"), len(blocks)
        )
        first_results = [b["tool_use_id"] for b in blocks[:end]]
        other_results = [
            b["tool_use_id"] for b in blocks[end:] if b["type"] == "tool_result"
        ]
        for call_id in (*first_results, *other_results):
            if call_id not in calls:
                yield (
                    f"messages.{number}: unexpected `tool_use_id` found in "
                    f"`tool_result` blocks: {call_id}"
                )
            if [*first_results, *other_results].count(call_id) > 1:
                yield (
                    f"messages.{number}: each tool_use must have a single result. "
                    f"Found multiple `tool_result` blocks with id: {call_id}"
                )
        yield from _missing(number - 1, [c for c in calls if c not in first_results])
        calls = [b["id"] for b in blocks if b["type"] == "tool_use"]
        for call_id in calls:
            if call_id in seen:
                yield f"messages.{number}: `tool_use` ids must be unique"
            seen.add(call_id)
    yield from _missing(len(messages) - 1, calls)


def check_last_turn(payload: dict[str, Any]) -> Iterator[str]:
    """A turn whose calls have just got their results begins with thinking.

    A turn is all of the assistant's messages between two messages of the user: tool
    results do not end it, and a message after them needs no thinking of its own.
    """
    if payload.get("thinking", {}).get("type") != "enabled":
        return
    messages = payload["messages"]
    begin = len(messages)
    while begin > 1 and _kinds(messages[begin - 1])[0] == "tool_result":
        begin -= 2
    if begin == len(messages):
        return
    kinds = _kinds(messages[begin])
    if "tool_use" in kinds and kinds[0] not in _THINKING:
        yield (
            f"messages.{begin}.content.0.type: Expected `thinking` or "
            f"`redacted_thinking`, but found `{kinds[0]}`. When `thinking` is enabled, "
            "a final `assistant` message must start with a thinking block."
        )


def _kinds(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    return ["text"] if isinstance(content, str) else [b["type"] for b in content]


def _missing(number: int, calls: list[str]) -> Iterator[str]:
    if calls:
        yield (
            f"messages.{number}: `tool_use` ids were found without `tool_result` "
            f"blocks immediately after: {', '.join(calls)}"
        )


def check_end(payload: dict[str, Any]) -> Iterator[str]:
    last = payload["messages"][-1]
    if last["role"] != "assistant":
        return
    content = last["content"]
    block = (
        {"type": "text", "text": content} if isinstance(content, str) else content[-1]
    )
    if block["type"] != "text":
        return
    if block["text"] != block["text"].rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"
    if payload.get("thinking", {}).get("type", "disabled") != "disabled":
        yield "messages: a final assistant message must start with a thinking block"
    if payload.get("output_format") or payload.get("output_config", {}).get("format"):
        yield "Prefilling assistant messages is not supported with an output format."


def check_cache_marks(payload: dict[str, Any]) -> Iterator[str]:
    marks = _marks(payload)
    if marks > 4:
        yield (
            f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
        )


def _marks(payload: dict[str, Any]) -> int:
    """Return the number of cache marks, at any depth."""
    marks, left = 0, [payload]
    while left:  # no recursion: arguments may be nested as deep as Python allows
        value: Any = left.pop()
        if isinstance(value, dict):
            marks += "cache_control" in value
            left += value.values()
        elif isinstance(value, list):
            left += value
    return marks


#: Each yields what the provider would say, in the order in which it looks.
RULES: Final[tuple[Callable[[dict[str, Any]], Iterator[str]], ...]] = (
    check_fields,
    check_thinking,
    check_thinking_type,
    check_effort,
    check_sampling,
    check_tools,
    check_forced_tools,
    check_format,
    check_system,
    check_messages,
    check_pairs,
    check_last_turn,
    check_end,
    check_prefill,
    check_cache_marks,
)
