"""Build a timeline from a recording: nested runs, and their rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from ..cancel import CancelToken
from ..usage import Usage
from . import formatting
from .reading import Recording, read_recording
from .spans import Mark, Row, Summary, Timeline
from .tracing import OpenRow, RunTrace

__all__ = ["build_timeline", "read_timeline"]

#: How deep nested runs are drawn.
_MAX_DEPTH: Final = 100


def read_timeline(
    path: str | os.PathLike[str], *, token: CancelToken | None = None
) -> Timeline:
    """Return the timeline of a run that was recorded with ``record=``.

    The run may still be running, or its process may have been killed: the timeline
    then ends with the recording.

    Cancellation: checks *token* every few thousand lines.

    :raises RecordingInvalid: the file cannot be read, or is not a recording.
    """
    return build_timeline(read_recording(path, token))


def build_timeline(recording: Recording) -> Timeline:
    """Return the timeline of a recording."""
    traces: dict[str, RunTrace] = {}
    for line in recording.lines:
        trace = traces.get(line.run)
        if trace is None:
            trace = traces[line.run] = RunTrace(line.run, line)
        trace.add(line)
    return _Builder(recording, traces).timeline()


class _Builder:
    def __init__(self, recording: Recording, traces: dict[str, RunTrace]) -> None:
        self._recording = recording
        self._traces = traces
        self._last = max((line.t for line in recording.lines), default=0.0)
        #: Sub-agents by the run and the call that they belong to.
        self._nested: dict[tuple[str, str], list[RunTrace]] = {}
        for trace in traces.values():
            if trace.parent in traces:
                key = (trace.parent, trace.call_id)
                self._nested.setdefault(key, []).append(trace)
        self._roots = [each for each in traces.values() if each.parent not in traces]

    def timeline(self) -> Timeline:
        rows = [row for root in self._roots for row in self._rows_of(root, 0)]
        marks: list[Mark] = []
        for trace in self._traces.values():
            if trace.cancel is not None:
                at, cancel = trace.cancel
                if cancel.origin != "parent" or trace in self._roots:
                    reason = f": {cancel.reason}" if cancel.reason else ""
                    text = f"cancelled ({cancel.origin}){formatting.cut(reason, 300)}"
                    marks.append(Mark(at, text))
        return Timeline(
            summary=self._summary(),
            rows=tuple(rows),
            cancels=tuple(marks),
            notes=tuple(self._notes()),
        )

    def _rows_of(
        self, trace: RunTrace, depth: int, cancel: float | None = None
    ) -> Iterator[Row]:
        if depth > _MAX_DEPTH:
            return
        if trace.cancel is not None:
            cancel = trace.cancel[0]
        yield self._run_row(trace).row(depth, self._last, cancel)
        if len(trace.threads) > 1:
            threads = OpenRow("thread", "threads", trace.begin)
            threads.end = trace.end
            threads.phases = list(trace.threads)
            yield threads.row(depth + 1, self._last, cancel)
        placed: set[str] = set()
        for open_row in sorted(trace.rows, key=lambda row: row.begin):
            # The question of a tool is drawn below the tool.
            is_tools = open_row.kind == "wait" and open_row.call_id
            yield open_row.row(depth + (2 if is_tools else 1), self._last, cancel)
            if open_row.kind == "tool" and open_row.call_id not in placed:
                placed.add(open_row.call_id)
                for nested in self._nested.get((trace.run_id, open_row.call_id), ()):
                    yield from self._rows_of(nested, depth + 2, cancel)
        for (parent, call_id), traces in self._nested.items():
            if parent == trace.run_id and call_id not in placed:
                for nested in traces:
                    yield from self._rows_of(nested, depth + 1, cancel)

    def _run_row(self, trace: RunTrace) -> OpenRow:
        row = OpenRow("run", f"run {trace.run_id[:8]}", trace.begin)
        row.end = trace.end
        if trace.parent in self._traces:
            row.title = "sub-agent"
        row.outcome = _stop_reason(trace)
        row.thread = trace.threads[0][0] if trace.threads else ""
        row.details = {
            "Prompt": trace.prompt,
            "Model": trace.model,
            "Cancelled": _cancellation(trace),
            "Error": _error(trace),
            "Text": "" if trace.result is None else formatting.cut(trace.result.text),
            "Threads": ", ".join(dict.fromkeys(name for name, _ in trace.threads)),
            "Run": trace.run_id,
        }
        return row

    def _notes(self) -> Iterator[str]:
        recording = self._recording
        if not self._traces:
            yield "The recording ends before a run starts."
        elif any(trace.end is None for trace in self._traces.values()):
            yield (
                "The recording ends before the run: the run is still running, or its "
                "process was killed."
            )
        if recording.is_cut:
            yield "The last line is cut off."
        unread = recording.unreadable + sum(e.unknown for e in self._traces.values())
        if unread:
            yield f"{unread} lines could not be read and are left out."

    def _summary(self) -> Summary:
        roots, traces = self._roots, self._traces.values()
        first = roots[0] if roots else None
        last = roots[-1] if roots else None
        results = [root.result for root in roots if root.result is not None]
        known = [root.usage for root in roots if root.result is None]
        costs = [each.cost for each in results if each.cost is not None]
        return Summary(
            run_id="" if first is None else first.run_id,
            model="" if first is None else first.model,
            stop_reason="running" if last is None else _stop_reason(last),
            started=self._recording.header.started,
            seconds=self._last,
            turns=sum(trace.turns for trace in traces),
            tool_calls=sum(r.kind == "tool" for each in traces for r in each.rows),
            sub_agents=len(traces) - len(roots),
            usage=sum([*(each.usage for each in results), *known], Usage()),
            cost=sum(costs) if costs else None,
            error="" if last is None else _error(last),
            cancellation="" if last is None else _cancellation(last),
            prompt="" if first is None else first.prompt,
            text=formatting.cut(results[-1].text) if results else "",
        )


def _stop_reason(trace: RunTrace) -> str:
    if trace.end is None:
        return "running"
    if trace.result is None:
        return "error"
    return trace.result.stop_reason


def _error(trace: RunTrace) -> str:
    error = trace.error
    return (
        "" if error is None else formatting.cut(f"{error.type}: {error.message}", 2000)
    )


def _cancellation(trace: RunTrace) -> str:
    if trace.cancel is None:
        return ""
    at, cancel = trace.cancel
    text = f"after {formatting.duration(at)} by {cancel.origin}"
    if cancel.reason:
        text += f" ({formatting.cut(cancel.reason, 300)})"
    if cancel.phase:
        text += f" in phase {cancel.phase!r}"
    if trace.end is not None:
        text += f"; the run ended {formatting.duration(trace.end - at)} later"
    return text
