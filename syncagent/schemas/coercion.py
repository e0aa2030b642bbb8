"""Repair wrong values that can mean one thing only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .paths import ABSENT, replaced, schemas_at, value_at, without
from .problems import UNKNOWN_KEY, Problem

__all__ = ["located", "repaired"]

#: Number of keys that are searched for the wrong one.
_MAX_KEYS: Final = 256
#: A float above this may stand for another integer.
_MAX_EXACT: Final = 2.0**53


def repaired(problem: Problem, value: Any, schema: dict[str, Any]) -> Any:
    """Return *value* without the problem, or :data:`~.paths.ABSENT` if that is a guess.

    An integer may be written ``3.0``. An optional field may be null: strict schemas
    make every field required, and null stands for its absence there.
    """
    wrong = value_at(value, problem.steps)
    if problem.key is not ABSENT:
        return ABSENT
    if isinstance(wrong, float) and wrong.is_integer() and abs(wrong) < _MAX_EXACT:
        schemas = schemas_at(schema, problem.steps)
        if any(each.get("type") == "integer" for each in schemas):
            return replaced(value, problem.steps, int(wrong))
    if wrong is None and problem.steps:
        *above, name = problem.steps
        for each in schemas_at(schema, above):
            if name in each.get("properties", ()) and name not in each.get(
                "required", ()
            ):
                return without(value, problem.steps)
    return ABSENT


def located(
    problem: Problem, value: Any, find: Callable[[Any], list[Problem]]
) -> Problem:
    """Return *problem* with the keys of dictionaries, which msgspec leaves out.

    :param find: returns the problems of a value.
    """
    pattern = problem.steps
    while None in problem.steps or problem.key is UNKNOWN_KEY:
        at = (*problem.steps, None).index(None)
        steps, rest = problem.steps[:at], problem.steps[at + 1 :]
        fields = value_at(value, steps)
        for key in list(fields)[:_MAX_KEYS] if isinstance(fields, dict) else ():
            # The wrong one is wrong in the same way without all the others.
            alone = replaced(value, steps, {key: fields[key]})
            if (problem.sentence, pattern) in [each[:2] for each in find(alone)]:
                break
        else:
            return problem
        value = alone
        if at == len(problem.steps):
            return problem._replace(key=key)
        problem = problem._replace(steps=(*steps, key, *rest))
    return problem
