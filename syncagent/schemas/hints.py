"""Type hints in a form that msgspec understands."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin
from typing import get_type_hints as _get_type_hints

import msgspec

__all__ = ["classes_in", "description_of", "fields_of", "readable"]

#: Attributes that annotated_types and pydantic name as msgspec does, and their types.
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
#: Qualifiers of a field in a TypedDict; they are no part of the type.
_QUALIFIERS: Final = {"Required", "NotRequired", "ReadOnly"}


def readable(hint: Any) -> Any:
    """Return *hint* with its annotations as :class:`msgspec.Meta`.

    A string, as in ``Annotated[int, "how many"]``, is a description; annotations of
    annotated_types and pydantic count, too. Fields of classes are not changed.
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
        return _split_literal(hint, args)
    if origin is None or not args:
        return hint
    # Callable[[int], str] has a list among its arguments.
    inner = tuple(a if isinstance(a, list) else readable(a) for a in args)
    if inner == args:
        return hint
    is_union = origin in (Union, types.UnionType)
    return Union[inner] if is_union else origin[inner]  # noqa: UP007 - a tuple


def _split_literal(hint: Any, values: tuple[Any, ...]) -> Any:
    """Return a Literal as a union of Literals with values of one type each.

    msgspec 0.20 cannot handle values of several types in one.
    """
    kinds = dict.fromkeys(type(value) for value in values)
    if len(kinds) == 1:
        return hint
    parts = [tuple(v for v in values if type(v) is kind) for kind in kinds]
    made = tuple(None if part == (None,) else Literal[part] for part in parts)
    return Union[made]  # noqa: UP007 - a tuple


def _metas(item: Any) -> Iterator[msgspec.Meta]:
    # Of a typing_extensions.Doc the text is the description.
    text = item if isinstance(item, str) else getattr(item, "documentation", None)
    if isinstance(item, msgspec.Meta):
        yield item
    elif isinstance(text, str):
        yield msgspec.Meta(description=text)
    else:
        more = getattr(item, "metadata", None)
        for each in (item, *(more if isinstance(more, (list, tuple)) else ())):
            values = {name: getattr(each, name, None) for name in _SHARED}
            known = {k: v for k, v in values.items() if isinstance(v, _SHARED[k])}
            if known:
                yield msgspec.Meta(**cast("Any", known))


def description_of(hint: Any) -> str:
    """Return the description in the annotations of *hint*, or an empty string."""
    origin = get_origin(hint)
    if str(origin).rpartition(".")[2] in _QUALIFIERS:
        return description_of(get_args(hint)[0])
    if origin is not Annotated:
        return ""
    metas = (meta for item in hint.__metadata__ for meta in _metas(item))
    return next((meta.description for meta in metas if meta.description), "")


def classes_in(hint: Any) -> list[Any]:
    """Return all classes with fields that are part of *hint*, each once.

    :raises NameError: the hint of a field names something that is not defined.
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
