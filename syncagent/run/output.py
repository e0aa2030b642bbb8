"""Typed output: the type of a run's final answer."""

from __future__ import annotations

import re
from typing import Any, Final, get_origin

import msgspec

from .._checks import check_number
from ..exceptions import OutputInvalid
from ..options import OutputFormat
from ..schemas import Shape, ShapeError

__all__ = ["Output", "REPAIRS"]

#: How often the model gets an explanation of its mistake, and is asked again.
REPAIRS: Final = 2
#: The field that wraps any other value: providers enforce schemas of objects only.
_WRAPPED: Final = "value"
#: Models like to put their JSON into a fence, with a word before it.
_FENCE: Final = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.DOTALL)


class Output:
    """The type of the final answer; ``output=`` takes one of these, or only the type.

    :param type: any type that :class:`~syncagent.schemas.Shape` knows. ``str`` is the
        text as it is; for all others the model answers in JSON.
    :param repairs: how often the model gets an explanation and is asked again.
    :raises ConfigurationError: there is no schema for the type.
    """

    __slots__ = ("_is_wrapped", "_shape", "format", "repairs", "type")

    def __init__(self, type: Any, *, repairs: int = REPAIRS) -> None:
        check_number("repairs", repairs, is_integer=True)
        self.type = type
        self.repairs = repairs
        self._shape = Shape(type)
        self._is_wrapped = self._shape.schema.get("type") != "object"
        #: The schema for the provider; None if any text will do.
        self.format: OutputFormat | None = None
        if type is not str:
            schema = self._shape.schema
            self.format = OutputFormat(_wrapped(schema) if self._is_wrapped else schema)

    @classmethod
    def of(cls, output: Any) -> Output:
        """Return the output that ``output=`` means: one of these, or a type."""
        return output if isinstance(output, Output) else cls(output)

    def read(self, text: str) -> Any:
        """Return the value of an answer.

        :raises ShapeError: it is not of that type; the message is for the model.
        """
        if self.format is None:
            return text
        value = _decoded(text)
        if self._is_wrapped:
            # A model that answers with the bare value is understood as well.
            is_wrapped = isinstance(value, dict) and value.keys() == {_WRAPPED}
            value = value[_WRAPPED] if is_wrapped else value
        return self._shape.convert(value)

    def complaint(self, problem: ShapeError) -> str:
        """Return what to tell the model about an answer that does not fit."""
        return (
            f"Your answer does not fit the requested schema: {problem}. Answer again, "
            "completely, in JSON and nothing else."
        )

    def invalid(self, text: str, attempts: int, problem: ShapeError) -> OutputInvalid:
        """Return the error for a model that had its last attempt."""
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        is_class = isinstance(self.type, type) and get_origin(self.type) is None
        name = self.type.__qualname__ if is_class else repr(self.type)
        return OutputInvalid(
            f"the model did not answer with {name} in {times}; the problem with the "
            f"last one: {problem}",
            text=text,
            attempts=attempts,
            problem=problem,
        )


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object whose one field has *schema*."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    wrapped = {
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
        "additionalProperties": False,
    }
    if "$defs" in schema:
        wrapped["$defs"] = schema["$defs"]
    return wrapped


def _decoded(text: str) -> Any:
    """Decode the JSON of an answer, with or without a fence around it.

    :raises ShapeError: there is no JSON.
    """
    first_error = ""
    for each in (text, *reversed(_FENCE.findall(text))):
        try:
            return msgspec.json.decode(each.strip())
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            first_error = first_error or str(error)
    problem = f"it is not JSON: {first_error}"
    raise ShapeError("$", "JSON", repr(text[:60]), problem) from None
