"""Places in a value, and in the schema of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Union

from .schema import REFERENCE

__all__ = [
    "ABSENT",
    "MAX_DEPTH",
    "PathStep",
    "is_too_deep",
    "read_path",
    "replaced",
    "schemas_at",
    "value_at",
    "without",
    "write_path",
]

#: A name, a number, or ``None`` for a key that msgspec leaves out.
PathStep = Union[str, int, None]  # noqa: UP007 - read at run time by 3.10
#: Stands for a value that is not there.
ABSENT: Final = object()

#: How many levels of lists and objects a value may have. Much of what looks at values,
#: in here, in hooks and in C, needs some of Python's stack for each level.
MAX_DEPTH: Final = 100

_STEP: Final = re.compile(r"\.([^.\[]*)|\[(\d+)\]|\[\.\.\.\]")
_PLAIN: Final = re.compile(r"[^\W\d]\w*")
_CONTAINERS: Final = (dict, list, tuple)


def read_path(text: str) -> tuple[PathStep, ...]:
    """Return the steps of a path as msgspec writes it, such as ``$.items[2]``."""
    steps: list[PathStep] = []
    for match in _STEP.finditer(text):
        name, number = match.groups()
        steps.append(int(number) if number is not None else name)
    return tuple(steps)


def write_path(steps: Sequence[PathStep]) -> str:
    """Return a path for a model to read."""
    path = "$"
    for step in steps:
        if step is None:
            path += "[...]"
        elif isinstance(step, str) and _PLAIN.fullmatch(step):
            path += f".{step}"
        else:
            path += f"[{json.dumps(step)}]"
    return path


def value_at(value: Any, steps: Sequence[PathStep]) -> Any:
    """Return the value at a place in *value*, or :data:`ABSENT`."""
    for step in steps:
        if isinstance(value, (list, tuple)):
            is_there = isinstance(step, int) and step < len(value)
        else:
            is_there = isinstance(value, dict) and step in value
        if not is_there:
            return ABSENT
        value = value[step]
    return value


def replaced(value: Any, steps: Sequence[PathStep], new: Any) -> Any:
    """Return *value* with *new* at a place; only containers around it are copied."""
    if not steps:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[steps[0]] = replaced(copy[steps[0]], steps[1:], new)
    return copy


def without(value: Any, steps: Sequence[PathStep]) -> Any:
    """Return *value* without the field at a place."""
    above = value_at(value, steps[:-1])
    others = {key: each for key, each in above.items() if key != steps[-1]}
    return replaced(value, steps[:-1], others)


def schemas_at(
    schema: dict[str, Any], steps: Sequence[PathStep]
) -> list[dict[str, Any]]:
    """Return the schemas of a place, one for each alternative."""
    found = list(_alternatives(schema, schema, ()))
    for step in steps:
        below: list[Any] = []
        for above in found:
            if isinstance(step, int):
                first = above.get("prefixItems", ())
                below.append(first[step] if step < len(first) else above.get("items"))
            else:
                others = above.get("additionalProperties")
                below.append(above.get("properties", {}).get(step, others))
        found = [one for each in below for one in _alternatives(each, schema, ())]
    return found


def _alternatives(
    schema: Any, root: dict[str, Any], seen: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    if not isinstance(schema, dict):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        target = root.get("$defs", {}).get(reference.removeprefix(REFERENCE))
        yield from _alternatives(target, root, (*seen, reference))
    lists = [schema[key] for key in ("anyOf", "oneOf", "allOf") if key in schema]
    if not lists and reference is None:
        yield schema
    for each in (one for alternatives in lists for one in alternatives):
        yield from _alternatives(each, root, seen)


def is_too_deep(value: Any) -> bool:
    """True if *value* has more than :data:`MAX_DEPTH` levels of lists and dicts."""
    # By their ids: a value may be there many times, or contain itself.
    level = {0: value} if isinstance(value, _CONTAINERS) else {}
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = {
            id(each): each
            for outer in level.values()
            for each in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(each, _CONTAINERS)
        }
    return bool(level)
