"""The thread of a handle: it drives one run after the other.

::

               prompt or paused run            no work left
    start() ──────────────────────▶ BUSY ─────────────────────▶ ENDED
       │                             ▲ │                           ▲
       │ neither            input    │ │ keep_alive, or the run    │
       └───────────▶ IDLE ───────────┘ │ was interrupted           │
                      ▲ ───────────────┘                           │
                      └── shutdown(), cancel() of the live run ────┘

Guarantees:

- This thread alone drives the runs and writes the event log. Other threads put input
  into the inbox, answer open questions, and cancel.
- Everything a subscriber sees goes through :meth:`HandleThread._publish`, in order.
- A handle whose thread never started is ended by the thread that tried, in
  :meth:`~HandleThread.give_up`.
- ``ended`` is cancelled before the done callbacks run, and the log is closed by then.
- A forked child owns none of it: it reads, and changes nothing.
"""

from __future__ import annotations

import contextvars
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final
from uuid import uuid4

import msgspec

from .._context import work_in_context
from ..asking.answering import Attendance
from ..asking.inbox import Inbox
from ..asking.questions import OpenQuestions
from ..cancel import CancelToken, Receipt, RunClaim, Watch
from ..cancel.claim import check_cancel
from ..cancel.handler_errors import raised_by_signal_handler
from ..cancel.once import Once, finish_despite_signals, start_thread
from ..conversation.conversation import Conversation
from ..conversation.descendants import (
    add_descendant,
    own_lineage,
    remove_descendant,
)
from ..conversation.live_run import LiveRun
from ..conversation.queue import HANDLE_THREADS
from ..conversation.request import AdmittedRun, RunRequest
from ..conversation.run_stream import RunStream
from ..events import InterruptRaised, RunFinished, StateChanged, StreamEvent
from ..exceptions import ConfigurationError, Origin
from ..messages import UserMessage
from ..recording import Recorder, SubAgentRecorder
from ..result import RunResult
from ..run.given import Given
from ..run.run import Run
from .subscriptions import SIZE, EventLog

__all__ = ["DoneCallbacks", "HandleThread"]

_log = logging.getLogger("syncagent.handle")

_DRIVEN: Final = "driven"
_GIVEN_UP: Final = "given up"
#: Events that change the handle itself.
_NOTED: Final[frozenset[type]] = frozenset((StateChanged, RunFinished))


class HandleThread:
    """One daemon thread, from the start of a handle to its end.

    :param run_id: the id of its first run; made up if empty.
    :param keep_alive: wait for more input when there is nothing to do.
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
        #: The id of the first run, by which the handle is known.
        self.run_id: Final = run_id or uuid4().hex
        self.keep_alive: Final = keep_alive
        self.questions: Final = OpenQuestions()
        self.inbox: Final = Inbox()
        self.events: Final = EventLog(size)
        self.callbacks: Final = DoneCallbacks()
        #: Woken when there is nothing left to do; not with every event.
        self.rested: Final = Watch()
        #: Cancelled when the handle is over.
        self.ended: Final = CancelToken()
        self.state = StateChanged("idle")
        #: The result or error of the last run: one attribute, so that a reader sees
        #: either the old pair or the new one.
        self.outcome: RunResult | BaseException | None = None
        #: The run that is live or waits for its turn.
        self.claim: RunClaim | None = None
        #: The newest run that was interrupted or cancelled through the handle.
        self.interrupted: RunClaim | None = None
        self.cancelled: RunClaim | None = None
        #: True once the caller has left; later runs are background runs as well.
        self.is_background = False
        #: The prompt of the next run, until that run has begun.
        self.unsent: tuple[UserMessage, ...] = ()
        #: The runs that this handle was started by.
        self.ancestors: Final = own_lineage()
        self._conversation: Final = conversation
        self._attendance: Final = Attendance(self.questions, self.inbox)
        #: Set before the live run is cancelled, unlike the token.
        self._is_stopping = False
        self._stopping: Final = CancelToken()
        self._is_busy = False
        #: Records all runs of the handle, if they are recorded.
        self._record: Recorder | SubAgentRecorder | None = None
        #: Given to all runs of the handle.
        self._given: Given | None = None
        #: Settings of the next run.
        self._next = RunRequest()
        #: The run that the thread begins with.
        self._first: AdmittedRun | RunStream | None = None
        #: Who ends the handle: its thread, or the thread that could not start it.
        self._begun: Once[str] = Once()
        self._thread: threading.Thread | None = None
        self._pid: Final = os.getpid()
        add_descendant(self)

    # -- starting ------------------------------------------------------------------

    def start(
        self, request: RunRequest, *, begins_here: bool, may_stay: bool = False
    ) -> RunStream | None:
        """Begin a run, or wait for input if the request has no prompt.

        If this raises, :meth:`give_up` ends whatever has begun.

        :param begins_here: wait for the agent on this thread, if it is busy.
        :param may_stay: drive the run on this thread if no other can be started.
        :return: the run, if it has begun.
        """
        first: AdmittedRun | RunStream | None = None
        self._record, self._given = request.record, request.given
        if not request.has_work:
            self._next = request
        else:
            first = self._first = self._admit(request, run_id=self.run_id)
            if begins_here:
                first = self._first = self._begin(first)
            # The starting thread is not part of the run: it may wait for its end.
            first.claim.drive_on(0)
            self._is_busy = True
            self._publish(StateChanged("processing"))
        try:
            self._start_thread(self._drive)
        except RuntimeError as error:
            if not may_stay or self._begun or raised_by_signal_handler(error):
                raise
            self._drive()
        return first if isinstance(first, RunStream) else None

    def take_over(self, live_run: LiveRun) -> None:
        """Drive a run from here on that another thread has begun.

        :raises RuntimeError: no thread can be started.
        """
        self._first = stream = RunStream(live_run, is_handle=True)
        self.claim = stream.claim
        self._is_busy = self.is_background = True
        self._publish(StateChanged(*live_run.run.state))

        def drive() -> None:
            if not live_run.move_to_handle():
                return
            run = live_run.run
            run.can_move, run.accepts_input = False, True
            self._given = run.progress.given
            if run.recording is not None:
                self._record = run.recording.source
            stream.observe(self._publish)
            live_run.answering.attend(self._attendance)
            if run.open_round is not None and run.open_round.is_waiting:
                # Subscribers of this handle have not seen the questions yet.
                shown = live_run.answering.show(run, run.open_round.questions)
                self._publish(InterruptRaised(shown))
            self._drive()

        thread = self._start_thread(drive)
        if thread is not None:
            stream.claim.drive_on(thread)

    def _start_thread(self, work: Callable[[], None]) -> int | None:
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(work_in_context, work),
            name=f"{HANDLE_THREADS}{self.run_id[:8]}",
            daemon=True,
        )
        start_thread(self._thread)
        return self._thread.ident

    def _admit(self, request: RunRequest, run_id: str = "") -> AdmittedRun:
        """Make a run that can be cancelled through the handle before it has begun."""
        request = msgspec.structs.replace(
            request,
            attendance=self._attendance,
            run_id=run_id,
            parent_token=self._stopping,
        )
        self.unsent = () if request.prompt is None else (request.prompt,)
        admitted = self._conversation.admit(request)
        self.claim = admitted.claim  # publish first, then look
        admitted.claim.is_background = self.is_background
        return admitted

    def _begin(self, admitted: AdmittedRun) -> RunStream:
        """Wait for the agent if it is busy, and begin the run."""
        admitted.claim.drive_here()
        stream = self._conversation.start(admitted)
        stream.observe(self._publish)
        if stream.has_begun:
            self.unsent = ()
        return stream

    # -- driving -------------------------------------------------------------------

    def _drive(self) -> None:
        """Drive one run after the other until the handle is over."""
        if self._begun.claim(_DRIVEN) is not _DRIVEN:
            return
        work, self._first = self._first, None
        if work is not None:
            work.claim.drive_here()
        try:
            while True:
                if isinstance(work, AdmittedRun):
                    work = self._begin(work)
                if work is not None:
                    self._drive_run(work)
                prompt = self._next_prompt(work)
                if prompt is None:
                    break
                self._publish(StateChanged("processing"))
                request, self._next = self._next, RunRequest()
                changed = msgspec.structs.replace(
                    request,
                    prompt=prompt,
                    on_busy="queue",
                    record=self._record,
                    given=self._given,
                )
                work = self._admit(changed)
        except BaseException as error:  # the run could not begin
            self._fail(error)
        finally:
            self.claim = None
            self._finish()

    def _drive_run(self, stream: RunStream) -> None:
        try:
            for _ in stream:
                pass
            self.outcome = self._final(stream.result)
        except BaseException as error:
            self._fail(error)
        finally:
            stream.leave_observers()
            self.claim = None
            self.questions.clear()

    def _next_prompt(self, stream: RunStream | None) -> UserMessage | None:
        """Wait for the next prompt; None if the handle is over."""
        claim = None if stream is None else stream.claim
        was_cancelled = claim is not None and claim.token.cancelled
        if was_cancelled and self.cancelled is claim:
            return None
        was_interrupted = was_cancelled and self.interrupted is claim
        while not self._is_stopping:
            prompt = self.inbox.take_as_one(self.unsent)
            if prompt is not None:
                return prompt
            if not self.keep_alive and not was_interrupted:
                if self.inbox.close_if_empty():
                    return None
                continue
            if self.state.state not in ("idle", "failed"):
                self._publish(StateChanged("idle"))
            self._is_busy = False
            self.rested.wake()
            self.inbox.wait(self._stopping)
            self._is_busy = True
        return None

    # -- ending --------------------------------------------------------------------

    def stop(self, reason: str, origin: Origin, *, force: bool = False) -> Receipt:
        """End the handle, whatever it is doing."""
        cause = check_cancel(reason, origin, "now")
        receipt = Receipt(None, cause)
        if self.is_own_process:
            self._is_stopping = True  # publish first, then look
            claim = self.claim
            if claim is not None:
                receipt = claim.cancel_for(cause, force=force)
            self._stopping.cancel(reason, origin)
        return receipt

    def end_with_parent(self, reason: str, *, force: bool) -> Receipt:
        """End, because the run that started this handle is cancelled."""
        return self.stop(reason, "parent", force=force)

    def give_up(self, reason: str) -> None:
        """Stop; and if no thread will ever drive the handle, end it here."""
        self.stop(reason, "closed")
        if self._begun.claim(_GIVEN_UP) is not _GIVEN_UP:
            return
        if isinstance(self._first, RunStream):
            self._first.close()
        elif self._first is not None:
            self._conversation.dismiss(self._first)
        self._finish()

    def abort(self, reason: str) -> None:
        """Give up, and wait for the end.

        Cancellation: none; the live run is cancelled first, so the wait is short.
        """
        finish_despite_signals(lambda: self.give_up(reason))
        self.ended.wait()

    def _fail(self, error: BaseException) -> None:
        if error.__traceback__ is not None:
            # Without the caller's frame, which holds this object: no cycle.
            error.__traceback__ = error.__traceback__.tb_next
        self.outcome = error
        self._publish(StateChanged("failed", message=repr(error)))

    def _finish(self) -> None:
        remove_descendant(self)
        self.inbox.close()
        if self.state.state != "failed":
            self._publish(StateChanged("done"))
        self._is_busy = False
        self.ended.cancel(origin="closed")
        self.rested.wake()
        self.events.close()
        self.callbacks.finish(self.run_id)

    # -- events --------------------------------------------------------------------

    def _publish(self, event: StreamEvent) -> None:
        """Publish an event to all subscribers: the one way into the log."""
        if event.__class__ in _NOTED:  # most are not, and there are thousands
            if isinstance(event, StateChanged):
                self.state = event
            elif isinstance(event, RunFinished):
                event = RunFinished(self._final(event.result))
        self.events.publish(event)

    def _final(self, result: RunResult) -> RunResult:
        """Return *result* as ``shutdown`` if the handle was shut down."""
        return result.as_shutdown() if self._is_stopping else result

    # -- for other threads ---------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """True if there is nothing left to do."""
        # In this order: the thread is busy before it takes input.
        has_work = bool(self.inbox.messages) or self._is_busy
        return self.ended.cancelled or not has_work

    @property
    def is_own_thread(self) -> bool:
        """True on this thread, and on those of the live run's tools."""
        current, claim = threading.current_thread(), self.claim
        helpers = () if claim is None else claim.helpers
        return current is self._thread or current.ident in helpers

    @property
    def live_claim(self) -> RunClaim | None:
        """The run to cancel. A forked child has none: the run is its parent's."""
        return self.claim if self.is_own_process else None

    @property
    def live_run(self) -> Run | None:
        """The run whose calls can be stopped; ``None`` while it waits for its turn."""
        claim, run = self.live_claim, self._conversation.run
        return run if run is not None and run.claim is claim else None

    @property
    def is_own_process(self) -> bool:
        """False in a forked child."""
        return self._pid == os.getpid()

    def check_process(self) -> None:
        """Refuse to work in a forked child.

        :raises ConfigurationError: this is one.
        """
        if not self.is_own_process:
            raise ConfigurationError(
                "this handle belongs to the process that started it; a forked child "
                "cannot use it"
            )


class DoneCallbacks:
    """Functions that are each called once, by whichever thread comes first."""

    def __init__(self) -> None:
        self._functions: deque[Callable[[], object]] = deque()
        self._last: deque[Callable[[], object]] = deque()
        #: Cancelled when all have returned that were added before the end.
        self.returned: Final = CancelToken()

    def add(self, function: Callable[[], object]) -> None:
        """Add a function."""
        self._functions.append(function)

    def add_last(self, run_id: str, function: Callable[[], object]) -> None:
        """Add a function that is called when the others have returned.

        If they have returned already, it is called at once: one that stayed here would
        keep itself, and the handle in it, alive.
        """
        self._last.append(function)  # publish first, then look
        if self.returned.cancelled:
            _call_each(self._last, run_id)

    def finish(self, run_id: str) -> None:
        """Call all functions, then the last ones."""
        try:
            self.call(run_id)
        finally:
            self.returned.cancel(origin="closed")
            _call_each(self._last, run_id)

    def call(self, run_id: str) -> None:
        """Call the functions added so far; an exception in one is logged."""
        _call_each(self._functions, run_id)


def _call_each(functions: deque[Callable[[], object]], run_id: str) -> None:
    while functions:
        try:
            function = functions.popleft()
        except IndexError:  # another thread was faster
            return
        try:
            function()
        except BaseException:  # SystemExit, too: the others must still be called
            _log.exception("run %s: a done callback raised", run_id)
