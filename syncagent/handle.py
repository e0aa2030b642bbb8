"""A run in the background: follow it, answer it, steer it, end it."""

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

from . import _clock
from ._closing import Closing
from .agent_settings import Cancel, Prompt, compose, user_message
from .cancel import CancelMode, CancelToken, Receipt, Watch
from .cancel.again import start_thread
from .cancel.reason import make_cause
from .desk import Desk, Inbox
from .events import StateChanged
from .exceptions import AgentBusy, ConfigurationError, InterruptOver, Origin
from .interrupts import Approval, Interrupt, Remember
from .messages import UserMessage
from .pump import Pump
from .result import RunFinished, RunResult, StreamEvent
from .run_state import RunState
from .run_stream import RunEnd, RunStream
from .stage import Background, RunRequest, Stage, cancel_begun_by
from .subscriptions import SIZE, EventLog, Subscription

__all__ = ["Handle"]

_log = logging.getLogger("syncagent.handle")


class Handle(Closing):
    """A run in the background, on a daemon thread of its own.

    Everything here may be called from any thread. What ends something, ``cancel()``,
    ``interrupt()`` and ``shutdown()``, is as safe as :meth:`syncagent.Agent.cancel`.
    A ``with`` block shuts it down at its end.
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
        #: Woken when it has nothing left to do; not with every event.
        self._rested = Watch()
        self._state = StateChanged("idle")
        #: Cancelled when it is to end, and when it has.
        self._stopping = CancelToken()
        self._ended = CancelToken()
        #: Cancelled when those are through who were to hear of its end.
        self._left = CancelToken()
        self._stream: RunStream | None = None
        #: The newest run that somebody has interrupted, or cancelled, through this.
        self._interrupted: RunStream | None = None
        self._cancelled: RunStream | None = None
        self._is_busy = False
        self._result: RunResult | None = None
        self._error: BaseException | None = None
        #: What could not be said any more.
        self._unsaid: tuple[UserMessage, ...] = ()
        self._callbacks: deque[Callable[[Handle], object]] = deque()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    # -- what it comes to ----------------------------------------------------------

    def result(self, timeout: float | None = None) -> RunResult:
        """Wait until it has nothing left to do; return what its last run came to.

        Cancellation: it waits for the end of a run, which that run's cancel brings.

        :raises TimeoutError: it is still busy after *timeout* seconds.
        :raises AgentBusy: this is a part of the run, which would wait for itself.
        :raises SyncAgentError: what the run has raised.
        """
        if not self.wait(timeout):
            raise TimeoutError(f"run {self.run_id} is still busy after {timeout} s")
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise ConfigurationError(
                "there is no result, as nothing was said; give start() a prompt, or "
                "send_input() before"
            )
        return self._result

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has nothing left to do, at most *timeout* seconds.

        Cancellation: it waits for the end of a run, which that run's cancel brings.

        :return: whether that is so.
        :raises AgentBusy: this is a part of the run, which would wait for itself.
        """
        if self._pid != os.getpid():
            raise ConfigurationError(
                "this handle belongs to the process that has started it; a forked "
                "child has no part in its runs"
            )
        if not self._is_idle() and self._is_own_thread():
            raise AgentBusy("this is a part of the run, which would wait for itself")
        until = None if timeout is None else _clock.now() + timeout
        return self._rested.wait(self._is_idle, CancelToken(), until)

    def _is_idle(self) -> bool:
        # In this order: it is busy before it takes what was said.
        has_work = bool(self._inbox.messages) or self._is_busy
        return self._ended.cancelled or not has_work

    def _is_own_thread(self) -> bool:
        here, stream = threading.current_thread(), self._stream
        return here is self._thread or (
            stream is not None and here.ident in stream.claim.helpers
        )

    def done(self) -> bool:
        """Is it over? One that is idle is not."""
        return self._ended.cancelled

    def cancelled(self) -> bool:
        """Is it over, and was its last run cancelled?"""
        return self.done() and self._result is not None and self._result.cancelled

    def add_done_callback(self, function: Callable[[Handle], object]) -> None:
        """Have *function* called with this when it is over; at once if it is.

        It is called on the handle's own thread. An exception in it is logged.
        """
        self._callbacks.append(function)  # publish first, then look
        if self.done():
            self._call_back()

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

    # -- ending it -----------------------------------------------------------------

    def cancel(
        self,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
        background: Background = "keep",
    ) -> Receipt:
        """End the live run, and with it the handle.

        :param background: ``cancel`` also ends the handles that its tools have started.
        :return: true if and only if a run was live; else nothing happens.
        """
        stream = self._live()
        if stream is None:
            return Receipt(None, make_cause(reason, origin))
        self._cancelled = stream
        receipt = stream.cancel(reason, origin, mode=mode, force=force)
        if background == "cancel":
            cancel_begun_by(stream.run_id, reason, mode=mode, force=force)
        return receipt

    def interrupt(
        self,
        reason: str = "interrupted",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
    ) -> Receipt:
        """End the live run; the handle lives on, and takes :meth:`send_input`.

        What was sent before, and not heard yet, is said next.

        :return: true if and only if a run was live; else nothing happens.
        """
        stream = self._live()
        if stream is None:
            return Receipt(None, make_cause(reason, origin))
        self._interrupted = stream
        return stream.cancel(reason, origin, mode=mode, force=force)

    def shutdown(self, reason: str = "shut down", *, force: bool = False) -> Receipt:
        """End the handle, whatever it is doing; :meth:`wait` waits for that.

        :return: true if and only if a run was live; it ends as ``shutdown``.
        """
        stream = self._live()
        receipt = (
            Receipt(None, make_cause(reason, "shutdown"))
            if stream is None
            else stream.cancel(reason, "shutdown", force=force)
        )
        if self._pid == os.getpid():
            self._stopping.cancel(reason, "shutdown")
        return receipt

    def close(self) -> None:
        """Shut it down, and wait for that.

        Cancellation: it waits for the end of one, so nothing else ends it.
        """
        self.shutdown()
        if not self._is_own_thread() and self._pid == os.getpid():
            self._ended.wait()

    def _live(self) -> RunStream | None:
        # A run of the parent is none of a forked child.
        return self._stream if self._pid == os.getpid() else None

    # -- talking to it -------------------------------------------------------------

    def send_input(self, prompt: Prompt) -> None:
        """Say something to it, whatever it is doing.

        It is heard after the tool round that runs, or else in a run of its own, with
        all that was sent meanwhile, in order.

        :raises ConfigurationError: it is over, and would never hear it.
        """
        if not self._inbox.put(user_message(prompt)):
            raise ConfigurationError(
                f"run {self.run_id} is over and takes no more input; start another one "
                "with agent.start()"
            )

    @property
    def pending_inputs(self) -> tuple[UserMessage, ...]:
        """What was sent and not heard yet, also if it never will be."""
        return (*self._unsaid, *self._inbox.messages)

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """What it waits for; each can be answered directly, or with :meth:`respond`."""
        return self._desk.open

    def respond(
        self,
        id: str,
        answer: Any,
        remember: Remember = False,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str = "",
    ) -> bool:
        """Answer what it waits for.

        :param id: the interrupt's, or that of the tool call that it is about.
        :param answer: whether a tool may be called; credentials; words.
        :param remember: for later calls, see :class:`~syncagent.interrupts.Approval`.
        :param arguments: to be used in place of the model's.
        :param reason: told to the model if it is not allowed.
        :return: whether it counts; false if that was over already.
        :raises ConfigurationError: nobody has asked that, or the answer makes no sense;
            it still waits then.
        """
        if isinstance(answer, bool):
            answer = Approval(answer, arguments, reason, remember)
        try:
            self._desk.answer(id, answer)
        except InterruptOver:
            return False
        return True

    # -- following it --------------------------------------------------------------

    def subscribe(
        self, *, replay: bool = True, cancel: Cancel | None = None
    ) -> Subscription:
        """Follow its events; any number of threads may, each at its own pace.

        :param replay: begin with what has happened already, as far as it is kept.
        :param cancel: an event or a token of yours that ends the subscription.
        """
        token, following = compose(None, None, cancel)
        begin = 0 if replay else self._events.count
        return Subscription(self._events, begin, token, following)

    @property
    def state(self) -> RunState:
        """What it is doing: a string, which has ``tool``, ``call_id``, ``message``."""
        return RunState(self._state)

    def __repr__(self) -> str:
        return f"<Handle of run {self.run_id}: {self.state}>"

    # -- its thread ----------------------------------------------------------------

    @property
    def ended(self) -> CancelToken:
        """Cancelled when it is over."""
        return self._ended

    @property
    def left(self) -> CancelToken:
        """Cancelled when it is over, and its done callbacks have returned."""
        return self._left

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
            first = msgspec.structs.replace(
                request,
                desk=self._desk,
                inbox=self._inbox,
                run_id=self.run_id,
                on_event=self._hear,
                stopping=self._stopping,
            )
            if begins_here:
                first = self._stream = self._stage.begin(first)
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
            stream = first
            while True:
                if isinstance(stream, RunRequest):
                    stream = self._stage.begin(stream)
                if stream is not None:
                    self._work(stream)
                said = self._next_input(stream)
                if said is None:
                    break
                self._unsaid = (said,)  # until the run has it
                stream = self._stage.begin(
                    RunRequest(
                        said=said,
                        on_busy="queue",
                        desk=self._desk,
                        inbox=self._inbox,
                        on_event=self._hear,
                        stopping=self._stopping,
                    )
                )
                self._unsaid = ()
        except BaseException as error:  # it could not begin
            self._fail(error)
        finally:
            self._finish()

    def _work(self, stream: RunStream) -> None:
        """Drive one run to its end."""
        self._stream = stream
        self._show(StateChanged("processing"))
        try:
            for _ in stream:
                pass
            self._result, self._error = self._told(stream.result), None
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
        self._rested.wake()

    def _fail(self, error: BaseException) -> None:
        self._result, self._error = None, error
        self._show(StateChanged("failed", message=repr(error)))

    def _finish(self) -> None:
        self._inbox.shut()
        if self._error is None:
            self._show(StateChanged("done"))
        self._is_busy = False
        self._ended.cancel(origin="closed")
        self._rested.wake()
        self._events.close()
        self._call_back()
        self._left.cancel(origin="closed")

    def _show(self, event: StateChanged) -> None:
        self._state = event
        self._events.publish(event)

    def _hear(self, event: StreamEvent) -> None:
        """Pass on what happens in the run."""
        if event.__class__ is StateChanged:
            assert isinstance(event, StateChanged)
            self._state = event
        elif event.__class__ is RunFinished:
            assert isinstance(event, RunFinished)
            event = RunFinished(self._told(event.result))
        self._events.publish(event)

    def _told(self, result: RunResult) -> RunResult:
        """Return *result* with the right word for a run that was shut down."""
        how = result.cancellation
        if how is None or how.origin != "shutdown" or not self._stopping.cancelled:
            return result
        return msgspec.structs.replace(result, stop_reason="shutdown")
