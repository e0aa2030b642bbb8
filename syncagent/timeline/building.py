"""Make a timeline of a recording: runs, one inside the other, and their rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from ..cancel import CancelToken
from ..recording import CancelledLine
from ..usage import Usage
from . import words
from .reading import Recording, read_recording
from .spans import Mark, Row, Summary, Timeline
from .tracing import OpenRow, RunTrace

__all__ = ["build_timeline", "read_timeline"]

#: Runs inside of runs inside of runs: nobody draws more.
_DEEPEST: Final = 100


def read_timeline(
    path: str | os.PathLike[str], *, token: CancelToken | None = None
) -> Timeline:
    """Return the timeline of a run that was recorded with ``record=``.

    A recording of a run that goes on, or of a process that was killed, gives what is
    known up to there.

    Cancellation: looks at *token* from time to time.

    :raises RecordingInvalid: it cannot be read, or is no recording.
    """
    return build_timeline(read_recording(path, token))


def build_timeline(recording: Recording) -> Timeline:
    """Return the timeline of what was read."""
    traces: dict[str, RunTrace] = {}
    for line in recording.lines:
        trace = traces.get(line.run)
        if trace is None:
            trace = traces[line.run] = RunTrace(line.run, line)
        trace.take(line)
    return _Building(recording, traces).timeline()


class _Building:
    def __init__(self, recording: Recording, traces: dict[str, RunTrace]) -> None:
        self._recording = recording
        self._traces = traces
        self._last = max((line.t for line in recording.lines), default=0.0)
        self._inside: dict[tuple[str, str], list[RunTrace]] = {}
        for trace in traces.values():
            if trace.parent in traces:
                key = (trace.parent, trace.call_id)
                self._inside.setdefault(key, []).append(trace)
        self._roots = [each for each in traces.values() if each.parent not in traces]

    def timeline(self) -> Timeline:
        rows = [row for root in self._roots for row in self._rows_of(root, 0)]
        return Timeline(
            summary=self._summary(),
            rows=tuple(rows),
            cancels=tuple(self._cancels()),
            notes=tuple(self._notes()),
        )

    def _rows_of(
        self, trace: RunTrace, depth: int, cancel: float | None = None
    ) -> Iterator[Row]:
        if depth > _DEEPEST:
            return
        if trace.cancel is not None:
            cancel = trace.cancel[0]
        yield self._run_row(trace, depth).row(depth, self._last, cancel)
        if len(trace.threads) > 1:
            yield self._thread_row(trace).row(depth + 1, self._last, cancel)
        placed: set[str] = set()
        for open_row in sorted(trace.rows, key=lambda row: row.begin):
            is_asked = open_row.kind == "wait" and open_row.call_id
            row = open_row.row(depth + (2 if is_asked else 1), self._last, cancel)
            yield row
            if open_row.kind == "tool" and open_row.call_id not in placed:
                placed.add(open_row.call_id)
                for part in self._inside.get((trace.run_id, open_row.call_id), ()):
                    yield from self._rows_of(part, depth + 2, cancel)
        for (parent, call_id), parts in self._inside.items():
            if parent == trace.run_id and call_id not in placed:
                for part in parts:
                    yield from self._rows_of(part, depth + 1, cancel)

    def _run_row(self, trace: RunTrace, depth: int) -> OpenRow:
        row = OpenRow("run", f"run {trace.run_id[:8]}", trace.begin)
        row.end = trace.end
        if trace.parent in self._traces:
            row.title = "sub-agent"
        row.outcome = _stop_reason(trace)
        row.thread = trace.threads[0][0] if trace.threads else ""
        row.details = {
            "Prompt": trace.prompt,
            "Model": trace.model,
            "Cancelled": _cancel_words(trace),
            "Error": _error_words(trace),
            "Text": "" if trace.result is None else words.cut(trace.result.text),
            "Threads": ", ".join(dict.fromkeys(name for name, _ in trace.threads)),
            "Run": trace.run_id,
        }
        return row

    def _thread_row(self, trace: RunTrace) -> OpenRow:
        """Return the row of a run that has gone from one thread to another."""
        row = OpenRow("thread", "driven by", trace.begin)
        row.end = trace.end
        row.phases = list(trace.threads)
        return row

    def _cancels(self) -> Iterator[Mark]:
        for trace in self._traces.values():
            if trace.cancel is None:
                continue
            at, how = trace.cancel
            if how.origin != "parent" or trace in self._roots:
                yield Mark(at, _cancelled_by(how))

    def _notes(self) -> Iterator[str]:
        recording = self._recording
        if not self._traces:
            yield "The recording ends before a run has begun."
        elif any(trace.end is None for trace in self._traces.values()):
            yield (
                "The recording ends before the run: it is still running, or its "
                "process was killed."
            )
        if recording.is_cut:
            yield "The last line is cut off."
        unread = recording.unreadable + sum(e.unknown for e in self._traces.values())
        if unread:
            yield f"{unread} lines could not be read, and are left out."

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
            error="" if last is None else _error_words(last),
            cancellation="" if last is None else _cancel_words(last),
            prompt="" if first is None else first.prompt,
            text=words.cut(results[-1].text) if results else "",
        )


def _stop_reason(trace: RunTrace) -> str:
    if trace.end is None:
        return "running"
    if trace.result is None:
        return "error"
    return trace.result.stop_reason


def _error_words(trace: RunTrace) -> str:
    error = trace.error
    return "" if error is None else words.cut(f"{error.type}: {error.message}", 2000)


def _cancelled_by(how: CancelledLine) -> str:
    said = f": {how.reason}" if how.reason else ""
    return f"cancelled ({how.origin}){words.cut(said, 300)}"


def _cancel_words(trace: RunTrace) -> str:
    if trace.cancel is None:
        return ""
    at, how = trace.cancel
    text = f"after {words.duration(at)} by {how.origin}"
    if how.reason:
        text += f", who said: {words.cut(how.reason, 300)}"
    if how.phase:
        text += f"; it was in phase {how.phase!r}"
    if trace.end is not None:
        text += f", and ended {words.duration(trace.end - at)} later"
    return text
