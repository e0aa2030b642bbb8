"""The thread of a handle: it drives one run after the other."""

from __future__ import annotations

import contextvars
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar
from uuid import uuid4

import msgspec

from .._context import work_in_context
from ..asking.inbox import Inbox
from ..asking.questions import OpenQuestions
from ..cancel import CancelToken, Receipt, RunClaim, Watch
from ..cancel.once import Once, start_thread
from ..cancel.reason import make_cause
from ..conversation.conversation import Conversation
from ..conversation.descendants import begun, own_lineage
from ..conversation.live_run import Pump, RunEnd
from ..conversation.request import AdmittedRun, RunRequest
from ..conversation.run_stream import RunStream
from ..events import InterruptRaised, RunFinished, StateChanged, StreamEvent
from ..exceptions import ConfigurationError, Origin
from ..messages import UserMessage
from ..recording import Part, Recorded
from ..result import RunResult
from .subscriptions import SIZE, EventLog

__all__ = [
    "DoneCallbacks",
    "Serving",
]

_SERVED: Final = "served"


_GIVEN_UP: Final = "given up"


#: What a handle takes note of.
_NOTED: Final[frozenset[type]] = frozenset((StateChanged, RunFinished))


class Serving:
    """One daemon thread, from the start of a handle to its end.

    It alone drives the runs and writes the log; others put things into the inbox,
    answer what lies on the desk, and cancel.

    :param keep_alive: does it wait for more when there is nothing to do?
    :param size: how many events are kept for subscribers.
    """

    def __init__(
        self,
        conversation: Conversation,
        run_id: str = "",
        *,
        keep_alive: bool = False,
        size: int = SIZE,
    ) -> None:
        #: The id of its first run, by which it is known.
        self.run_id: Final = run_id or uuid4().hex
        self._conversation = conversation
        self._keep_alive = keep_alive
        self._desk = OpenQuestions()
        self._inbox = Inbox()
        self._events = EventLog(size)
        #: Woken when it has nothing left to do; not with every event.
        self._rested = Watch()
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
        self.callbacks: Final[DoneCallbacks[Any]] = DoneCallbacks()
        #: What all its runs are recorded by, if they are.
        self._record: Recorded | Part | None = None
        #: What else is wanted of the next run.
        self._next = RunRequest()
        #: What is to be done first.
        self._first: AdmittedRun | RunStream | None = None
        #: Will its thread serve it, or is there none?
        self._begun: Once[str] = Once()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        #: Has whoever had begun its run left it? Then later runs are like that one.
        self.is_background = False
        #: The runs that it was begun by.
        self.ancestors = own_lineage()
        if self.ancestors:
            begun[id(self)] = weakref.ref(self)

    def start(
        self, request: RunRequest, *, begins_here: bool, may_stay: bool = False
    ) -> RunStream | None:
        """Begin a run, or wait for input if nothing is to be said yet.

        If this raises, :meth:`give_up` ends what has begun by then.

        :param begins_here: wait on this thread for the agent to be free, if that is
            what is wanted.
        :param may_stay: serve it on this thread if there is no other to be had.
        :return: the run, if it has begun.
        """
        first: AdmittedRun | RunStream | None = None
        self._record = request.record
        if not request.has_work:
            self._next = request
        else:
            first = self._first = self._register(request, run_id=self.run_id)
            if begins_here:
                first = self._first = self._admit(first)
            # Whoever begins it is no part of it, and can wait for its end.
            first.claim.drive_on(0)
            self._is_busy = True
            self._show(StateChanged("processing"))
        try:
            self._start_thread(self._serve)
        except RuntimeError:
            if not may_stay or self._begun:
                raise
            self._serve()
        return first if isinstance(first, RunStream) else None

    def abort(self, reason: str) -> None:
        """End the live run, and the handle, also if it was never started; wait for it.

        Cancellation: it waits for the end of one, so nothing else ends it.
        """
        self.give_up(reason)
        self.ended.wait()

    def give_up(self, reason: str) -> None:
        """Have it end; and if no thread will ever serve it, end it here."""
        self._stop(reason, "closed")
        if self._begun.claim(_GIVEN_UP) is not _GIVEN_UP:
            return
        if isinstance(self._first, RunStream):
            self._first.close()
        elif self._first is not None:
            self._conversation.turn_away(self._first)
        self._finish()

    def end_with(self, reason: str, *, force: bool) -> Receipt:
        """End, as the run that has begun this is cancelled."""
        return self._stop(reason, "parent", force=force)

    def _stop(self, reason: str, origin: Origin, *, force: bool = False) -> Receipt:
        """Have it end, whatever it is doing."""
        receipt = Receipt(None, make_cause(reason, origin))
        if self._pid == os.getpid():
            self._is_stopping = True  # publish first, then look
            claim = self._claim
            if claim is not None:
                receipt = claim.cancel(reason, origin, force=force)
            self._stopping.cancel(reason, origin)
        return receipt

    def take_over(self, end: RunEnd, pump: Pump) -> None:
        """Go on with a run that another thread has begun."""
        self._first = stream = RunStream.moved(end, pump)
        self._claim = stream.claim
        self._is_busy = self.is_background = True
        self._show(StateChanged(*end.run.state))

        def serve() -> None:
            if not end.take_over():
                return
            run = end.run
            run.may_leave, run.is_steered = False, True
            if run.recording is not None:
                self._record = run.recording.source
            run.on_event = (*run.on_event, self._hear)
            pump.answering.attend(self._desk, self._inbox)
            if run.round is not None and run.round.is_waiting:
                # Those who follow this have not heard of it.
                asked = pump.answering.show(run, run.round.questions)
                self._events.publish(InterruptRaised(asked))
            self._serve()

        thread = self._start_thread(serve)
        if thread is not None:
            stream.claim.drive_on(thread)

    def _register(self, request: RunRequest, run_id: str = "") -> AdmittedRun:
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
        ticket = self._conversation.register(wanted)
        self._claim = ticket.claim  # publish first, then look
        ticket.claim.is_background = self.is_background
        return ticket

    def _start_thread(self, work: Callable[[], None]) -> int | None:
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(work_in_context, work),
            name=f"syncagent-run-{self.run_id[:8]}",
            daemon=True,
        )
        start_thread(self._thread)
        return self._thread.ident

    def _serve(self) -> None:
        """Run what is said, one after the other, until it is over."""
        if self._begun.claim(_SERVED) is not _SERVED:
            return
        step, self._first = self._first, None
        if step is not None:
            step.claim.drive_here()
        try:
            while True:
                if isinstance(step, AdmittedRun):
                    step = self._admit(step)
                if step is not None:
                    self._work(step)
                said = self._next_input(step)
                if said is None:
                    break
                self._show(StateChanged("processing"))
                wanted, self._next = self._next, RunRequest()
                step = self._register(
                    msgspec.structs.replace(
                        wanted, said=said, on_busy="queue", record=self._record
                    )
                )
        except BaseException as error:  # it could not begin
            self._fail(error)
        finally:
            self._claim = None
            self._finish()

    def _admit(self, ticket: AdmittedRun) -> RunStream:
        """Wait for the agent, if need be, and begin a run."""
        ticket.claim.drive_here()
        stream = self._conversation.admit(ticket)
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
        self._rested.wake()

    def _fail(self, error: BaseException) -> None:
        self._outcome = error
        self._show(StateChanged("failed", message=repr(error)))

    def _finish(self) -> None:
        begun.pop(id(self), None)
        self._inbox.shut()
        if self._state.state != "failed":
            self._show(StateChanged("done"))
        self._is_busy = False
        self.ended.cancel(origin="closed")
        self._rested.wake()
        self._events.close()
        self.callbacks.finish(self.run_id, self)

    def _show(self, event: StateChanged) -> None:
        self._state = event
        self._events.publish(event)

    def _hear(self, event: StreamEvent) -> None:
        """Pass on what happens in the run."""
        if event.__class__ in _NOTED:  # most are not, and there are thousands
            event = self._noted(event)
        self._events.publish(event)

    def _noted(self, event: StreamEvent) -> StreamEvent:
        if isinstance(event, StateChanged):
            self._state = event
        elif isinstance(event, RunFinished):
            return RunFinished(self._told(event.result))
        return event

    def _told(self, result: RunResult) -> RunResult:
        """Return *result* with the right word for a run that was shut down."""
        return result.as_shutdown() if self._is_stopping else result

    # -- for whoever looks ---------------------------------------------------------

    def _is_idle(self) -> bool:
        # In this order: it is busy before it takes what was said.
        has_work = bool(self._inbox.messages) or self._is_busy
        return self.ended.cancelled or not has_work

    def _is_own_thread(self) -> bool:
        here, claim = threading.current_thread(), self._claim
        helpers = () if claim is None else claim.helpers
        return here is self._thread or here.ident in helpers

    def _refuse_child(self) -> None:
        if self._pid != os.getpid():
            raise ConfigurationError(
                "this handle belongs to the process that has started it; a forked "
                "child has no part in its runs"
            )

    def _live(self) -> RunClaim | None:
        # A run of the parent is none of a forked child.
        return self._claim if self._pid == os.getpid() else None


_T = TypeVar("_T")


_log = logging.getLogger("syncagent.handle")


class DoneCallbacks(Generic[_T]):
    """Functions that are each called once, on whatever thread comes first."""

    def __init__(self) -> None:
        self._functions: deque[Callable[[_T], object]] = deque()
        self._last: deque[Callable[[_T], object]] = deque()
        #: Cancelled when all have returned that were there at the end.
        self.returned: Final = CancelToken()

    def add(self, function: Callable[[_T], object]) -> None:
        """Add one."""
        self._functions.append(function)

    def add_last(self, function: Callable[[_T], object]) -> None:
        """Add one that is called when the others have returned."""
        self._last.append(function)

    def finish(self, run_id: str, what: _T) -> None:
        """Call all, and then the last ones."""
        try:
            self.call(run_id, what)
        finally:
            self.returned.cancel(origin="closed")
            _call(self._last, run_id, what)

    def call(self, run_id: str, what: _T) -> None:
        """Call those that are there with *what*; an exception in one is logged."""
        _call(self._functions, run_id, what)


def _call(functions: deque[Callable[[_T], object]], run_id: str, what: _T) -> None:
    while functions:
        try:
            function = functions.popleft()
        except IndexError:  # another thread was faster
            return
        try:
            function(what)
        except BaseException:  # an exit, too: the others are still to be called
            _log.exception("run %s: a done callback raised", run_id)
