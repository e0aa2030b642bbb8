"""The progress of the run in the foreground: its state, tools and usage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from ...cancel import clock
from ...events import (
    Compacted,
    Lagged,
    ModelChanged,
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
from ...messages import Json, Text
from ...usage import Usage
from ..formatting import (
    compacted_text,
    outcome_text,
    seconds_text,
    short_call_text,
    usage_text,
)
from ..plain_text import on_one_line
from .conversations import ChatRun
from .screen import Screen

__all__ = ["Progress"]

#: Running tools that are shown at once.
_MAX_TOOLS: Final = 5
#: Outcomes whose result is shown: the model reads the reason there.
_EXPLAINED: Final = ("failed", "denied", "not_started")
_STATES: Final = {
    "processing": "waiting for the model",
    "executing_tool": "running a tool",
    "waiting_for_approval": "waiting for your answer",
    "waiting_for_auth": "waiting for credentials",
    "waiting_for_input": "waiting for your answer",
    "waiting_for_agent": "waiting for a sub-agent",
}


class _RunningTool:
    def __init__(self, event: ToolStarted) -> None:
        self.name: Final = event.name
        self.line: Final = short_call_text(event.name, event.arguments)
        self.started: Final = clock.now()
        self.progress = ""


class Progress:
    """Follows the events of one run, and shows those that are worth a line."""

    def __init__(self) -> None:
        self._state = "starting"
        self._tools: dict[str, _RunningTool] = {}
        #: Calls that the model has made, by id, whatever their outcome.
        self._calls: dict[str, str] = {}
        #: Usage of the turns that have ended, and of the current one. They are kept
        #: apart: the price may depend on the length of a prompt.
        self._used: list[Usage] = []
        self._current_usage = Usage()

    def tools(self) -> list[str]:
        """Return a line for each running tool, with the time it has taken."""
        lines = []
        for tool in list(self._tools.values())[:_MAX_TOOLS]:
            took = seconds_text(clock.now() - tool.started)
            progress = f", {tool.progress}" if tool.progress else ""
            lines.append(f"  {tool.line}  {took}{progress}")
        more = len(self._tools) - _MAX_TOOLS
        return [*lines, f"  and {more} more"] if more > 0 else lines

    @property
    def running(self) -> dict[str, str]:
        """The names of the running tools, by the ids of their calls."""
        return {id: tool.name for id, tool in self._tools.items()}

    def summary(
        self, run: ChatRun, cost: Callable[[Usage], float | None], note: str
    ) -> str:
        """Return the state of the run, with time, tokens and cost."""
        state = "stopping" if run.is_stopping else note or self._state
        turns = [*self._used, self._current_usage]
        usage = sum(turns, Usage())
        parts = [state, seconds_text(clock.now() - run.started)]
        if usage.total_tokens:
            costs = [each for each in map(cost, turns) if each is not None]
            parts.append(usage_text(usage, sum(costs) if costs else None))
        return ", ".join([*parts, "Ctrl+C stops it, Ctrl+B: background"])

    def take(self, event: Any, screen: Screen) -> None:
        """Take note of an event, and show it if it is worth a line."""
        if isinstance(event, TextDelta):
            self._state = "writing"
            screen.write(event.text)
        elif isinstance(event, ThinkingDelta):
            self._state = "thinking"
        elif isinstance(event, ToolCallReady):
            call = event.call
            try:
                arguments = msgspec.json.decode(call.arguments, type=dict)
                line = short_call_text(call.name, arguments)
            except msgspec.DecodeError:
                line = on_one_line(f"{call.name}({call.arguments})", 100)
            self._calls[call.call_id] = line
        elif isinstance(event, ToolStarted):
            self._tools[event.call_id] = _RunningTool(event)
        elif isinstance(event, ToolProgress):
            tool = self._tools.get(event.call_id)
            if tool is not None:
                tool.progress = on_one_line(str(event.value), 40)
        elif isinstance(event, ToolFinished):
            screen.line(self._finished_line(event), "tool")
        elif isinstance(event, UsageUpdated):
            self._current_usage = event.usage
        elif isinstance(event, TurnFinished):
            self._used.append(event.usage)
            self._current_usage = Usage()
            screen.end_response()
        elif isinstance(event, StateChanged):
            self._state = _STATES.get(event.state, self._state)
        elif isinstance(event, ModelChanged):
            text = f"{event.to_model} responds, not {event.from_model}: {event.error}"
            screen.line(f"({on_one_line(text, 200)})")
        elif isinstance(event, Compacted):
            screen.line(f"({compacted_text(event)})")
        elif isinstance(event, Lagged):
            screen.line(f"({event.missed} events are not shown: they came too fast)")

    def _finished_line(self, event: ToolFinished) -> str:
        tool = self._tools.pop(event.call_id, None)
        line, details = self._calls.pop(event.call_id, event.name), ""
        if tool is not None:
            line, details = tool.line, f", {seconds_text(clock.now() - tool.started)}"
        outcome = outcome_text(event.outcome)
        if event.outcome in _EXPLAINED:
            texts = []
            for block in event.result.content:
                if isinstance(block, Text):
                    texts.append(block.text)
                elif isinstance(block, Json):
                    texts.append(str(block.value))
            reason = on_one_line(" ".join(texts), 160)
            if reason.lower().startswith(outcome):
                reason = reason[len(outcome) :].lstrip(" :")
            if reason and not reason.startswith("Interrupted"):  # the user did that
                details += f": {reason}"
        return f"  {line}  {outcome}{details}"
