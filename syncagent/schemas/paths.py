"""Where something is in a value, and in the schema of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Union

from .schema import REFERENCE

__all__ = [
    "ABSENT",
    "PathStep",
    "read_path",
    "replaced",
    "schemas_at",
    "value_at",
    "without",
    "write_path",
]

#: A name, a number, or ``None`` for a key that is not told.
PathStep = Union[str, int, None]  # noqa: UP007 - read at run time by 3.10
#: There is no value.
ABSENT: Final = object()

_STEP: Final = re.compile(r"\.([^.\[]*)|\[(\d+)\]|\[\.\.\.\]")
_PLAIN: Final = re.compile(r"[^\W\d]\w*")


def read_path(text: str) -> tuple[PathStep, ...]:
    """Return the steps of a path as msgspec writes it, such as ``$.items[2]``."""
    steps: list[PathStep] = []
    for match in _STEP.finditer(text):
        name, number = match.groups()
        steps.append(int(number) if number is not None else name)
    return tuple(steps)


def write_path(steps: Sequence[PathStep]) -> str:
    """Return a path as a model can read it."""
    return "$" + "".join(_written(step) for step in steps)


def _written(step: PathStep) -> str:
    if step is None:
        return "[...]"
    if isinstance(step, str) and _PLAIN.fullmatch(step):
        return f".{step}"
    return f"[{json.dumps(step)}]"


def value_at(value: Any, steps: Sequence[PathStep]) -> Any:
    """Return what is there in *value*, :data:`ABSENT` if nothing is."""
    for step in steps:
        if not _has(value, step):
            return ABSENT
        value = value[step]
    return value


def _has(value: Any, step: PathStep) -> bool:
    if isinstance(value, (list, tuple)):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value


def replaced(value: Any, steps: Sequence[PathStep], new: Any) -> Any:
    """Return *value* with something new there; only what is on the way is copied."""
    if not steps:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[steps[0]] = replaced(copy[steps[0]], steps[1:], new)
    return copy


def without(value: Any, steps: Sequence[PathStep]) -> Any:
    """Return *value* without the field there."""
    above = value_at(value, steps[:-1])
    left = {key: each for key, each in above.items() if key != steps[-1]}
    return replaced(value, steps[:-1], left)


def schemas_at(
    schema: dict[str, Any], steps: Sequence[PathStep]
) -> list[dict[str, Any]]:
    """Return what *schema* says about a place: one schema for each alternative."""
    found = list(_alternatives(schema, schema, ()))
    for step in steps:
        below = [each for above in found for each in _below(above, step)]
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


def _below(schema: dict[str, Any], step: PathStep) -> Iterator[Any]:
    if isinstance(step, int):
        first = schema.get("prefixItems", ())
        yield first[step] if step < len(first) else schema.get("items")
    else:
        named = schema.get("properties", {})
        yield named[step] if step in named else schema.get("additionalProperties")
