"""Server-sent events as a fake provider writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec


def frame(data: Any, event: str = "") -> str:
    """Return one event, complete with its blank line."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {msgspec.json.encode(data).decode()}\n\n"


def pieces(text: str, size: int) -> Iterator[str]:
    """Yield *text* in pieces of *size* characters."""
    return (text[begin : begin + size] for begin in range(0, len(text), size))
