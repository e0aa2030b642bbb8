"""The JSON schema of a type, with as few references as possible."""

from __future__ import annotations

import functools
from typing import Any, Final

import msgspec

from ..exceptions import ConfigurationError
from .hints import classes_in, description_of, fields_of
from .pydantic_models import FIELDS, schema_of_class

__all__ = ["REFERENCE", "make_schema"]

REFERENCE: Final = "#/$defs/"
#: Keywords whose values are schemas: by name, in a list, or a single one.
_NAMED: Final = ("properties", "patternProperties")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE: Final = ("items", "additionalProperties", "propertyNames", "not")
#: Keywords that are left out: references are resolved, comments are not for a model.
_DROPPED: Final = ("$defs", "$ref", "$comment", "discriminator")
_TYPES: Final = {str: "string", int: "integer"}


def make_schema(hint: Any) -> dict[str, Any]:
    """Return the JSON schema of *hint*; only recursive types are references.

    :raises ConfigurationError: it has none.
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
            f"a hint in {hint!r} names {error.name!r}, which is not defined; "
            "define it at the top of its module, and not under TYPE_CHECKING"
        ) from error
    except Exception as error:  # a user's class may raise anything
        reason = str(error).replace("\n", " ").removesuffix(" is not supported")
        advice = f"use scalars, lists, dicts, {FIELDS}"
        if "union" in reason:
            advice = "use one type, or several msgspec.Structs with tags"
        elif "Enum" in reason or "Literal" in reason:
            advice = "use strings"
        raise ConfigurationError(
            f"{hint!r} has no JSON schema: {reason}; {advice}"
        ) from error
    for cls, reference in zip(classes, named, strict=True):
        part = parts.get(reference.get("$ref", "").removeprefix(REFERENCE))
        if part is not None:
            _describe(part, fields_of(cls))
    return _Inliner().inline({"$defs": parts, **root})


def _describe(part: dict[str, Any], hints: dict[str, Any]) -> None:
    """Add the descriptions of fields; msgspec knows only those in its own ``Meta``."""
    fields: dict[str, Any] = part.get("properties") or dict(
        zip(hints, part.get("prefixItems", ()), strict=False)
    )
    for name, hint in hints.items():
        text = description_of(hint)
        if text and name in fields:
            fields[name].setdefault("description", text)
    if "properties" in part:  # those of a TypedDict are sorted by name
        first = {name: fields.pop(name) for name in [*hints] if name in fields}
        part["properties"] = {**fields, **first}
        required = part.get("required", ())
        part["required"] = [name for name in part["properties"] if name in required]


class _Inliner:
    """Replaces each reference by its target.

    A reference is resolved in the innermost schema with ``$defs``, as a pydantic model
    brings its own.
    """

    def __init__(self) -> None:
        #: Recursive schemas, by their names in the result.
        self._kept: dict[str, dict[str, Any]] = {}
        #: Their names, by the id of the original schema.
        self._names: dict[int, str] = {}
        self._open: list[int] = []

    def inline(self, schema: dict[str, Any]) -> dict[str, Any]:
        made = self._schema(schema, {})
        while set(made) == {"$ref"}:  # the top must not be a reference
            made = {**self._kept[made["$ref"].removeprefix(REFERENCE)]}
        return {**made, "$defs": self._kept} if self._kept else made

    def _schema(self, schema: Any, scope: dict[str, Any]) -> Any:
        if not isinstance(schema, dict):
            return schema
        scope = schema.get("$defs", scope)
        made: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _NAMED and isinstance(value, dict):
                made[key] = {n: self._schema(each, scope) for n, each in value.items()}
            elif key in _LISTED and isinstance(value, list):
                made[key] = [self._schema(each, scope) for each in value]
            elif key not in _DROPPED:
                made[key] = self._schema(value, scope) if key in _SINGLE else value
        if "enum" in made and "type" not in made:  # some providers require a type
            kinds = {type(value) for value in made["enum"]}
            if len(kinds) == 1 and (kind := kinds.pop()) in _TYPES:
                made["type"] = _TYPES[kind]
        reference = schema.get("$ref")
        return made if reference is None else self._resolved(reference, made, scope)

    def _resolved(
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
        if id(target) not in self._names:
            free, number = name, 1
            while free in self._names.values():
                number += 1
                free = f"{name}_{number}"
            self._names[id(target)] = free
        kept = {"$ref": REFERENCE + self._names[id(target)]}
        # Some providers reject keywords beside a reference.
        return {"anyOf": [kept], **beside} if beside else kept
