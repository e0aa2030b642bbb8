"""Validation errors of msgspec and pydantic, for a model to read.

Their sentences are kept. This module adds the path as the model knows it, the value
that is there, and a hint if a name or a choice looks misspelled.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from .paths import (
    ABSENT,
    MAX_DEPTH,
    PathStep,
    is_too_deep,
    read_path,
    schemas_at,
    value_at,
    write_path,
)

__all__ = [
    "Problem",
    "ShapeError",
    "UNKNOWN_KEY",
    "check_depth",
    "describe",
    "read_problems",
]

#: How msgspec and pydantic begin a sentence that names the expected type.
_EXPECTED: Final = ("Expected ", "Input should be ")
_TYPE_NAMES: Final[dict[type, str]] = {dict: "object", list: "array", tuple: "array"}
#: Length of the excerpt of a value, in characters.
_MAX_EXCERPT: Final = 60
#: Number of problems of one value that are reported.
_MAX_PROBLEMS: Final = 3
#: A key is wrong, and msgspec does not say which.
UNKNOWN_KEY: Final = object()


class Problem(NamedTuple):
    """One thing that is wrong with a value."""

    #: The sentence of msgspec, pydantic or the user's class.
    sentence: str
    steps: tuple[PathStep, ...] = ()
    #: The key that is wrong, if it is not the value.
    key: Any = ABSENT


class ShapeError(ValueError):
    """A value does not have the type that was asked for. The message is for a model.

    :param path: where, such as ``$.items[2].price``.
    :param expected: the type or the value that should be there.
    :param got: the value that is there.
    :param message: the whole message, if those three are not enough.
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


def check_depth(arguments: Any) -> None:
    """Check that arguments are not nested too deeply.

    :raises ShapeError: they are.
    """
    if is_too_deep(arguments):
        raise ShapeError(
            "$", f"at most {MAX_DEPTH} levels of lists and objects", "more"
        )


def read_problems(error: Exception) -> list[Problem]:
    """Return the problems that *error* reports; there is at least one."""
    if isinstance(error, RecursionError):
        return [Problem("it is nested too deeply")]
    sentence, at, place = str(error).rpartition(" - at `")
    if not at:
        sentence, place = str(error), "$.value`"
    path = place.removeprefix("key` in `")
    steps = read_path(path.removesuffix("`"))[1:]  # the first is Shape's own field
    cause = error.__cause__
    if cause is not None and hasattr(cause, "errors"):  # pydantic's
        problems = []
        for each in cause.errors()[:_MAX_PROBLEMS]:
            sentence, whole = each["msg"], (*steps, *each["loc"])
            if each["type"] == "extra_forbidden":  # a problem of the object around it
                sentence, whole = f"{sentence}: {_json(whole[-1])}", whole[:-1]
            problems.append(Problem(sentence, whole))
        return problems
    if not isinstance(error, msgspec.ValidationError):  # a bug in the user's class
        return [Problem(f"{type(error).__name__}: {error}")]
    return [Problem(sentence, steps, ABSENT if path == place else UNKNOWN_KEY)]


def describe(
    problems: Sequence[Problem], value: Any, schema: dict[str, Any]
) -> ShapeError:
    """Return the error for *value*; path, expected and got are those of the first."""
    errors = [_describe(problem, value, schema) for problem in problems]
    first = errors[0]
    message = "; ".join(error.message for error in errors)
    return ShapeError(first.path, first.expected, first.got, message)


def _describe(problem: Problem, value: Any, schema: dict[str, Any]) -> ShapeError:
    path, hint = write_path(problem.steps), ""
    value = value_at(value, problem.steps)
    schemas = schemas_at(schema, problem.steps)
    choices = [choice for each in schemas for choice in each.get("enum", ())]
    names = dict.fromkeys(n for each in schemas for n in each.get("properties", ()))
    expected, got = problem.sentence, _shown(value)
    prefix = next(filter(expected.startswith, _EXPECTED), None)
    if prefix is not None:
        expected = expected.removeprefix(prefix).replace("`", "")
        if prefix == _EXPECTED[0]:  # msgspec adds the type that it got
            expected = expected.partition(", got ")[0]
        if problem.key is not ABSENT:
            expected += " as the name of a field"
            got = _shown(ABSENT if problem.key is UNKNOWN_KEY else problem.key)
    elif choices and value not in choices:
        expected = f"one of {_quoted(choices)}"
        hint = _did_you_mean(value, choices)
    else:
        fields = value if isinstance(value, dict) and names else ()
        unknown = [key for key in fields if key not in names]
        if unknown:
            hint = f"; known fields are {_quoted(names)}"
            hint += next(filter(None, (_did_you_mean(k, names) for k in unknown)), "")
        message = f"at {path}: {expected} (got {got}){hint}"
        return ShapeError(path, expected, got, message)
    message = f"at {path}: expected {expected}, got {got}{hint}"
    return ShapeError(path, expected, got, message)


def _did_you_mean(name: Any, known: Iterable[Any]) -> str:
    """Return a hint if something *known* looks like *name*."""
    if not isinstance(name, str) or len(name) > _MAX_EXCERPT:
        return ""
    folded = {each.casefold(): each for each in known if isinstance(each, str)}
    close = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f"; did you mean {_json(folded[close[0]])}?" if close else ""


def _shown(value: Any) -> str:
    """Return the type of a value and the beginning of it."""
    if value is None:
        return "null"
    if value is ABSENT:
        return "nothing"
    kind = _TYPE_NAMES.get(type(value), type(value).__name__)
    return f"{kind} ({_json(value)})"


def _quoted(values: Iterable[Any]) -> str:
    return ", ".join(map(_json, values))


def _json(value: Any) -> str:
    try:
        if isinstance(value, str):
            value = value[: 2 * _MAX_EXCERPT]
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        text = "..."
    if len(text) > _MAX_EXCERPT:
        text = text[: _MAX_EXCERPT - 3] + "..."
    # Half of a surrogate pair cannot be encoded, and so not be sent.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
