"""A type that the answer of a run is to be of."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .options import OutputFormat
from .shapes import Shape, ShapeError

__all__ = ["Output"]

#: Where a value is that is no object: providers enforce the form of objects only.
_WRAPPED: Final = "value"


class Output:
    """A type that the answer is to be of.

    :param type: whatever :class:`~syncagent.shapes.Shape` knows.
    :raises ConfigurationError: that knows no schema for it.
    """

    def __init__(self, type: Any) -> None:
        self.type = type
        self._shape = Shape(type)
        schema = self._shape.schema
        self._is_wrapped = schema.get("type") != "object"
        if self._is_wrapped:
            definitions = schema.get("$defs")
            inner = {key: value for key, value in schema.items() if key != "$defs"}
            schema = {
                "type": "object",
                "properties": {_WRAPPED: inner},
                "required": [_WRAPPED],
                "additionalProperties": False,
            }
            if definitions:
                schema["$defs"] = definitions
        self.format = OutputFormat(schema)

    def read(self, text: str) -> Any:
        """Return the value that an answer stands for.

        :raises ShapeError: it is none of that type; the message is for the model.
        """
        try:
            value = msgspec.json.decode(_bare(text))
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            said = f"it is no JSON: {error}"
            raise ShapeError("$", "JSON", repr(text[:60]), said) from None
        if self._is_wrapped:
            # Who answers with the value alone means just that.
            is_wrapped = isinstance(value, dict) and value.keys() == {_WRAPPED}
            value = value[_WRAPPED] if is_wrapped else value
        return self._shape.convert(value)


def _bare(text: str) -> str:
    """Return JSON without the fence that models like to put around it."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") : -3]
    return text
