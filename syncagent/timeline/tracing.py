"""Follow one run through its lines, and note what took how long."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import msgspec

from .. import events
from ..events import RunFinished, decode_event
from ..recording import Begin, CancelledLine, Failure, RecordedLine, ToolMoment
from ..result import RunResult
from ..usage import Usage
from . import words
from .spans import Detail, Mark, Row, Segment, SpanKind

__all__ = ["OpenRow", "RunTrace"]

#: Phases in which the run waits for somebody, and what such a row is called.
_WAITS: Final = {
    "queue": "waits for its turn",
    "approval": "waits for approval",
    "auth": "waits for credentials",
    "input": "waits for an answer",
}
#: Phases that are none of a request to a model, but for the first one of that.
_OF_RUN: Final = frozenset(
    ("begin", "model", "turn", "before tools", "tool", "after tools", *_WAITS)
)
#: How many marks a row has at most.
_MARKS: Final = 200


class OpenRow:
    """A row that is being made."""

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
        #: When its tool ended, on its own thread.
        self.really_ended: float | None = None
        self.marks: list[Mark] = []
        self.hint = ""
        self.details: dict[str, str] = {}

    def close(self, at: float) -> None:
        """Note when it has ended, if it has not before."""
        if self.end is None:
            self.end = max(at, self.begin)

    def mark(self, at: float, text: str) -> None:
        """Note a moment."""
        if len(self.marks) < _MARKS:
            self.marks.append(Mark(at, text))

    def row(self, depth: int, last: float, cancel: float | None) -> Row:
        """Return it; *last* is the end of what is known."""
        end = last if self.end is None else self.end
        was_there = cancel is not None and self.begin <= cancel <= end
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
            after_cancel=end - cancel if was_there and cancel is not None else None,
            is_open=self.end is None,
            marks=tuple(self.marks),
            details=tuple(Detail(*item) for item in self.details.items() if item[1]),
        )


class RunTrace:
    """One run, as its lines tell it, in the order of their times."""

    def __init__(self, run_id: str, line: RecordedLine) -> None:
        self.run_id = run_id
        self.begin = line.t
        self.end: float | None = None
        self.parent = self.call_id = self.model = self.prompt = ""
        self.cancel: tuple[float, CancelledLine] | None = None
        self.result: RunResult | None = None
        self.error: Failure | None = None
        #: As far as it is known without a result.
        self.usage = Usage()
        self.turns = 0
        self.rows: list[OpenRow] = []
        #: The threads that have driven it, with the moment of each.
        self.threads: list[tuple[str, float]] = []
        #: Events that could not be read.
        self.unknown = 0
        self._asking: OpenRow | None = None
        self._waiting: OpenRow | None = None
        self._tools: dict[str, OpenRow] = {}
        self._asked_by_tools: dict[str, OpenRow] = {}
        self._text: list[str] = []
        self._size = 0

    def take(self, line: RecordedLine) -> None:
        """Take in the next line."""
        if line.tool is not None:
            self._take_tool(line, line.tool)
            return
        if not self.threads or self.threads[-1][0] != line.thread:
            self.threads.append((line.thread, line.t))
        if line.phase is not None:
            self._take_phase(line, line.phase)
        elif line.begin is not None:
            self._take_begin(line, line.begin)
        elif line.cancel is not None:
            self.cancel = (line.t, line.cancel)
        elif line.error is not None:
            self.error = line.error
            self._finish(line.t)
        elif line.lost is not None:
            self.unknown += 1
        elif bytes(line.event):
            self._take_event(line)

    def _take_begin(self, line: RecordedLine, begin: Begin) -> None:
        self._end_wait(line.t)
        self.parent, self.call_id = begin.parent, begin.call_id
        self.model = begin.model
        if self.end is not None:  # it goes on, after it has waited for answers
            pause = self._open("wait", "paused", self.end)
            pause.close(line.t)
            self.end = None
        prompt = begin.prompt if isinstance(begin.prompt, dict) else {}
        content = prompt.get("content")
        said = words.of_blocks(content) if isinstance(content, list) else ""
        self.prompt = self.prompt or said

    def _open(self, kind: SpanKind, title: str, at: float, thread: str = "") -> OpenRow:
        row = OpenRow(kind, title, at, thread)
        self.rows.append(row)
        return row

    # -- phases --------------------------------------------------------------------

    def _take_phase(self, line: RecordedLine, phase: str) -> None:
        if phase not in _OF_RUN and self._asking is not None:
            self._asking.phases.append((phase, line.t))
            return
        self._end_wait(line.t)
        self._end_asking(line.t)
        if phase == "model":
            self.turns += 1
            title = f"model call {self.turns}"
            self._asking = self._open("model", title, line.t, line.thread)
            self._asking.phases.append((phase, line.t))
            self._text, self._size = [], 0
        elif phase in _WAITS:
            self._waiting = self._open("wait", _WAITS[phase], line.t, line.thread)
            self._waiting.phases.append((phase, line.t))

    def _end_wait(self, at: float) -> None:
        if self._waiting is not None:
            self._waiting.close(at)
            self._waiting = None

    def _end_asking(self, at: float) -> None:
        asking = self._asking
        if asking is not None:
            asking.close(at)
            asking.details.setdefault("Answer", words.cut("".join(self._text)))

    # -- tools ---------------------------------------------------------------------

    def _take_tool(self, line: RecordedLine, tool: ToolMoment) -> None:
        row = self._tools.get(tool.call_id)
        if row is None:
            row = self._begin_tool(line.t, tool.call_id, tool.name)
        row.thread, row.in_process = line.thread, tool.in_process
        row.is_elsewhere = line.thread != (self.threads or [("", 0.0)])[-1][0]
        if tool.moment == "end":
            row.really_ended = line.t

    def _begin_tool(self, at: float, call_id: str, name: str) -> OpenRow:
        before = self._tools.get(call_id)
        is_known = before is not None and before.end is None and not before.phases
        if before is not None and is_known:  # its own thread was heard first
            row = before
        else:
            if before is not None:  # it is made again
                before.close(at if before.really_ended is None else before.really_ended)
            row = self._tools[call_id] = self._open("tool", name, at)
        row.call_id = call_id
        return row

    # -- events --------------------------------------------------------------------

    def _take_event(self, line: RecordedLine) -> None:
        try:
            event = decode_event(bytes(line.event))
        except (msgspec.DecodeError, ValueError):
            self.unknown += 1
            return
        take = _TAKES.get(event.__class__)
        if take is not None:
            take(self, line, event)

    def _started_message(
        self, line: RecordedLine, event: events.MessageStarted
    ) -> None:
        if self._asking is not None and event.model:
            self._asking.details["Model"] = event.model

    def _delta(self, line: RecordedLine, event: Any) -> None:
        if self._size < words.LONGEST:
            self._text.append(event.text)
            self._size += len(event.text)

    def _turn(self, line: RecordedLine, event: events.TurnFinished) -> None:
        self.usage += event.usage
        asking = self._asking
        if asking is None:
            return
        asking.close(line.t)
        asking.details["Answer"] = words.of_blocks(event.message.content)
        asking.details["Tokens"] = _usage_words(event.usage)
        if event.message.stop_reason not in ("end_turn", "tool_calls"):
            asking.outcome = event.message.stop_reason
        self._asking = None

    def _tool_started(self, line: RecordedLine, event: events.ToolStarted) -> None:
        row = self._begin_tool(line.t, event.call_id, event.name)
        row.phases.append(("tool", line.t))
        row.hint = words.hint_of(event.arguments)
        row.details["Arguments"] = words.of_value(event.arguments)

    def _tool_progress(self, line: RecordedLine, event: events.ToolProgress) -> None:
        row = self._tools.get(event.call_id)
        if row is not None:
            row.mark(line.t, words.cut(words.of_value(event.value), 200))

    def _tool_finished(self, line: RecordedLine, event: events.ToolFinished) -> None:
        row = self._tools.get(event.call_id)
        if row is None or row.end is not None:
            row = self._begin_tool(line.t, event.call_id, event.name)
        is_left = event.outcome == "abandoned" or row.really_ended is None
        row.close(line.t if is_left or row.really_ended is None else row.really_ended)
        row.outcome = event.outcome
        row.details["Result"] = words.of_blocks(event.result.content)

    def _state(self, line: RecordedLine, event: events.StateChanged) -> None:
        asks = event.state == "waiting_for_input" and event.call_id in self._tools
        if asks and event.call_id not in self._asked_by_tools:
            row = self._open("wait", _WAITS["input"], line.t)
            row.phases.append(("input", line.t))
            row.call_id = event.call_id
            self._asked_by_tools[event.call_id] = row
        elif not event.state.startswith("waiting"):
            for row in self._asked_by_tools.values():
                row.close(line.t)
            self._asked_by_tools.clear()

    def _asked(self, line: RecordedLine, event: events.InterruptRaised) -> None:
        row = self._waiting or next(reversed(self._asked_by_tools.values()), None)
        if row is not None:
            row.details["Asked"] = words.of_value(event.interrupts)

    def _run_finished(self, line: RecordedLine, event: RunFinished) -> None:
        self.result = event.result
        self._finish(line.t)

    def _finish(self, at: float) -> None:
        self.end = at
        self._end_wait(at)
        asking = self._asking
        if asking is not None:
            asking.outcome = "failed" if self.error is not None else "cut off"
        self._end_asking(at)
        self._asking = None
        for row in self.rows:
            row.close(at if row.really_ended is None else row.really_ended)


def _usage_words(usage: Usage) -> str:
    told = f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"
    more = [
        f"{count:,} {name}"
        for count, name in (
            (usage.cached_tokens, "cached"),
            (usage.reasoning_tokens, "reasoning"),
        )
        if count
    ]
    return ", ".join([told, *more]) + (" (estimated)" if usage.estimated else "")


_TAKES: Final[dict[type, Callable[[Any, RecordedLine, Any], None]]] = {
    events.MessageStarted: RunTrace._started_message,
    events.TextDelta: RunTrace._delta,
    events.TurnFinished: RunTrace._turn,
    events.ToolStarted: RunTrace._tool_started,
    events.ToolProgress: RunTrace._tool_progress,
    events.ToolFinished: RunTrace._tool_finished,
    events.StateChanged: RunTrace._state,
    events.InterruptRaised: RunTrace._asked,
    RunFinished: RunTrace._run_finished,
}
