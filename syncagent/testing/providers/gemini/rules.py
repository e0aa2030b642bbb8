"""Requests that Google's Gemini API rejects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .complaints import NamedModel, invalid, unknown_field
from .contents import NAME_RULE, check_contents, check_signatures, is_name

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
        *("thinkingConfig", "enableEnhancedCivicAnswers", "responseFormat"),
    }
)
_VERTEX_TOOL_FIELDS: Final = frozenset(
    {"retrieval", "enterpriseWebSearch", "parallelAiSearch", "exaAiSearch"}
)
_TOOL_FIELDS: Final = frozenset(
    {
        *("functionDeclarations", "googleSearch", "codeExecution", "fileSearch"),
        *("urlContext", "googleMaps", "computerUse", "googleSearchRetrieval"),
        "mcpServers",
    }
)
_TOOL_CONFIG_FIELDS: Final = frozenset(
    {
        *("functionCallingConfig", "retrievalConfig"),
        "includeServerSideToolInvocations",
    }
)
_MODES: Final = ("AUTO", "ANY", "NONE", "VALIDATED")
_RANGES: Final = (
    ("temperature", 0, 2),
    ("topP", 0, 1),
    ("maxOutputTokens", 1, 1 << 20),
    ("seed", -(1 << 31), (1 << 31) - 1),
)
_INTEGERS: Final = frozenset({"maxOutputTokens", "seed"})


def complaint(payload: dict[str, Any], path: str = "") -> str | None:
    """Return the provider's message for status 400, or None if it takes *payload*.

    :param path: that of the request; it has the name of the model.
    """
    return next(filter(None, (rule(payload, path) for rule in RULES)), None)


# -- options ---------------------------------------------------------------------------


def check_fields(payload: dict[str, Any], path: str) -> str | None:
    return unknown_field(payload, _FIELDS, "")


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
            return invalid(f"generation_config.{name}", what)
    stops = config.get("stopSequences", [])
    if not isinstance(stops, list) or len(stops) > 5 or not all(stops):
        what = "the number of stop_sequences must be at most 5, none of them empty"
        return invalid("generation_config.stop_sequences", what)
    return unknown_field(config, _CONFIG_FIELDS, "generation_config")


def _is_number(value: object, *, is_integer: bool = False) -> bool:
    kinds = (int,) if is_integer else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool)


def check_thinking(payload: dict[str, Any], path: str) -> str | None:
    thinking = payload.get("generationConfig", {}).get("thinkingConfig", {})
    where = "generation_config.thinking_config"
    if not isinstance(thinking, dict):
        return f"Invalid value at '{where}'"
    if thinking.keys() >= {"thinkingBudget", "thinkingLevel"}:
        return "You can only set one of thinking budget and thinking level."
    if thinking.get("thinkingBudget") == 0 and thinking.get("includeThoughts"):
        return (
            "Unable to submit request because Thinking_config.include_thoughts is only "
            "enabled when thinking is enabled."
        )
    known = frozenset({"thinkingBudget", "includeThoughts", "thinkingLevel"})
    return unknown_field(thinking, known, where)


def check_thinking_budget(payload: dict[str, Any], path: str) -> str | None:
    config = payload.get("generationConfig", {}).get("thinkingConfig", {})
    budget, model = config.get("thinkingBudget"), NamedModel(path)
    if budget is None or budget == -1:
        return None
    if model.is_gemma:
        return "Thinking budget is not supported for this model."
    is_pro = "pro" in model.name
    least = 128 if is_pro and not model.is_since(3) else 0
    most = 32768 if is_pro or model.is_since(3) else 24576
    if _is_number(budget, is_integer=True) and least <= budget <= most:
        return None
    return invalid(
        "generation_config.thinking_config.thinking_budget",
        f"The thinking budget {budget} is invalid. Please choose a value between "
        f"{least} and {most}.",
    )


def check_thinking_level(payload: dict[str, Any], path: str) -> str | None:
    config = payload.get("generationConfig", {}).get("thinkingConfig", {})
    level, model = config.get("thinkingLevel"), NamedModel(path)
    if level is None:
        return None
    word = level.upper() if isinstance(level, str) else ""
    if word not in ("MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"):
        where = "generation_config.thinking_config.thinking_level"
        return f"Invalid value at '{where}' (TYPE_ENUM), {level!r}"
    if model.version < ((4, 0) if model.is_gemma else (3, 0)):
        return "Thinking level is not supported for this model."
    refused = {"XHIGH"}
    if model.is_gemma:
        refused |= {"LOW", "MEDIUM"}
    elif "pro" in model.name and model.version == (3, 0):
        refused |= {"MINIMAL", "MEDIUM"}
    elif "lite" not in model.name and ("pro" in model.name or model.is_since(3, 7)):
        refused |= {"MINIMAL"}
    if word in refused:
        return f"Thinking level {word} is not supported for this model."
    return None


def check_format(payload: dict[str, Any], path: str) -> str | None:
    config = payload.get("generationConfig", {})
    where = "generation_config.response_schema"
    schema = config.get("responseJsonSchema", config.get("responseSchema"))
    if schema is None:
        return None
    if "responseJsonSchema" in config and "responseSchema" in config:
        return invalid(where, "only one of response_schema, response_json_schema")
    if not isinstance(schema, dict):
        return f"Invalid value at '{where}'"
    if config.get("responseMimeType") != "application/json":
        what = "only allowed when response_mime_type is application/json"
        return invalid(where, what)
    return None


def check_tools_and_schema(payload: dict[str, Any], path: str) -> str | None:
    kind = payload.get("generationConfig", {}).get("responseMimeType")
    tools = payload.get("tools")
    if kind == "application/json" and tools and not NamedModel(path).is_since(3):
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
        return invalid("system_instruction.parts", "must not be empty.")
    for part in parts:
        if not isinstance(part, dict) or not part.get("text"):
            return invalid("system_instruction.parts", "system can only have text.")
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
            return invalid(f"tools[{number}].tool_type", "required one_of 'tool_type'")
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
    if not is_name(name):
        return invalid(f"{where}.name", NAME_RULE)
    if "parameters" in function and "parametersJsonSchema" in function:
        return invalid(where, "only one of parameters and parameters_json_schema")
    schema = function.get("parametersJsonSchema", {"type": "object"})
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return invalid(f"{where}.parameters", "schema should be of type OBJECT")
    return unknown_field(function, known, where)


def check_server_tools(payload: dict[str, Any], path: str) -> str | None:
    kinds, known = _TOOL_FIELDS, frozenset({"searchTypes", "timeRangeFilter"})
    if NamedModel(path).is_vertex:
        kinds = (kinds | _VERTEX_TOOL_FIELDS) - {"fileSearch", "mcpServers"}
        known = frozenset({"searchTypes", "excludeDomains", "blockingConfidence"})
    for number, tool in enumerate(payload.get("tools", [])):
        where = f"tools[{number}]"
        search, files = tool.get("googleSearch", {}), tool.get("fileSearch", {})
        if not isinstance(search, dict) or not isinstance(files, dict):
            return f"Invalid value at '{where}'"
        problem = unknown_field(tool, kinds, where)
        problem = problem or unknown_field(search, known, f"{where}.google_search")
        if problem is not None:
            return problem
        if "fileSearch" in tool and not files.get("fileSearchStoreNames"):
            where = f"{where}.file_search.file_search_store_names"
            return invalid(where, "is required")
    return None


def check_tool_choice(payload: dict[str, Any], path: str) -> str | None:
    config = payload.get("toolConfig")
    if config is None:
        return None
    if not isinstance(config, dict):
        return f"Invalid value at 'tool_config', {config!r}"
    known = _TOOL_CONFIG_FIELDS
    if NamedModel(path).is_vertex:
        known -= {"includeServerSideToolInvocations"}
    problem = unknown_field(config, known, "tool_config")
    if problem is not None or "functionCallingConfig" not in config:
        return problem
    declared = (
        tool.get("functionDeclarations", []) for tool in payload.get("tools", [])
    )
    names = [function["name"] for functions in declared for function in functions]
    calling = config["functionCallingConfig"]
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
        return invalid(
            f"{where}.allowed_function_names", "only allowed when mode is ANY"
        )
    for name in allowed:
        if name not in names:
            what = f"{name!r} is not in the function declarations"
            return invalid(f"{where}.allowed_function_names", what)
    return None


def check_mixed_tools(payload: dict[str, Any], path: str) -> str | None:
    tools = payload.get("tools", [])
    kinds = {kind for tool in tools for kind in tool}
    if "functionDeclarations" not in kinds or len(kinds) == 1:
        return None
    model = NamedModel(path)
    if not model.is_since(3):
        return "Tool use with function calling is unsupported"
    config = payload.get("toolConfig", {})
    is_told = config.get("includeServerSideToolInvocations") or model.is_vertex
    if not is_told:
        return (
            "Please enable tool_config.include_server_side_tool_invocations to use "
            "Built-in tools with Function calling."
        )
    return None


#: Each returns what the provider would say, in the order in which it looks.
RULES: Final[tuple[Callable[[dict[str, Any], str], str | None], ...]] = (
    check_fields,
    check_config,
    check_thinking,
    check_thinking_budget,
    check_thinking_level,
    check_format,
    check_tools,
    check_server_tools,
    check_tool_choice,
    check_mixed_tools,
    check_tools_and_schema,
    check_system,
    check_contents,
    check_signatures,
)
