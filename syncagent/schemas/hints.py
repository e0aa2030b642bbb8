"""Type hints as msgspec reads them."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin
from typing import get_type_hints as _get_type_hints

import msgspec

__all__ = ["classes_in", "description_of", "fields_of", "readable"]

#: What others call as msgspec does (annotated_types, pydantic), and its type.
_SHARED: Final[dict[str, tuple[type, ...]]] = {
    "ge": (int, float),
    "gt": (int, float),
    "le": (int, float),
    "lt": (int, float),
    "multiple_of": (int, float),
    "min_length": (int,),
    "max_length": (int,),
    "pattern": (str,),
    "title": (str,),
    "description": (str,),
    "examples": (list,),
}
#: Words of a TypedDict that say nothing about the type.
_QUALIFIERS: Final = {"Required", "NotRequired", "ReadOnly"}


def readable(hint: Any) -> Any:
    """Return *hint* with all that is said about it in the words of msgspec.

    ``Annotated[int, "how many"]`` has a description then, and what annotated_types
    and pydantic say is known, too. What stands in classes is not touched.
    """
    if hint is object:
        return Any
    if get_origin(hint) is Annotated:
        metas = [meta for item in hint.__metadata__ for meta in _metas(item)]
        hint = readable(hint.__origin__)
        for meta in metas:
            hint = Annotated[hint, meta]
        return hint
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _one_kind_each(hint, args)
    if origin is None or not args:
        return hint
    inner = tuple(_readable_argument(each) for each in args)
    if inner == args:
        return hint
    is_union = origin in (Union, types.UnionType)
    return Union[inner] if is_union else origin[inner]  # noqa: UP007 - a tuple


def _one_kind_each(hint: Any, values: tuple[Any, ...]) -> Any:
    """Return a Literal as a union of such that have values of one type each.

    msgspec 0.20 cannot sort what is mixed.
    """
    kinds = dict.fromkeys(type(value) for value in values)
    if len(kinds) == 1:
        return hint
    parts = [tuple(v for v in values if type(v) is kind) for kind in kinds]
    made = tuple(None if part == (None,) else Literal[part] for part in parts)
    return Union[made]  # noqa: UP007 - a tuple


def _readable_argument(argument: Any) -> Any:
    # Callable[[int], str] has a list, tuple[int, ...] has an ellipsis
    return argument if isinstance(argument, list) else readable(argument)


def _metas(item: Any) -> Iterator[msgspec.Meta]:
    if isinstance(item, msgspec.Meta):
        yield item
    elif (text := _text(item)) is not None:
        yield msgspec.Meta(description=text)
    else:
        more = getattr(item, "metadata", None)
        for each in (item, *(more if isinstance(more, (list, tuple)) else ())):
            said = {name: getattr(each, name, None) for name in _SHARED}
            known = {k: v for k, v in said.items() if isinstance(v, _SHARED[k])}
            if known:
                yield msgspec.Meta(**cast("Any", known))


def _text(item: Any) -> str | None:
    """Return what a string or a ``typing_extensions.Doc`` says."""
    text = item if isinstance(item, str) else getattr(item, "documentation", None)
    return text if isinstance(text, str) else None


def description_of(hint: Any) -> str:
    """Return the description that *hint* is annotated with, or nothing."""
    origin = get_origin(hint)
    if str(origin).rpartition(".")[2] in _QUALIFIERS:
        return description_of(get_args(hint)[0])
    if origin is not Annotated:
        return ""
    metas = (meta for item in hint.__metadata__ for meta in _metas(item))
    return next((meta.description for meta in metas if meta.description), "")


def classes_in(hint: Any) -> list[Any]:
    """Return all classes with fields that *hint* is made of, each once.

    :raises NameError: a hint of a field names something that is not there.
    """
    found: dict[Any, None] = {}
    waiting = [hint]
    while waiting:
        each = waiting.pop()
        if get_origin(each) is Literal or not _is_hashable(each) or each in found:
            continue
        waiting.extend(get_args(each))
        hints = _hints_of(get_origin(each) or each)
        if hints is not None:
            found[each] = None
            waiting.extend(hints.values())
    return list(found)


def fields_of(cls: Any) -> dict[str, Any]:
    """Return the hints of the fields of a class, by their names in JSON."""
    cls = get_origin(cls) or cls
    hints = _hints_of(cls) or {}
    if issubclass(cls, msgspec.Struct):
        fields = msgspec.structs.fields(cls)
        return {field.encode_name: hints.get(field.name) for field in fields}
    return hints


def _hints_of(cls: Any) -> dict[str, Any] | None:
    if not isinstance(cls, type):
        return None
    is_typed_dict = issubclass(cls, dict) and hasattr(cls, "__total__")
    is_named_tuple = issubclass(cls, tuple) and hasattr(cls, "_fields")
    if not (
        is_typed_dict
        or is_named_tuple
        or issubclass(cls, msgspec.Struct)
        or hasattr(cls, "__dataclass_fields__")
    ):
        return None
    return _get_type_hints(cls, include_extras=True)


def _is_hashable(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True
