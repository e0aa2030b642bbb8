"""A run in the background: follow it, answer it, steer it, end it."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

import msgspec

from . import _clock
from ._closing import Closing
from .agent_settings import Cancel, Prompt, compose, user_message
from .cancel import CancelMode, CancelToken, Receipt, RunClaim
from .cancel.again import start_thread
from .cancel.once import Once
from .cancel.reason import make_cause
from .desk import Desk, Inbox
from .done_callbacks import DoneCallbacks
from .events import StateChanged
from .exceptions import AgentBusy, ConfigurationError, InterruptOver, Origin
from .interrupts import Approval, Interrupt, Remember
from .messages import UserMessage
from .pump import Pump
from .result import RunFinished, RunResult, StreamEvent
from .run_state import RunState
from .run_stream import RunEnd, RunStream
from .stage import Background, RunRequest, Stage, Ticket, cancel_begun_by
from .subscriptions import SIZE, EventLog, Subscription

__all__ = ["Handle"]

_SERVED: Final = "served"
_GIVEN_UP: Final = "given up"


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
        self._state = StateChanged("idle")
        #: Is it to end? Known before the live run is told, unlike the token.
        self._is_stopping = False
        self._stopping = CancelToken()
        #: Cancelled when it is over.
        self.ended: Final = CancelToken()
        #: The run that is live, or waits for its turn.
        self._claim: RunClaim | None = None
        #: The newest run that somebody has interrupted, or cancelled, through this.
        self._interrupted: RunClaim | None = None
        self._cancelled: RunClaim | None = None
        self._is_busy = False
        #: What the last run came to, in one place: others look while another one ends.
        self._outcome: RunResult | BaseException | None = None
        #: What the next run is to say, for as long as that has not begun.
        self._unsaid: tuple[UserMessage, ...] = ()
        self.callbacks: Final[DoneCallbacks[Handle]] = DoneCallbacks()
        #: Will its thread serve it, or is there none?
        self._begun: Once[str] = Once()
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
        outcome = self._outcome
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome is None:
            raise ConfigurationError(
                "there is no result, as nothing was said; give start() a prompt, or "
                "send_input() before"
            )
        return outcome

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has nothing left to do, at most *timeout* seconds.

        Cancellation: it waits for the end of a run, which that run's cancel brings.

        :return: whether that is so.
        :raises AgentBusy: this is a part of the run, which would wait for itself.
        """
        self._refuse_child()
        if not self._is_idle() and self._is_own_thread():
            raise AgentBusy("this is a part of the run, which would wait for itself")
        until = None if timeout is None else _clock.now() + timeout
        return self._events.watch.wait(self._is_idle, CancelToken(), until)

    def _refuse_child(self) -> None:
        if self._pid != os.getpid():
            raise ConfigurationError(
                "this handle belongs to the process that has started it; a forked "
                "child has no part in its runs"
            )

    def _is_idle(self) -> bool:
        # In this order: it is busy before it takes what was said.
        has_work = bool(self._inbox.messages) or self._is_busy
        return self.ended.cancelled or not has_work

    def _is_own_thread(self) -> bool:
        here, claim = threading.current_thread(), self._claim
        helpers = () if claim is None else claim.helpers
        return here is self._thread or here.ident in helpers

    def done(self) -> bool:
        """Is it over? One that is idle is not."""
        return self.ended.cancelled

    def cancelled(self) -> bool:
        """Is it over, and was its last run cancelled?"""
        return self.done() and bool(getattr(self._outcome, "cancelled", False))

    def add_done_callback(self, function: Callable[[Handle], object]) -> None:
        """Have *function* called with this when it is over; at once if it is.

        It is called on the handle's own thread. An exception in it is logged.
        """
        self.callbacks.add(function)  # publish first, then look
        if self.done():
            self.callbacks.call(self.run_id, self)

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
        :return: true if and only if a run was live, or waited for its turn; else
            nothing happens.
        """
        claim = self._live()
        if claim is None:
            return Receipt(None, make_cause(reason, origin))
        self._cancelled = claim
        receipt = claim.cancel(reason, origin, mode=mode, force=force)
        if background == "cancel":
            cancel_begun_by(claim.run_id, reason, mode=mode, force=force)
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

        What was sent before, and not heard yet, is said next. If the run still waits
        for its turn, what it was to say is said together with that.

        :return: true if and only if a run was live, or waited for its turn; else
            nothing happens.
        """
        claim = self._live()
        if claim is None:
            return Receipt(None, make_cause(reason, origin))
        self._interrupted = claim
        return claim.cancel(reason, origin, mode=mode, force=force)

    def shutdown(self, reason: str = "shut down", *, force: bool = False) -> Receipt:
        """End the handle, whatever it is doing; :meth:`wait` waits for that.

        :return: true if and only if a run was live, or waited for its turn; it ends as
            ``shutdown``.
        """
        receipt = Receipt(None, make_cause(reason, "shutdown"))
        if self._pid == os.getpid():
            self._is_stopping = True  # publish first, then look
            claim = self._claim
            if claim is not None:
                receipt = claim.cancel(reason, "shutdown", force=force)
            self._stopping.cancel(reason, "shutdown")
        return receipt

    def close(self) -> None:
        """Shut it down, and wait for that, and for its done callbacks.

        Cancellation: it waits for the end of one, so nothing else ends it.
        """
        self.shutdown()
        self.wait_gone()

    def wait_gone(self, timeout: float | None = None) -> None:
        """Wait until its done callbacks have returned, unless this is one of them.

        Cancellation: as for :meth:`close`.
        """
        if not self._is_own_thread() and self._pid == os.getpid():
            self.callbacks.returned.wait(timeout)

    def _live(self) -> RunClaim | None:
        # A run of the parent is none of a forked child.
        return self._claim if self._pid == os.getpid() else None

    # -- talking to it -------------------------------------------------------------

    def send_input(self, prompt: Prompt) -> None:
        """Say something to it, whatever it is doing.

        It is heard after the tool round that runs, or else in a run of its own, with
        all that was sent meanwhile, in order.

        :raises ConfigurationError: it is over, and would never hear it.
        """
        self._refuse_child()
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
        :param remember: for later calls, see :class:`syncagent.Approval`.
        :param arguments: to be used in place of the model's.
        :param reason: told to the model if it is not allowed.
        :return: whether it counts; false if that was over already.
        :raises ConfigurationError: nobody has asked that, or the answer makes no sense;
            it still waits then.
        """
        self._refuse_child()
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

    def start(
        self, request: RunRequest | None, *, begins_here: bool
    ) -> RunStream | None:
        """Begin a run, or wait for input if there is none.

        :param begins_here: wait on this thread for the agent to be free, if that is
            what is wanted.
        :return: the run, if it has begun.
        """
        first: Ticket | RunStream | None = None
        try:
            if request is not None:
                first = self._register(request, run_id=self.run_id)
                if begins_here:
                    first = self._admit(first)
                first.claim.drive_elsewhere()
                self._is_busy = True
                self._show(StateChanged("processing"))
            self._start_thread(lambda: self._serve(first))
        except BaseException:
            self.shutdown()  # the thread may run, or not
            if isinstance(first, RunStream):
                first.close()
            elif first is not None:
                self._stage.turn_away(first)
            self._give_up()
            raise
        return first if isinstance(first, RunStream) else None

    def abort(self, reason: str) -> None:
        """End the live run, and the handle, also if it was never started; wait for it.

        Cancellation: it waits for the end of one, so nothing else ends it.
        """
        self.cancel(reason, "closed")
        self._give_up()
        self.ended.wait()

    def _give_up(self) -> None:
        """Say that it is over if there is no thread that will."""
        if self._begun.put(_GIVEN_UP) is _GIVEN_UP:
            self._finish()

    def take_over(self, end: RunEnd, pump: Pump) -> None:
        """Go on with a run that another thread has begun."""
        stream = RunStream.moved(end, pump)
        self._claim = stream.claim
        self._is_busy = True
        self._show(StateChanged(*end.run.state))

        def serve() -> None:
            if not end.take_over():
                return
            run = end.run
            run.may_leave, run.is_steered = False, True
            run.on_event = (*run.on_event, self._hear)
            pump.answering.attend(self._desk, self._inbox)
            self._serve(stream)

        self._start_thread(serve)

    def _register(self, request: RunRequest, run_id: str = "") -> Ticket:
        """Make a run that can be cancelled through this, before it has its turn."""
        wanted = msgspec.structs.replace(
            request,
            desk=self._desk,
            inbox=self._inbox,
            run_id=run_id,
            on_event=self._hear,
            stopping=self._stopping,
        )
        self._unsaid = () if wanted.said is None else (wanted.said,)
        ticket = self._stage.register(wanted)
        self._claim = ticket.claim
        return ticket

    def _start_thread(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(work,),
            name=f"syncagent-run-{self.run_id[:8]}",
            daemon=True,
        )
        start_thread(self._thread)

    def _serve(self, first: Ticket | RunStream | None) -> None:
        """Run what is said, one after the other, until it is over."""
        if self._begun.put(_SERVED) is not _SERVED:
            return
        step = first
        try:
            while True:
                if isinstance(step, Ticket):
                    step = self._admit(step)
                if step is not None:
                    self._work(step)
                said = self._next_input(step)
                if said is None:
                    break
                self._show(StateChanged("processing"))
                step = self._register(RunRequest(said=said, on_busy="queue"))
        except BaseException as error:  # it could not begin
            self._fail(error)
        finally:
            self._claim = None
            self._finish()

    def _admit(self, ticket: Ticket) -> RunStream:
        """Wait for the agent, if need be, and begin a run."""
        ticket.claim.drive_here()
        stream = self._stage.admit(ticket)
        if stream.has_begun:
            self._unsaid = ()
        return stream

    def _work(self, stream: RunStream) -> None:
        """Drive one run to its end."""
        try:
            for event in stream:
                if not stream.has_begun:  # nobody else has been shown it
                    self._hear(event)
            self._outcome = self._told(stream.result)
        except BaseException as error:
            self._fail(error)
        finally:
            self._claim = None
            self._desk.clear()

    def _next_input(self, stream: RunStream | None) -> UserMessage | None:
        """Return what is to be said next; nothing if it is over."""
        claim = None if stream is None else stream.claim
        was_cancelled = claim is not None and claim.token.cancelled
        if was_cancelled and self._cancelled is claim:
            return None
        is_kept = was_cancelled and self._interrupted is claim
        while not self._is_stopping:
            said = self._inbox.take_as_one(self._unsaid)
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
        if self._state.state not in ("idle", "failed"):
            self._show(StateChanged("idle"))
        self._is_busy = False
        self._events.watch.wake()

    def _fail(self, error: BaseException) -> None:
        self._outcome = error
        self._show(StateChanged("failed", message=repr(error)))

    def _finish(self) -> None:
        self._inbox.shut()
        if self._state.state != "failed":
            self._show(StateChanged("done"))
        self._is_busy = False
        self.ended.cancel(origin="closed")
        self._events.close()
        self.callbacks.finish(self.run_id, self)

    def _show(self, event: StateChanged) -> None:
        self._state = event
        self._events.publish(event)

    def _hear(self, event: StreamEvent) -> None:
        """Pass on what happens in the run."""
        if isinstance(event, StateChanged):
            self._state = event
        elif isinstance(event, RunFinished):
            event = RunFinished(self._told(event.result))
        self._events.publish(event)

    def _told(self, result: RunResult) -> RunResult:
        """Return *result* with the right word for a run that was shut down."""
        return result.as_shutdown() if self._is_stopping else result
