"""The agent: a model, tools and a conversation, and a blocking loop that stops."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final
from uuid import uuid4

import msgspec

from .agent_settings import (
    Cancel,
    Prompt,
    check_busy,
    check_settings,
    check_words,
    compose,
    tools_by_name,
    user_message,
)
from .cancel import (
    CancelMode,
    CancelSignal,
    CancelToken,
    Receipt,
    RunClaim,
    RunSlot,
)
from .cancel_policy import CancelPolicy
from .driver import Approve, Authenticate, GivenAnswers, Handlers
from .exceptions import (
    AgentBusy,
    ConfigurationError,
    InterruptPending,
    Origin,
)
from .hooks import HookSet
from .interrupts import AuthRequest, Interrupt
from .limits import Limits
from .messages import Message, UserMessage
from .models.model import Model
from .models.names import find_model
from .output import Output
from .pause import Pause
from .queueing import Line, OnBusy, wait_for_turn
from .result import RunResult
from .run import Ask, Run, Setup, State
from .run_stream import RunEnd, RunStream, exhaust
from .sub_agents import agent_as_tool
from .tools.tool import AnyTool
from .transcript import Transcript

__all__ = ["Agent"]

_NO_POLICY: Final = CancelPolicy()
_NO_LIMITS: Final = Limits()
#: How often a cancel looks, as a pause may become a run at the very moment.
_LOOKS: Final = 3


class Agent:
    """A model, tools and a conversation.

    Making one costs microseconds: make one for each request, conversation or thread. It
    has one run at a time, on the thread that calls :meth:`run` or iterates over
    :meth:`stream`; :meth:`cancel` ends that from any thread.

    :param model: a model, or the name of one, such as ``"openai:gpt-5"``.
    :param tools: functions, :class:`~syncagent.tools.tool.Tool` objects, other agents.
    :param system: what the model is told about its task.
    :param name: what it is called where it is a tool of another agent.
    :param messages: a conversation to go on with; it is repaired if need be.
    :param limits: how much each run may take.
    :param cancel_policy: what a cancelled run leaves in the conversation.
    :param hooks: objects that look on, and may interfere; see :mod:`syncagent.hooks`.
    :param parallel_tools: how many tools may run at once.
    :param approve: answers whether a tool may be called.
    :param authenticate: gives the credentials that a tool asks for.
    :param ask: answers what a tool asks the user. All three are called on a thread of
        their own, as a cancel must not wait for a person; with a second parameter they
        are given the run's token, and can end by themselves.
    :param on_busy: what a second run does while one is live.
    :raises ConfigurationError: something of it cannot work; the message says what.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        tools: Iterable[Any] = (),
        system: str | None = None,
        name: str | None = None,
        messages: Iterable[Message] = (),
        limits: Limits = _NO_LIMITS,
        cancel_policy: CancelPolicy = _NO_POLICY,
        hooks: Sequence[object] = (),
        parallel_tools: int = 1,
        approve: Approve | None = None,
        authenticate: Authenticate | None = None,
        ask: Ask | None = None,
        on_busy: OnBusy = "raise",
    ) -> None:
        model = find_model(model) if isinstance(model, str) else model
        check_settings(model, limits, cancel_policy, parallel_tools, on_busy)
        handlers = {"approve": approve, "authenticate": authenticate, "ask": ask}
        check_words(system, name, messages, **handlers)
        options = model.options
        if system is not None:
            options = msgspec.structs.replace(options, system=system)
        self._setup = Setup(
            *(model, tools_by_name(tools), options, limits, cancel_policy),
            *(HookSet(hooks), parallel_tools, ask),
        )
        self.name = name
        self._handlers = Handlers(approve, authenticate)
        self._on_busy: OnBusy = on_busy
        self._transcript = Transcript(messages)
        self._transcript.repair()
        self._set_up()

    def _set_up(self) -> None:
        self._slot = RunSlot()
        self._line = Line()
        self._pause: Pause | None = None
        #: Weak: a run is live for as long as somebody drives it, or still may.
        self._run: weakref.ref[Run] | None = None
        self._failure = ""

    # -- running -------------------------------------------------------------------

    def run(
        self,
        prompt: Prompt,
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        on_busy: OnBusy | None = None,
    ) -> RunResult:
        """Say something to the model, and return what comes of it.

        Cancellation: ends at once, wherever it waits; the result says so.

        :param prompt: what the user says.
        :param timeout: seconds after which it is cancelled, with origin ``deadline``.
        :param cancel: what else cancels it, an event or a token of yours; it is never
            cleared. One that is set already ends the run before any request is made.
        :param output: the type that the answer is to be of.
        :param on_busy: in place of the agent's own.
        :raises AgentBusy: there is a live run.
        :raises InterruptPending: the agent waits for answers.
        :raises SyncAgentError: there is no answer; the conversation is valid.
        """
        return exhaust(
            lambda: self.stream(
                prompt, timeout=timeout, cancel=cancel, output=output, on_busy=on_busy
            )
        )

    def stream(
        self,
        prompt: Prompt,
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        on_busy: OnBusy | None = None,
    ) -> RunStream:
        """Say something to the model, and return what happens, as it happens.

        Cancellation: ends at once, wherever it waits; the last event says so.

        Parameters and errors are those of :meth:`run`; errors of the model come where
        the next event would.
        """
        said = user_message(prompt)
        return self._begin(said, timeout, cancel, output, on_busy)

    def resume(
        self,
        answers: Mapping[str, Any],
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
    ) -> RunResult:
        """Go on with a run that waits for answers.

        Cancellation: as for :meth:`run`.

        :param answers: by the ids of :attr:`interrupts`: true, false or an
            :class:`~syncagent.interrupts.Approval`; credentials.
        :raises ConfigurationError: nothing waits for them, or one is missing.
        """
        pause = self._pause
        if pause is None or not pause.interrupts:
            raise ConfigurationError(
                "the agent does not wait for answers; ask it something with run()"
            )
        pause.check(answers)
        return exhaust(
            lambda: self._begin(None, timeout, cancel, None, "raise", answers)
        )

    def _begin(
        self,
        said: UserMessage | None,
        timeout: float | None,
        cancel: Cancel | None,
        output: Any,
        on_busy: OnBusy | None,
        answers: Mapping[str, Any] | None = None,
    ) -> RunStream:
        """Claim the agent for a run, and make it."""
        wanted = None if output is None else Output(output)
        token, following = compose(timeout, self._setup.limits.seconds, cancel)
        pause = None if answers is None else self._pause
        claim = RunClaim(token, uuid4().hex if pause is None else pause.run_id)
        try:
            how = self._on_busy if on_busy is None else check_busy(on_busy)
            begun = wait_for_turn(self._slot, self._line, claim, how)
            if not begun:
                if following is not None:
                    following.close()
                return RunStream.never_begun(claim, self.messages)
            run = self._make_run(said, claim, wanted, answers is not None)
            handlers = (
                self._handlers
                if answers is None
                else GivenAnswers(answers, self._handlers)
            )
            end = RunEnd(run, self._keep_pause, self._ended, following)
            return RunStream(end, handlers)
        except BaseException:
            if following is not None:
                following.close()
            # Also if it has just begun, and that is not known here: a signal handler's
            # exception may be held, with this frame, for as long as somebody likes.
            self._slot.end(claim)
            raise

    def _make_run(
        self,
        said: UserMessage | None,
        claim: RunClaim,
        output: Output | None,
        resumes: bool,
    ) -> Run:
        """Make the run; the agent is claimed, and the transcript is ours."""
        pause = self._pause
        claim.phase = "begin"
        transcript = self._transcript
        if resumes:
            if pause is None or not pause.take():
                raise ConfigurationError("the calls were cancelled meanwhile")
            run = Run(claim.run_id, self._setup, transcript, claim, pause.output)
            run.continue_from(pause)
            self._pause = None
        else:
            self._close_pause(pause)
            transcript.repair()
            run = Run(claim.run_id, self._setup, transcript, claim, output)
            assert said is not None
            transcript.append(said)
        self._run, self._failure = weakref.ref(run), ""
        return run

    def _close_pause(self, pause: Pause | None) -> None:
        if pause is None:
            return
        if pause.interrupts:
            ids = ", ".join(asked.id for asked in pause.interrupts)
            raise InterruptPending(
                f"the agent waits for answers to {ids}; give them to resume(), or let "
                "the calls go with cancel()"
            )
        # One that was taken, by a resume() that never began, is repaired.
        for message in pause.leftovers() if pause.is_cancelled else ():
            self._transcript.append(message)
        self._pause = None

    def _keep_pause(self, run: Run) -> None:
        self._pause = Pause(run)

    def _ended(
        self, run: Run, result: RunResult | None, error: BaseException | None
    ) -> None:
        if result is None or result.stop_reason != "interrupt":
            self._pause = None
        if isinstance(error, Exception) and result is None:
            self._failure = repr(error)
        self._run = None
        self._slot.end(run.claim)

    # -- stopping ------------------------------------------------------------------

    def cancel(
        self,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
    ) -> Receipt:
        """End the live run, if there is one.

        Call it from any thread, a signal handler, a tool, a hook, twice: it never
        blocks, takes no lock, runs no user code and logs nothing. An agent that waits
        for answers lets those calls go.

        :param reason: what to say about it.
        :param mode: ``now``; ``after_tools``: an answer ends now, tools that run may
            end first; ``after_turn``: the answer, and the tools that it calls, may.
            A stronger one may follow.
        :param force: do not wait for tools: leave threads behind, kill processes
            without grace. A tool on the run's own thread cannot be left.
        :return: true if and only if a run was live, which is then cancelled; it can be
            waited for.
        :raises TypeError: *reason* or *origin* is not a string; nothing is cancelled.
        :raises ValueError: there is no such origin or mode; nothing is cancelled.
        """
        for _ in range(_LOOKS):
            before = self._pause
            receipt = self._slot.cancel(reason, origin, mode=mode, force=force)
            pause = self._pause
            if receipt or (pause is None and before is None):
                break
            if pause is not None and pause.cancel():
                break
            # Somebody resumes it at this very moment: there is a run to be hit.
        return receipt

    @property
    def cancel_signal(self) -> CancelSignal:
        """The live run's signal, a :class:`threading.Event`; clear when there is none.

        To set it is to cancel that run.
        """
        live = self._slot.live
        return (CancelToken() if live is None else live.token).signal

    # -- looking -------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Is there a live run?"""
        return self._slot.live is not None

    @property
    def state(self) -> State:
        """What it is doing: ``idle``, ``processing``, ``executing_tool``, ..."""
        run = None if self._run is None else self._run()
        if run is not None and self.is_running:
            return run.state[0]
        if self.interrupts:
            is_auth = isinstance(self.interrupts[0], AuthRequest)
            return "waiting_for_auth" if is_auth else "waiting_for_approval"
        return "failed" if self._failure else "idle"

    @property
    def model(self) -> Model:
        """The model."""
        return self._setup.model

    @property
    def system(self) -> str | None:
        """What the model is told about its task."""
        return self._setup.options.system or None

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools."""
        return tuple(self._setup.tools.values())

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation up to now."""
        pause = self._pause
        if pause is not None and pause.is_cancelled:
            return (*self._transcript, *pause.leftovers())
        if self.is_running or self.interrupts:
            return tuple(self._transcript)
        # A signal handler that raised at the very end may have left something open.
        return tuple(self._transcript.repaired())

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """What is to be answered before it can go on."""
        pause = self._pause
        return () if pause is None or self.is_running else pause.interrupts

    # -- more of it ----------------------------------------------------------------

    def fork(self) -> Agent:
        """Return another agent with the same conversation, which goes its own way.

        :raises AgentBusy: there is a live run, whose conversation is half said.
        """
        if self.is_running:
            raise AgentBusy("the agent has a live run; fork it when that has ended")
        other = copy(self)
        other._transcript = self._transcript.copy()
        other._set_up()
        for message in self.messages[len(other._transcript) :]:
            other._transcript.append(message)
        other._transcript.repair()
        return other

    def as_tool(
        self, name: str | None = None, description: str | None = None
    ) -> AnyTool:
        """Return a tool that runs this agent, for another one.

        Each call goes its own way from the conversation as it is then. It is cancelled
        with the run that calls it, whose usage includes what it uses.
        """
        return agent_as_tool(self, name, description)

    def __repr__(self) -> str:
        named = f" {self.name}" if self.name else ""
        return f"<Agent{named}: {self.model!r}, {len(self._transcript)} messages>"
