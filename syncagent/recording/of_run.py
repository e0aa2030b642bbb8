"""What is written down about one run."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ..cancel import CancelReason, clock
from ..events import (
    RunFinished,
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
from .writer import RecordingWriter, spelled

__all__ = ["Part", "Recorded", "RunRecording"]

_log = logging.getLogger("syncagent.recording")

#: There are thousands of them, and a few that are lost would not be missed.
_SMALL: Final[frozenset[type]] = frozenset(
    (TextDelta, ThinkingDelta, ToolCallDelta, UsageUpdated)
)
_ENCODER: Final = msgspec.json.Encoder(enc_hook=spelled)


class Recorded:
    """That runs are to be recorded, and where to.

    The first one writes a path anew, unless it goes on with what is there; those that
    follow it, of the same handle or driver, write on.

    :param is_new: is what a path leads to written anew?
    :raises ConfigurationError: it cannot be written to.
    """

    def __init__(self, target: Record, *, is_new: bool = True) -> None:
        check_record(target)
        self._target: Any = target
        if isinstance(target, (str, os.PathLike)):  # somebody may change the folder
            self._target = os.path.abspath(os.fspath(target))
        self._is_new = is_new

    @classmethod
    def at(cls, target: Record | None, *, is_new: bool = True) -> Recorded | None:
        """Return one, if there is somewhere to record to."""
        return None if target is None else cls(target, is_new=is_new)

    def begin(
        self, run: Run, said: UserMessage | None, since: float, *, has_queued: bool
    ) -> None:
        """Begin to record *run*, which has waited for its turn since then."""
        writer = RecordingWriter(self._target, is_new=self._is_new, since=since)
        self._is_new = False
        recording = RunRecording(writer, run.id, self, closes=True)
        if has_queued:
            recording.write(b"phase", "queue", at=since)
        recording.begin(run, said)

    def note_unbegun(self, result: RunResult, since: float) -> None:
        """Record a run that was cancelled before it had its turn."""
        writer = RecordingWriter(self._target, is_new=self._is_new, since=since)
        self._is_new = False
        recording = RunRecording(writer, result.run_id, self, closes=True)
        recording.write(b"phase", "queue", at=since)
        how = result.cancellation
        if how is not None:
            at = clock.now() - how.latency
            told = CancelledLine(how.reason, how.origin, how.phase)
            recording.write(b"cancel", told, at=at)
        recording.end(result, None)


class Part:
    """That a sub-agent is recorded into the file of the run that it is a part of."""

    def __init__(self, outer: RunRecording, call_id: str) -> None:
        self._outer = outer
        self._call_id = call_id

    def begin(
        self, run: Run, said: UserMessage | None, since: float, *, has_queued: bool
    ) -> None:
        """Begin to record *run*."""
        outer = self._outer
        recording = RunRecording(outer.writer, run.id, outer.source, closes=False)
        recording.begin(run, said, outer.run_id, self._call_id)

    def note_unbegun(self, result: RunResult, since: float) -> None:
        """There is nothing to tell: the call that it was for says all of it."""


class RunRecording:
    """Writes down one run; never raises, and never holds it up for long.

    What it is told comes from the thread of the run, but for :meth:`watch_tool`.

    :param source: what later runs of the same handle or driver are recorded by.
    :param closes: is the file done when the run is?
    """

    def __init__(
        self, writer: RecordingWriter, run_id: str, source: Recorded, *, closes: bool
    ) -> None:
        self.writer = writer
        self.run_id = run_id
        self.source = source
        self._closes = closes
        self._is_over = False
        #: The thread that was here last, and how its lines go on after their time.
        self._place: tuple[int, bytes] = (0, b"")
        #: What somebody has given to tools, which only those may know.
        self._credentials: dict[str, Any] | None = None

    def begin(
        self, run: Run, said: UserMessage | None, parent: str = "", call_id: str = ""
    ) -> None:
        """Write down that the run begins."""
        try:
            self._begin(run, said, parent, call_id)
        except Exception:  # nothing is worth more than the run
            _log.exception("run %s: it cannot be recorded", run.id)

    def _begin(
        self, run: Run, said: UserMessage | None, parent: str, call_id: str
    ) -> None:
        self._credentials = run.credentials
        self.writer.hide(run.setup.model.secrets)
        run.recording = self
        run.on_event = (self.hear, *run.on_event)
        model = run.setup.model
        name = f"{model.endpoint.name}:{model.name}"
        self.write(b"begin", Begin(name, parent, call_id, said, said is None))

    def hear(self, event: Any) -> None:
        """Write down an event."""
        kind = event.__class__
        if self._is_over or kind is RunFinished:  # which is the end, and written there
            return
        try:
            if kind is ToolStarted and self._credentials:
                self.writer.hide(_strings(list(self._credentials.values())))
            body = encode_event(event)
        except Exception as error:  # no JSON has words for it
            self.write(b"lost", f"{kind.__name__}: {error!r:.200}")
            return
        self._add(b"event", body, clock.now(), is_urgent=kind not in _SMALL)

    def enter(self, phase: str) -> None:
        """Write down what the run is doing from now on."""
        self.write(b"phase", phase)

    def watch_tool(self, invocation: Invocation, *, is_over: bool) -> None:
        """Write down, on the tool's own thread, that it begins or has ended."""
        call, tool = invocation.call, invocation.tool
        in_process = tool is not None and tool.runs_in_process
        moment: Any = "end" if is_over else "begin"
        told = ToolMoment(call.call_id, call.name, moment, in_process)
        self.write(b"tool", told)

    def for_agent(self, call_id: str) -> Part:
        """Return what a sub-agent is recorded by."""
        return Part(self, call_id)

    def cancelled(self, cause: CancelReason, phase: str) -> None:
        """Write down a cancel, as its token tells it."""
        self.write(
            b"cancel", CancelledLine(str(cause), cause.origin, phase), at=cause.at
        )

    def end(
        self,
        result: RunResult | None,
        error: BaseException | None,
        invocations: tuple[Invocation, ...] = (),
    ) -> None:
        """Write down how the run has ended; safe to do again."""
        if self._is_over:
            return
        try:
            self._end(result, error, invocations)
        except Exception as problem:
            self.write(b"lost", f"the end: {problem!r:.200}")
        if self._closes:
            self.writer.close()
        self._is_over = True  # the last: whatever comes before may be done again

    def __del__(self) -> None:
        # Only of a run that nobody has driven: its stream was dropped at once.
        has_begun = getattr(self, "_credentials", None) is not None
        if has_begun and not self._is_over:
            self.end(None, GeneratorExit("the run was dropped before it had begun"))

    def _end(
        self,
        result: RunResult | None,
        error: BaseException | None,
        invocations: tuple[Invocation, ...],
    ) -> None:
        for event in _untold(result, invocations):
            self._add(b"event", encode_event(event), clock.now(), is_urgent=False)
        if result is None:
            name = type(error).__name__
            self.write(b"error", Failure(name, str(error)))
            return
        # All of it was told before, but for what came before this run.
        short = msgspec.structs.replace(result, messages=(), start=0)
        self._add(
            b"event", encode_event(RunFinished(short)), clock.now(), is_urgent=True
        )

    def write(self, what: bytes, value: Any, *, at: float | None = None) -> None:
        """Write down a value, as what happens now or did then."""
        if self._is_over:
            return
        try:
            body = _ENCODER.encode(value)
        except Exception as error:
            what, body = b"lost", _ENCODER.encode(ascii(error))
        self._add(what, body, clock.now() if at is None else at, is_urgent=True)

    def _add(self, what: bytes, body: bytes, at: float, *, is_urgent: bool) -> None:
        ident, rest = self._place
        if ident != threading.get_ident():
            ident, rest = self._place = self._here()
        line = b'{"t":%.6f%s"%s":%s}\n' % (at - self.writer.since, rest, what, body)
        if self.writer.add(line, at) or is_urgent:
            self.writer.flush()

    def _here(self) -> tuple[int, bytes]:
        here = threading.current_thread()
        names = (self.run_id, here.name.encode(errors="replace").decode())
        run, thread = map(_ENCODER.encode, names)
        return threading.get_ident(), b',"run":%s,"thread":%s,' % (run, thread)


def _untold(
    result: RunResult | None, invocations: tuple[Invocation, ...]
) -> Iterator[Any]:
    """Yield the ends of the calls that nobody has been told of yet."""
    if result is not None and result.interrupts:
        return
    for invocation in invocations:
        if not invocation.is_announced:
            call = invocation.call
            outcome, told = invocation.outcome, invocation.result
            yield ToolFinished(call.call_id, outcome, call.name, told)


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield what is said in credentials, whatever they are made of."""
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
