"""Record one run: its events, phases, tools, cancels, and its end."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ..cancel import CancelReason, clock
from ..cancel.handler_errors import raised_by_signal_handler
from ..events import (
    RunFinished,
    SubAgentEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolFinished,
    ToolStarted,
    UsageUpdated,
    encode_event,
)
from ..messages import UserMessage
from ..result import RunResult
from ..run.run import Run
from ..tools.invocation import Invocation
from .lines import Begin, CancelledLine, Failure, ToolMoment
from .target import Record, check_record
from .writer import RecordingWriter, encode_other

__all__ = ["Recorder", "RunRecording", "SubAgentRecorder"]

_log = logging.getLogger("syncagent.recording")

#: Frequent events, which may wait to be written with the next line.
_FREQUENT: Final[frozenset[type]] = frozenset(
    (TextDelta, ThinkingDelta, ToolCallDelta, UsageUpdated)
)
_ENCODER: Final = msgspec.json.Encoder(enc_hook=encode_other)


class Recorder:
    """Records the runs of one agent, handle or driver to one target.

    The first run overwrites the file at a path, unless it is resumed; the runs after it
    append.

    :param is_new: True to overwrite the file at a path.
    :raises ConfigurationError: the target cannot be written to.
    """

    def __init__(self, target: Record, *, is_new: bool = True) -> None:
        check_record(target)
        self._target: Any = target
        if isinstance(target, (str, os.PathLike)):  # the working directory may change
            self._target = os.path.abspath(os.fspath(target))
        self._is_new = is_new

    @classmethod
    def at(
        cls, target: Record | SubAgentRecorder | None, *, is_new: bool = True
    ) -> Recorder | SubAgentRecorder | None:
        """Return a recorder for *target*, or None; a sub-agent brings its own."""
        if target is None or isinstance(target, SubAgentRecorder):
            return target
        return cls(target, is_new=is_new)

    def begin(
        self, run: Run, prompt: UserMessage | None, since: float, *, has_queued: bool
    ) -> None:
        """Start to record *run*, which was requested at the time *since*."""
        writer = RecordingWriter(self._target, is_new=self._is_new, since=since)
        self._is_new = False
        recording = RunRecording(writer, run.id, self, closes=True)
        if has_queued:
            recording.write(b"phase", "queue", at=since)
        recording.begin(run, prompt)

    def record_unstarted(self, result: RunResult, since: float) -> None:
        """Record a run that was cancelled in the queue."""
        writer = RecordingWriter(self._target, is_new=self._is_new, since=since)
        self._is_new = False
        recording = RunRecording(writer, result.run_id, self, closes=True)
        recording.write(b"phase", "queue", at=since)
        cancel = result.cancellation
        if cancel is not None:
            at = clock.now() - cancel.latency
            line = CancelledLine(cancel.reason, cancel.origin, cancel.phase)
            recording.write(b"cancel", line, at=at)
        recording.end(result, None)


class SubAgentRecorder:
    """Records a sub-agent into the file of the run that it belongs to."""

    def __init__(self, outer: RunRecording, call_id: str) -> None:
        self._outer = outer
        self._call_id = call_id

    def begin(
        self, run: Run, prompt: UserMessage | None, since: float, *, has_queued: bool
    ) -> None:
        """Start to record *run*."""
        outer = self._outer
        recording = RunRecording(outer.writer, run.id, outer.source, closes=False)
        recording.begin(run, prompt, outer.run_id, self._call_id)

    def record_unstarted(self, result: RunResult, since: float) -> None:
        """Do nothing: the record of its tool call says it all."""


class RunRecording:
    """Records one run. It never raises, and never blocks the run for long.

    All methods are called on the thread of the run, except :meth:`watch_tool`.

    :param source: records later runs of the same handle or driver.
    :param closes: True to close the file at the end of the run.
    """

    def __init__(
        self, writer: RecordingWriter, run_id: str, source: Recorder, *, closes: bool
    ) -> None:
        self.writer = writer
        self.run_id = run_id
        self.source = source
        self._closes = closes
        self._is_over = False
        #: The id of the thread that wrote the last line, and the fields with its name.
        self._thread_fields: tuple[int, bytes] = (0, b"")
        #: Credentials for the tools of the run; they are masked.
        self._credentials: dict[str, Any] | None = None

    def begin(
        self, run: Run, prompt: UserMessage | None, parent: str = "", call_id: str = ""
    ) -> None:
        """Record the start of the run, and listen to its events."""
        try:
            self._credentials = run.credentials
            model = run.setup.model
            self.writer.hide_keys_of(model)
            run.recording = self
            run.on_event = (self.write_event, *run.on_event)
            name, is_resumed = model.full_name, prompt is None
            line = Begin(name, parent, call_id, prompt, is_resumed, run.metadata)
            self.write(b"begin", line)
        except Exception as error:  # a recording must never fail the run
            if raised_by_signal_handler(error):
                raise
            _log.exception("run %s: it cannot be recorded", run.id)

    def write_event(self, event: Any) -> None:
        """Record an event."""
        kind = event.__class__
        # end() writes the last one, and a sub-agent is recorded by itself.
        if self._is_over or kind is RunFinished or kind is SubAgentEvent:
            return
        try:
            if kind is ToolStarted and self._credentials:
                self.writer.hide(_strings(list(self._credentials.values())))
            body = encode_event(event)
        except Exception as error:  # it has no JSON form
            if raised_by_signal_handler(error):
                raise
            self.write(b"lost", f"{kind.__name__}: {error!r:.200}")
            return
        self._add(b"event", body, clock.now(), is_urgent=kind not in _FREQUENT)

    def enter(self, phase: str) -> None:
        """Record the next phase of the run."""
        self.write(b"phase", phase)

    def watch_tool(self, invocation: Invocation, *, is_over: bool) -> None:
        """Record, on the tool's own thread, that it starts or has ended."""
        call, tool = invocation.call, invocation.tool
        in_process = tool is not None and tool.runs_in_process
        moment: Any = "end" if is_over else "begin"
        self.write(b"tool", ToolMoment(call.call_id, call.name, moment, in_process))

    def for_agent(self, call_id: str) -> SubAgentRecorder:
        """Return the recorder for a sub-agent of a tool call."""
        return SubAgentRecorder(self, call_id)

    def cancelled(self, cause: CancelReason, phase: str) -> None:
        """Record a cancel."""
        self.write(
            b"cancel", CancelledLine(str(cause), cause.origin, phase), at=cause.at
        )

    def end(
        self,
        result: RunResult | None,
        error: BaseException | None,
        invocations: tuple[Invocation, ...] = (),
    ) -> None:
        """Record the end of the run; safe to repeat."""
        if self._is_over:
            return
        try:
            if result is None or not result.interrupts:
                for each in invocations:
                    if not each.is_announced:
                        call, outcome = each.call, each.outcome
                        event = ToolFinished(
                            call.call_id, outcome, call.name, each.result
                        )
                        self._add(b"event", encode_event(event), clock.now())
            if result is None:
                self.write(b"error", Failure(type(error).__name__, str(error)))
            else:
                # The messages are in the events, except those before this run.
                short = msgspec.structs.replace(result, messages=(), start=0)
                body = encode_event(RunFinished(short))
                self._add(b"event", body, clock.now(), is_urgent=True)
        except Exception as problem:
            if raised_by_signal_handler(problem):
                raise
            self.write(b"lost", f"the end: {problem!r:.200}")
        if self._closes:
            self.writer.close()
        self._is_over = True  # last: an interrupted end() is repeated

    def __del__(self) -> None:
        # Only for a run whose stream was dropped before its first step; on the thread
        # that drops it. Like the generator of a dropped stream, which Python closes.
        has_begun = getattr(self, "_credentials", None) is not None
        if has_begun and not self._is_over:
            self.end(None, GeneratorExit("the run was dropped before its first step"))

    def write(self, field: bytes, value: Any, *, at: float | None = None) -> None:
        """Record a value under a field of the line, now or with the time *at*."""
        if self._is_over:
            return
        try:
            body = _ENCODER.encode(value)
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            field, body = b"lost", _ENCODER.encode(ascii(error))
        self._add(field, body, clock.now() if at is None else at, is_urgent=True)

    def _add(
        self, field: bytes, body: bytes, at: float, *, is_urgent: bool = False
    ) -> None:
        ident, fields = self._thread_fields
        if ident != threading.get_ident():
            name = threading.current_thread().name.encode(errors="replace").decode()
            run, thread = _ENCODER.encode(self.run_id), _ENCODER.encode(name)
            fields = b',"run":%s,"thread":%s,' % (run, thread)
            # One assignment: tools call this on threads of their own.
            self._thread_fields = (threading.get_ident(), fields)
        line = b'{"t":%.6f%s"%s":%s}\n' % (at - self.writer.since, fields, field, body)
        if self.writer.add(line, at) or is_urgent:
            self.writer.flush()


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield all strings in credentials of any type."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode(errors="replace")
    elif isinstance(value, (list, tuple, set, frozenset)) and depth < 4:
        for each in value:
            yield from _strings(each, depth + 1)
    elif isinstance(value, dict) and depth < 4:
        for each in value.values():
            yield from _strings(each, depth + 1)
    elif hasattr(value, "__dict__") and depth < 4:
        yield from _strings(dict(vars(value)), depth + 1)
