"""Forms: flat JSON schemas of the answers to a question, and answers that fit them.

A form is an object schema whose properties are texts, numbers, yes-or-no values,
choices, or lists of choices: what a page or a terminal can ask for, field by field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from ..exceptions import ConfigurationError

__all__ = [
    "FieldChoice",
    "FieldKind",
    "Form",
    "FormField",
    "find_problem",
    "has_format",
]

#: The kind of a field: a text, a number, a whole number, yes or no, one of several
#: choices, or any number of them.
FieldKind = Literal["text", "number", "integer", "boolean", "choice", "choices"]

#: The largest form, in fields and in bytes of JSON.
_MAX_FIELDS: Final = 100
_MAX_BYTES: Final = 256 * 1024
#: The largest number; beyond it JSON readers disagree.
_MAX_NUMBER: Final = 2**63 - 1

_YES: Final = frozenset(("yes", "y", "true", "on", "1"))
_NO: Final = frozenset(("no", "n", "false", "off", "0"))
_INTEGER: Final = re.compile(r"[+-]?\d{1,100}", re.ASCII)
_NUMBER: Final = re.compile(
    r"[+-]?(\d{1,100}\.?\d{0,100}|\.\d{1,100})([eE][+-]?\d{1,3})?", re.ASCII
)
_EMAIL: Final = re.compile(r"[^\s@]+@[^\s@]+")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(:\d\d)?)(\.\d+)?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)
#: The formats that are checked, and an example of each.
_EXAMPLES: Final = {
    "email": "an email address, such as ann@example.com",
    "uri": "an address, such as https://example.com/",
    "date": "a date, such as 2026-01-31",
    "date-time": "a date and time, such as 2026-01-31T12:00:00Z",
}
#: The keywords that limit each kind of field.
_LIMITS: Final = {
    "text": ("minLength", "maxLength"),
    "choices": ("minItems", "maxItems"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
}


class FieldChoice(msgspec.Struct, frozen=True):
    """A value that a field can have, and its name for people."""

    value: str
    title: str


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a form."""

    name: str
    kind: FieldKind
    title: str
    description: str = ""
    is_required: bool = False
    #: The value of a field that is left out, if there is one.
    default: Any = msgspec.UNSET
    choices: tuple[FieldChoice, ...] = ()
    #: Limits of a number, of the length of a text, or of how many choices.
    minimum: float | None = None
    maximum: float | None = None
    #: ``email``, ``uri``, ``date``, ``date-time``, or an empty string.
    format: str = ""

    def parse(self, text: str) -> Any:
        """Return the value that a person means who types *text*.

        :raises ConfigurationError: it is not a value of this field.
        """
        typed, value = text.strip(), text
        match self.kind:
            case "text":
                return self.check(typed if self.format else text)
            case "choice":
                return self.check(self._find_choice(typed))
            case "choices":
                parts = (part.strip() for part in text.split(","))
                return self.check([self._find_choice(part) for part in parts if part])
            case "boolean":
                words = {**dict.fromkeys(_YES, True), **dict.fromkeys(_NO, False)}
                return self.check(words.get(typed.lower(), value))
        if _INTEGER.fullmatch(typed):
            return self.check(int(typed))
        return self.check(float(typed) if _NUMBER.fullmatch(typed) else value)

    def _find_choice(self, typed: str) -> str:
        """Return the choice with this value, else with this title or number."""
        if any(typed == choice.value for choice in self.choices):
            return typed
        for number, choice in enumerate(self.choices, 1):
            names = (choice.value.lower(), choice.title.lower(), str(number))
            if typed.lower() in names:
                return choice.value
        return typed

    def check(self, value: Any) -> Any:
        """Return *value*, an integer if it has to be one.

        :raises ConfigurationError: it is no value of this field; the message names it.
        """
        if self.kind == "integer" and isinstance(value, float) and value.is_integer():
            value = int(value)
        problem = find_problem(self, value)
        if problem:
            raise ConfigurationError(f"{self.name!r} {problem}")
        return value

    def excludes(self, number: float) -> bool:
        """Return whether a number, a length or a count is beyond the limits."""
        low, high = self.minimum, self.maximum
        return (low is not None and number < low) or (
            high is not None and number > high
        )

    @property
    def bounds(self) -> str:
        """The limits in words, such as ``1 to 10``; empty if there are none."""
        low, high = self.minimum, self.maximum
        if low is not None and high is not None:
            return f"{low:g}" if low == high else f"{low:g} to {high:g}"
        if low is not None:
            return f"at least {low:g}"
        return "" if high is None else f"at most {high:g}"


class Form(msgspec.Struct, frozen=True):
    """The fields of an answer, and the JSON schema they come from."""

    fields: tuple[FormField, ...]
    schema: dict[str, Any]

    @classmethod
    def of(cls, schema: Any) -> Form:
        """Return the form that a JSON schema describes.

        Keywords that it does not know, ``pattern`` among them, are kept in the schema
        and not checked.

        :raises ConfigurationError: it is not a form; the message says why.
        """
        if not isinstance(schema, Mapping):
            raise _bad(f"it must be a JSON schema; got a {type(schema).__name__}")
        try:  # a copy: its maker may change the schema
            encoded = msgspec.json.encode(schema)
            plain: dict[str, Any] = msgspec.json.decode(encoded)
        except (TypeError, ValueError, RecursionError) as error:
            raise _bad(f"it is not JSON: {error}") from None
        if len(encoded) > _MAX_BYTES:
            raise _bad(f"it has more than {_MAX_BYTES:,} bytes")
        properties, required = plain.get("properties"), plain.get("required", [])
        if plain.get("type") != "object" or not isinstance(properties, dict):
            raise _bad('it must have "type": "object" and "properties"')
        if len(properties) > _MAX_FIELDS:
            raise _bad(f"it has more than {_MAX_FIELDS} fields")
        if not isinstance(required, list) or not set(map(str, required)) <= set(
            properties
        ):
            raise _bad('"required" must list names of its fields')
        fields = (
            _read_field(name, each, name in required)
            for name, each in properties.items()
        )
        return cls(tuple(fields), plain)

    def check(self, answer: Any) -> dict[str, Any]:
        """Return an answer with the defaults of the fields that are left out.

        :param answer: the values by the names of the fields; or the same as JSON text;
            or, for a form with one field, what a person typed.
        :raises ConfigurationError: it does not fit; the message names the field.
        """
        given = self._values_of(answer)
        unknown = given.keys() - {field.name for field in self.fields}
        if unknown:
            names = ", ".join(repr(field.name) for field in self.fields) or "none"
            raise ConfigurationError(
                f"the form has no field {min(map(repr, unknown))}; its fields: {names}"
            )
        values: dict[str, Any] = {}
        for field in self.fields:
            value = given.get(field.name)
            if value is not None:
                values[field.name] = field.check(value)
            elif field.default is not msgspec.UNSET:
                default = field.default
                is_list = isinstance(default, list)
                values[field.name] = list(default) if is_list else default
            elif field.is_required:
                raise ConfigurationError(f"{field.name!r} is missing")
        return values

    def _values_of(self, answer: Any) -> dict[Any, Any]:
        if isinstance(answer, Mapping):
            return dict(answer)
        if not isinstance(answer, str):
            raise ConfigurationError(
                "the answer to a form must be a dict of its fields; got a "
                f"{type(answer).__name__}"
            )
        values: dict[Any, Any] | None = None
        with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
            values = msgspec.json.decode(answer, type=dict[str, Any])
        names = {field.name for field in self.fields}
        if len(self.fields) == 1 and not (values and values.keys() <= names):
            field = self.fields[0]
            return {field.name: field.parse(answer)} if answer.strip() else {}
        if values is None and not self.fields and answer.strip().lower() in _YES:
            return {}
        if values is None:
            example = ", ".join(f'"{field.name}": ...' for field in self.fields[:3])
            raise ConfigurationError(
                f"the answer to this form must be JSON, such as {{{example}}}"
            )
        return values


# -- reading a schema ------------------------------------------------------------------


def _bad(problem: str) -> ConfigurationError:
    return ConfigurationError(f"the form cannot be used: {problem}")


def _read_field(name: str, schema: Any, is_required: bool) -> FormField:
    if not isinstance(schema, dict):
        raise _bad(f"the field {name!r} must be a JSON schema")
    kind, choices = _kind_of(name, schema)
    low, high = (schema.get(keyword) for keyword in _LIMITS.get(kind, ("", "")))
    for limit in (low, high):
        if isinstance(limit, bool) or not isinstance(limit, (int, float, type(None))):
            raise _bad(f"the limits of {name!r} must be numbers")
    title, description = schema.get("title"), schema.get("description")
    format = schema.get("format")
    field = FormField(
        name=name,
        kind=kind,
        title=title if isinstance(title, str) and title.strip() else name,
        description=description if isinstance(description, str) else "",
        is_required=is_required,
        choices=choices,
        minimum=low,
        maximum=high,
        format=format if kind == "text" and format in _EXAMPLES else "",
    )
    default = schema.get("default")
    if default is None:
        return field
    try:
        return msgspec.structs.replace(field, default=field.check(default))
    except ConfigurationError as error:
        raise _bad(f"the default of {error}") from None


def _kind_of(
    name: str, schema: dict[str, Any]
) -> tuple[FieldKind, tuple[FieldChoice, ...]]:
    type = schema.get("type", "string" if "enum" in schema else None)
    if type == "string":
        choices = _choices(name, schema)
        return ("text", ()) if choices is None else ("choice", choices)
    if type == "array":
        items = schema.get("items")
        choices = _choices(name, items) if isinstance(items, dict) else None
        if choices is None:
            raise _bad(f"the list {name!r} must have items with choices")
        return "choices", choices
    if type in ("number", "integer", "boolean"):
        return type, ()
    raise _bad(
        f"the field {name!r} must be a string, number, integer, boolean, or an array "
        f"of choices; got type {type!r:.80}"
    )


def _choices(name: str, schema: dict[str, Any]) -> tuple[FieldChoice, ...] | None:
    """Return the choices of a schema; ``None`` if it has none."""
    keyword = next((key for key in ("enum", "oneOf", "anyOf") if key in schema), None)
    if keyword is None:
        return None
    found, names = schema[keyword], schema.get("enumNames")
    choices: list[FieldChoice] = []
    for number, each in enumerate(found if isinstance(found, list) else ()):
        value, title = each, None
        if isinstance(each, dict) and keyword != "enum":
            value, title = each.get("const"), each.get("title")
        elif isinstance(names, list) and len(names) == len(found):
            title = names[number]
        if not isinstance(value, str):
            choices = []
            break
        choices.append(FieldChoice(value, title if isinstance(title, str) else value))
    if not choices or len({choice.value for choice in choices}) != len(choices):
        raise _bad(f"the choices of {name!r} must be different strings")
    return tuple(choices)


# -- values ----------------------------------------------------------------------------


def find_problem(field: FormField, value: Any) -> str:
    """Return what is wrong with the value of a field; empty if nothing is."""
    values = [choice.value for choice in field.choices]
    match field.kind:
        case "text":
            if not isinstance(value, str):
                return "must be a text"
            if field.excludes(len(value)):
                return f"must have {field.bounds} characters; got {len(value)}"
            is_right = has_format(value, field.format)
            return "" if is_right else f"must be {_EXAMPLES[field.format]}"
        case "boolean":
            return "" if isinstance(value, bool) else "must be true or false"
        case "choice":
            return "" if value in values else f"must be one of: {', '.join(values)}"
        case "choices":
            is_list = isinstance(value, (list, tuple))
            if not is_list or any(each not in values for each in value):
                return f"must be a list of: {', '.join(values)}"
            if field.excludes(len(value)):
                return f"must have {field.bounds} of its choices; got {len(value)}"
            return ""
    kinds = int if field.kind == "integer" else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        return f"must be a {'whole ' * (field.kind == 'integer')}number"
    if not math.isfinite(value) or abs(value) > _MAX_NUMBER:
        return "is too large"
    return f"must be {field.bounds}" if field.excludes(value) else ""


def has_format(text: str, format: str) -> bool:
    """Return whether *text* has a format of JSON schema; true for an unknown one."""
    try:
        match format:
            case "email":
                return _EMAIL.fullmatch(text) is not None
            case "uri":
                parts = urlsplit(text)
                is_whole = bool(parts.scheme and (parts.netloc or parts.path))
                return is_whole and not any(each.isspace() for each in text)
            case "date":
                date.fromisoformat(text)
                return _DATE.fullmatch(text) is not None
            case "date-time":
                found = _TIME.fullmatch(text)
                if found is not None:
                    datetime.fromisoformat(f"{found[1]}T{found[2]}")
                return found is not None
    except ValueError:  # there is no such date, or no such host
        return False
    return True
