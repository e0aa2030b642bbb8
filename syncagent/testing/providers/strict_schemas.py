"""JSON schemas that providers refuse to enforce."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

#: Keywords whose values are schemas: by name, in a list, or a single one.
_NAMED: Final = ("properties", "$defs", "definitions")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE: Final = ("items", "not")
#: Keywords that OpenAI rejects in a strict schema.
_FORBIDDEN: Final = frozenset(
    {
        *{"oneOf", "allOf", "not", "default", "prefixItems", "uniqueItems"},
        *{"minLength", "maxLength", "contentEncoding", "patternProperties"},
    }
)
_RESTRICTING: Final = frozenset({"type", "anyOf", "enum", "const", "$ref"})
_FORMATS: Final = frozenset(
    {
        *{"date-time", "date", "time", "duration", "email", "hostname"},
        *{"ipv4", "ipv6", "uuid"},
    }
)


def schema_complaint(schema: dict[str, Any]) -> str | None:
    """Return why OpenAI rejects a strict *schema*, or None if it does not."""
    for name, each in objects("schema", schema):
        if each.get("additionalProperties") is not False:
            return (
                f"Invalid schema for response_format: In {name}, "
                "'additionalProperties' is required to be supplied and to be false."
            )
        missing = each.get("properties", {}).keys() - set(each.get("required", ()))
        if missing:
            return (
                f"Invalid schema for response_format: In {name}, 'required' is "
                "required to be supplied and to be an array including every key in "
                f"properties. Missing {sorted(missing)}."
            )
    for each in subschemas(schema):
        for name in sorted(each.keys() & _FORBIDDEN):
            return f"Invalid schema for response_format: '{name}' is not permitted."
        if not each.keys() & _RESTRICTING:
            return "Invalid schema for response_format: it must have a 'type' key."
        if each.get("type") == "array" and not each.get("items"):
            return "Invalid schema for response_format: array schema missing items."
        if each.get("format", "date") not in _FORMATS:
            problem = f"'{each['format']}' is not a valid format."
            return f"Invalid schema for response_format: {problem}"
    return None


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield *schema* and all schemas inside of it."""
    if not isinstance(schema, dict):
        return
    yield schema
    below = [each for key in _NAMED for each in schema.get(key, {}).values()]
    below += [each for key in _LISTED for each in schema.get(key, ())]
    for each in [*below, *(schema.get(key) for key in _SINGLE)]:
        yield from subschemas(each)


def objects(name: str, schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schemas of objects in *schema*, itself included, and their places."""
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "object" in kinds or "properties" in schema:
        yield name, schema
    for key in _NAMED:
        for inner, each in schema.get(key, {}).items():
            yield from objects(f"{name}.{key}.{inner}", each)
    for key in _LISTED:
        for number, each in enumerate(schema.get(key, ())):
            yield from objects(f"{name}.{key}.{number}", each)
    yield from objects(f"{name}.items", schema.get("items"))
