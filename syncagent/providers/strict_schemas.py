"""JSON schemas reduced to what providers can enforce on a response.

Providers that enforce a schema know only some keywords, and most of them want closed
schemas: every property required, no others allowed, a type for every value. The rest
goes into descriptions for the model to read. The response is validated against the
full schema in any case.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from ..options import Options, OutputFormat

_NULL: Final = {"type": "null"}
#: Keywords whose values are schemas: by name, in a list, or a single one.
_NAMED: Final = ("properties", "$defs", "definitions", "patternProperties")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE: Final = ("items", "not", "additionalProperties")

#: Keywords that every provider can enforce.
_COMMON: Final = frozenset(
    {
        *{"type", "title", "description", "enum", "const", "anyOf", "$ref", "$defs"},
        *{"properties", "required", "additionalProperties", "items", "format"},
    }
)
_FORMATS: Final = frozenset(
    {
        *{"date-time", "date", "time", "duration"},
        *{"email", "hostname", "ipv4", "ipv6", "uuid"},
    }
)
#: More keywords that OpenAI can enforce.
_OPENAI: Final = frozenset(
    {
        *{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
        *{"multipleOf", "minItems", "maxItems"},
    }
)
#: More keywords that Gemini can enforce. It takes schemas that are not closed.
_GEMINI: Final = frozenset(
    {"minimum", "maximum", "minItems", "maxItems", "prefixItems"},
)
#: Keywords that no provider with closed schemas can enforce.
_NEVER: Final = ("allOf", "not", "prefixItems", "patternProperties", "definitions")
#: Keywords that restrict the values; a schema needs one of them.
_RESTRICTING: Final = ("type", "anyOf", "oneOf", "enum", "const", "$ref")

#: Number of schemas that are cached.
_CACHE_SIZE: Final = 256
_INSTRUCTION: Final = (
    "Answer with JSON and nothing else: no words before or after it, no fence around "
    "it. It must be valid against this JSON schema:"
)


def openai_format(output: OutputFormat) -> dict[str, Any]:
    """Return *output* in the fields that OpenAI and compatible providers share.

    A schema that they cannot enforce is sent as a hint.
    """
    schema = closed(output.schema, _OPENAI) if output.strict else None
    fields = {"name": output.name, "schema": schema or output.schema}
    return {**fields, "strict": schema is not None}


def closed(
    schema: dict[str, Any], keywords: frozenset[str] = frozenset()
) -> dict[str, Any] | None:
    """Return the closed form of *schema*, or None if it cannot be enforced.

    It is cached, as every turn needs it again.

    :param keywords: keywords that can be enforced, beside the common ones.
    """
    return _cached(_ById(schema), keywords, is_closed=True)


def gemini_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* in the keywords that Gemini knows; this is cached, too."""
    made = _cached(_ById(schema), _GEMINI, is_closed=False)
    assert made is not None
    return made


class _ById:
    """A schema as a cache key, by identity: comparing two takes as long as closing one.

    The cache keeps the schema alive, so its id is not used again.
    """

    __slots__ = ("schema",)

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.schema is other.schema

    def __hash__(self) -> int:
        return id(self.schema)


@functools.lru_cache(_CACHE_SIZE)
def _cached(
    key: _ById, keywords: frozenset[str], *, is_closed: bool
) -> dict[str, Any] | None:
    if not is_closed:
        return reduced(key.schema, keywords)
    if any(map(_is_open, subschemas(key.schema))):
        return None
    return reduced(strict(key.schema), keywords)


def with_format_in_system(options: Options) -> Options:
    """Return *options* with the output format in the system prompt, not enforced."""
    assert options.output is not None
    schema = msgspec.json.encode(options.output.schema).decode()
    text = f"{_INSTRUCTION}\n{schema}"
    system = f"{options.system}\n\n{text}" if options.system.strip() else text
    return msgspec.structs.replace(options, system=system, output=None)


def _is_open(schema: dict[str, Any]) -> bool:
    """Return whether *schema* allows values that no closed schema can describe.

    Such are a dict with any keys, a tuple, or any value at all.
    """
    if any(keyword in schema for keyword in _NEVER):
        return True
    if not any(keyword in schema for keyword in _RESTRICTING):
        return True
    if schema.get("additionalProperties") not in (None, False):
        return True
    kind = schema.get("type")
    if kind == "object":
        return "properties" not in schema and "additionalProperties" not in schema
    return kind == "array" and not schema.get("items")


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield *schema* and all schemas inside of it."""
    if not isinstance(schema, dict):
        return
    yield schema
    for keyword in _NAMED:
        for each in schema.get(keyword, {}).values():
            yield from subschemas(each)
    for keyword in _LISTED:
        for each in schema.get(keyword, ()):
            yield from subschemas(each)
    for keyword in _SINGLE:
        yield from subschemas(schema.get(keyword))


def reduced(
    schema: dict[str, Any], keywords: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return *schema* with the keywords that cannot be enforced in its descriptions.

    :param keywords: keywords that can be enforced, beside the common ones.
    """
    made: dict[str, Any] = {}
    unknown: list[str] = []
    for name, value in schema.items():
        if name == "items" and value is False:  # prefixItems and maxItems say it
            continue
        if name == "const":
            made["enum"] = [value]
            continue
        keyword = "anyOf" if name == "oneOf" else name
        is_known = keyword in _COMMON or keyword in keywords
        if is_known and (keyword != "format" or value in _FORMATS):
            reduce = functools.partial(reduced, keywords=keywords)
            made[keyword] = _mapped(keyword, value, reduce)
        elif value is not None:
            unknown.append(f"{keyword}: {msgspec.json.encode(value).decode()}")
    if unknown:
        text = ", ".join(unknown)
        description = made.get("description", "")
        made["description"] = f"{description} ({text})" if description else text
    return made


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* with every property required, and no others allowed.

    An optional property may be null instead. An object with additional properties
    stays as it is.
    """
    made = {name: _mapped(name, value, strict) for name, value in schema.items()}
    properties = made.get("properties")
    others = made.get("additionalProperties")
    if others not in (None, False) or (others is False and properties is None):
        return made
    if properties is None and made.get("type") == "object":
        properties = {}
    if isinstance(properties, dict):
        required = schema.get("required", ())
        made["properties"] = {
            name: value if name in required else _nullable(value)
            for name, value in properties.items()
        }
        made["required"] = list(properties)
        made["additionalProperties"] = False
    return made


def _mapped(
    keyword: str, value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> Any:
    """Return the value of a keyword with *change* applied to each schema in it."""

    def changed(each: Any) -> Any:
        return change(each) if isinstance(each, dict) else each

    if keyword in _NAMED and isinstance(value, dict):
        return {name: changed(each) for name, each in value.items()}
    if keyword in _LISTED and isinstance(value, list):
        return [changed(each) for each in value]
    return changed(value) if keyword in _SINGLE else value


def _nullable(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if "enum" in schema or "const" in schema or not isinstance(kind, (str, list)):
        return {"anyOf": [schema, _NULL]}
    kinds = [kind] if isinstance(kind, str) else kind
    return {**schema, "type": kinds if "null" in kinds else [*kinds, "null"]}
