"""The state of one run, owned by the thread that drives it."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any, Final, Protocol

import msgspec

from ..cancel import CancelReason, CancelToken, RunClaim
from ..events import MessageFinished, RunEvent, State, StateChanged
from ..interrupts import AwaitingInput, Interrupt, RuleBook
from ..messages import AssistantMessage, Text, ToolMessage, UserMessage
from ..models.response import ModelResponse
from ..schemas import ShapeError
from ..tools.invocation import Invocation
from ..transcript.transcript import Transcript
from ..usage import Usage
from .meter import Meter
from .output import Output
from .setup import Setup
from .tool_services import ToolServices

__all__ = [
    "Paused",
    "Respondent",
    "Run",
    "ToolRound",
    "Witness",
]

#: Phases in which the provider has not heard of the request yet.
_UNHEARD: Final = frozenset({"", "begin", "model", "resolve", "connect", "handshake"})


class ToolRound:
    """All tool calls of one turn."""

    def __init__(self, invocations: list[Invocation]) -> None:
        self.invocations = invocations
        #: What is asked before any of them runs.
        self.questions: tuple[Interrupt, ...] = ()
        self.is_waiting = False
        #: The results, as they stand in the transcript.
        self.told: ToolMessage | None = None

    def message(self) -> ToolMessage:
        """Return the results, also of those calls that were never made."""
        return ToolMessage(tuple(call.result for call in self.invocations))


class _Heard:
    """A message that is whole, until all of it is in its place."""

    __slots__ = ("calls", "is_paid", "message", "place", "usage")

    def __init__(
        self,
        message: AssistantMessage,
        calls: list[Invocation],
        usage: Usage,
        place: int,
    ) -> None:
        self.message = message
        self.calls = calls
        self.usage = usage
        self.is_paid = False
        #: Its place in the transcript.
        self.place = place


class Respondent(Protocol):
    """Who answers what a run asks."""

    @property
    def can_ask(self) -> bool:
        """Can tools wait for an answer of the user?"""

    @property
    def unheard(self) -> tuple[UserMessage, ...]:
        """What was said to the run, and not heard yet."""

    def show(self, run: Run, questions: tuple[Interrupt, ...]) -> tuple[Interrupt, ...]:
        """Return *questions* as those are to see them who follow the run."""

    def ask(self, run: Run, question: AwaitingInput, token: CancelToken) -> str:
        """Have the user answer what a tool asks."""


class Witness(Protocol):
    """Who writes down what a run does."""

    #: What later runs of the same handle are recorded by.
    source: Any

    def enter(self, phase: str) -> None:
        """Note what the run is doing from now on."""

    def watch_tool(self, invocation: Invocation, *, is_over: bool) -> None:
        """Note, on the tool's own thread, that it begins or has ended."""

    def for_agent(self, call_id: str) -> Any:
        """Return what a sub-agent is recorded by."""

    def cancelled(self, cause: CancelReason, phase: str) -> None:
        """Note that the run was cancelled."""

    def end(
        self, result: Any, error: BaseException | None, calls: tuple[Invocation, ...]
    ) -> None:
        """Note how the run has ended; safe to do again."""


class Paused(Protocol):
    """What is kept of a run that does not go on for now."""

    round: ToolRound | None
    invocations: list[Invocation]
    text: str
    start: int
    unanswered: UserMessage | None
    meter: Meter
    output: Output | None


class Run:
    """One run: all about it that changes. It belongs to the thread that drives it.

    :param rules: what need not be asked.
    :param credentials: those that somebody has given, by whose they are.
    :param output: what the answer is to be.
    :param is_steered: may somebody say something between two turns?
    """

    def __init__(
        self,
        run_id: str,
        setup: Setup,
        transcript: Transcript,
        claim: RunClaim,
        respondent: Respondent,
        rules: RuleBook,
        credentials: dict[str, Any],
        output: Output | None = None,
        *,
        is_steered: bool = False,
    ) -> None:
        self.id = run_id
        self.setup = setup
        self.transcript = transcript
        self.claim = claim
        self.respondent = respondent
        self.rules = rules
        self.credentials = credentials
        self.output = output
        self.is_steered = is_steered
        #: May it go on on another thread, if somebody asks for the background?
        self.may_leave = False
        #: Does such a wish mean anything to it?
        self.can_background = False
        #: Who is shown every event, on the thread of the run.
        self.on_event: tuple[Callable[[Any], object], ...] = setup.hooks.on_event
        #: Who writes it down, if somebody does.
        self.recording: Witness | None = None
        self.value: Any = None
        #: What the user has said before, and nobody has answered: it is joined with
        #: what is said now.
        last = transcript[-1] if transcript else None
        self.unanswered = last if isinstance(last, UserMessage) else None
        #: The length of the transcript when it began, without that.
        self.start = len(transcript) - (self.unanswered is not None)
        self.meter = Meter(setup.limits, setup.model)
        self.text = ""
        #: The answer that is coming, and the tools that are called.
        self.answer: ModelResponse | None = None
        self.round: ToolRound | None = None
        self.invocations: list[Invocation] = []
        self._heard: _Heard | None = None
        #: What the model had said last, if the run is gone on with right after that.
        self.last_heard: AssistantMessage | None = None
        #: Has the last message something in it that says nothing?
        self.has_blanks = False
        self._state: tuple[State, str, str] = ("processing", "", "")
        self._attempts = 0
        self.services: Final = ToolServices(self)

    @property
    def token(self) -> CancelToken:
        """What it is cancelled by."""
        return self.claim.token

    @property
    def is_here(self) -> bool:
        """Is this the thread that drives it?"""
        return self.services.thread == get_ident()

    def has_calls(self) -> bool:
        """Has the model called tools that have no results yet?"""
        return self.round is not None

    def enter(self, phase: str) -> None:
        """Note what it is doing, for receipts."""
        self.claim.phase = phase
        if self.recording is not None:
            self.recording.enter(phase)

    @property
    def state(self) -> tuple[State, str, str]:
        """What it is doing, and the tool and the call that this is about."""
        return self.services.waits_for or self._state

    def change_state(
        self, state: State, tool: str = "", call_id: str = ""
    ) -> list[RunEvent]:
        """Note what it is doing, for those who look on; return the event, if new."""
        if self._state == (state, tool, call_id):
            return []
        self._state = (state, tool, call_id)
        return [StateChanged(state, tool, call_id)]

    def continue_from(self, pause: Paused) -> None:
        """Go on with a run that had to wait for answers."""
        self.round = pause.round
        self.invocations = pause.invocations
        self.text, self.start = pause.text, pause.start
        self.unanswered, self.meter = pause.unanswered, pause.meter
        last = self.transcript[-1] if self.transcript else None
        self.last_heard = last if isinstance(last, AssistantMessage) else None

    # -- asking the model ----------------------------------------------------------

    def ask(self) -> ModelResponse:
        """Ask the model for the next message."""
        setup = self.setup
        self.transcript.repair()
        self.enter("model")
        self.meter.turns += 1
        self.text = ""
        options = setup.options
        if self.output is not None and self.output.format is not None:
            options = msgspec.structs.replace(options, output=self.output.format)
        self.answer = setup.model.ask(
            self.transcript,
            setup.specs,
            token=self.claim.deferred.operation_token(self.token),
            options=options,
            timeouts=setup.timeouts,
            on_phase=self.enter,
        )
        return self.answer

    def accept(self, finished: MessageFinished) -> AssistantMessage:
        """Take in a message that is complete."""
        message = finished.message
        key = f"{self.id}:{self.meter.turns}"  # some models use an id again
        made = [
            Invocation(call, f"{key}:{call.call_id}") for call in message.tool_calls
        ]
        self._heard = _Heard(message, made, finished.usage, len(self.transcript))
        self.commit()
        return message

    def commit(self) -> None:
        """Put in its place what was heard, or the rest of it.

        May be done again: a signal handler may have raised in the middle.
        """
        heard = self._heard
        if heard is None:
            return
        if not heard.is_paid:
            heard.is_paid = True
            self.meter.spend(heard.usage)
        if len(self.transcript) == heard.place:
            self.transcript.append(heard.message)
        self.answer = None
        self.text = heard.message.text
        self.has_blanks = not heard.message.content or any(
            isinstance(block, Text) and not block.text.strip()
            for block in heard.message.content
        )
        if heard.calls:
            if self.invocations[-len(heard.calls) :] != heard.calls:
                self.invocations += heard.calls
            self.round = ToolRound(heard.calls)
        self._heard = None

    def discard(self, message: AssistantMessage) -> None:
        """Take a message back, as somebody wants another in its place."""
        if self.round is not None:
            del self.invocations[len(self.invocations) - len(message.tool_calls) :]
            self.round = None
        self.transcript.truncate(len(self.transcript) - 1)

    def take_output(self, message: AssistantMessage) -> bool:
        """Read the answer as what it is to be; ask for another if it is none.

        :raises OutputInvalid: it was asked often enough.
        """
        if self.output is None:
            return True
        try:
            self.value = self.output.read(message.text)
        except ShapeError as error:
            self._attempts += 1
            if self._attempts > self.output.repairs:
                raise self.output.invalid(
                    message.text, self._attempts, error
                ) from error
            said = self.output.complaint(error)
        else:
            return True
        self.transcript.append(UserMessage.of(said))
        return False

    def spend_on_answer(self) -> None:
        """Add what an answer has used that did not come to its end."""
        if self.answer is not None and self.claim.phase not in _UNHEARD:
            self.meter.spend(self.answer.usage)

    def warn(self) -> None:
        """Tell the model, once, that it is near the end."""
        warning = self.meter.warning()
        if warning:
            self.transcript.append(UserMessage.of(warning))
