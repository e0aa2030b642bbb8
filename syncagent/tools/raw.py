"""Signatures of tools whose parameters are given as a JSON schema."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ..exceptions import ConfigurationError
from ..schemas import ShapeError, check_depth
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
_NAMELESS: Final = inspect.Parameter.POSITIONAL_ONLY


class RawSignature:
    """A signature given by a JSON schema.

    Names and top-level types are checked; nested values are left to the function.

    :raises ConfigurationError: it is not the schema of an object, or the function
        cannot take all that it lists.
    """

    def __init__(
        self, function: Callable[..., Any], schema: Any, context_type: type
    ) -> None:
        if inspect.iscoroutinefunction(function):
            raise ConfigurationError(
                f"{function!r} is asynchronous, and tools are synchronous: define it "
                "with def, or call asyncio.run() in a function defined with def"
            )
        if inspect.isgeneratorfunction(function):
            raise ConfigurationError(
                f"{function!r} is a generator, and its values would be lost: return a "
                "list of them"
            )
        self.parameters: dict[str, Any] = {
            "type": "object",
            "properties": {},
            **_plain_schema(schema),
        }
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self.description = read_docstring(getattr(function, "__doc__", None)).summary
        #: The name of the parameter that gets the context; empty if it has no name, is
        #: positional-only, and so comes first.
        self.context_name = _find_context(
            function, context_type, self.parameters["properties"]
        )

    def bind(self, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and keyword arguments for the function.

        :raises ShapeError: an argument is missing, unknown or of the wrong type.
        """
        check_depth(arguments)
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
            hint = properties[name]
            kinds = hint.get("type") if isinstance(hint, dict) else None
            if isinstance(kinds, str):
                kinds = [kinds]
            if isinstance(kinds, list) and not any(
                isinstance(value, _TYPES.get(kind, (object,)))
                # A bool is an int in Python, but not in JSON.
                and not (isinstance(value, bool) and kind in ("integer", "number"))
                for kind in kinds
            ):
                got = f"{type(value).__name__} ({value!r:.60})"
                raise ShapeError(f"$.{name}", " or ".join(map(str, kinds)), got)
        return [], dict(arguments)


def _plain_schema(schema: Any) -> dict[str, Any]:
    """Return a copy of *schema* made of JSON values."""
    try:
        copy = msgspec.json.decode(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal(f"it cannot be encoded as JSON: {error}") from None
    if not isinstance(copy, dict):
        raise _refusal(f"got {schema!r:.80}")
    if copy.get("type", "object") != "object":
        raise _refusal(f"got {copy['type']!r}")
    if not isinstance(copy.get("properties", {}), dict):
        raise _refusal(f"properties must be an object; got {copy['properties']!r:.80}")
    required = copy.get("required", [])
    are_names = isinstance(required, list) and all(
        isinstance(name, str) for name in required
    )
    if not are_names:
        raise _refusal(f"required must be a list of names; got {required!r:.80}")
    return copy


def _refusal(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the parameters of a tool must be a JSON schema of type object; {why}"
    )


def _find_context(
    function: Callable[..., Any], context_type: type, properties: dict[str, Any]
) -> str | None:
    bound = getattr(getattr(function, "__func__", None), "__code__", None)
    if bound is not None and bound.co_argcount and not bound.co_posonlyargcount:
        _check_free(function, bound.co_varnames[0], properties)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    for parameter in parameters:
        hint, is_nameless = parameter.annotation, parameter.kind is _NAMELESS
        if hint is parameter.empty:
            is_free = is_nameless or "ctx" not in properties
            is_context = is_free and parameter.name == "ctx"
        else:  # it may be a string, or part of a union
            is_context = bool(re.search(rf"\b{context_type.__name__}\b", str(hint)))
        if is_context and is_nameless:
            return ""
        if is_context:
            _check_free(function, parameter.name, properties)
            return parameter.name
    return None


def _check_free(
    function: Callable[..., Any], name: str, properties: dict[str, Any]
) -> None:
    """Check that no argument has the name of a parameter that is filled already."""
    if name in properties:
        own = getattr(function, "__name__", "f")
        raise ConfigurationError(
            f"the schema of {own} lists {name!r}, which is the name of another "
            f"parameter of it; make that positional-only: def {own}({name}, /, ...)"
        )
