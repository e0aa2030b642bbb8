"""One JSON schema of a type, with as few references as can be."""

from __future__ import annotations

import functools
from typing import Any, Final

import msgspec

from ..exceptions import ConfigurationError
from .hints import classes_in, description_of, fields_of
from .pydantic_models import FIELDS, schema_of_class

__all__ = ["REFERENCE", "make_schema"]

REFERENCE: Final = "#/$defs/"
#: Where schemas are in a schema: by name, in a list, or alone.
_NAMED: Final = ("properties", "patternProperties")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_ALONE: Final = ("items", "additionalProperties", "propertyNames", "not")
#: What speaks of references that are gone, or to nobody.
_DROPPED: Final = ("$defs", "$ref", "$comment", "discriminator")
_TYPES: Final = {str: "string", int: "integer"}


def make_schema(hint: Any) -> dict[str, Any]:
    """Return the JSON schema of *hint*; only what contains itself is referred to.

    :raises ConfigurationError: there is none.
    """
    try:
        classes = classes_in(hint)
        (root, *named), parts = msgspec.json.schema_components(
            [hint, *classes],
            schema_hook=functools.cache(schema_of_class),
            ref_template=REFERENCE + "{name}",
        )
    except ConfigurationError:
        raise
    except NameError as error:
        raise ConfigurationError(
            f"a hint in {hint!r} names {error.name!r}, which is not there; define it "
            "at the top of its module, and not under TYPE_CHECKING"
        ) from error
    except Exception as error:  # a model of the user's may raise anything
        raise ConfigurationError(
            f"{hint!r} cannot be a JSON schema: {_reason(error)}"
        ) from error
    for cls, reference in zip(classes, named, strict=True):
        part = parts.get(reference.get("$ref", "").removeprefix(REFERENCE))
        if part is not None:
            _describe(part, fields_of(cls))
    return _Inliner().inline({"$defs": parts, **root})


def _reason(error: Exception) -> str:
    said = str(error).replace("\n", " ").removesuffix(" is not supported")
    if "union" in said:
        return f"{said}; use one type, or several msgspec.Structs with tags"
    if "Enum" in said or "Literal" in said:
        return f"{said}; use strings"
    return f"{said}; use scalars, lists, dicts, {FIELDS}"


def _describe(part: dict[str, Any], hints: dict[str, Any]) -> None:
    """Add what the fields are annotated with, as msgspec knows its own words only."""
    fields: dict[str, Any] = part.get("properties") or dict(
        zip(hints, part.get("prefixItems", ()), strict=False)
    )
    for name, hint in hints.items():
        text = description_of(hint)
        if text and name in fields:
            fields[name].setdefault("description", text)
    if "properties" in part:  # those of a TypedDict come in the order of the alphabet
        first = {name: fields.pop(name) for name in [*hints] if name in fields}
        part["properties"] = {**fields, **first}
        required = part.get("required", ())
        part["required"] = [name for name in part["properties"] if name in required]


class _Inliner:
    """Puts in the place of each reference what it refers to.

    A reference counts in the innermost schema with ``$defs``, as the schema of a model
    of pydantic's brings its own along.
    """

    def __init__(self) -> None:
        #: What contains itself, by the name that it has in the end.
        self._kept: dict[str, dict[str, Any]] = {}
        #: The same by what it was made of.
        self._names: dict[int, str] = {}
        self._open: list[int] = []

    def inline(self, schema: dict[str, Any]) -> dict[str, Any]:
        made = self._schema(schema, {})
        while set(made) == {"$ref"}:  # an object is wanted at the top
            made = {**self._kept[made["$ref"].removeprefix(REFERENCE)]}
        return {**made, "$defs": self._kept} if self._kept else made

    def _schema(self, schema: Any, scope: dict[str, Any]) -> Any:
        if not isinstance(schema, dict):
            return schema
        scope = schema.get("$defs", scope)
        made = {
            key: self._inner(key, value, scope)
            for key, value in schema.items()
            if key not in _DROPPED
        }
        if "enum" in made and "type" not in made:
            made.update(_type_of(made["enum"]))
        reference = schema.get("$ref")
        return made if reference is None else self._referred(reference, made, scope)

    def _inner(self, key: str, value: Any, scope: dict[str, Any]) -> Any:
        if key in _NAMED and isinstance(value, dict):
            return {name: self._schema(each, scope) for name, each in value.items()}
        if key in _LISTED and isinstance(value, list):
            return [self._schema(each, scope) for each in value]
        return self._schema(value, scope) if key in _ALONE else value

    def _referred(
        self, reference: str, beside: dict[str, Any], scope: dict[str, Any]
    ) -> dict[str, Any]:
        name = reference.removeprefix(REFERENCE)
        target = scope.get(name)
        if target is None:
            return {"$ref": reference, **beside}
        if id(target) not in self._names and id(target) not in self._open:
            self._open.append(id(target))
            made = self._schema(target, scope)
            self._open.pop()
            if id(target) not in self._names:
                return {**made, **beside}
            self._kept[self._names[id(target)]] = made
        kept = {"$ref": REFERENCE + self._name(name, target)}
        # some take nothing beside a reference
        return {"anyOf": [kept], **beside} if beside else kept

    def _name(self, name: str, target: dict[str, Any]) -> str:
        if id(target) not in self._names:
            taken = self._names.values()
            number = 1
            free = name
            while free in taken:
                number += 1
                free = f"{name}_{number}"
            self._names[id(target)] = free
        return self._names[id(target)]


def _type_of(values: list[Any]) -> dict[str, str]:
    """Return the type of an enumeration, which some want to be told."""
    kinds = {type(value) for value in values}
    known = _TYPES.get(kinds.pop()) if len(kinds) == 1 else None
    return {"type": known} if known else {}
