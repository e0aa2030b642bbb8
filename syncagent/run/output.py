"""A type that the answer of a run is to be of."""

from __future__ import annotations

import re
from typing import Any, Final, get_origin

import msgspec

from .._checks import check_number
from ..exceptions import OutputInvalid
from ..options import OutputFormat
from ..schemas import Shape, ShapeError

__all__ = ["Output", "REPAIRS"]

#: How often a model is told what is wrong with its answer, and asked for another.
REPAIRS: Final = 2
#: Where a value is that is no object: providers enforce the form of objects only.
_WRAPPED: Final = "value"
#: Models like to put their JSON into one, with a word before it.
_FENCE: Final = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.DOTALL)


class Output:
    """A type that the answer is to be of; what ``output=`` takes, too.

    :param type: whatever :class:`~syncagent.schemas.Shape` knows. A ``str`` is the
        answer as it is; of all others the model is to say the JSON.
    :param repairs: how often the model is told what is wrong with its answer.
    :raises ConfigurationError: that knows no schema for it.
    """

    __slots__ = ("_is_wrapped", "_shape", "format", "repairs", "type")

    def __init__(self, type: Any, *, repairs: int = REPAIRS) -> None:
        check_number("repairs", repairs, is_integer=True)
        self.type = type
        self.repairs = repairs
        self._shape = Shape(type)
        self._is_wrapped = self._shape.schema.get("type") != "object"
        #: What a provider is told, nothing if any words will do.
        self.format: OutputFormat | None = None
        if type is not str:
            schema = self._shape.schema
            self.format = OutputFormat(_wrapped(schema) if self._is_wrapped else schema)

    @classmethod
    def of(cls, given: Any) -> Output:
        """Return what somebody means who gives one, or only a type."""
        return given if isinstance(given, Output) else cls(given)

    def read(self, text: str) -> Any:
        """Return the value that an answer stands for.

        :raises ShapeError: it is none of that type; the message is for the model.
        """
        if self.format is None:
            return text
        value = _decoded(text)
        if self._is_wrapped:
            # Who answers with the value alone means just that.
            is_wrapped = isinstance(value, dict) and value.keys() == {_WRAPPED}
            value = value[_WRAPPED] if is_wrapped else value
        return self._shape.convert(value)

    def complaint(self, problem: ShapeError) -> str:
        """Return what the model is told about an answer that is none."""
        return (
            f"Your answer does not have the form that was asked for: {problem}. Answer "
            "again, with all of it, as JSON and nothing else."
        )

    def invalid(self, text: str, attempts: int, problem: ShapeError) -> OutputInvalid:
        """Return the error for a model that does not get it right."""
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        is_class = isinstance(self.type, type) and get_origin(self.type) is None
        name = self.type.__qualname__ if is_class else repr(self.type)
        return OutputInvalid(
            f"the model did not answer with {name} in {times}; what is wrong "
            f"with the last one: {problem}",
            text=text,
            attempts=attempts,
            problem=problem,
        )


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with one field, which is as *schema* says."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    made = {
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
        "additionalProperties": False,
    }
    if "$defs" in schema:
        made["$defs"] = schema["$defs"]
    return made


def _decoded(text: str) -> Any:
    """Return what an answer is as JSON, with or without a fence around it.

    :raises ShapeError: it is none.
    """
    said = ""
    for each in (text, *reversed(_FENCE.findall(text))):
        try:
            return msgspec.json.decode(each.strip())
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            said = said or str(error)
    problem = f"it is no JSON: {said}"
    raise ShapeError("$", "JSON", repr(text[:60]), problem) from None
