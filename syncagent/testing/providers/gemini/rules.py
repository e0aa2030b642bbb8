"""Requests that Google's Gemini API rejects."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any, Final

_FIELDS: Final = frozenset(
    {
        *("contents", "systemInstruction", "generationConfig", "tools", "toolConfig"),
        *("safetySettings", "cachedContent", "model", "store", "serviceTier"),
    }
)
_CONFIG_FIELDS: Final = frozenset(
    {
        *("temperature", "topP", "topK", "maxOutputTokens", "stopSequences", "seed"),
        *("candidateCount", "presencePenalty", "frequencyPenalty", "logprobs"),
        *("responseLogprobs", "responseMimeType", "responseSchema", "speechConfig"),
        *("responseJsonSchema", "responseModalities", "mediaResolution", "imageConfig"),
        *("thinkingConfig", "enableEnhancedCivicAnswers"),
    }
)
_DATA_FIELDS: Final = frozenset(
    {
        *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
        *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
    }
)
_OTHER_FIELDS: Final = frozenset(
    {
        *("thought", "thoughtSignature", "videoMetadata", "mediaResolution"),
        "partMetadata",
    }
)
_MODES: Final = ("AUTO", "ANY", "NONE", "VALIDATED")
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_NAME_RULE: Final = (
    "Invalid function name. Must start with a letter or an underscore. Must be "
    "alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes "
    "(-), with a maximum length of 64."
)
_MEDIA: Final = re.compile(
    r"image/(?:png|jpeg|webp|heic|heif)|application/pdf|(?:text|audio|video)/[\w.+-]+"
)
_RANGES: Final = (
    ("temperature", 0, 2),
    ("topP", 0, 1),
    ("maxOutputTokens", 1, 1 << 20),
    ("seed", -(1 << 31), (1 << 31) - 1),
)
#: Models that take tools and a response schema together.
_TOOLS_AND_SCHEMA: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")
_INTEGERS: Final = frozenset({"maxOutputTokens", "seed"})


def complaint(payload: dict[str, Any], path: str = "") -> str | None:
    """Return the provider's message for status 400, or None if it takes *payload*.

    :param path: that of the request; it has the name of the model.
    """
    return next(filter(None, (rule(payload, path) for rule in RULES)), None)


def _unknown(fields: dict[str, Any], known: frozenset[str], where: str) -> str | None:
    for name in fields.keys() - known:
        at = f" at '{where}'" if where else ""
        return (
            f'Invalid JSON payload received. Unknown name "{name}"{at}: '
            "Cannot find field."
        )
    return None


def _invalid(where: str, what: str) -> str:
    return f"* GenerateContentRequest.{where}: {what}"


# -- options ---------------------------------------------------------------------------


def check_fields(payload: dict[str, Any], path: str) -> str | None:
    return _unknown(payload, _FIELDS, "")


def check_config(payload: dict[str, Any], path: str) -> str | None:
    config = payload.get("generationConfig", {})
    if not isinstance(config, dict):
        return "Invalid value at 'generation_config'"
    for name, low, high in _RANGES:
        value = config.get(name)
        if value is None:
            continue
        if not _is_number(value, is_integer=name in _INTEGERS):
            return f"Invalid value at 'generation_config.{name}', {value!r}"
        if not low <= value <= high:
            what = f"{name} must be in the range [{low}, {high}]"
            return _invalid(f"generation_config.{name}", what)
    stops = config.get("stopSequences", [])
    if not isinstance(stops, list) or len(stops) > 5 or not all(stops):
        what = "the number of stop_sequences must be at most 5, none of them empty"
        return _invalid("generation_config.stop_sequences", what)
    return _unknown(config, _CONFIG_FIELDS, "generation_config")


def _is_number(value: object, *, is_integer: bool = False) -> bool:
    kinds = (int,) if is_integer else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool)


def check_thinking(payload: dict[str, Any], path: str) -> str | None:
    thinking = payload.get("generationConfig", {}).get("thinkingConfig", {})
    where = "generation_config.thinking_config"
    if not isinstance(thinking, dict):
        return f"Invalid value at '{where}'"
    budget = thinking.get("thinkingBudget")
    if budget is not None:
        if not _is_number(budget, is_integer=True) or not -1 <= budget <= 32768:
            what = "The thinking budget is invalid. Choose one between 0 and 32768."
            return _invalid(f"{where}.thinking_budget", what)
        if budget == 0 and thinking.get("includeThoughts"):
            return (
                "Unable to submit request because Thinking_config.include_thoughts is "
                "only enabled when thinking is enabled."
            )
        if "thinkingLevel" in thinking:
            return "You can only set one of thinking budget and thinking level."
    known = frozenset({"thinkingBudget", "includeThoughts", "thinkingLevel"})
    return _unknown(thinking, known, where)


def check_format(payload: dict[str, Any], path: str) -> str | None:
    config = payload.get("generationConfig", {})
    where = "generation_config.response_schema"
    schema = config.get("responseJsonSchema", config.get("responseSchema"))
    if schema is None:
        return None
    if "responseJsonSchema" in config and "responseSchema" in config:
        return _invalid(where, "only one of response_schema, response_json_schema")
    if not isinstance(schema, dict):
        return f"Invalid value at '{where}'"
    if config.get("responseMimeType") != "application/json":
        what = "only allowed when response_mime_type is application/json"
        return _invalid(where, what)
    return None


def check_tools_and_schema(payload: dict[str, Any], path: str) -> str | None:
    kind = payload.get("generationConfig", {}).get("responseMimeType")
    tools = [
        tool for tool in payload.get("tools", []) if "functionDeclarations" in tool
    ]
    if kind == "application/json" and tools and not _TOOLS_AND_SCHEMA.search(path):
        return (
            "Function calling with a response mime type: 'application/json' is "
            "unsupported"
        )
    return None


def check_system(payload: dict[str, Any], path: str) -> str | None:
    system = payload.get("systemInstruction")
    if system is None:
        return None
    parts = system.get("parts") if isinstance(system, dict) else None
    if not isinstance(parts, list) or not parts:
        return _invalid("system_instruction.parts", "must not be empty.")
    for part in parts:
        if not isinstance(part, dict) or not part.get("text"):
            return _invalid("system_instruction.parts", "system can only have text.")
    return None


# -- tools -----------------------------------------------------------------------------


def check_tools(payload: dict[str, Any], path: str) -> str | None:
    tools = payload.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(t, dict) for t in tools):
        return "Invalid value at 'tools'"
    names: list[str] = []
    for number, tool in enumerate(tools):
        declared = tool.get("functionDeclarations", [])
        is_list = isinstance(declared, list)
        if not tool or ("functionDeclarations" in tool and not (declared and is_list)):
            return _invalid(f"tools[{number}].tool_type", "required one_of 'tool_type'")
        for index, function in enumerate(declared):
            where = f"tools[{number}].function_declarations[{index}]"
            problem = _function(function, where)
            if problem is not None:
                return problem
            names.append(function["name"])
    for name in names:
        if names.count(name) > 1:
            return f"Duplicate function declaration found: {name}"
    return None


def _function(function: Any, where: str) -> str | None:
    known = frozenset(
        {
            *("name", "description", "parameters", "parametersJsonSchema"),
            *("response", "responseJsonSchema", "behavior"),
        }
    )
    if not isinstance(function, dict):
        return f"Invalid value at '{where}'"
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return _invalid(f"{where}.name", _NAME_RULE)
    if "parameters" in function and "parametersJsonSchema" in function:
        return _invalid(where, "only one of parameters and parameters_json_schema")
    schema = function.get("parametersJsonSchema", {"type": "object"})
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return _invalid(f"{where}.parameters", "schema should be of type OBJECT")
    return _unknown(function, known, where)


def check_tool_choice(payload: dict[str, Any], path: str) -> str | None:
    config = payload.get("toolConfig")
    if config is None:
        return None
    declared = (
        tool.get("functionDeclarations", []) for tool in payload.get("tools", [])
    )
    names = [function["name"] for functions in declared for function in functions]
    calling = config.get("functionCallingConfig") if isinstance(config, dict) else None
    where = "tool_config.function_calling_config"
    mode = calling.get("mode", "AUTO") if isinstance(calling, dict) else None
    if not isinstance(calling, dict) or mode not in _MODES:
        return f"Invalid value at '{where}.mode', {calling!r}"
    if not names:
        return "Function calling config is set without function_declarations."
    allowed = calling.get("allowedFunctionNames")
    if allowed is None:
        return None
    if not isinstance(allowed, list):
        return f"Invalid value at '{where}.allowed_function_names'"
    if calling.get("mode") not in ("ANY", "VALIDATED"):
        return _invalid(
            f"{where}.allowed_function_names", "only allowed when mode is ANY"
        )
    for name in allowed:
        if name not in names:
            what = f"{name!r} is not in the function declarations"
            return _invalid(f"{where}.allowed_function_names", what)
    return None


# -- the conversation ------------------------------------------------------------------


def check_contents(payload: dict[str, Any], path: str) -> str | None:
    contents = payload.get("contents")
    if not isinstance(contents, list) or not contents:
        return _invalid("contents", "contents is not specified")
    calls: list[dict[str, Any]] = []
    before = "model"
    for number, content in enumerate(contents):
        where = f"contents[{number}]"
        if not isinstance(content, dict):
            return f"Invalid value at '{where}'"
        role = content.get("role")
        if role not in ("user", "model"):
            return "Please use a valid role: user, model."
        parts = content.get("parts")
        if not isinstance(parts, list) or not parts:
            return _invalid(f"{where}.parts", "contents.parts must not be empty.")
        problem = _parts(parts, role, f"{where}.parts") or _results(parts, calls)
        if problem is not None:
            return problem
        if role == before:
            return (
                "Please ensure that multiturn requests alternate between user and "
                "model, and begin with a user."
            )
        before = role
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
    if calls:
        return "Please ensure that function call turn is followed by its responses."
    return None


def _results(parts: list[dict[str, Any]], calls: list[dict[str, Any]]) -> str | None:
    """Check that *parts* have the results of the calls in the content before them."""
    results = [p["functionResponse"] for p in parts if "functionResponse" in p]
    if results and not calls:
        return (
            "Please ensure that function response turn comes immediately after a "
            "function call turn."
        )
    if len(results) != len(calls):
        return (
            "Please ensure that the number of function response parts is equal to the "
            "number of function call parts of the function call turn."
        )
    for call, response in zip(calls, results, strict=True):
        for field in ("name", "id"):
            if call.get(field) != response.get(field):
                return f"The {field} of a function response is not that of its call."
    return None


def _parts(parts: list[Any], role: str, where: str) -> str | None:
    for number, part in enumerate(parts):
        at = f"{where}[{number}]"
        if not isinstance(part, dict):
            return f"Invalid value at '{at}'"
        data = part.keys() & _DATA_FIELDS
        problem = _unknown(part, _DATA_FIELDS | _OTHER_FIELDS, at)
        if problem is not None:
            return problem
        if len(data) > 1:
            return f"Invalid value at '{at}' (oneof), oneof field 'data' is already set"
        signature = part.get("thoughtSignature", "")
        if not isinstance(signature, str) or not _is_base64(signature):
            return f"Invalid value at '{at}.thought_signature' (TYPE_BYTES), Base64"
        # A text may be empty only if it carries a signature.
        if not data or (part.get("text") == "" and not signature):
            what = "required oneof field 'data' must have one initialized field"
            return _invalid(f"{at}.data", what)
        problem = _data(part, role, at)
        if problem is not None:
            return problem
    return None


def _data(part: dict[str, Any], role: str, at: str) -> str | None:
    if not isinstance(part.get("text", ""), str):
        return f"Invalid value at '{at}.text' (TYPE_STRING)"
    for field, value, owner in (
        ("functionCall", "args", "model"),
        ("functionResponse", "response", "user"),
    ):
        if field not in part:
            continue
        function = part[field]
        if not isinstance(function, dict) or not isinstance(
            function.get(value, {}), dict
        ):
            return f"Invalid value at '{at}.{field}.{value}'"
        if not isinstance(function.get("name"), str) or not function["name"]:
            return _invalid(f"{at}.{field}.name", "Name cannot be empty.")
        if not _NAME.fullmatch(function["name"]):
            return _invalid(f"{at}.{field}.name", _NAME_RULE)
        if field == "functionResponse" and value not in function:
            return _invalid(f"{at}.{field}.{value}", "must be set.")
        if role != owner:
            return f"Please ensure that a {field} is in a content of role {owner}."
    for field, source in (("inlineData", "data"), ("fileData", "fileUri")):
        if field not in part:
            continue
        media = part[field]
        if not isinstance(media, dict) or not isinstance(media.get(source), str):
            return f"Invalid value at '{at}.{field}'"
        kind = media.get("mimeType", "" if field == "inlineData" else "image/png")
        if not isinstance(kind, str) or not _MEDIA.fullmatch(kind):
            return f"Unsupported MIME type: {kind}"
        if not media[source]:
            return _invalid(f"{at}.{field}.{source}", "must not be empty.")
        if field == "inlineData" and not _is_base64(media[source]):
            return f"Invalid value at '{at}.{field}' (TYPE_BYTES), Base64"
    return None


def _is_base64(text: str) -> bool:
    plain = text.translate({ord("+"): "-", ord("/"): "_"}).rstrip("=")
    if not re.fullmatch(r"[\w-]*", plain, re.ASCII):
        return False
    try:
        urlsafe_b64decode(plain + "=" * (-len(plain) % 4))
    except ValueError:
        return False
    return True


#: Each returns what the provider would say, in the order in which it looks.
RULES: Final[tuple[Callable[[dict[str, Any], str], str | None], ...]] = (
    check_fields,
    check_config,
    check_thinking,
    check_format,
    check_tools,
    check_tool_choice,
    check_tools_and_schema,
    check_system,
    check_contents,
)
