"""Which JSON schemas those reject who are to enforce them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

#: Where schemas are in a schema: by name, or in a list.
_NAMED: Final = ("properties", "$defs", "definitions")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")


def open_schema(schema: dict[str, Any]) -> str | None:
    """Return why *schema* cannot be enforced, ``None`` if it can."""
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
    return None


def objects(name: str, schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schemas of objects in *schema*, itself included, and where they are."""
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
