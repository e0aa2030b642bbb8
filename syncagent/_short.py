"""Short texts of long values, for ``repr()``."""

from __future__ import annotations

from typing import Any

__all__ = ["counted", "short_fields", "shortened"]


def shortened(text: str, limit: int) -> str:
    """Return *text*, or as much of its begin as has *limit* characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: ``1 turn``, ``2 turns``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def short_fields(struct: Any, limit: int = 120) -> str:
    """Return the repr of a struct, without its defaults and with its values cut."""
    kind = type(struct)
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    defaults = dict(
        zip(kind.__struct_fields__[required:], kind.__struct_defaults__, strict=True)
    )
    parts = []
    for name in kind.__struct_fields__:
        value = getattr(struct, name)
        usual = defaults.get(name, ...)
        if type(value) is type(usual) and value == usual:  # False is equal to 0
            continue
        if isinstance(value, str):
            text = repr(shortened(value, limit))
        elif isinstance(value, bytes):
            text = f"<{counted(len(value), 'byte')}>"
        else:
            text = shortened(repr(value), limit)
        parts.append(f"{name}={text}")
    return f"{kind.__name__}({', '.join(parts)})"
