"""A type with its JSON schema, and values of it from JSON."""

from __future__ import annotations

import functools
import threading
from typing import Any, Final

import msgspec

from .._forks import in_child
from .coercion import located, repaired
from .hints import readable
from .paths import ABSENT
from .problems import Problem, describe, read_problems
from .pydantic_models import check
from .schema import make_schema

__all__ = ["Shape"]

#: Number of shapes that are cached.
_CACHE_SIZE: Final = 512
#: Number of places in one value that are repaired.
_MAX_REPAIRS: Final = 1000
#: Held while msgspec collects the fields of a type.
_first_use = threading.Lock()


class Shape:
    """A type as JSON has it: its schema, and values of it from JSON.

    Shapes are cached: the same type has the same shape.

    :param hint: a type, as in a type hint; a string beside it in ``Annotated`` is its
        description.
    :raises ConfigurationError: the type has no JSON schema.
    """

    __slots__ = ("_holder", "hint", "schema")

    #: The type.
    hint: Any
    #: The JSON schema; do not change it.
    schema: dict[str, Any]
    _holder: type[msgspec.Struct]

    def __new__(cls, hint: Any) -> Shape:
        try:
            hash(hint)
        except TypeError:  # for example a list in Annotated
            return cls._make(hint)
        return _cached(hint)

    @classmethod
    def _make(cls, hint: Any) -> Shape:
        shape = super().__new__(cls)
        shape.hint = hint
        known = readable(hint)
        shape.schema = make_schema(known)
        # msgspec caches how to convert to a struct, and for no other type.
        shape._holder = msgspec.defstruct("Holder", [("value", known)])
        # It collects the fields of a type at first use, and crashes if another thread
        # uses the type at that moment. Shapes may share types.
        with _first_use:
            msgspec.json.Decoder(shape._holder)
        return shape

    def convert(self, value: Any) -> Any:
        """Return *value*, decoded from JSON, as an instance of the type.

        It is as strict as JSON is: ``"3"`` is not a number. But ``3.0`` is an integer,
        and null counts as absent for an optional field.

        :raises ShapeError: it is not of the type.
        """

        def problems_of(value: Any) -> list[Problem]:
            try:
                self._convert(value)
            except Exception as error:
                return read_problems(error)
            return []

        problems: list[Problem] = []
        for _ in range(_MAX_REPAIRS):
            try:
                return self._convert(value)
            except Exception as raised:
                error = raised
            problems = [
                located(each, value, problems_of) for each in read_problems(error)
            ]
            better = repaired(problems[0], value, self.schema)
            if better is ABSENT:
                break
            value = better
        raise describe(problems, value, self.schema) from error

    def _convert(self, value: Any) -> Any:
        holder: Any = msgspec.convert(
            {"value": value}, self._holder, str_keys=True, dec_hook=check
        )
        return holder.value

    def __repr__(self) -> str:
        return f"Shape({self.hint!r})"


@functools.lru_cache(_CACHE_SIZE)
def _cached(hint: Any) -> Shape:
    return Shape._make(hint)


@in_child
def _renew_in_child() -> None:
    global _first_use
    _first_use = threading.Lock()  # another thread may have had it at the fork
