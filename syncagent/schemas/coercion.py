"""What is wrong with a value, and yet can mean one thing only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .paths import ABSENT, replaced, schemas_at, value_at, without
from .problems import UNTOLD, Problem

__all__ = ["located", "repaired"]

#: Among how many keys the wrong one is looked for.
_MAX_KEYS: Final = 256
#: Above that a float may have been another integer.
_EXACT: Final = 2.0**53


def repaired(problem: Problem, value: Any, schema: dict[str, Any]) -> Any:
    """Return *value* without the problem, :data:`~.places.ABSENT` if nobody can.

    An integer may be written ``3.0``. And what need not be there may be null, as it
    must be told for those who want to be told everything.
    """
    wrong = value_at(value, problem.steps)
    if problem.key is not ABSENT or wrong is ABSENT:
        return ABSENT
    if isinstance(wrong, float):
        is_same = wrong.is_integer() and abs(wrong) < _EXACT
        if is_same and "int" in _wanted(problem):
            return replaced(value, problem.steps, int(wrong))
    if wrong is None and _may_be_left_out(problem, schema):
        return without(value, problem.steps)
    return ABSENT


def _wanted(problem: Problem) -> list[str]:
    found = problem.text.partition("Expected `")[2].partition("`, got `float`")
    return found[0].split(" | ") if found[1] else []


def _may_be_left_out(problem: Problem, schema: dict[str, Any]) -> bool:
    if not problem.steps:
        return False
    *above, name = problem.steps
    return any(
        name in each.get("properties", ()) and name not in each.get("required", ())
        for each in schemas_at(schema, above)
    )


def located(
    problem: Problem, value: Any, find: Callable[[Any], list[Problem]]
) -> Problem:
    """Return the problem with the keys that msgspec does not tell.

    :param find: returns what is wrong with a value.
    """
    pattern = problem.steps
    while None in problem.steps or problem.key is UNTOLD:
        at = (*problem.steps, None).index(None)
        steps, rest = problem.steps[:at], problem.steps[at + 1 :]
        for key, each in _fields(value_at(value, steps)):
            # all others taken away, it must still be wrong in the same way
            alone = replaced(value, steps, {key: each})
            if (problem.text, pattern) in [each[:2] for each in find(alone)]:
                break
        else:
            return problem
        value = alone
        if at == len(problem.steps):
            return problem._replace(key=key)
        problem = problem._replace(steps=(*steps, key, *rest))
    return problem


def _fields(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items())[:_MAX_KEYS] if isinstance(value, dict) else []
