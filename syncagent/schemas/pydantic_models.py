"""Classes that check their values themselves, such as pydantic's.

They are known by their methods: nothing is imported for them.
"""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any, Final, get_origin

from ..exceptions import ConfigurationError

__all__ = ["ANYTHING", "FIELDS", "check", "is_model", "schema_of_class"]

#: A schema that says nothing and is not empty, for msgspec takes no empty one.
ANYTHING: Final = {"$comment": "anything"}
#: What to use for a class of one's own.
FIELDS: Final = "a dataclass, a TypedDict, a msgspec.Struct or a pydantic model"


def is_model(cls: Any) -> bool:
    """Does *cls* have a schema and checks of its own?"""
    return hasattr(cls, "model_json_schema") and hasattr(cls, "model_validate")


def schema_of_class(cls: Any) -> dict[str, Any]:
    """Return the JSON schema of a class that msgspec does not know.

    :raises ConfigurationError: there is none.
    """
    if is_model(cls):
        schema: dict[str, Any] = cls.model_json_schema()
        return schema or ANYTHING
    if cls is object:
        return ANYTHING
    raise ConfigurationError(
        f"{_name(cls)} has no JSON schema; use {_in_its_place(cls)} in its place"
    )


def _name(cls: Any) -> str:
    return cls.__qualname__ if isinstance(cls, type) else str(cls)


def _in_its_place(cls: Any) -> str:
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
    """Return *value* as an instance of *cls*, which looks after that itself."""
    try:
        return cls.model_validate(value)
    except ValueError:
        # a strict model takes "2024-05-01" for a date from JSON only
        if (again := getattr(cls, "model_validate_json", None)) is None:
            raise
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            text = None
        if text is None:
            raise
        return again(text)
