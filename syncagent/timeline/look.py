"""What the two pictures of a timeline, page and text, have in common."""

from __future__ import annotations

import unicodedata
from typing import Final

from . import words
from .spans import Row, Segment, Timeline

__all__ = [
    "LEGEND",
    "clean",
    "facts",
    "is_fine",
    "look_of",
    "ticks",
]

#: What each look of a bar means, in the order of a run.
LEGEND: Final = {
    "connect": "connect and send",
    "await": "wait for the first token",
    "stream": "answer streams",
    "retry": "back-off before a retry",
    "tool": "tool",
    "wait": "wait for somebody",
    "stopped": "stopped or left behind",
    "bad": "failed",
}
_OF_PHASE: Final = {
    "headers": "await",
    "first event": "await",
    "stream": "stream",
    "retry": "retry",
}
_OF_OUTCOME: Final = {
    "failed": "bad",
    "denied": "none",
    "not_started": "none",
    "interrupted": "stopped",
    "abandoned": "stopped",
}
#: How a run ends if all is well.
_FINE: Final = frozenset(("end_turn", "interrupt"))


def look_of(row: Row, segment: Segment) -> str:
    """Return which look a part of a row has."""
    if row.kind == "model":
        return _OF_PHASE.get(segment.name, "connect")
    if row.kind == "tool":
        return _OF_OUTCOME.get(row.outcome, "tool")
    return row.kind


def is_fine(stop_reason: str) -> bool:
    """Has a run come to its end?"""
    return stop_reason in _FINE


def facts(timeline: Timeline) -> list[tuple[str, str]]:
    """Return what to know about the whole, as names and values."""
    summary = timeline.summary
    usage = summary.usage
    told = [
        ("duration", words.duration(summary.seconds)),
        ("turns", f"{summary.turns}"),
    ]
    if summary.tool_calls:
        told.append(("tool calls", f"{summary.tool_calls}"))
    if summary.sub_agents:
        told.append(("sub-agents", f"{summary.sub_agents}"))
    sign = "≈ " if usage.estimated else ""
    if usage.input_tokens or usage.output_tokens:
        counts = (words.tokens(usage.input_tokens), words.tokens(usage.output_tokens))
        told.append(("tokens in / out", f"{sign}{counts[0]} / {counts[1]}"))
    if summary.cost is not None:
        told.append(("cost", f"{sign}${summary.cost:.4f}"))
    return told


def ticks(seconds: float, count: int) -> list[tuple[float, str]]:
    """Return about *count* round moments of a time that long, with their names."""
    if seconds <= 0 or count < 1:
        return [(0.0, "0")]
    step = _round_step(seconds / count)
    number = int(seconds / step + 1e-9)
    return [
        (i * step, words.duration(i * step) if i else "0") for i in range(number + 1)
    ]


def _round_step(least: float) -> float:
    if least > 30:  # minutes and hours have other round numbers
        steps = (60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400)
        return next(
            (float(s) for s in steps if s >= least), 86400.0 * (least // 86400 + 1)
        )
    power = 1e-6
    while power * 10 <= least:
        power *= 10
    return next(power * n for n in (1, 2, 5, 10, 20) if power * n >= least)


def clean(text: str) -> str:
    """Return *text* in one line, with nothing in it that a terminal would obey."""
    return "".join(c if c.isprintable() else _stand_in(c) for c in text)


def _stand_in(character: str) -> str:
    # Cc: escapes; Cf: what turns the direction of the rest around.
    return " " if unicodedata.category(character) in ("Cc", "Zl", "Zp", "Zs") else "?"
