"""The conversation of an agent, and the one run that may be live in it."""

from __future__ import annotations

import weakref
from typing import Any, Final, Literal, get_args
from uuid import uuid4

from ..asking.answering import Answering, Handlers
from ..cancel import CancelMode, Receipt, RunClaim, RunSlot, clock
from ..cancel.deferred import check_mode
from ..cancel.reason import make_cause
from ..events import State
from ..exceptions import ConfigurationError, InterruptPending, Origin
from ..interrupts import AuthRequest, AwaitingInput, Interrupt, RuleBook
from ..messages import Message, UserMessage
from ..result import RunResult
from ..run.output import Output
from ..run.run import Run
from ..run.setup import Setup
from ..transcript.transcript import Transcript
from ..usage import Usage
from .descendants import cancel_begun_by, own_lineage
from .live_run import Pump, RunEnd
from .pause import Pause
from .queue import Line, OnBusy, check_busy, wait_for_turn
from .request import AdmittedRun, RunRequest, compose
from .run_stream import RunStream

__all__ = [
    "Background",
    "Conversation",
    "check_background",
]

#: What a cancel does with a run that was sent to the background.
Background = Literal["keep", "cancel"]


#: How often a cancel looks, as a pause may become a run at the very moment.
_LOOKS: Final = 3


class Conversation:
    """The conversation of an agent, and the one run that may be live in it."""

    def __init__(
        self,
        setup: Setup,
        handlers: Handlers,
        on_busy: OnBusy,
        transcript: Transcript,
        rules: RuleBook,
    ) -> None:
        self.setup = setup
        self.handlers = handlers
        self.on_busy = on_busy
        self.transcript = transcript
        self.rules = rules
        #: Those that somebody has given, by whose they are. They are never written.
        self.credentials: dict[str, Any] = {}
        self.slot = RunSlot()
        self.line = Line()
        self.pause: Pause | None = None
        #: What was said to a run that is over, and not heard.
        self.unheard: tuple[UserMessage, ...] = ()
        #: Of all runs that have ended.
        self.usage = Usage()
        self.failure = ""
        #: Weak: a run is live for as long as somebody drives it, or still may.
        self._run: weakref.ref[Run] | None = None

    # -- beginning -----------------------------------------------------------------

    def begin(self, wanted: RunRequest) -> RunStream:
        """Claim the agent for a run, and make it.

        Cancellation: of a wait for its turn ends at once.
        """
        return self.admit(self.register(wanted))

    def register(self, wanted: RunRequest) -> AdmittedRun:
        """Return what a run is admitted with; it can be cancelled from now on."""
        output = None if wanted.output is None else Output.of(wanted.output)
        seconds = self.setup.limits.seconds
        token, following = compose(
            wanted.timeout, seconds, wanted.cancel, wanted.stopping
        )
        pause = wanted.resumes
        name = wanted.run_id or uuid4().hex if pause is None else pause.run_id
        claim = RunClaim(token, name, own_lineage())
        return AdmittedRun(wanted, claim, output, following)

    def admit(self, ticket: AdmittedRun) -> RunStream:
        """Claim the agent for a run, and make it.

        Cancellation: of a wait for its turn ends at once.
        """
        wanted, claim, output, following = ticket
        record = wanted.record
        since = 0.0 if record is None else clock.now()
        try:
            busy = wanted.on_busy
            how = self.on_busy if busy is None else check_busy(busy)
            begun = wait_for_turn(self.slot, self.line, claim, how)
            if not begun:
                if following is not None:
                    following.close()
                stream = RunStream.never_begun(claim, self.messages)
                if record is not None:
                    record.note_unbegun(stream.result, since)
                return stream
            token = claim.token
            answering = Answering(
                self.handlers,
                wanted.answers,
                desk=wanted.desk,
                inbox=wanted.inbox,
                is_pulled=wanted.is_pulled,
                outer=wanted.outer,
                waits_for=token if wanted.is_releasable else None,
            )
            run = self._make_run(wanted, claim, output, answering)
            if record is not None:
                record.begin(run, wanted.said, since, has_queued=how != "raise")
            end = RunEnd(run, self._keep, self._ended, wanted.move, following)
            return RunStream(end, Pump(run, answering))
        except BaseException:
            # Also if it has just begun, and that is not known here: a signal handler's
            # exception may be held, with this frame, for as long as somebody likes.
            self.turn_away(ticket)
            raise

    def turn_away(self, ticket: AdmittedRun) -> None:
        """Let go of a run that does not begin."""
        if ticket.following is not None:
            ticket.following.close()
        self.slot.end(ticket.claim)

    def _make_run(
        self,
        wanted: RunRequest,
        claim: RunClaim,
        output: Output | None,
        answering: Answering,
    ) -> Run:
        """Make the run; the agent is claimed, and the transcript is ours."""
        pause, said = wanted.resumes, wanted.said
        claim.phase = "begin"
        resumed = None
        if pause is not None:
            if not self.can_resume(pause):
                raise ConfigurationError(
                    "what waited for answers waits no more: it was cancelled meanwhile,"
                    " or somebody else has gone on with it"
                )
            output = pause.take_output(output)
            if not pause.take():
                raise ConfigurationError("the calls were cancelled meanwhile")
            resumed = pause
        else:
            self._close_pause(self.pause)
            self.transcript.repair()
        run = Run(
            *(claim.run_id, self.setup, self.transcript, claim),
            *(answering, self.rules, self.credentials, output),
            is_steered=wanted.inbox is not None,
        )
        run.may_leave = wanted.move is not None
        run.can_background = run.may_leave or wanted.is_releasable
        if wanted.on_event is not None:
            run.on_event = (*run.on_event, wanted.on_event)
        if resumed is not None:
            run.continue_from(resumed)
            self.pause = None
        else:
            assert said is not None
            before = [block for each in self.take_unheard() for block in each.content]
            if before:
                said = UserMessage((*before, *said.content))
            self.transcript.append(said)
        self._run, self.failure = weakref.ref(run), ""
        return run

    def can_resume(self, pause: Pause) -> bool:
        """Is it still there, and the one that waits?"""
        return pause is self.pause and pause.is_open

    def _close_pause(self, pause: Pause | None) -> None:
        if pause is None:
            return
        if pause.interrupts:
            ids = ", ".join(asked.id for asked in pause.interrupts)
            raise InterruptPending(
                f"the agent waits for answers to {ids}; give them to resume(), or let "
                "the calls go with cancel()"
            )
        for message in pause.leftovers():
            self.transcript.append(message)
        self.usage += pause.meter.usage
        self.pause = None

    # -- ending --------------------------------------------------------------------

    def _keep(self, run: Run) -> None:
        self.pause = Pause.of(run)

    def _ended(
        self, run: Run, result: RunResult | None, error: BaseException | None
    ) -> None:
        if result is None or result.stop_reason != "interrupt":
            self.pause = None
        if self._run is not None:  # may be done again
            used = Usage() if self.pause is not None else run.meter.usage
            self._run, self.usage = None, self.usage + used
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
        """End the live run, if there is one, or let go what it waits for."""
        check_background(background)
        live = self.slot.live
        if live is not None and live.is_background and background == "keep":
            check_mode(mode)
            return Receipt(None, make_cause(reason, origin))
        for _ in range(_LOOKS):
            before = self.pause
            receipt = self.slot.cancel(reason, origin, mode=mode, force=force)
            pause = self.pause
            if receipt or (pause is None and before is None):
                break
            if pause is not None and pause.cancel():
                break
            # Somebody resumes it at this very moment: there is a run to be hit.
        if background == "cancel" and live is not None:
            cancel_begun_by(live.run_id, reason, mode=mode, force=force)
        return receipt

    # -- looking -------------------------------------------------------------------

    @property
    def run(self) -> Run | None:
        """The live run, if there is one."""
        run = None if self._run is None else self._run()
        return run if self.slot.live is not None else None

    @property
    def state(self) -> State:
        """What it is doing."""
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
        """What is to be answered before it can go on."""
        is_live = self.slot.live is not None
        return () if self.pause is None or is_live else self.pause.interrupts

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation up to now."""
        if self.slot.live is not None or self.interrupts:
            return tuple(self.transcript)
        leftovers = [] if self.pause is None else self.pause.leftovers()
        if leftovers:
            return (*self.transcript, *leftovers)
        # A signal handler that raised at the very end may have left something open.
        return tuple(self.transcript.repaired())

    @property
    def total_usage(self) -> Usage:
        """What all runs have used, also one that is live or waits."""
        run, pause = self.run, self.pause
        if run is not None:
            return self.usage + run.meter.usage
        # Also one that was let go: it is counted for good when the next run begins.
        return self.usage if pause is None else self.usage + pause.meter.usage

    def take_unheard(self) -> tuple[UserMessage, ...]:
        """Return what was said to a run that was saved, and not heard; once."""
        unheard, self.unheard = self.unheard, ()
        return unheard

    def fork(self, *, is_part: bool = False) -> Conversation:
        """Return another one with the same conversation, or what is settled of it.

        :param is_part: does it remember answers for this one?
        """
        run = self.run
        if run is None:
            transcript = self.transcript.copy()
            for message in self.messages[len(transcript) :]:
                transcript.append(message)
        else:
            transcript = Transcript(self.transcript[: run.start])
            if run.unanswered is not None:
                transcript.append(run.unanswered)
        transcript.repair()
        rules = self.rules if is_part else RuleBook(self.rules)
        other = Conversation(self.setup, self.handlers, self.on_busy, transcript, rules)
        other.unheard = self.unheard
        other.credentials = self.credentials if is_part else self.credentials.copy()
        return other


def check_background(background: object) -> None:
    """See that there is such a choice.

    :raises ValueError: there is not.
    """
    if background not in get_args(Background):
        raise ValueError(f"background is keep or cancel; got {background!r}")
