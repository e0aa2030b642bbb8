"""Classes that validate themselves, such as pydantic's.

They are recognised by their methods: pydantic is not imported.
"""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any, Final, get_origin

from ..exceptions import ConfigurationError

__all__ = ["ANYTHING", "FIELDS", "check", "is_model", "schema_of_class"]

#: A schema for any value; msgspec rejects an empty one.
ANYTHING: Final = {"$comment": "anything"}
#: The kinds of classes that work, for error messages.
FIELDS: Final = "a dataclass, a TypedDict, a msgspec.Struct or a pydantic model"


def is_model(cls: Any) -> bool:
    """Return whether *cls* has a schema and validation of its own."""
    return hasattr(cls, "model_json_schema") and hasattr(cls, "model_validate")


def schema_of_class(cls: Any) -> dict[str, Any]:
    """Return the JSON schema of a class that msgspec does not know.

    :raises ConfigurationError: it has none.
    """
    if is_model(cls):
        schema: dict[str, Any] = cls.model_json_schema()
        return schema or ANYTHING
    if cls is object:
        return ANYTHING
    name = cls.__qualname__ if isinstance(cls, type) else str(cls)
    raise ConfigurationError(f"{name} has no JSON schema; use {_substitute(cls)}")


def _substitute(cls: Any) -> str:
    kind = get_origin(cls) or cls
    if not isinstance(kind, type):
        return FIELDS
    if kind is complex:
        return "float"
    if issubclass(kind, (PurePath, str)):
        return "str"
    if hasattr(kind, "__iter__") and kind.__module__ == "collections.abc":
        return "list"
    if hasattr(kind, "parse_obj"):
        return "a model of pydantic 2"
    return FIELDS


def check(cls: Any, value: Any) -> Any:
    """Return *value* as an instance of *cls*, which validates it."""
    try:
        return cls.model_validate(value)
    except ValueError:
        # A strict model takes "2024-05-01" for a date from JSON only.
        if (validate_json := getattr(cls, "model_validate_json", None)) is None:
            raise
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            text = None
        if text is None:
            raise
        return validate_json(text)
