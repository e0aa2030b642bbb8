"""Check payloads strictly against the types in a vendor's own package."""

import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pydantic
from typing_extensions import (
    NotRequired,
    ReadOnly,
    Required,
    TypeAliasType,
    TypedDict,
    is_typeddict,
)

_LISTS = (list, Iterable, Sequence)
_DICTS = (dict, Mapping)
_MARKS = (Required, NotRequired, ReadOnly)
_FORBID = pydantic.ConfigDict(extra="forbid", strict=True)


def strict(kind, optional=()):
    """Return a function that raises if a payload does not have the type *kind*.

    Unlike pydantic's own adapter it rejects unknown fields, and looks into what is
    declared as iterable.

    :param optional: names of fields that the provider does not need, though its types
        say so.
    """
    adapter = pydantic.TypeAdapter(_Rewriter(optional).rewrite(kind))
    return adapter.validate_python


class _Rewriter:
    """Make types that can be checked of those that vendors declare."""

    def __init__(self, optional):
        self._optional = frozenset(optional)
        self._known = {}

    def rewrite(self, kind):
        if isinstance(kind, TypeAliasType):
            return self.rewrite(kind.__value__)
        if is_typeddict(kind):
            return self._typed_dict(kind)
        origin, inner = get_origin(kind), get_args(kind)
        if origin is Annotated or origin in _MARKS:
            return self.rewrite(inner[0])
        if origin in (Union, types.UnionType):
            return Union[tuple(map(self.rewrite, inner))]  # noqa: UP007 - a tuple
        if origin in _LISTS or getattr(origin, "__name__", "") == "SequenceNotStr":
            return list[self.rewrite(inner[0])]
        if origin in _DICTS:
            return dict[str, self.rewrite(inner[1])]
        if kind is object:
            return Any
        return kind if origin in (None, Literal) else origin

    def _typed_dict(self, kind):
        if kind not in self._known:
            self._known[kind] = Any  # inside of itself
            fields = {}
            for name, hint in get_type_hints(kind, include_extras=True).items():
                needs = self._is_required(kind, name, hint)
                mark = Required if needs else NotRequired
                fields[name] = mark[self.rewrite(hint)]
            rewritten = TypedDict(kind.__name__, fields)
            rewritten.__pydantic_config__ = _FORBID
            self._known[kind] = rewritten
        return self._known[kind]

    def _is_required(self, kind, name, hint):
        """Return whether the field is required; with postponed hints only they say."""
        if name in self._optional or get_origin(hint) is NotRequired:
            return False
        return get_origin(hint) is Required or name in kind.__required_keys__
