"""The conversation of an agent, and the one run that may be live in it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final, Literal, get_args
from uuid import uuid4

from ..asking.answering import Answering, Handlers
from ..cancel import CancelMode, Receipt, RunClaim, RunSlot, clock
from ..cancel.claim import check_cancel
from ..events import State
from ..exceptions import AgentBusy, ConfigurationError, InterruptPending, Origin
from ..interrupts import AuthRequest, AwaitingInput, Interrupt, RuleBook
from ..messages import Message, UserMessage
from ..result import RunResult
from ..run.meter import Meter
from ..run.output import Output
from ..run.progress import RunProgress
from ..run.run import Run
from ..run.setup import Setup
from ..transcript.transcript import Transcript
from ..usage import Usage
from .descendants import cancel_descendants, own_lineage
from .live_run import LiveRun
from .pause import Pause, Resumable
from .queue import Line, OnBusy, check_busy, wait_for_turn
from .request import AdmittedRun, RunRequest, run_token
from .run_stream import RunStream
from .unfinished import Unfinished, unfinished_part

__all__ = ["Background", "Conversation", "check_background"]

#: Whether a cancel spares runs that were sent to the background.
Background = Literal["keep", "cancel"]
#: How often cancel() looks: a pause may become a run at the very moment.
_LOOKS: Final = 3


class Conversation:
    """The transcript of an agent, and the one run that may be live in it.

    A run goes through four steps: :meth:`admit` makes it cancellable, :meth:`start`
    waits for its turn and claims the agent, a thread drives it, and :meth:`release`
    frees the agent. Between two of its drives a run may be paused.

    :param move_to_background: hands a live run of this conversation to a new handle.
    """

    def __init__(
        self,
        setup: Setup,
        handlers: Handlers,
        on_busy: OnBusy,
        transcript: Transcript,
        rules: RuleBook,
        move_to_background: Callable[[Conversation, LiveRun], object],
    ) -> None:
        self.setup = setup
        self.handlers = handlers
        self.on_busy = on_busy
        self.transcript = transcript
        self.rules = rules
        #: The credentials given so far, by provider. They are never saved.
        self.credentials: dict[str, Any] = {}
        self.slot = RunSlot()
        self.line = Line()
        self.pause: Pause | None = None
        #: The last run, if it was cut short and can go on.
        self.unfinished: Unfinished | None = None
        #: Why the last run cannot go on, if that needs to be said.
        self.no_resume = ""
        #: Input that an ended or saved run did not take; the next run does.
        self.untaken_input: tuple[UserMessage, ...] = ()
        #: The usage of all runs that have ended.
        self.usage = Usage()
        #: The number of claims on its saved states; see claimed.py.
        self.claims = 0
        self.failure = ""
        self._move_to_background = move_to_background
        #: Weak: a run is live only as long as a thread drives it, or still may.
        self._live_run: weakref.ref[LiveRun] | None = None

    # -- starting ------------------------------------------------------------------

    def begin(self, request: RunRequest) -> RunStream:
        """Claim the agent for a run of the calling thread, and make it.

        Cancellation: a wait for its turn ends at once.
        """
        return self.start(self.admit(request), can_move=True)

    def admit(self, request: RunRequest) -> AdmittedRun:
        """Return a run that can be cancelled from now on, and has not begun."""
        output = None if request.output is None else Output.of(request.output)
        token, registration = run_token(
            request.timeout,
            self.setup.limits.seconds,
            request.cancel,
            request.parent_token,
        )
        pause = request.resumes
        id = request.run_id or uuid4().hex if pause is None else pause.progress.run_id
        claim = RunClaim(token, id, own_lineage())
        return AdmittedRun(request, claim, output, registration)

    def start(self, admitted: AdmittedRun, *, can_move: bool = False) -> RunStream:
        """Claim the agent for an admitted run, and make it.

        Cancellation: a wait for its turn ends at once.

        :param can_move: whether it may be sent to the background.
        """
        is_driver = not admitted.claim.drivers
        # A generator, like driven(): it can be seen whether it has failed. The run
        # keeps it, and it does not keep the run.
        opening = (self.open_stream(admitted, can_move, is_driver) for _ in (None,))
        if is_driver:
            admitted.claim.drivers = (weakref.ref(opening),)
        # No variable holds the stream: an exception from here on drops it.
        return next(opening)

    def open_stream(
        self, admitted: AdmittedRun, can_move: bool, is_driver: bool
    ) -> RunStream:
        """Claim the agent for an admitted run, and make its stream.

        :param is_driver: whether the run ends with the generator that calls this.
        """
        request, claim, output, registration = admitted
        record = request.record
        since = 0.0 if record is None else clock.now()
        try:
            on_busy = self.on_busy
            if request.on_busy is not None:
                on_busy = check_busy(request.on_busy)
            if not wait_for_turn(self.slot, self.line, claim, on_busy):
                if registration is not None:
                    registration.close()
                stream = RunStream.never_begun(claim, self.messages)
                if record is not None:
                    record.record_unstarted(stream.result, since)
                return stream
            answering = Answering(
                self.handlers,
                request.answers,
                attendance=request.attendance,
                waits_for=claim.token if request.is_releasable else None,
                outer=request.outer,
            )
            run = self._make_run(request, claim, output, answering)
            run.shows_agents = run.shows_agents or request.shows_agents
            run.can_move = can_move
            run.is_backgroundable = can_move or request.is_releasable
            if record is not None:
                has_queued = on_busy != "raise"
                record.begin(run, request.prompt, since, has_queued=has_queued)
            if request.keeper is not None:  # last: it observes first
                request.keeper.begin(run, self)
            live_run = LiveRun(self, run, answering, registration)
            self._live_run = weakref.ref(live_run)
            if self.unfinished is not None:  # it is this run
                self.usage, self.unfinished = self.unfinished.usage_before, None
            stream = RunStream(live_run)
            opening = claim.drivers[0]() if is_driver else None
            if opening is not None:
                stream.drive_from(opening)
            return stream  # noqa: TRY300, a signal handler may raise here, too
        except BaseException:
            # Also if it has just begun and this frame does not know: a signal handler's
            # exception may be kept, with this frame, for as long as its catcher likes.
            self.dismiss(admitted)
            raise

    def dismiss(self, admitted: AdmittedRun) -> None:
        """Let go of an admitted run that does not begin. Safe to repeat."""
        if admitted.registration is not None:
            admitted.registration.close()
        self.slot.end(admitted.claim)

    def _make_run(
        self,
        request: RunRequest,
        claim: RunClaim,
        output: Output | None,
        answering: Answering,
    ) -> Run:
        """Make the run. The agent is claimed: the transcript is this thread's."""
        claim.phase = "begin"
        left = None if self._live_run is None else self._live_run()
        # An earlier run whose end was interrupted, again and again.
        if left is not None and not left.settle_left(KeyboardInterrupt()):
            raise AgentBusy("another thread is ending the last run of this agent")
        pause = request.resumes
        if pause is None:
            self._drop_pause()
            self.unfinished, self.no_resume = None, ""
            self.transcript.repair()
            meter = Meter(
                *(self.setup.limits, self.setup.model),
                needs_price=request.needs_price,
                budgets=(*self.setup.budgets, *request.outer_budgets),
            )
            progress = RunProgress.after(self.transcript, claim.run_id, meter, output)
        else:
            if not self.can_resume(pause):
                raise ConfigurationError(
                    "the run cannot be resumed: it was cancelled or resumed already, "
                    "or another run has followed it"
                )
            pause.restore_output(output)
            pause.reopen(self.transcript)
            progress = pause.progress
        progress.given = given = request.given or progress.given
        run = Run(
            *(given.setup or self.setup, self.transcript, claim, answering),
            *(self.rules, self.credentials, progress),
            accepts_input=request.accepts_input,
        )
        if pause is not None:
            self.pause = None
        else:
            prompt = request.prompt
            assert prompt is not None
            untaken = self.take_untaken_input()
            if untaken:
                blocks = (block for each in untaken for block in each.content)
                prompt = UserMessage((*blocks, *prompt.content))
            self.transcript.append(prompt)
        self.failure = ""
        return run

    def can_resume(self, resumable: Resumable) -> bool:
        """Return whether a run is still the one that the agent can resume."""
        return resumable.is_open and resumable in (self.pause, self.unfinished)

    @property
    def resumable(self) -> Resumable | None:
        """The run that :meth:`begin` can resume, paused or cut short, if any."""
        pause = self.pause
        return pause if pause is not None and pause.is_open else self.unfinished

    def find_resumable(self) -> Resumable:
        """Return the run that can be resumed.

        :raises ConfigurationError: there is none.
        """
        resumable = self.resumable
        if resumable is None:
            raise ConfigurationError(
                "the agent does not wait for answers, and its last run "
                f"{self.no_resume or 'was not cut short'}; start a run with run()"
            )
        return resumable

    def _drop_pause(self) -> None:
        pause = self.pause
        if pause is None:
            return
        if pause.interrupts:
            ids = ", ".join(question.id for question in pause.interrupts)
            raise InterruptPending(
                f"the agent waits for answers to: {ids}; give them to resume(), or "
                "drop the calls with cancel()"
            )
        for message in pause.leftovers():
            self.transcript.append(message)
        self.usage += pause.progress.meter.usage
        self.pause = None

    # -- ending --------------------------------------------------------------------

    def keep(self, run: Run) -> None:
        """Pause a run that waits for answers."""
        self.pause = Pause(run.progress, run.setup.policy.marker)

    def release(
        self, run: Run, result: RunResult | None, error: BaseException | None
    ) -> None:
        """Free the agent after a run. Safe to repeat."""
        if result is None or result.stop_reason != "interrupt":
            self.pause = None
        if self._live_run is not None:  # the first time
            before, used = self.usage, run.meter.usage
            if self.pause is not None:
                used = Usage()
            unfinished = unfinished_part(run, result, before)
            if result is not None and result.cancelled and unfinished is None:
                self.no_resume = "was taken out of the conversation by its cancel"
            self._live_run, self.unfinished = None, unfinished
            self.usage = before + used
        if isinstance(error, Exception) and result is None:
            self.failure = repr(error)
        self.slot.end(run.claim)

    def cancel(
        self,
        reason: str,
        origin: Origin,
        *,
        mode: CancelMode,
        force: bool,
        background: Background,
    ) -> Receipt:
        """Cancel the live run, or drop the calls of a paused one."""
        cause = check_cancel(reason, origin, mode)
        check_background(background)
        live = self.slot.live
        if live is not None and live.is_background and background == "keep":
            return Receipt(None, cause)
        for _ in range(_LOOKS):
            before = self.pause
            receipt = self.slot.cancel(reason, origin, mode=mode, force=force)
            pause = self.pause
            if receipt or (pause is None and before is None):
                break
            if pause is not None and pause.cancel(reason, origin):
                break
            # It is being resumed at this moment: look for the live run again.
        if background == "cancel" and live is not None:
            cancel_descendants(live.run_id, reason, mode=mode, force=force)
        return receipt

    def request_background(self) -> bool:
        """Ask the live run to go on in the background; false if none can."""
        run = self.run
        if run is None or not run.is_backgroundable or run.claim.is_background:
            return False
        run.token.request_background()
        return True

    def move_to_background(self, live_run: LiveRun) -> object:
        """Have a thread of its own drive *live_run*, and return its handle.

        :raises RuntimeError: no thread can be started.
        """
        return self._move_to_background(self, live_run)

    # -- looking -------------------------------------------------------------------

    @property
    def run(self) -> Run | None:
        """The live run, if there is one."""
        live_run = None if self._live_run is None else self._live_run()
        claim = self.slot.live
        is_live = live_run is not None and live_run.run.claim is claim
        return live_run.run if live_run is not None and is_live else None

    @property
    def state(self) -> State:
        """The state of the agent."""
        run = self.run
        if run is not None:
            return run.state[0]
        interrupts = self.interrupts
        if interrupts and isinstance(interrupts[0], AuthRequest):
            return "waiting_for_auth"
        if interrupts and isinstance(interrupts[0], AwaitingInput):
            return "waiting_for_input"
        if interrupts:
            return "waiting_for_approval"
        return "failed" if self.failure else "idle"

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The questions of a paused run."""
        is_live = self.slot.live is not None
        return () if self.pause is None or is_live else self.pause.interrupts

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages so far."""
        if self.slot.live is not None or self.interrupts:
            return tuple(self.transcript)
        leftovers = [] if self.pause is None else self.pause.leftovers()
        if leftovers:
            return (*self.transcript, *leftovers)
        # A signal handler that raised at the very end may have left a call open.
        return tuple(self.transcript.repaired())

    @property
    def total_usage(self) -> Usage:
        """The usage of all runs, including one that is live or paused."""
        run, pause = self.run, self.pause
        if run is not None:
            return self.usage + run.meter.usage
        # A dropped pause counts too: the next run adds it for good.
        return self.usage if pause is None else self.usage + pause.progress.meter.usage

    def take_untaken_input(self) -> tuple[UserMessage, ...]:
        """Return the input that an earlier run did not take, once."""
        untaken, self.untaken_input = self.untaken_input, ()
        return untaken

    def fork(self, *, is_part: bool = False) -> Conversation:
        """Return a conversation that starts with the settled messages of this one.

        :param is_part: share remembered rules and credentials with this one.
        """
        run = self.run
        if run is None:
            transcript = self.transcript.copy()
            for message in self.messages[len(transcript) :]:
                transcript.append(message)
        else:
            transcript = Transcript(run.progress.messages_before(self.transcript))
        transcript.repair()
        rules = self.rules if is_part else RuleBook(self.rules)
        other = Conversation(
            *(self.setup, self.handlers, self.on_busy),
            *(transcript, rules, self._move_to_background),
        )
        other.untaken_input = self.untaken_input
        other.credentials = self.credentials if is_part else self.credentials.copy()
        return other


def check_background(background: object) -> None:
    """Check that *background* is one of the choices.

    :raises ValueError: it is not.
    """
    if background not in get_args(Background):
        raise ValueError(f"background must be keep or cancel; got {background!r}")
