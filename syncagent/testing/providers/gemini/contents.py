"""Conversations that Google's Gemini API rejects."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from typing import Any, Final

from .complaints import NamedModel, invalid, unknown_field

_DATA_FIELDS: Final = frozenset(
    {
        *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
        *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
    }
)
_OTHER_FIELDS: Final = frozenset(
    {
        *("thought", "thoughtSignature", "videoMetadata", "mediaResolution"),
        *("partMetadata", "mediaProcessing"),
    }
)
_CALL_FIELDS: Final = frozenset({"id", "name", "args"})
_RESPONSE_FIELDS: Final = frozenset(
    {"id", "name", "response", "parts", "willContinue", "scheduling"}
)
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
NAME_RULE: Final = (
    "Invalid function name. Must start with a letter or an underscore. Must be "
    "alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes "
    "(-), with a maximum length of 64."
)
_MEDIA: Final = re.compile(
    r"image/(?:png|jpeg|webp|heic|heif)|application/pdf|(?:text|audio|video)/[\w.+-]+"
)
_MEDIA_OF_RESULTS: Final = re.compile(
    r"image/(?:png|jpeg|webp)|application/pdf|text/plain"
)
_NO_MODEL_TURN: Final = "Requests ending with a model turn are not supported."


def is_name(name: object) -> bool:
    """Return whether *name* can be that of a function."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_contents(payload: dict[str, Any], path: str) -> str | None:
    """Return the complaint about a conversation, or None."""
    contents = payload.get("contents")
    if not isinstance(contents, list) or not contents:
        return invalid("contents", "contents is not specified")
    model = NamedModel(path)
    calls: list[dict[str, Any]] = []
    before = "model"
    for number, content in enumerate(contents):
        where = f"contents[{number}]"
        if not isinstance(content, dict):
            return f"Invalid value at '{where}'"
        role: Any = content.get("role")
        parts: Any = content.get("parts")
        if role not in ("user", "model"):
            return "Please use a valid role: user, model."
        if not isinstance(parts, list) or not parts:
            return invalid(f"{where}.parts", "contents.parts must not be empty.")
        problem = (
            unknown_field(content, frozenset({"role", "parts"}), where)
            or _parts(parts, role, f"{where}.parts", model)
            or _results(parts, calls, model)
        )
        if problem is not None:
            return problem
        # Words may follow results; the provider joins no other contents, either.
        if role == before:
            return (
                "Please ensure that multiturn requests alternate between user and "
                "model, and begin with a user."
            )
        before = "results" if "functionResponse" in parts[0] else role
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
    if calls:
        return "Please ensure that function call turn is followed by its responses."
    return _NO_MODEL_TURN if before == "model" and model.is_since(3, 5) else None


def _results(
    parts: list[dict[str, Any]], calls: list[dict[str, Any]], model: NamedModel
) -> str | None:
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
    if results and len(results) != len(parts):
        # Google says this about a user content with results and other parts. Some
        # models take it, and answer nothing.
        return _NO_MODEL_TURN
    for call, response in zip(calls, results, strict=True):
        for field in ("name", "id"):
            if call.get(field) != response.get(field):
                return f"The {field} of a function response is not that of its call."
        if response.get("parts") and not model.is_since(3):
            return "Multimodal function responses are not supported for this model."
    return None


def check_signatures(payload: dict[str, Any], path: str) -> str | None:
    """Return the complaint about a step whose first call is not signed, or None."""
    contents = payload["contents"] if NamedModel(path).is_since(3) else ()
    for number, content in enumerate(contents, 1):
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and not calls[0].get("thoughtSignature"):
            return (
                "Function call is missing a thought_signature in functionCall parts. "
                "This is required for tools to work correctly, and missing "
                "thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{calls[0]['functionCall']['name']}` "
                f", position {number}. Please refer to "
                "https://ai.google.dev/gemini-api/docs/thought-signatures for more "
                "details."
            )
    return None


def _parts(parts: list[Any], role: str, where: str, model: NamedModel) -> str | None:
    for number, part in enumerate(parts):
        at = f"{where}[{number}]"
        if not isinstance(part, dict):
            return f"Invalid value at '{at}'"
        data = part.keys() & _DATA_FIELDS
        problem = unknown_field(part, _DATA_FIELDS | _OTHER_FIELDS, at)
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
            return invalid(f"{at}.data", what)
        problem = _data(part, role, at) or _media(part, at, _MEDIA)
        if problem is not None:
            return problem
    return None


def _data(part: dict[str, Any], role: str, at: str) -> str | None:
    if not isinstance(part.get("text", ""), str):
        return f"Invalid value at '{at}.text' (TYPE_STRING)"
    if "functionCall" in part:
        at = f"{at}.functionCall"
        problem = _function(part["functionCall"], "args", _CALL_FIELDS, at)
        if problem is None and role != "model":
            return "Please ensure that a functionCall is in a content of role model."
        return problem
    if "functionResponse" not in part:
        return None
    at, function = f"{at}.functionResponse", part["functionResponse"]
    problem = _function(function, "response", _RESPONSE_FIELDS, at)
    if problem is not None:
        return problem
    if "response" not in function:
        return invalid(f"{at}.response", "must be set.")
    if role != "user":
        return "Please ensure that a functionResponse is in a content of role user."
    media = function.get("parts", [])
    if not isinstance(media, list):
        return f"Invalid value at '{at}.parts'"
    known = frozenset({"inlineData", "fileData", "mediaProcessing"})
    for number, each in enumerate(media):
        where = f"{at}.parts[{number}]"
        if not isinstance(each, dict) or len(each.keys() & known) != 1:
            return invalid(where, "must have one initialized field")
        problem = unknown_field(each, known, where)
        problem = problem or _media(each, where, _MEDIA_OF_RESULTS)
        if problem is not None:
            return problem
    return None


def _function(function: Any, value: str, known: frozenset[str], at: str) -> str | None:
    """Check a call or a result, whose values are in the field *value*."""
    if not isinstance(function, dict) or not isinstance(function.get(value, {}), dict):
        return f"Invalid value at '{at}.{value}'"
    name = function.get("name")
    if not isinstance(name, str) or not name:
        return invalid(f"{at}.name", "Name cannot be empty.")
    if not is_name(name):
        return invalid(f"{at}.name", NAME_RULE)
    return unknown_field(function, known, at)


def _media(part: dict[str, Any], at: str, kinds: re.Pattern[str]) -> str | None:
    for field, source in (("inlineData", "data"), ("fileData", "fileUri")):
        if field not in part:
            continue
        media = part[field]
        if not isinstance(media, dict) or not isinstance(media.get(source), str):
            return f"Invalid value at '{at}.{field}'"
        kind = media.get("mimeType", "" if field == "inlineData" else "image/png")
        if not isinstance(kind, str) or not kinds.fullmatch(kind):
            return f"Unsupported MIME type: {kind}"
        if not media[source]:
            return invalid(f"{at}.{field}.{source}", "must not be empty.")
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
