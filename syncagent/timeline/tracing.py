"""Follow one run through its lines, and collect its rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import msgspec

from .. import events
from ..events import RunFinished, decode_event
from ..recording import Begin, CancelledLine, Failure, RecordedLine
from ..result import RunResult
from ..usage import Usage
from . import formatting
from .spans import Detail, Mark, Row, Segment, SpanKind

__all__ = ["OpenRow", "RunTrace"]

#: Phases in which the run waits, and the titles of their rows.
_WAITS: Final = {
    "queue": "waiting in the queue",
    "compaction": "compacting the conversation",
    "tools": "asking for the tools",
    "approval": "waiting for approval",
    "auth": "waiting for credentials",
    "input": "waiting for an answer",
}
#: Phases of the run itself; all others are phases of a request to the model.
_RUN_PHASES: Final = frozenset(
    ("begin", "model", "turn", "before tools", "tool", "after tools", *_WAITS)
)
#: Seconds below which asking for the tools has no row.
_INSTANT: Final = 0.002
#: The largest number of marks in a row.
_MAX_MARKS: Final = 200


class OpenRow:
    """A row that is still growing."""

    def __init__(
        self, kind: SpanKind, title: str, begin: float, thread: str = ""
    ) -> None:
        self.kind: SpanKind = kind
        self.title = title
        self.begin = begin
        self.end: float | None = None
        self.phases: list[tuple[str, float]] = []
        self.outcome = ""
        self.thread = thread
        self.in_process = self.is_elsewhere = False
        self.call_id = ""
        #: The time at which the tool ended on its own thread.
        self.tool_ended: float | None = None
        self.marks: list[Mark] = []
        self.hint = ""
        self.details: dict[str, str] = {}

    def close(self, at: float) -> None:
        """Set its end, if it has none."""
        if self.end is None:
            self.end = max(at, self.begin)

    def mark(self, at: float, text: str) -> None:
        """Add a mark."""
        if len(self.marks) < _MAX_MARKS:
            self.marks.append(Mark(at, text))

    def row(self, depth: int, last: float, cancel: float | None) -> Row:
        """Return the row; *last* is the end of the recording."""
        end = last if self.end is None else self.end
        was_running = cancel is not None and self.begin <= cancel <= end
        steps = [*self.phases, ("", end)]
        return Row(
            kind=self.kind,
            title=self.title,
            hint=self.hint,
            begin=self.begin,
            end=max(end, self.begin),
            depth=depth,
            segments=tuple(
                Segment(name, begin, max(begin, then))
                for (name, begin), (_, then) in pairwise(steps)
            ),
            outcome=self.outcome,
            thread=self.thread,
            in_process=self.in_process,
            is_elsewhere=self.is_elsewhere,
            after_cancel=end - cancel if was_running and cancel is not None else None,
            is_open=self.end is None,
            marks=tuple(self.marks),
            details=tuple(Detail(*item) for item in self.details.items() if item[1]),
        )


class RunTrace:
    """One run, collected from its lines in the order of their times."""

    def __init__(self, run_id: str, line: RecordedLine) -> None:
        self.run_id = run_id
        self.begin = line.t
        self.end: float | None = None
        self.parent = self.call_id = self.model = self.prompt = ""
        self.cancel: tuple[float, CancelledLine] | None = None
        self.result: RunResult | None = None
        self.error: Failure | None = None
        #: The sum of its turns, for a run without a result.
        self.usage = Usage()
        self.turns = 0
        self.rows: list[OpenRow] = []
        #: The threads that have run it, with the time from which each did.
        self.threads: list[tuple[str, float]] = []
        #: The number of events that could not be read.
        self.unknown = 0
        self._request: OpenRow | None = None
        self._waiting: OpenRow | None = None
        self._tools: dict[str, OpenRow] = {}
        self._tool_questions: dict[str, OpenRow] = {}
        self._text: list[str] = []
        self._size = 0

    def add(self, line: RecordedLine) -> None:
        """Add the next line."""
        tool = line.tool
        if tool is not None:
            row = self._tools.get(tool.call_id)
            if row is None:
                row = self._begin_tool(line.t, tool.call_id, tool.name)
            row.thread, row.in_process = line.thread, tool.in_process
            row.is_elsewhere = line.thread != (self.threads or [("", 0.0)])[-1][0]
            if tool.moment == "end":
                row.tool_ended = line.t
            return
        if not self.threads or self.threads[-1][0] != line.thread:
            self.threads.append((line.thread, line.t))
        if line.phase is not None:
            self._add_phase(line, line.phase)
        elif line.begin is not None:
            self._add_begin(line, line.begin)
        elif line.cancel is not None:
            self.cancel = (line.t, line.cancel)
        elif line.error is not None:
            self.error = line.error
            self._finish(line.t)
        elif line.lost is not None:
            self.unknown += 1
        elif bytes(line.event):
            try:
                event = decode_event(bytes(line.event))
            except (msgspec.DecodeError, ValueError, RecursionError):
                self.unknown += 1
                return
            handler = _HANDLERS.get(event.__class__)
            if handler is not None:
                handler(self, line, event)

    def _add_begin(self, line: RecordedLine, begin: Begin) -> None:
        self._end_wait(line.t)
        self.parent, self.call_id = begin.parent, begin.call_id
        self.model = begin.model
        if self.end is not None:  # it was paused, and is resumed now
            pause = self._open("wait", "paused", self.end)
            pause.close(line.t)
            self.end = None
        prompt = begin.prompt if isinstance(begin.prompt, dict) else {}
        content = prompt.get("content")
        text = formatting.blocks_text(content) if isinstance(content, list) else ""
        self.prompt = self.prompt or text

    def _open(self, kind: SpanKind, title: str, at: float, thread: str = "") -> OpenRow:
        row = OpenRow(kind, title, at, thread)
        self.rows.append(row)
        return row

    # -- phases --------------------------------------------------------------------

    def _add_phase(self, line: RecordedLine, phase: str) -> None:
        if phase not in _RUN_PHASES and self._request is not None:
            self._request.phases.append((phase, line.t))
            return
        self._end_wait(line.t)
        self._end_request(line.t)
        if phase == "model":
            self.turns += 1
            title = f"model call {self.turns}"
            self._request = self._open("model", title, line.t, line.thread)
            self._request.phases.append((phase, line.t))
            self._text, self._size = [], 0
        elif phase in _WAITS:
            self._waiting = self._open("wait", _WAITS[phase], line.t, line.thread)
            self._waiting.phases.append((phase, line.t))

    def _end_wait(self, at: float) -> None:
        row, self._waiting = self._waiting, None
        if row is None:
            return
        row.close(at)
        if row.title == _WAITS["tools"] and at - row.begin < _INSTANT:
            self.rows.remove(row)  # it comes with every turn

    def _end_request(self, at: float) -> None:
        request = self._request
        if request is not None:
            request.close(at)
            request.details.setdefault("Response", formatting.cut("".join(self._text)))

    # -- tools ---------------------------------------------------------------------

    def _begin_tool(self, at: float, call_id: str, name: str) -> OpenRow:
        before = self._tools.get(call_id)
        is_known = before is not None and before.end is None and not before.phases
        if before is not None and is_known:  # the line of its own thread came first
            row = before
        else:
            if before is not None:  # the same call id is used again
                before.close(at if before.tool_ended is None else before.tool_ended)
            row = self._tools[call_id] = self._open("tool", name, at)
        row.call_id = call_id
        return row

    # -- events --------------------------------------------------------------------

    def on_message_started(
        self, line: RecordedLine, event: events.MessageStarted
    ) -> None:
        if self._request is not None and event.model:
            self._request.details["Model"] = event.model

    def on_model_changed(self, line: RecordedLine, event: events.ModelChanged) -> None:
        if self._request is not None:
            text = f"{event.from_model} → {event.to_model}: {event.error}"
            self._request.mark(line.t, formatting.cut(text, 200))
            self._request.details["Model"] = event.to_model

    def on_compacted(self, line: RecordedLine, event: events.Compacted) -> None:
        row = self._waiting or next(reversed(self.rows), None)  # one of a hook has none
        if row is None:
            return
        steps = ", ".join(event.steps) or "a hook"
        row.mark(line.t, f"{event.before:,} → {event.after:,} tokens: {steps}")
        counts = f"{event.messages_before:,} → {event.messages_after:,}"
        row.details["Messages"] = counts
        row.details["Summary"] = formatting.cut(event.summary, formatting.MAX_TEXT)

    def on_delta(self, line: RecordedLine, event: Any) -> None:
        if self._size < formatting.MAX_TEXT:
            self._text.append(event.text)
            self._size += len(event.text)

    def on_turn_finished(self, line: RecordedLine, event: events.TurnFinished) -> None:
        self.usage += event.usage
        request = self._request
        if request is None:
            return
        request.close(line.t)
        request.details["Response"] = formatting.blocks_text(event.message.content)
        request.details["Tokens"] = _usage_text(event.usage)
        if event.message.stop_reason not in ("end_turn", "tool_calls"):
            request.outcome = event.message.stop_reason
        self._request = None

    def on_tool_started(self, line: RecordedLine, event: events.ToolStarted) -> None:
        row = self._begin_tool(line.t, event.call_id, event.name)
        row.phases.append(("tool", line.t))
        row.hint = formatting.hint_of(event.arguments)
        row.details["Arguments"] = formatting.value_text(event.arguments)

    def on_tool_progress(self, line: RecordedLine, event: events.ToolProgress) -> None:
        row = self._tools.get(event.call_id)
        if row is not None:
            row.mark(line.t, formatting.cut(formatting.value_text(event.value), 200))

    def on_tool_finished(self, line: RecordedLine, event: events.ToolFinished) -> None:
        row = self._tools.get(event.call_id)
        if row is None or row.end is not None:
            row = self._begin_tool(line.t, event.call_id, event.name)
        is_left = event.outcome == "abandoned" or row.tool_ended is None
        row.close(line.t if is_left or row.tool_ended is None else row.tool_ended)
        row.outcome = event.outcome
        row.details["Result"] = formatting.blocks_text(event.result.content)

    def on_state_changed(self, line: RecordedLine, event: events.StateChanged) -> None:
        asks = event.state == "waiting_for_input" and event.call_id in self._tools
        if asks and event.call_id not in self._tool_questions:
            row = self._open("wait", _WAITS["input"], line.t)
            row.phases.append(("input", line.t))
            row.call_id = event.call_id
            self._tool_questions[event.call_id] = row
        elif not event.state.startswith("waiting"):
            for row in self._tool_questions.values():
                row.close(line.t)
            self._tool_questions.clear()

    def on_interrupt(self, line: RecordedLine, event: events.InterruptRaised) -> None:
        row = self._waiting or next(reversed(self._tool_questions.values()), None)
        if row is not None:
            row.details["Questions"] = formatting.value_text(event.interrupts)

    def on_run_finished(self, line: RecordedLine, event: RunFinished) -> None:
        self.result = event.result
        self._finish(line.t)

    def _finish(self, at: float) -> None:
        self.end = at
        self._end_wait(at)
        request = self._request
        if request is not None:
            request.outcome = "failed" if self.error is not None else "cut off"
        self._end_request(at)
        self._request = None
        for row in self.rows:
            row.close(at if row.tool_ended is None else row.tool_ended)


def _usage_text(usage: Usage) -> str:
    counts = f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"
    more = [
        f"{count:,} {name}"
        for count, name in (
            (usage.cached_tokens, "cached"),
            (usage.reasoning_tokens, "reasoning"),
        )
        if count
    ]
    return ", ".join([counts, *more]) + (" (estimated)" if usage.estimated else "")


_HANDLERS: Final[dict[type, Callable[[Any, RecordedLine, Any], None]]] = {
    events.MessageStarted: RunTrace.on_message_started,
    events.TextDelta: RunTrace.on_delta,
    events.TurnFinished: RunTrace.on_turn_finished,
    events.ToolStarted: RunTrace.on_tool_started,
    events.ToolProgress: RunTrace.on_tool_progress,
    events.ModelChanged: RunTrace.on_model_changed,
    events.Compacted: RunTrace.on_compacted,
    events.ToolFinished: RunTrace.on_tool_finished,
    events.StateChanged: RunTrace.on_state_changed,
    events.InterruptRaised: RunTrace.on_interrupt,
    RunFinished: RunTrace.on_run_finished,
}
