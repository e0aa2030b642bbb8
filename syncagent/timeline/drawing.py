"""Shared by the two drawings of a timeline, page and text."""

from __future__ import annotations

import unicodedata
from typing import Final

from . import formatting
from .spans import Row, Segment, Timeline

__all__ = [
    "LEGEND",
    "clean",
    "facts",
    "is_fine",
    "look_of",
    "ticks",
]

#: The looks of bars and their meanings, in the order of a run.
LEGEND: Final = {
    "connect": "connect and send",
    "await": "wait for the first token",
    "stream": "response streams",
    "retry": "back-off before a retry",
    "tool": "tool",
    "wait": "wait for an answer, a turn or a limiter",
    "stopped": "stopped or abandoned",
    "bad": "failed",
}
_PHASE_LOOKS: Final = {
    "headers": "await",
    "first event": "await",
    "stream": "stream",
    "retry": "retry",
    "limiter": "wait",
    "budget": "wait",
}
_OUTCOME_LOOKS: Final = {
    "failed": "bad",
    "denied": "none",
    "not_started": "none",
    "interrupted": "stopped",
    "abandoned": "stopped",
}
#: Stop reasons of runs that ended well.
_FINE: Final = frozenset(("end_turn", "interrupt"))


def look_of(row: Row, segment: Segment) -> str:
    """Return the look of a segment of a row."""
    if row.kind == "model":
        return _PHASE_LOOKS.get(segment.name, "connect")
    if row.kind == "tool":
        return _OUTCOME_LOOKS.get(row.outcome, "tool")
    return row.kind


def is_fine(stop_reason: str) -> bool:
    """Return whether a run with this stop reason ended well."""
    return stop_reason in _FINE


def facts(timeline: Timeline) -> list[tuple[str, str]]:
    """Return the key figures of a timeline, as names and values."""
    summary = timeline.summary
    usage = summary.usage
    figures = [
        ("duration", formatting.duration(summary.seconds)),
        ("turns", f"{summary.turns}"),
    ]
    if summary.tool_calls:
        figures.append(("tool calls", f"{summary.tool_calls}"))
    if summary.sub_agents:
        figures.append(("sub-agents", f"{summary.sub_agents}"))
    sign = "≈ " if usage.estimated else ""
    if usage.input_tokens or usage.output_tokens:
        counts = (
            formatting.tokens(usage.input_tokens),
            formatting.tokens(usage.output_tokens),
        )
        figures.append(("tokens in / out", f"{sign}{counts[0]} / {counts[1]}"))
    if summary.cost is not None:
        figures.append(("cost", f"{sign}${summary.cost:.4f}"))
    return figures


def ticks(seconds: float, count: int) -> list[tuple[float, str]]:
    """Return about *count* round times within *seconds*, with their labels."""
    if seconds <= 0 or count < 1:
        return [(0.0, "0")]
    smallest = seconds / count
    if smallest > 30:  # minutes and hours have other round numbers
        steps = (60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0)
        days = 86400.0 * max(1, -(-smallest // 86400))
        step = next((step for step in steps if step >= smallest), days)
    else:
        power = 1e-6
        while power * 10 <= smallest:
            power *= 10
        step = next(power * n for n in (1, 2, 5, 10, 20) if power * n >= smallest)
    number = int(seconds / step + 1e-9)
    return [
        (i * step, formatting.duration(i * step) if i else "0")
        for i in range(number + 1)
    ]


def clean(text: str) -> str:
    """Return *text* in one line, without control characters."""
    if text.isprintable():
        return text
    # Cc: escapes. Others, such as Cf, can turn the direction of the rest around.
    spaces = ("Cc", "Zl", "Zp", "Zs")
    return "".join(
        c if c.isprintable() else " " if unicodedata.category(c) in spaces else "?"
        for c in text
    )
