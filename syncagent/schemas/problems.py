"""Validation errors of msgspec and pydantic, retold for a model."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from .paths import ABSENT, PathStep, read_path, schemas_at, value_at, write_path

__all__ = [
    "Problem",
    "ShapeError",
    "UNTOLD",
    "describe",
    "read_problems",
]

_PLACE: Final = re.compile(r"(.*) - at (`key` in )?`(\$.*)`", re.DOTALL)


_MISSING: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)


_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


_EXPECTED: Final = re.compile(r"Expected (.*?)(?:, got (\S+))?", re.DOTALL)


_NO_CHOICE: Final = re.compile(r"Invalid (?:enum )?value .*", re.DOTALL)


_INVALID: Final = re.compile(r"Invalid (.*)")


_OF_PYDANTIC: Final = "Input should be "


#: JSON's types, in the words that msgspec has for them.
_WORDS: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
}


_KINDS: Final = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    dict: "object",
    list: "array",
    tuple: "array",
}


#: How much of a value is shown.
_SHOWN: Final = 60


#: How many problems of one value are told.
_TOLD: Final = 3


#: Somebody knows which, and does not tell.
UNTOLD: Final = object()


class Problem(NamedTuple):
    """One thing that is wrong."""

    #: What, in the words of those who found it.
    text: str
    steps: tuple[PathStep, ...] = ()
    #: The key that is wrong, if it is not the value.
    key: Any = ABSENT
    #: Did somebody else say so than msgspec?
    is_foreign: bool = False


def read_problems(error: Exception) -> list[Problem]:
    """Return what *error* says is wrong; there is at least one."""
    if isinstance(error, RecursionError):
        return [Problem("it is nested too deeply", is_foreign=True)]
    found = _PLACE.fullmatch(str(error))
    text, key, path = found.groups() if found else (str(error), None, "$.value")
    steps = read_path(path)[1:]  # the first is the field that it was put into
    cause = error.__cause__
    if cause is not None and hasattr(cause, "errors"):
        return [_of_pydantic(each, steps) for each in cause.errors()[:_TOLD]]
    if not isinstance(error, msgspec.ValidationError):  # a check that is itself wrong
        return [Problem(f"{type(error).__name__}: {error}", is_foreign=True)]
    key = UNTOLD if key else ABSENT
    return [Problem(text, steps, key, is_foreign=cause is not None)]


def _of_pydantic(said: dict[str, Any], steps: tuple[PathStep, ...]) -> Problem:
    at = (*steps, *said["loc"])
    if said["type"] == "missing":
        return Problem(f"Object missing required field `{at[-1]}`", at[:-1])
    if said["type"] == "extra_forbidden":
        return Problem(f"Object contains unknown field `{at[-1]}`", at[:-1])
    text = said["msg"]
    if text.startswith(_OF_PYDANTIC):
        return Problem(f"Expected {text.removeprefix(_OF_PYDANTIC)}", at)
    return Problem(text, at, is_foreign=True)


def describe(
    problems: Sequence[Problem], value: Any, schema: dict[str, Any]
) -> ShapeError:
    """Return the error for *value*; path, expected and got are those of the first."""
    errors = [_describe(problem, value, schema) for problem in problems]
    first = errors[0]
    message = "; ".join(error.message for error in errors)
    return ShapeError(first.path, first.expected, first.got, message)


def _describe(problem: Problem, value: Any, schema: dict[str, Any]) -> ShapeError:
    text, steps = problem.text, problem.steps
    value = value_at(value, steps)
    if problem.is_foreign:
        return _error(steps, text, _shown(value), f"{text} (got {_shown(value)})")
    if problem.key is not ABSENT:
        expected, got = _expected(text)
        got = got if problem.key is UNTOLD else _shown(problem.key)
        return _error(steps, f"{expected} as the name of a field", got)
    if missing := _MISSING.fullmatch(text):
        return _missing(steps, missing[1], schema)
    if unknown := _UNKNOWN.fullmatch(text):
        return _unknown(steps, unknown[1], schema)
    if _NO_CHOICE.fullmatch(text):
        return _no_choice(steps, value, schema)
    expected, got = _expected(text)
    return _error(steps, expected, _shown(value) if value is not ABSENT else got)


def _error(
    steps: Sequence[PathStep],
    expected: str,
    got: str,
    message: str = "",
    more: str = "",
) -> ShapeError:
    path = write_path(steps)
    message = message or f"expected {expected}, got {got}"
    return ShapeError(path, expected, got, f"at {path}: {message}{more}")


def _expected(text: str) -> tuple[str, str]:
    """Return what msgspec expected, and what it says it got."""
    if found := _EXPECTED.fullmatch(text):
        return found[1].replace("`", ""), (found[2] or "another value").strip("`")
    if found := _INVALID.fullmatch(text):
        return f"a valid {found[1]}", "another value"
    if text.endswith("out of range"):
        return "a number that is not too large", "another value"
    return text, "another value"


def _missing(
    steps: Sequence[PathStep], name: str, schema: dict[str, Any]
) -> ShapeError:
    at = (*steps, name)
    expected = _wanted(schemas_at(schema, at))
    more = f"; {_quoted([name])} is required"
    return _error(at, expected, "nothing", more=more)


def _unknown(
    steps: Sequence[PathStep], name: str, schema: dict[str, Any]
) -> ShapeError:
    names = _names(schemas_at(schema, steps))
    expected = f"one of the names {_quoted(names)}" if names else "no such name"
    got = f"the unknown name {_quoted([name])}"
    return _error((*steps, name), expected, got, more=_did_you_mean(name, names))


def _no_choice(
    steps: Sequence[PathStep], value: Any, schema: dict[str, Any]
) -> ShapeError:
    choices = _choices(schemas_at(schema, steps))
    expected = f"one of {_quoted(choices)}" if choices else "another value"
    return _error(steps, expected, _shown(value), more=_did_you_mean(value, choices))


def _names(schemas: Iterable[dict[str, Any]]) -> list[str]:
    return list(
        dict.fromkeys(n for each in schemas for n in each.get("properties", ()))
    )


def _choices(schemas: Iterable[dict[str, Any]]) -> list[Any]:
    return [choice for each in schemas for choice in each.get("enum", ())]


def _wanted(schemas: Iterable[dict[str, Any]]) -> str:
    if choices := _choices(schemas):
        return f"one of {_quoted(choices)}"
    kinds = [each.get("type") for each in schemas]
    if not kinds or not all(isinstance(kind, str) for kind in kinds):
        return "a value"
    return " | ".join(_WORDS.get(str(kind), str(kind)) for kind in kinds)


def _quoted(values: Iterable[Any]) -> str:
    return ", ".join(_json(value) for value in values)


def _did_you_mean(got: Any, known: Iterable[Any]) -> str:
    """Return a question if something *known* looks like what was got."""
    names = [name for name in known if isinstance(name, str)]
    if not isinstance(got, str) or len(got) > _SHOWN:
        return ""
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(got.casefold(), folded, n=1)
    return f"; did you mean {_quoted([folded[close[0]]])}?" if close else ""


def _shown(value: Any) -> str:
    """Return the type of a value and the beginning of it."""
    if value is None:
        return "null"
    kind = _KINDS.get(type(value), type(value).__name__)
    return "another value" if value is ABSENT else f"{kind} ({_json(value)})"


def _json(value: Any) -> str:
    try:
        if isinstance(value, str):
            value = value[: 2 * _SHOWN]
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        text = "..."
    if len(text) > _SHOWN:
        text = text[: _SHOWN - 3] + "..."
    # half of a pair of surrogates cannot be sent to anybody
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class ShapeError(ValueError):
    """A value does not have the shape that is wanted. A model can read this.

    :param path: where, such as ``$.items[2].price``.
    :param expected: what should be there.
    :param got: what is there.
    :param message: all of it in words, if those three are not enough.
    """

    def __init__(
        self, path: str = "$", expected: str = "", got: str = "", message: str = ""
    ) -> None:
        self.path = path
        self.expected = expected
        self.got = got
        self.message = message or f"at {path}: expected {expected}, got {got}"
        super().__init__(path, expected, got, self.message)

    def __str__(self) -> str:
        return self.message
