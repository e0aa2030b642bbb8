"""JSON schemas as providers want them that enforce a form."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ..options import Options, OutputFormat

_NULL: Final = {"type": "null"}
#: Where schemas are in a schema: by name, in a list, or alone.
_NAMED: Final = ("properties", "$defs", "definitions", "patternProperties")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_ALONE: Final = ("items", "not", "additionalProperties")

#: What everybody can enforce.
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
#: What OpenAI can enforce beside that.
_BOUNDS: Final = frozenset(
    {
        *{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
        *{"multipleOf", "minItems", "maxItems"},
    }
)
#: What Gemini can, which has nothing against what is open.
_OPEN: Final = frozenset(
    {"minimum", "maximum", "minItems", "maxItems", "prefixItems"},
)
#: What nobody else can who enforces a form.
_NEVER: Final = ("allOf", "not", "prefixItems", "patternProperties", "definitions")
#: What says which values there can be.
_SAYING: Final = ("type", "anyOf", "oneOf", "enum", "const", "$ref")

#: How many forms are remembered.
_REMEMBERED: Final = 256
_IN_WORDS: Final = (
    "Answer with JSON and nothing else: no words before or after it, no fence around "
    "it. It must be valid against this JSON schema:"
)


def enforceable(output: OutputFormat) -> dict[str, Any]:
    """Return a form in the words that OpenAI and its imitators share.

    What they cannot enforce they are only told.
    """
    schema = closed(output.schema, _BOUNDS) if output.strict else None
    form = {"name": output.name, "schema": schema or output.schema}
    return {**form, "strict": schema is not None}


def closed(
    schema: dict[str, Any], more: frozenset[str] = frozenset()
) -> dict[str, Any] | None:
    """Return what is to be enforced of a form, nothing if that cannot be.

    It is remembered, as every turn asks for it again.

    :param more: words that can be enforced, beside what everybody can.
    """
    return _closed(_Same(schema), more)


class _Same:
    """A schema by its identity: to compare two takes as long as to close one."""

    __slots__ = ("schema",)

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.schema is other.schema

    def __hash__(self) -> int:
        return id(self.schema)


@functools.lru_cache(_REMEMBERED)
def _closed(same: _Same, more: frozenset[str]) -> dict[str, Any] | None:
    if not can_enforce(same.schema):
        return None
    return known(strict(same.schema), more)


def described(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a form as Gemini takes it; that is remembered, too."""
    return _described(_Same(schema))


@functools.lru_cache(_REMEMBERED)
def _described(same: _Same) -> dict[str, Any]:
    return known(same.schema, _OPEN)


def in_words(options: Options) -> Options:
    """Return *options* with the form of the answer in words, and nothing to enforce."""
    assert options.output is not None
    schema = msgspec.json.encode(options.output.schema).decode()
    words = f"{_IN_WORDS}\n{schema}"
    system = f"{options.system}\n\n{words}" if options.system.strip() else words
    return msgspec.structs.replace(options, system=system, output=None)


def can_enforce(schema: dict[str, Any]) -> bool:
    """Can a form be enforced that says of every value what it can be?

    That of a dict with any keys, of a tuple, or of anything at all, cannot.
    """
    return not any(_is_open(each) for each in parts(schema))


def _is_open(schema: dict[str, Any]) -> bool:
    if any(word in schema for word in _NEVER):
        return True
    if not any(word in schema for word in _SAYING):
        return True
    if schema.get("additionalProperties") not in (None, False):
        return True
    kind = schema.get("type")
    if kind == "object":
        return "properties" not in schema and "additionalProperties" not in schema
    return kind == "array" and not schema.get("items")


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield all schemas in *schema*, itself first."""
    if not isinstance(schema, dict):
        return
    yield schema
    for name in _NAMED:
        for each in schema.get(name, {}).values():
            yield from parts(each)
    for name in _LISTED:
        for each in schema.get(name, ()):
            yield from parts(each)
    for name in _ALONE:
        yield from parts(schema.get(name))


def known(schema: dict[str, Any], more: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return *schema* with what cannot be enforced in its descriptions.

    Whoever gets the answer still checks it.

    :param more: what can be, beside what everybody can enforce.
    """
    made: dict[str, Any] = {}
    untold: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "items" and value is False:  # prefixItems and maxItems say it
            continue
        if name == "const":
            made["enum"] = [value]
            continue
        word = "anyOf" if name == "oneOf" else name
        is_known = word in _COMMON or word in more
        if is_known and (word != "format" or value in _FORMATS):
            made[word] = _walked(word, value, lambda each: known(each, more))
        elif value is not None:
            untold[word] = value
    if untold:
        said = ", ".join(f"{name}: {_json(value)}" for name, value in untold.items())
        before = made.get("description", "")
        made["description"] = f"{before} ({said})" if before else said
    return made


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* with nothing left open.

    Those who enforce a form want every property to be there, and no other. What could
    be left out before may be null then. Where a schema says itself what else may be
    there it is left as it is.
    """
    closed = {name: _walked(name, value, strict) for name, value in schema.items()}
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


def _walked(name: str, value: Any, change: Any) -> Any:
    """Return what stands by *name* in a schema, with each schema in it changed."""
    if name in _NAMED and isinstance(value, dict):
        return {key: _changed(each, change) for key, each in value.items()}
    if name in _LISTED and isinstance(value, list):
        return [_changed(each, change) for each in value]
    return _changed(value, change) if name in _ALONE else value


def _changed(value: Any, change: Any) -> Any:
    return change(value) if isinstance(value, dict) else value


def _or_null(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if "enum" in schema or "const" in schema or not isinstance(kind, (str, list)):
        return {"anyOf": [schema, _NULL]}
    kinds = [kind] if isinstance(kind, str) else kind
    return {**schema, "type": kinds if "null" in kinds else [*kinds, "null"]}
