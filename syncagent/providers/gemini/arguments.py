"""The arguments of a call that arrive value by value, as Vertex streams them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

import msgspec

from ...exceptions import ProtocolError

#: A step of a JSON path: ``.name``, ``[3]``, ``["name"]`` or ``['name']``.
_STEP: Final = re.compile(
    r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\[("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]"""
)
_MAX_STEPS: Final = 100
#: How many members of a list may be missing before one that arrives. Empty objects
#: have no values, and do not arrive.
_MAX_GAP: Final = 1000


class PartialArgument(msgspec.Struct, rename="camel", gc=False):
    """A value, or a piece of a string, and the path to it."""

    json_path: str = ""
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None
    null_value: Any = None
    will_continue: bool | None = None

    @property
    def value(self) -> Any:
        """The value, or None for null."""
        number = self.number_value
        if isinstance(number, float) and number.is_integer() and abs(number) < 1 << 53:
            return int(number)
        return number if self.bool_value is None else self.bool_value


class GrowingArguments:
    """The arguments of a call that is not complete yet.

    :param name: the name of the tool.
    :param call_id: the provider's id of the call; it may be empty.
    :param begin: the arguments that came in one piece, before the others.
    """

    def __init__(self, name: str, call_id: str, begin: object) -> None:
        self.name = name
        self.call_id = call_id
        self._values: dict[str, Any] = begin if isinstance(begin, dict) else {}
        #: The path of the string that still grows, and its pieces.
        self._open = ""
        self._pieces: list[str] = []

    def is_of(self, name: str | None, call_id: str | None) -> bool:
        """Return whether a piece with that name and id belongs to this call."""
        is_same_id = not call_id or call_id == self.call_id
        return is_same_id and (not name or name == self.name)

    def add(self, partial: PartialArgument) -> None:
        """Add a value, or a piece of a string.

        :raises ProtocolError: there is no place for it.
        """
        if partial.json_path != self._open:
            self._close_string()
        text = partial.string_value
        is_bare = partial.value is None and partial.null_value is None
        if text is None and is_bare and (partial.will_continue or self._open):
            text = ""  # the beginning or the end of a string
        if text is None:
            self._put(partial.json_path, partial.value)
            return
        self._open = partial.json_path
        self._pieces.append(text)
        if not partial.will_continue:
            self._close_string()

    def as_json(self, *, is_complete: bool) -> str:
        """Return the arguments as JSON.

        :param is_complete: False if the end is missing. The text is then invalid, and
            no tool is called with half of its arguments.
        """
        self._close_string()
        text = msgspec.json.encode(self._values).decode()
        return text if is_complete else text[:-1]

    def _close_string(self) -> None:
        if self._pieces:
            path, text = self._open, "".join(self._pieces)
            self._open, self._pieces = "", []
            self._put(path, text)

    def _put(self, path: str, value: Any) -> None:
        steps = _steps_of(path)
        place: Any = self._values
        for step, following in pairwise(steps):
            place = _enter(place, step, [] if isinstance(following, int) else {}, path)
        _enter(place, steps[-1], None, path)
        place[steps[-1]] = value


def _steps_of(path: str) -> list[str | int]:
    """Return the names and numbers of a JSON path."""
    steps: list[str | int] = []
    end = 1
    while path[:1] == "$" and end < len(path) and len(steps) < _MAX_STEPS:
        step = _STEP.match(path, end)
        if step is None:
            break
        end = step.end()
        name, number, quoted = step.groups()
        if quoted:
            steps.append(re.sub(r"\\(.)", r"\1", quoted[1:-1]))
        else:
            steps.append(name if number is None else int(number))
    if not steps or end != len(path):
        raise _misplaced(path)
    return steps


def _enter(place: Any, step: str | int, default: Any, path: str) -> Any:
    """Return the member of a list or an object; it is *default* if it is new."""
    if isinstance(place, dict) and isinstance(step, str):
        return place.setdefault(step, default)
    if not isinstance(place, list) or not isinstance(step, int):
        raise _misplaced(path)
    gap = step - len(place)
    if gap > _MAX_GAP:
        raise _misplaced(path)
    if gap >= 0:
        place += [*[None] * gap, default]
    return place[step]


def _misplaced(path: str) -> ProtocolError:
    return ProtocolError(
        f"the provider sent an argument of a tool call for {path!r:.100}, but there is "
        "no such place"
    )
