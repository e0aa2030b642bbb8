"""Tools whose parameters are given as a JSON schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from ..exceptions import ConfigurationError
from ..shapes import ShapeError
from .docstrings import read_docstring

__all__ = ["RawSignature"]

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class RawSignature:
    """What a JSON schema says about the arguments.

    Names and top-level types are checked; what is inside is left to the function.

    :raises ConfigurationError: it is no schema of an object.
    """

    def __init__(
        self, function: Callable[..., Any], schema: dict[str, Any], context_type: type
    ) -> None:
        if schema.get("type", "object") != "object":
            raise ConfigurationError(
                "the parameters of a tool are a JSON schema of type object; got "
                f"{schema.get('type')!r}"
            )
        self.parameters = {"type": "object", "properties": {}, **schema}
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self.description = read_docstring(getattr(function, "__doc__", None)).summary
        self.context_name = _find_context(function, context_type)

    def bind(self, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return what to call the function with.

        :raises ShapeError: an argument is missing, unknown or of the wrong type.
        """
        properties: dict[str, Any] = self.parameters["properties"]
        for name in self.parameters.get("required", ()):
            if name not in arguments:
                raise ShapeError("$", f"an argument {name!r}", "none")
        for name, value in arguments.items():
            if name not in properties:
                if self.parameters.get("additionalProperties") is False:
                    known = ", ".join(properties) or "none"
                    raise ShapeError("$", f"arguments {known}", repr(name))
                continue
            _check_type(name, value, properties[name])
        return [], dict(arguments)


def _check_type(name: str, value: Any, schema: Any) -> None:
    said = schema.get("type") if isinstance(schema, dict) else None
    kinds = [said] if isinstance(said, str) else said
    if not isinstance(kinds, list):
        return
    for kind in kinds:
        is_bool = isinstance(value, bool) and kind in ("integer", "number")
        if isinstance(value, _TYPES.get(kind, (object,))) and not is_bool:
            return
    expected = " or ".join(map(str, kinds))
    raise ShapeError(f"$.{name}", expected, f"{type(value).__name__} ({value!r:.60})")


def _find_context(function: Callable[..., Any], context_type: type) -> str | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    for parameter in parameters:
        hint = parameter.annotation
        if hint in (context_type, context_type.__name__) or (
            hint is parameter.empty and parameter.name == "ctx"
        ):
            return parameter.name
    return None
