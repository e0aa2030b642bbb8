"""The state of one run, owned by the thread that drives it."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final, Protocol

import msgspec

from ..cancel import CancelReason, CancelToken, RunClaim
from ..events import MessageFinished, RunEvent, State, StateChanged
from ..exceptions import Cancelled
from ..hooks import stoppable
from ..interrupts import AwaitingInput, Interrupt, RuleBook
from ..messages import AssistantMessage, Text, UserMessage
from ..models.response import NOT_SENT, ModelResponse
from ..schemas import ShapeError
from ..tools.invocation import Invocation
from ..transcript.transcript import Transcript
from ..usage import Usage
from .compacting import Compacting
from .meter import Meter
from .progress import RunProgress, ToolRound
from .setup import Setup
from .tool_services import ToolServices
from .toolbox import Toolset

__all__ = ["Respondent", "Run", "RunKeeper", "RunRecorder"]

#: The id of a call that is safe wherever a key is used.
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Respondent(Protocol):
    """Answers the questions of a run."""

    @property
    def can_ask(self) -> bool:
        """True if a tool can wait for the user's answer."""

    @property
    def pending_inputs(self) -> tuple[UserMessage, ...]:
        """Input that was sent to the run and not taken yet."""

    def show(
        self,
        run: Run,
        questions: tuple[Interrupt, ...],
        token: CancelToken | None = None,
    ) -> tuple[Interrupt, ...]:
        """Open *questions* for answers, and return them as events should show them."""

    def ask(self, run: Run, question: AwaitingInput, token: CancelToken) -> Any:
        """Return the user's answer to a question of a tool."""


class RunRecorder(Protocol):
    """Writes down what a run does."""

    #: Records later runs of the same handle.
    source: Any

    def enter(self, phase: str) -> None:
        """Record that the run enters *phase*."""

    def watch_tool(self, invocation: Invocation, *, is_over: bool) -> None:
        """Record, on the tool's own thread, that a tool begins or has ended."""

    def for_agent(self, call_id: str) -> Any:
        """Return the recorder of a sub-agent."""

    def cancelled(self, cause: CancelReason, phase: str) -> None:
        """Record that the run was cancelled."""

    def end(
        self, result: Any, error: BaseException | None, calls: tuple[Invocation, ...]
    ) -> None:
        """Record how the run ended. Safe to repeat."""


class RunKeeper(Protocol):
    """Keeps a run in a store, so that another process can take it over.

    All methods are called on the thread of the run.
    """

    def begin(self, run: Run, conversation: Any) -> None:
        """Observe *run* of a conversation, before all other observers."""

    def for_agent(self) -> RunKeeper:
        """Return the keeper of a sub-agent, whose tools pass the same gate."""

    def finish(self, result: Any) -> CancelReason | None:
        """Store how the run has ended, or that it waits for answers.

        :return: why it is cancelled after all; ``None`` if *result* counts.
        """

    def fail(self, error: BaseException) -> CancelReason | None:
        """Store that the run has ended with *error*; as for :meth:`finish`."""


class _Uncommitted:
    """A complete message not yet committed to the transcript."""

    __slots__ = ("calls", "index", "is_charged", "message", "usage")

    def __init__(
        self,
        message: AssistantMessage,
        calls: list[Invocation],
        usage: Usage,
        index: int,
    ) -> None:
        self.message = message
        self.calls = calls
        self.usage = usage
        self.is_charged = False
        #: Its place in the transcript.
        self.index = index


class Run:
    """One run: the one mutable object of the loop.

    It belongs to the thread that drives the run. Other threads only read ``id``,
    ``state`` and ``claim``.

    :param respondent: answers the questions of the run.
    :param rules: answers that the user asked to remember.
    :param credentials: the credentials given so far, by provider.
    :param progress: how far the run is; not empty for a resumed run.
    :param accepts_input: whether input may be sent between two turns.
    """

    def __init__(
        self,
        setup: Setup,
        transcript: Transcript,
        claim: RunClaim,
        respondent: Respondent,
        rules: RuleBook,
        credentials: dict[str, Any],
        progress: RunProgress,
        *,
        accepts_input: bool = False,
    ) -> None:
        self.id: Final = claim.run_id
        self.setup = setup
        self.transcript = transcript
        self.claim = claim
        self.respondent = respondent
        self.rules = rules
        self.credentials = credentials
        self.progress: Final = progress
        deps = progress.given.deps
        #: The caller's own data. It must not get into anything that is written.
        self.deps: Final = setup.deps if deps is None else deps
        self.metadata: Final = progress.given.metadata
        self.accepts_input = accepts_input
        #: May another thread take the run over when the background is requested?
        self.can_move = False
        #: Does a request for the background have any effect?
        self.is_backgroundable = False
        #: Does it show the events of its sub-agents?
        self.shows_agents = setup.sub_agent_events
        #: Called with every event, on the thread of the run. They hold the claim and
        #: not the run, which holds them: that would be a cycle.
        self.on_event: tuple[Callable[[Any], object], ...] = tuple(
            stoppable(hook, claim.stop) for hook in setup.hooks.on_event
        )
        self.recording: RunRecorder | None = None
        self.keeper: RunKeeper | None = None
        #: The final answer, of the type that the caller asked for.
        self.value: Any = None
        #: Compacts the conversation, if the agent is told to.
        self.compacting: Compacting | None = None
        if setup.compaction is not None:
            self.compacting = Compacting(setup.compaction)
        #: The response that is being streamed.
        self.response: ModelResponse | None = None
        self._uncommitted: _Uncommitted | None = None
        #: The response whose usage was added although it was cut off.
        self._charged: ModelResponse | None = None
        #: True if the last message has blocks without content: a repair drops them.
        self.has_empty_blocks = False
        self._state: tuple[State, str, str] = ("processing", "", "")
        self._output_attempts = 0
        self.services: Final = ToolServices(self)

    @property
    def token(self) -> CancelToken:
        """The token that cancels the run."""
        return self.claim.token

    @property
    def meter(self) -> Meter:
        """The usage of the run, and what its limits leave."""
        return self.progress.meter

    @property
    def open_round(self) -> ToolRound | None:
        """The tool calls that have no results in the transcript yet."""
        return self.progress.open_round

    @property
    def is_here(self) -> bool:
        """True on the thread that drives the run."""
        return self.services.thread == get_ident()

    def raise_if_cancel_due(self, point: str) -> None:
        """Raise if the run is cancelled, or a deferred cancel falls due here.

        :param point: ``after_tools`` or ``after_turn``. A turn is over only when its
            tools are, so ``after_turn`` also takes cancels that wait for the tools.
        :raises Cancelled: the run is cancelled.
        """
        if point == "after_turn":
            self.claim.raise_if_cancel_due("after_turn", "after_tools")
        else:
            self.claim.raise_if_cancel_due("after_tools")

    def enter(self, phase: str) -> None:
        """Set the phase, for receipts and recordings."""
        self.claim.phase = phase
        if self.recording is not None:
            self.recording.enter(phase)

    @property
    def state(self) -> tuple[State, str, str]:
        """The state, and the tool and call that it is about."""
        return self.services.waits_for or self._state

    def change_state(
        self, state: State, tool: str = "", call_id: str = ""
    ) -> list[RunEvent]:
        """Set the state; return the event to yield, or nothing if it is the same."""
        if self._state == (state, tool, call_id):
            return []
        self._state = (state, tool, call_id)
        return [StateChanged(state, tool, call_id)]

    # -- asking for tools, and the model -------------------------------------------

    @property
    def toolset(self) -> Toolset:
        """The tools of the turn."""
        return self.progress.toolset or self.setup.toolbox.own

    def find_tools(self) -> None:
        """Ask the sources of tools which tools they have now.

        Cancellation: ends at once, if the sources do.

        :raises ToolSourceFailed: one of them cannot say.
        """
        toolbox, deferred = self.setup.toolbox, self.claim.deferred
        if not toolbox.sources:
            return
        self.enter("tools")
        try:
            token = deferred.operation_token(self.token)
            token.checkpoint()
            self.progress.toolset = toolbox.ask_sources(token)
            token.checkpoint()
        except Cancelled:
            # A cancel "after_tools" has ended only the question: raise it for the run.
            self.raise_if_cancel_due("after_tools")
            raise
        finally:
            deferred.operation_ended()

    def send_request(self) -> ModelResponse:
        """Ask the model for the next message.

        Cancellation: iterating over the response ends at once.
        """
        setup = self.setup
        self.transcript.repair()
        self.enter("model")
        self.meter.turns += 1
        self.progress.text = ""
        options, specs = setup.options, self.toolset.specs
        if specs or len(self.transcript) > 1:
            options = setup.cached_options
        output = self.progress.output
        if output is not None and output.format is not None:
            options = msgspec.structs.replace(options, output=output.format)
        self.response = self.meter.model.ask(
            self.transcript,
            specs,
            token=self.claim.deferred.operation_token(self.token),
            options=options,
            timeouts=setup.timeouts,
            on_phase=self.enter,
        )
        return self.response

    def accept(self, finished: MessageFinished) -> None:
        """Take a complete message: charge it, and commit it to the transcript."""
        message = finished.message
        if self.compacting is not None:
            self.compacting.calibrate(self, finished)
        key = f"{self.id}:{self.meter.turns}"  # some models repeat the ids of calls
        calls: list[Invocation] = []
        for number, call in enumerate(message.tool_calls, 1):
            # The key may go into a header: an odd id is replaced by a number.
            is_plain = _PLAIN_ID.fullmatch(call.call_id)
            name = call.call_id if is_plain else f"no.{number}"
            calls.append(Invocation(call, f"{key}:{name}"))
        self._uncommitted = _Uncommitted(
            message, calls, finished.usage, len(self.transcript)
        )
        self.commit()

    def commit(self) -> None:
        """Commit the accepted message, or the rest of it.

        Safe to repeat: a signal handler may have raised in the middle.
        """
        accepted = self._uncommitted
        if accepted is None:
            return
        if not accepted.is_charged:
            accepted.is_charged = True
            self.meter.spend(accepted.usage)
        if len(self.transcript) == accepted.index:
            self.transcript.append(accepted.message)
        self.response = None
        progress, message = self.progress, accepted.message
        progress.text = message.text
        progress.last_stop = (message.raw_stop_reason, message.stop_detail)
        self.has_empty_blocks = not message.content or any(
            isinstance(block, Text) and not block.text.strip()
            for block in message.content
        )
        if accepted.calls:
            if progress.invocations[-len(accepted.calls) :] != accepted.calls:
                progress.invocations += accepted.calls
            progress.open_round = ToolRound(accepted.calls)
        self._uncommitted = None

    def discard(self, message: AssistantMessage) -> None:
        """Take *message* out of the transcript: a hook asked for another one."""
        progress = self.progress
        if progress.open_round is not None:
            count = len(progress.invocations) - len(message.tool_calls)
            del progress.invocations[count:]
            progress.open_round = None
        self.transcript.truncate(len(self.transcript) - 1)

    def read_output(self, message: AssistantMessage) -> bool:
        """Read the final answer as the type that the caller asked for.

        :return: false if it does not fit; the model is then told why, and asked again.
        :raises OutputInvalid: the model had its last attempt.
        """
        output = self.progress.output
        if output is None:
            return True
        try:
            self.value = output.read(message.text)
        except ShapeError as error:
            self._output_attempts += 1
            attempts = self._output_attempts
            if attempts > output.repairs:
                raise output.invalid(message.text, attempts, error) from error
            self.transcript.append(UserMessage.of(output.complaint(error)))
            return False
        return True

    def charge_partial_response(self) -> None:
        """Add the usage of a response that was cut off. Safe to repeat."""
        response = self.response
        if response is None or response is self._charged:
            return
        if self.claim.phase not in NOT_SENT:
            self._charged = response
            self.meter.spend(response.usage)

    def stop_at_budget(self) -> None:
        """Take back a request that the budget did not allow, and note the limit."""
        self.response, self.meter.limit = None, "budget"
        self.meter.turns -= 1
        if len(self.transcript) > self.progress.start:
            self.progress.text = Transcript(
                self.transcript[self.progress.start :]
            ).last_text

    def warn_near_limit(self) -> None:
        """Tell the model, once, that the run is near one of its limits."""
        warning = self.meter.warning()
        if warning:
            self.transcript.append(UserMessage.of(warning))
