"""Values that may be of any kind, taken for what they should be."""

from __future__ import annotations

from typing import Any


def string(value: object) -> str:
    """Return *value*, nothing if it is no string."""
    return value if isinstance(value, str) else ""


def integer(value: object) -> int:
    """Return *value*, 0 if it is no whole number."""
    return value if isinstance(value, int) else 0


def dicts(value: object) -> list[dict[str, Any]]:
    """Return the dictionaries in *value*, none if it is no list."""
    return [d for d in value if isinstance(d, dict)] if isinstance(value, list) else []


def at(value: Any, *names: str) -> Any:
    """Return what is in *value* under *names*, one inside of the other, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
