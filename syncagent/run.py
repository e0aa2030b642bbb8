"""One run, and what its agent is made of."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from .cancel import CancelToken, RunClaim
from .cancel_policy import CancelPolicy
from .events import MessageFinished, RunEvent, StateChanged, ToolProgress
from .exceptions import OutputInvalid, SyncAgentError
from .hooks import HookSet
from .interrupts import Interrupt
from .limits import LimitName, Limits
from .messages import AssistantMessage, ToolMessage, UserMessage
from .models.answer import Answer
from .models.model import Model
from .options import Options, ToolSpec
from .output import Output
from .shapes import ShapeError
from .timeouts import Timeouts
from .tools.context import ToolContext
from .tools.handlers import ask_handler
from .tools.invocation import Host, Invocation
from .tools.tool import Tool
from .transcript import Transcript
from .usage import Usage

__all__ = ["Ask", "Run", "Setup", "State", "ToolRound"]

#: What a run is doing, for those who look on.
State = Literal[
    "idle",
    "processing",
    "waiting_for_approval",
    "waiting_for_auth",
    "waiting_for_input",
    "executing_tool",
    "waiting_for_agent",
    "done",
    "failed",
]

#: Answers what a tool asks the user; it may take the token as a second argument.
Ask = Callable[[str], str] | Callable[[str, CancelToken], str]

#: How often a model may try to say its answer in the form that was asked for.
_ATTEMPTS: Final = 3
#: Phases in which the provider has not heard of the request yet.
_UNHEARD: Final = frozenset({"", "begin", "model", "resolve", "connect", "handshake"})


class Setup:
    """What an agent is made of; any number of its runs and forks share it."""

    def __init__(
        self,
        model: Model,
        tools: Mapping[str, Tool],
        options: Options,
        limits: Limits,
        policy: CancelPolicy,
        hooks: HookSet,
        width: int,
        ask: Ask | None,
    ) -> None:
        self.model = model
        self.tools = tools
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in tools.values())
        self.options = options
        self.limits = limits
        self.policy = policy
        self.hooks = hooks
        self.width = width
        self.ask = ask
        self.timeouts = _timeouts(model, limits)


def _timeouts(model: Model, limits: Limits) -> Timeouts | None:
    """Return the model's own timeouts, as far as limits do not say otherwise."""
    changed: dict[str, float] = {}
    if limits.first_token_seconds is not None:
        changed["headers"] = changed["first_event"] = limits.first_token_seconds
    if limits.stall_seconds is not None:
        changed["stall"] = limits.stall_seconds
    return msgspec.structs.replace(model.timeouts, **changed) if changed else None


class ToolRound:
    """All tool calls of one turn."""

    def __init__(self, invocations: list[Invocation]) -> None:
        self.invocations = invocations
        #: What is asked before any of them runs.
        self.questions: tuple[Interrupt, ...] = ()
        self.is_waiting = False

    def message(self) -> ToolMessage:
        """Return the results, also of those calls that were never made."""
        return ToolMessage(tuple(call.result for call in self.invocations))


class Run:
    """One run: all about it that changes. It belongs to the thread that drives it.

    :param output: what the answer is to be.
    """

    def __init__(
        self,
        run_id: str,
        setup: Setup,
        transcript: Transcript,
        claim: RunClaim,
        output: Output | None = None,
    ) -> None:
        self.id = run_id
        self.setup = setup
        self.transcript = transcript
        self.claim = claim
        self.output = output
        self.value: Any = None
        #: What the user has said before, and nobody has answered: it is joined with
        #: what is said now.
        last = transcript[-1] if transcript else None
        self.unanswered = last if isinstance(last, UserMessage) else None
        #: The length of the transcript when it began, without that.
        self.start = len(transcript) - (self.unanswered is not None)
        self.turns = 0
        self.tool_calls = 0
        self.limit: LimitName | None = None
        self.text = ""
        #: The answer that is coming, and the tools that are called.
        self.answer: Answer | None = None
        self.round: ToolRound | None = None
        self.invocations: list[Invocation] = []
        #: What was used, with its cost; sub-agents add theirs from their own threads.
        self._spent: list[tuple[Usage, float | None]] = []
        self.state: tuple[State, str, str] = ("processing", "", "")
        #: Progress that hooks have been shown before it could be passed on.
        self.early: deque[ToolProgress] = deque()
        self.emit: Callable[[Invocation, Any], ToolProgress] | None = None
        self._has_warned = False
        self._attempts = 0
        self._thread = threading.get_ident()
        self.host: Final = Host(
            run_id,
            claim.forced,
            emit=self._take_progress,
            ask=None if setup.ask is None else self._ask_user,
            run_agent=self._run_agent,
        )

    @property
    def token(self) -> CancelToken:
        """What it is cancelled by."""
        return self.claim.token

    def has_calls(self) -> bool:
        """Has the model called tools that have no results yet?"""
        return self.round is not None

    def enter(self, phase: str) -> None:
        """Note what it is doing, for receipts."""
        self.claim.phase = phase

    def change_state(
        self, state: State, tool: str = "", call_id: str = ""
    ) -> list[RunEvent]:
        """Note what it is doing, for those who look on; return the event, if new."""
        if self.state == (state, tool, call_id):
            return []
        self.state = (state, tool, call_id)
        return [StateChanged(state, tool, call_id)]

    def continue_round(self, round: ToolRound, text: str) -> None:
        """Go on with the tool calls of a run that had to wait for answers."""
        self.round = round
        self.invocations = list(round.invocations)
        self.text = text

    # -- asking the model ----------------------------------------------------------

    def ask(self) -> Answer:
        """Ask the model for the next message."""
        setup = self.setup
        self.transcript.repair()
        self.enter("model")
        self.turns += 1
        self.text = ""
        options = setup.options
        if self.output is not None:
            options = msgspec.structs.replace(options, output=self.output.format)
        self.answer = setup.model.ask(
            self.transcript,
            setup.specs,
            token=self.claim.later.answering(self.token),
            options=options,
            timeouts=setup.timeouts,
            on_phase=self.enter,
        )
        return self.answer

    def hear(self, finished: MessageFinished) -> AssistantMessage:
        """Take in a message that is complete."""
        message = finished.message
        self.spend(finished.usage)
        self.transcript.append(message)
        self.answer = None
        self.text = message.text
        calls = message.tool_calls
        if calls:
            key = f"{self.id}:{self.turns}"  # some models use an id again
            made = [Invocation(call, f"{key}:{call.call_id}") for call in calls]
            self.round = ToolRound(made)
            self.invocations += made
        return message

    def forget(self, message: AssistantMessage) -> None:
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
            if self._attempts == _ATTEMPTS:
                raise OutputInvalid(
                    f"the model did not answer with {self.output.type!r} in "
                    f"{_ATTEMPTS} attempts; the last one is wrong {error}"
                ) from error
            said = f"Your answer does not have the form that was asked for: {error}"
        else:
            return True
        self.transcript.append(UserMessage.of(said))
        return False

    # -- what it has used ----------------------------------------------------------

    def spend(self, usage: Usage) -> None:
        """Add what an answer of the model has used."""
        self._spent.append((usage, self.setup.model.cost(usage)))

    def spend_on_answer(self) -> None:
        """Add what an answer has used that did not come to its end."""
        if self.answer is not None and self.claim.phase not in _UNHEARD:
            self.spend(self.answer.usage)

    @property
    def usage(self) -> Usage:
        """All that was used up to now."""
        total = Usage()
        for usage, _ in self._spent:
            total += usage
        return total

    @property
    def cost(self) -> float | None:
        """The same in US dollars, as far as prices are known."""
        known = [cost for _, cost in self._spent if cost is not None]
        return sum(known) if known else None

    # -- limits --------------------------------------------------------------------

    def limit_reached(self) -> LimitName | None:
        """Return the limit that keeps it from asking the model again."""
        if self.limit is None:
            for name, (used, limit) in self._used().items():
                if used >= limit:
                    self.limit = name
        return self.limit

    def _used(self) -> dict[LimitName, tuple[float, float]]:
        """Return how much of each limit is used up; not of those that are none."""
        limits = self.setup.limits
        used: dict[LimitName, tuple[float, float]] = {}
        if limits.turns is not None:
            used["turns"] = (self.turns, limits.turns)
        if limits.tokens is not None:
            used["tokens"] = (self.usage.total_tokens, limits.tokens)
        if limits.cost is not None:
            used["cost"] = (self.cost or 0.0, limits.cost)
        return used

    def warn(self) -> None:
        """Tell the model, once, that it is near the end."""
        limits = self.setup.limits
        if limits.warn_at is None or self._has_warned or not self.turns:
            return
        used = self._used()
        if limits.tool_calls is not None:
            used["tool_calls"] = (self.tool_calls, limits.tool_calls)
        for name, (part, limit) in used.items():
            if part >= limit * limits.warn_at:
                self._has_warned = True
                self.transcript.append(
                    UserMessage.of(
                        f"<system>You have used {part:g} of {limit:g} "
                        f"{name.replace('_', ' ')}. Finish with what you have.</system>"
                    )
                )
                return

    # -- what tools are lent -------------------------------------------------------

    def _take_progress(self, invocation: Invocation, value: Any) -> None:
        if self.emit is None:
            return
        event = self.emit(invocation, value)
        hooks = self.setup.hooks.on_event
        if hooks and threading.get_ident() == self._thread:
            self.early.append(event)
            for hook in hooks:
                hook(event)

    def _ask_user(self, context: ToolContext, question: str) -> str:
        ask = self.setup.ask
        assert ask is not None
        before, self.state = self.state, ("waiting_for_input", "", context.call_id)
        phase, self.claim.phase = self.claim.phase, "input"
        try:
            answer = ask_handler("ask", self.id, ask, question, context.token)
        finally:
            if not self.token.cancelled:  # else that is what it was doing then
                self.state, self.claim.phase = before, phase
        return str(answer)

    def _run_agent(
        self, context: ToolContext, agent: Any, prompt: Any, settings: dict[str, Any]
    ) -> Any:
        before, self.state = self.state, ("waiting_for_agent", "", context.call_id)
        try:
            result = agent.run(prompt, cancel=context.token, **settings)
        except SyncAgentError as error:
            if isinstance(error.usage, Usage):
                self._spent.append((error.usage, agent.model.cost(error.usage)))
            raise
        finally:
            self.state = before
        self._spent.append((result.usage, result.cost))
        context.checkpoint()
        return result
