"""The thread of a handle: it runs what is said, one after the other."""

from __future__ import annotations

import contextvars
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

import msgspec

from .cancel import CancelToken
from .cancel.again import start_thread
from .desk import Desk, Inbox
from .events import StateChanged
from .messages import UserMessage
from .pump import Pump
from .result import RunFinished, RunResult, StreamEvent
from .run_stream import RunEnd, RunStream
from .stage import RunRequest, Stage
from .subscriptions import SIZE, EventLog

__all__ = ["Serving"]

_log = logging.getLogger("syncagent.handle")


class Serving:
    """One daemon thread, from the start of a handle to its end.

    It alone drives the runs and writes the log; others put things into the inbox,
    answer what lies on the desk, and cancel.

    :param keep_alive: does it wait for more when there is nothing to do?
    :param size: how many events are kept for subscribers.
    """

    def __init__(
        self,
        stage: Stage,
        run_id: str = "",
        *,
        keep_alive: bool = False,
        size: int = SIZE,
    ) -> None:
        #: The id of its first run, by which it is known.
        self.run_id: Final = run_id or uuid4().hex
        self._stage = stage
        self._keep_alive = keep_alive
        self._desk = Desk()
        self._inbox = Inbox()
        self._events = EventLog(size)
        self._state = StateChanged("idle")
        #: Cancelled when it is to end, and when it has.
        self._stopping = CancelToken()
        self._ended = CancelToken()
        self._stream: RunStream | None = None
        #: The newest run that somebody has interrupted, or cancelled, through this.
        self._interrupted: RunStream | None = None
        self._cancelled: RunStream | None = None
        self._is_busy = False
        self._result: RunResult | None = None
        self._error: BaseException | None = None
        #: What could not be said any more.
        self._unsaid: tuple[UserMessage, ...] = ()
        self._callbacks: deque[Callable[[Any], object]] = deque()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    @property
    def ended(self) -> CancelToken:
        """Cancelled when it is over."""
        return self._ended

    def start(
        self, request: RunRequest | None, *, begins_here: bool
    ) -> RunStream | None:
        """Begin a run, or wait for input if there is none.

        :param begins_here: wait on this thread for the agent to be free, if that is
            what is wanted.
        :return: the run, if it has begun.
        """
        first: RunRequest | RunStream | None = None
        if request is not None:
            first = msgspec.structs.replace(request, run_id=self.run_id)
            if begins_here:
                first = self._stream = self._begin(first)
            self._is_busy = True
        stream = self._stream
        try:
            self._start_thread(lambda: self._serve(first))
        except BaseException:
            if stream is not None:
                stream.close()
            raise
        return stream

    def take_over(self, end: RunEnd, pump: Pump) -> None:
        """Go on with a run that another thread has begun."""
        stream = self._stream = RunStream.moved(end, pump)
        self._is_busy = True

        def serve() -> None:
            if not end.take_over():
                return
            run = end.run
            run.may_leave, run.is_steered = False, True
            run.on_event = (*run.on_event, self._hear)
            pump.answering.attend(self._desk, self._inbox)
            self._serve(stream)

        self._start_thread(serve)

    def _start_thread(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(work,),
            name=f"syncagent-run-{self.run_id[:8]}",
            daemon=True,
        )
        start_thread(self._thread)

    def _serve(self, first: RunRequest | RunStream | None) -> None:
        """Run what is said, one after the other, until it is over."""
        try:
            stream: RunRequest | RunStream | None = first
            while True:
                if isinstance(stream, RunRequest):
                    stream = self._begin(stream)
                if stream is not None:
                    self._work(stream)
                said = self._next_input(stream)
                if said is None:
                    break
                stream = RunRequest(said=said, on_busy="queue")
        except BaseException as error:  # it could not begin
            self._fail(error)
        finally:
            self._finish()

    def _begin(self, request: RunRequest) -> RunStream:
        """Begin a run, to which this attends."""
        if request.said is not None:
            self._unsaid = (request.said,)  # until the run has it
        stream = self._stage.begin(
            msgspec.structs.replace(
                request,
                desk=self._desk,
                inbox=self._inbox,
                on_event=self._hear,
                stopping=self._stopping,
            )
        )
        if stream.has_begun:
            self._unsaid = ()
        return stream

    def _work(self, stream: RunStream) -> None:
        """Drive one run to its end."""
        self._stream = stream
        self._show(StateChanged("processing"))
        try:
            for _ in stream:
                pass
            self._result, self._error = self._told(stream.result), None
            if not stream.has_begun:
                self._hear(RunFinished(stream.result))
        except BaseException as error:
            self._fail(error)
        finally:
            self._stream = None
            self._desk.clear()

    def _next_input(self, stream: RunStream | None) -> UserMessage | None:
        """Return what is to be said next; nothing if it is over."""
        was_cancelled = self._result is not None and self._result.cancelled
        if was_cancelled and self._cancelled is stream:
            return None
        is_kept = was_cancelled and self._interrupted is stream
        while not self._stopping.cancelled:
            said = self._inbox.take_as_one()
            if said is not None:
                return said
            if not self._keep_alive and not is_kept:
                if self._inbox.close():
                    return None
                continue
            self._rest()
            self._inbox.wait(self._stopping)
            self._is_busy = True
        return None

    def _rest(self) -> None:
        if self._error is None and self._state.state != "idle":
            self._show(StateChanged("idle"))
        self._is_busy = False
        self._events.watch.wake()

    def _fail(self, error: BaseException) -> None:
        self._result, self._error = None, error
        self._show(StateChanged("failed", message=repr(error)))

    def _finish(self) -> None:
        self._inbox.shut()
        if self._error is None:
            self._show(StateChanged("done"))
        self._is_busy = False
        self._ended.cancel(origin="closed")
        self._events.close()
        self._call_back()

    def _show(self, event: StateChanged) -> None:
        self._state = event
        self._events.publish(event)

    def _hear(self, event: StreamEvent) -> None:
        """Pass on what happens in the run."""
        kind = event.__class__
        if kind is StateChanged:
            assert isinstance(event, StateChanged)
            self._state = event
        elif kind is RunFinished:
            assert isinstance(event, RunFinished)
            event = RunFinished(self._told(event.result))
        self._events.publish(event)

    def _told(self, result: RunResult) -> RunResult:
        """Return *result* with the right word for a run that was shut down."""
        how = result.cancellation
        if how is None or how.origin != "shutdown" or not self._stopping.cancelled:
            return result
        return msgspec.structs.replace(result, stop_reason="shutdown")

    # -- for whoever looks ---------------------------------------------------------

    def _is_idle(self) -> bool:
        # In this order: it is busy before it takes what was said.
        has_work = bool(self._inbox.messages) or self._is_busy
        return self._ended.cancelled or not has_work

    def _is_own_thread(self) -> bool:
        here, stream = threading.current_thread(), self._stream
        return here is self._thread or (
            stream is not None and here.ident in stream.claim.helpers
        )

    def _live(self) -> RunStream | None:
        # A run of the parent is none of a forked child.
        return self._stream if self._pid == os.getpid() else None

    def _call_back(self) -> None:
        while self._callbacks:
            try:
                function = self._callbacks.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                function(self)
            except Exception:
                _log.exception("run %s: a done callback raised", self.run_id)
