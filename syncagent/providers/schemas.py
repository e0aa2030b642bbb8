"""JSON schemas as providers want them that enforce a form."""

from __future__ import annotations

from typing import Any, Final

from ..options import OutputFormat

_NULL: Final = {"type": "null"}
#: Where schemas are in a schema: by name, in a list, or alone.
_NAMED: Final = ("properties", "$defs", "definitions", "patternProperties")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_ALONE: Final = ("items", "not")


def enforceable(output: OutputFormat) -> dict[str, Any]:
    """Return a form in the words that OpenAI and its imitators share."""
    schema = strict(output.schema) if output.strict else output.schema
    return {"name": output.name, "schema": schema, "strict": output.strict}


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* with nothing left open.

    Those who enforce a form want every property to be there, and no other. What could
    be left out before may be null then. Where a schema says itself what else may be
    there it is left as it is.
    """
    closed = {name: _inner(name, value) for name, value in schema.items()}
    properties = closed.get("properties")
    others = closed.get("additionalProperties")
    if others not in (None, False) or (others is False and properties is None):
        return closed
    if properties is None and closed.get("type") == "object":
        properties = {}
    if isinstance(properties, dict):
        required = schema.get("required", ())
        closed["properties"] = {
            name: value if name in required else _or_null(value)
            for name, value in properties.items()
        }
        closed["required"] = list(properties)
        closed["additionalProperties"] = False
    return closed


def _inner(name: str, value: Any) -> Any:
    if name in _NAMED and isinstance(value, dict):
        return {key: _closed(each) for key, each in value.items()}
    if name in _LISTED and isinstance(value, list):
        return [_closed(each) for each in value]
    return _closed(value) if name in _ALONE else value


def _closed(value: Any) -> Any:
    return strict(value) if isinstance(value, dict) else value


def _or_null(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if "enum" in schema or "const" in schema or not isinstance(kind, (str, list)):
        return {"anyOf": [schema, _NULL]}
    kinds = [kind] if isinstance(kind, str) else kind
    return {**schema, "type": kinds if "null" in kinds else [*kinds, "null"]}
