"""Typed access to untyped JSON: a value of the wrong type counts as absent."""

from __future__ import annotations

from typing import Any, Final

#: Larger integers are no floats any more, which costs are.
_MAX_COUNT: Final = 1 << 53


def as_string(value: object) -> str:
    """Return *value* if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """Return *value* if it can be a number of tokens, else 0."""
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 <= value < _MAX_COUNT else 0


def as_dicts(value: object) -> list[dict[str, Any]]:
    """Return the dictionaries in *value* if it is a list, else an empty list."""
    return [d for d in value if isinstance(d, dict)] if isinstance(value, list) else []


def get_path(value: Any, *names: str) -> Any:
    """Return the value under nested *names*, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
