"""A type, its JSON schema, and values of it."""

from __future__ import annotations

import functools
from typing import Any, Final

import msgspec

from .coercion import located, repaired
from .hints import readable
from .paths import ABSENT
from .problems import Problem, describe, read_problems
from .pydantic_models import check
from .schema import make_schema

__all__ = ["Shape"]

#: How many shapes are remembered.
_REMEMBERED: Final = 512
#: How many places of one value are repaired.
_MAX_REPAIRS: Final = 1000


class Shape:
    """A type as JSON has it: its schema, and values of it from JSON.

    The same type has the same shape, and asking for it again costs nothing.

    :param hint: a type, as one would write it as a hint; a string beside it in
        ``Annotated`` is its description.
    :raises ConfigurationError: JSON has nothing for it.
    """

    __slots__ = ("_holder", "hint", "schema")

    #: The type.
    hint: Any
    #: The JSON schema; it is not to be changed.
    schema: dict[str, Any]
    _holder: type[msgspec.Struct]

    def __new__(cls, hint: Any) -> Shape:
        try:
            hash(hint)
        except TypeError:  # a list in Annotated, for one
            return cls._make(hint)
        return _remembered(hint)

    @classmethod
    def _make(cls, hint: Any) -> Shape:
        shape = super().__new__(cls)
        shape.hint = hint
        known = readable(hint)
        shape.schema = make_schema(known)
        # msgspec remembers how to convert to a struct, and to nothing else
        shape._holder = msgspec.defstruct("Holder", [("value", known)])
        return shape

    def convert(self, value: Any) -> Any:
        """Return *value*, which is as JSON has it, as one of the type.

        It is as strict as JSON is: ``"3"`` is no number. But ``3.0`` is an integer, and
        null is as good as nothing for a field that need not be there.

        :raises ShapeError: it is none.
        """
        try:
            return self._convert(value)
        except Exception as error:
            return self._convert_repaired(value, error)

    def _convert(self, value: Any) -> Any:
        holder: Any = msgspec.convert(
            {"value": value}, self._holder, str_keys=True, dec_hook=check
        )
        return holder.value

    def _convert_repaired(self, value: Any, error: Exception) -> Any:
        for _ in range(_MAX_REPAIRS):
            problems = [
                located(each, value, self._problems) for each in read_problems(error)
            ]
            better = repaired(problems[0], value, self.schema)
            if better is ABSENT:
                break
            value = better
            try:
                return self._convert(value)
            except Exception as another:
                error = another
        raise describe(problems, value, self.schema) from error

    def _problems(self, value: Any) -> list[Problem]:
        try:
            self._convert(value)
        except Exception as error:
            return read_problems(error)
        return []

    def __repr__(self) -> str:
        return f"Shape({self.hint!r})"


@functools.lru_cache(_REMEMBERED)
def _remembered(hint: Any) -> Shape:
    return Shape._make(hint)
