"""Tell the tasks of an engine that work on runs from its other tasks."""

from __future__ import annotations

from typing import Any

__all__ = ["calls_work"]


def calls_work(function: Any) -> bool:
    """True for a function that calls ``work()`` of something, such as a store."""
    code = getattr(function, "__code__", None)
    return "work" in getattr(code, "co_names", ())
