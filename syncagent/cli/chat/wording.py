"""How things are said in a terminal."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ...exceptions import SyncAgentError
from ...result import RunResult
from ...usage import Usage
from ..plain_text import on_one_line

__all__ = [
    "about_error",
    "call_line",
    "ended_line",
    "seconds_text",
    "usage_text",
    "whole_call",
]

_ARGUMENT: Final = 40
_CALL: Final = 100


def seconds_text(seconds: float) -> str:
    """Return how long something took, as precisely as anybody wants to know."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def usage_text(usage: Usage, cost: float | None) -> str:
    """Return tokens, and what they cost, if somebody knows."""
    about = "about " if usage.estimated else ""
    text = f"{about}{usage.total_tokens:,} tokens"
    if cost is None:
        return text
    return f"{text}, ${cost:.4f}" if cost < 1 else f"{text}, ${cost:.2f}"


def call_line(name: str, arguments: dict[str, Any]) -> str:
    """Return a tool call on one line, shortened."""
    parts = [
        f"{key}={on_one_line(_json(value), _ARGUMENT)}"
        for key, value in arguments.items()
    ]
    return on_one_line(f"{name}({', '.join(parts)})", _CALL)


def whole_call(name: str, arguments: dict[str, Any]) -> str:
    """Return all of a tool call: who approves it has to see what it is."""
    parts = [f"{key}={_json(value)}" for key, value in arguments.items()]
    return f"{name}({', '.join(parts)})"


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return repr(value)


def about_error(error: BaseException) -> str:
    """Return what went wrong, without a traceback."""
    said = str(error).strip() or type(error).__name__
    expected = isinstance(error, (SyncAgentError, OSError))
    return said if expected else f"{type(error).__name__}: {said}"


def ended_line(result: RunResult, seconds: float) -> str:
    """Return how a run has ended, and what it took."""
    took = f"{seconds_text(seconds)}, {usage_text(result.usage, result.cost)}"
    if result.cancelled:
        how = "stopped; what was said is kept"
        if result.cancellation is not None and result.cancellation.origin == "deadline":
            how = "stopped, as its time was up; what was said is kept"
    else:
        how = {
            "end_turn": "",
            "max_tokens": "the answer was too long, and is cut off",
            "refusal": "the model will not answer that",
            "limit": f"the limit on {result.limit} was reached",
            "interrupt": "it waits for an answer that nobody can give here",
        }.get(result.stop_reason, result.stop_reason)
    return f"({how}; {took})" if how else f"({took})"
