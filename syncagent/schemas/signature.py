"""The parameters of a function as a JSON schema, and calls of it."""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator
from inspect import Parameter
from typing import Annotated, Any, Final, NoReturn

import msgspec

from ..exceptions import ConfigurationError
from . import Shape, check_depth
from .docstrings import read_docstring
from .hints import description_of, readable

__all__ = ["Signature", "read_signature", "resolve_hint"]

#: A parameter of this name without an annotation gets the context.
_CONTEXT_NAME: Final = "ctx"


class Signature:
    """The parameters of a function as a JSON schema, and arguments for them.

    :func:`read_signature` makes it.
    """

    __slots__ = (
        "_fields",
        "_shape",
        "context_name",
        "description",
        "name",
        "parameters",
    )

    def __init__(
        self,
        name: str,
        description: str,
        fields: list[_Field],
        context_name: str | None,
    ) -> None:
        self.name: str = name
        self.description: str = description
        #: The name of the parameter that gets the context.
        self.context_name: str | None = context_name
        self._shape = Shape(_struct_of(fields))
        #: The JSON schema of the arguments.
        self.parameters: dict[str, Any] = _parameters(self._shape.schema, fields)
        self._fields = [(f.name, f.is_positional, f.default) for f in fields]

    def bind(self, arguments: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments to call the function with, validated and converted.

        A parameter with a default may be left out. The context is not among them; the
        caller adds it by its name.

        :param arguments: the model's arguments, decoded from JSON.
        :raises ShapeError: one is missing, unknown, or of the wrong type.
        """
        check_depth(arguments)
        values = msgspec.structs.astuple(self._shape.convert(arguments))
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for (name, is_positional, default), value in zip(
            self._fields, values, strict=True
        ):
            if is_positional:
                args.append(default if value is msgspec.UNSET else value)
            elif value is not msgspec.UNSET:
                kwargs[name] = value
        return args, kwargs

    def __repr__(self) -> str:
        return f"<Signature of {self.name}: {', '.join(self.parameters['properties'])}>"


class _Field(typing.NamedTuple):
    """A parameter that the model fills."""

    name: str
    hint: Any
    default: Any
    is_positional: bool


def read_signature(function: Callable[..., Any], *, context_type: type) -> Signature:
    """Return the signature of *function* for a model.

    Names and types come from its signature, descriptions from ``Annotated`` and from
    the docstring. Keywords that a :func:`functools.partial` binds are left out.

    :param context_type: the type of the parameter that gets the context; a parameter
        ``ctx`` without a type gets it, too.
    :raises ConfigurationError: a model cannot call the function.
    """
    target = _target(function)
    label = getattr(target, "__qualname__", repr(function))
    if getattr(target, "__name__", "") == "__call__":
        # getdoc() would find the docstring of type.__call__.
        doc: str | None = target.__doc__ or type(target.__self__).__doc__
    else:
        doc = inspect.getdoc(target)
    docstring = read_docstring(doc)
    fields: list[_Field] = []
    context_name = None
    for parameter in _open_parameters(function, label):
        hint = _hint(parameter, target, context_type, label)
        if hint is None:
            if context_name is not None or parameter.kind is Parameter.POSITIONAL_ONLY:
                _refuse(
                    label,
                    parameter,
                    "must be the only one for the context, and not positional-only",
                )
            context_name = parameter.name
            continue
        text = docstring.parameters.get(parameter.name)
        if text and not description_of(hint):
            hint = Annotated[hint, text]
        is_positional = parameter.kind is Parameter.POSITIONAL_ONLY
        try:
            Shape(hint)
        except ConfigurationError as error:
            _refuse(label, parameter, f"has an unusable type: {error}", error)
        fields.append(_Field(parameter.name, hint, parameter.default, is_positional))
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        name = type(function).__name__
    return Signature(name, docstring.summary, fields, context_name)


def _target(function: Any) -> Any:
    """Return the function behind a partial or a callable object.

    :raises ConfigurationError: it is not a function, or asynchronous, or a generator.
    """
    target = function
    while isinstance(target, functools.partial):
        target = target.func
    if isinstance(target, type) or not callable(target):
        raise ConfigurationError(
            f"{function!r} is not a function; write one that uses it"
        )
    if not inspect.isroutine(target) and not hasattr(target, "__wrapped__"):
        target = target.__call__
    if inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target):
        raise ConfigurationError(
            f"{target.__qualname__} is asynchronous, and syncagent is synchronous: "
            "write it with def, or call asyncio.run() in a function that is synchronous"
        )
    if inspect.isgeneratorfunction(target):
        raise ConfigurationError(
            f"{target.__qualname__} is a generator, and its values would be lost: "
            "return a list of them"
        )
    return target


def _open_parameters(function: Any, label: str) -> Iterator[Parameter]:
    """Yield the parameters that a partial does not bind.

    :raises ConfigurationError: one of them is ``*args`` or ``**kwargs``.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError, NameError) as error:
        raise ConfigurationError(
            f"the parameters of {label} cannot be read: {error}; write a function with "
            "type hints that calls it"
        ) from error
    known = function.keywords if isinstance(function, functools.partial) else {}
    for parameter in parameters:
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            _refuse(label, parameter, "takes anything; give each parameter a name")
        if parameter.name not in known:
            yield parameter


def _hint(parameter: Parameter, target: Any, context: type, label: str) -> Any:
    """Return the type of a parameter, or ``None`` if it gets the context."""
    hint = parameter.annotation
    if hint is Parameter.empty:
        if parameter.name == _CONTEXT_NAME:
            return None
        if parameter.name == "self":
            _refuse(label, parameter, "is not bound; use the method of an object")
        _refuse(
            label, parameter, f"has no type; write for example {parameter.name}: str"
        )
    try:
        found = resolve_hint(hint, target)
    except Exception as error:
        if isinstance(hint, str) and re.search(rf"\b{context.__name__}\b", hint):
            return None  # imported for type checkers only
        name = getattr(error, "name", None) or hint
        _refuse(
            label,
            parameter,
            f"has the type {hint!r}, and {name!r} is not defined; define it at the top "
            "of the module, and not under TYPE_CHECKING",
            error,
        )
    return None if _is_context(found, context) else found


def resolve_hint(hint: Any, target: Any) -> Any:
    """Return a hint with its names resolved in the scope of the function."""
    target = inspect.unwrap(target)
    target = getattr(target, "__func__", target)
    code = getattr(target, "__code__", None)
    cells = zip(
        getattr(code, "co_freevars", ()),
        getattr(target, "__closure__", None) or (),
        strict=False,
    )
    names = {p.__name__: p for p in getattr(target, "__type_params__", ())}
    names.update((name, cell.cell_contents) for name, cell in cells if _is_full(cell))
    # Not the function itself: 3.10 makes ``x: int = None`` optional, and then drops
    # the annotation.
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    found = typing.get_type_hints(
        holder, getattr(target, "__globals__", {}), names, include_extras=True
    )
    return found["hint"]


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not _is_full
    except ValueError:  # the name is assigned later
        return False


def _is_context(hint: Any, context: type) -> bool:
    if typing.get_origin(hint) is Annotated:
        hint = hint.__origin__
    choices = [each for each in typing.get_args(hint) if each is not type(None)]
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    if is_union and len(choices) == 1:
        return _is_context(choices[0], context)
    hint = typing.get_origin(hint) or hint  # a context may be generic
    return isinstance(hint, type) and issubclass(hint, context)


def _refuse(
    label: str, parameter: Parameter, why: str, error: Exception | None = None
) -> NoReturn:
    name = str(parameter.replace(annotation=Parameter.empty, default=Parameter.empty))
    raise ConfigurationError(f"{label}: the parameter {name} {why}") from error


def _struct_of(fields: list[_Field]) -> type[msgspec.Struct]:
    """Return a class to convert all arguments to at once.

    Its fields are numbered: a parameter may have a name that a field cannot have.
    """
    made: list[Any] = []
    for number, field in enumerate(fields):
        hint = readable(field.hint)
        if field.default is Parameter.empty:
            made.append((f"f{number}", hint))
        else:
            unset = msgspec.field(default_factory=lambda: msgspec.UNSET)
            made.append((f"f{number}", hint, unset))
    return msgspec.defstruct(
        "Arguments",
        made,
        rename={f"f{number}": field.name for number, field in enumerate(fields)},
        forbid_unknown_fields=True,
        kw_only=True,
    )


def _parameters(schema: dict[str, Any], fields: list[_Field]) -> dict[str, Any]:
    properties: dict[str, Any] = dict(schema["properties"])
    for field in fields:
        if field.default is not Parameter.empty:
            try:
                text = msgspec.json.encode(
                    field.default, enc_hook=lambda value: value.model_dump(mode="json")
                )
                default = {"default": msgspec.json.decode(text)}
            except Exception:  # no JSON, or a user's object that raises anything
                default = {}
            properties[field.name] = {**properties[field.name], **default}
    made = {"type": "object", "properties": properties, "required": schema["required"]}
    made["additionalProperties"] = False
    if "$defs" in schema:
        made["$defs"] = schema["$defs"]
    return made
