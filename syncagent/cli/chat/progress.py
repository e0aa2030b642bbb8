"""What a run is doing, as it is shown while it does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from ...cancel import clock
from ...events import (
    Lagged,
    StateChanged,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    UsageUpdated,
)
from ...messages import Json, Text, ToolCall
from ...usage import Usage
from ..plain_text import on_one_line
from .screen import Screen
from .talk import Work
from .wording import call_line, seconds_text, usage_text

__all__ = ["Progress"]

#: How many tools are shown at once.
_TOOLS: Final = 5
#: What the model is told about these is worth a line.
_EXPLAINED: Final = ("failed", "denied", "not_started")
_STATES: Final = {
    "processing": "waits for the model",
    "executing_tool": "uses a tool",
    "waiting_for_approval": "waits for your answer",
    "waiting_for_auth": "waits for credentials",
    "waiting_for_input": "waits for your answer",
    "waiting_for_agent": "waits for a sub-agent",
}


class _RunningTool:
    """A tool at work."""

    def __init__(self, event: ToolStarted) -> None:
        self.line: Final = call_line(event.name, event.arguments)
        self.began: Final = clock.now()
        self.news = ""


class Progress:
    """What one piece of work in the foreground is doing."""

    def __init__(self) -> None:
        self._state = "begins"
        self._tools: dict[str, _RunningTool] = {}
        #: Those that the model has written, whatever becomes of them.
        self._calls: dict[str, str] = {}
        #: Of the turns that have ended, and of the one that has not.
        self._used = Usage()
        self._using = Usage()

    def tools(self) -> list[str]:
        """Return the tools at work, each with the time that it has taken."""
        shown = []
        for tool in list(self._tools.values())[:_TOOLS]:
            took = seconds_text(clock.now() - tool.began)
            news = f", {tool.news}" if tool.news else ""
            shown.append(f"  {tool.line}  {took}{news}")
        more = len(self._tools) - _TOOLS
        return [*shown, f"  and {more} more"] if more > 0 else shown

    def summary(
        self, work: Work, cost: Callable[[Usage], float | None], note: str
    ) -> str:
        """Return what goes on, with time, tokens and cost."""
        state = "stops" if work.is_stopping else note or self._state
        used = self._used + self._using
        parts = [state, seconds_text(clock.now() - work.began)]
        if used.total_tokens:
            parts.append(usage_text(used, cost(used)))
        return ", ".join([*parts, "Ctrl+C stops it, Ctrl+B: background"])

    def take(self, event: Any, screen: Screen) -> None:
        """Take note of an event, and show what of it is to stay."""
        if isinstance(event, TextDelta):
            self._state = "writes"
            screen.say(event.text)
        elif isinstance(event, ThinkingDelta):
            self._state = "thinks"
        elif isinstance(event, ToolCallReady):
            self._calls[event.call.call_id] = _written(event.call)
        elif isinstance(event, ToolStarted):
            self._tools[event.call_id] = _RunningTool(event)
        elif isinstance(event, ToolProgress):
            tool = self._tools.get(event.call_id)
            if tool is not None:
                tool.news = on_one_line(str(event.value), 40)
        elif isinstance(event, ToolFinished):
            self._finished(event, screen)
        elif isinstance(event, UsageUpdated):
            self._using = event.usage
        elif isinstance(event, TurnFinished):
            self._used, self._using = self._used + event.usage, Usage()
            screen.pause()
        elif isinstance(event, StateChanged):
            self._state = _STATES.get(event.state, self._state)
        elif isinstance(event, Lagged):
            screen.line(f"({event.missed} pieces came too fast to be shown)")

    def _finished(self, event: ToolFinished, screen: Screen) -> None:
        tool = self._tools.pop(event.call_id, None)
        line, took = self._calls.pop(event.call_id, event.name), ""
        if tool is not None:
            line, took = tool.line, f", {seconds_text(clock.now() - tool.began)}"
        outcome = event.outcome.replace("_", " ")
        if event.outcome in _EXPLAINED:
            words = on_one_line(_words(event), 160)
            if words.lower().startswith(outcome):
                words = words[len(outcome) :].lstrip(" :")
            if words.startswith("Interrupted"):
                words = ""  # whoever has done that knows it
            took += f": {words}" if words else ""
        screen.line(f"  {line}  {outcome}{took}", "tool")


def _written(call: ToolCall) -> str:
    try:
        return call_line(call.name, msgspec.json.decode(call.arguments, type=dict))
    except msgspec.DecodeError:
        return on_one_line(f"{call.name}({call.arguments})", 100)


def _words(event: ToolFinished) -> str:
    parts = []
    for block in event.result.content:
        if isinstance(block, Text):
            parts.append(block.text)
        elif isinstance(block, Json):
            parts.append(str(block.value))
    return " ".join(parts)
