"""Tools whose parameters are given as a JSON schema."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ..exceptions import ConfigurationError
from ..schemas import ShapeError
from ..schemas.docstrings import read_docstring

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
        self, function: Callable[..., Any], schema: Any, context_type: type
    ) -> None:
        if inspect.iscoroutinefunction(function):
            raise ConfigurationError(
                f"{function!r} is asynchronous, and syncagent is synchronous: write it "
                "with def, or call asyncio.run() in a function that is"
            )
        self.parameters: dict[str, Any] = {
            "type": "object",
            "properties": {},
            **_checked(schema),
        }
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


def _checked(schema: Any) -> dict[str, Any]:
    """Return a copy of *schema*, as JSON has it."""
    try:
        copy = msgspec.json.decode(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal(f"it is no JSON: {error}") from None
    if not isinstance(copy, dict):
        raise _refusal(f"got {schema!r:.80}")
    if copy.get("type", "object") != "object":
        raise _refusal(f"got {copy['type']!r}")
    if not isinstance(copy.get("properties", {}), dict):
        raise _refusal(f"properties is an object; got {copy['properties']!r:.80}")
    required = copy.get("required", [])
    are_names = isinstance(required, list) and all(
        isinstance(name, str) for name in required
    )
    if not are_names:
        raise _refusal(f"required is a list of names; got {required!r:.80}")
    return copy


def _refusal(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the parameters of a tool are a JSON schema of type object; {why}"
    )


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
        if hint is parameter.empty:
            is_context = parameter.name == "ctx"
        else:  # perhaps in words, perhaps one of several
            is_context = bool(re.search(rf"\b{context_type.__name__}\b", str(hint)))
        if is_context:
            return parameter.name
    return None
