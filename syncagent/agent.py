"""The agent: a model, tools and a conversation, and runs that stop at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, overload

from ._deps import Deps
from ._short import counted
from .asking.answering import Answering, Approve, Ask, Authenticate, Handlers
from .background.handle import Handle
from .background.starting import move_to_background, run_releasable, start_handle
from .background.subscriptions import SIZE
from .cancel import CancelMode, CancelSignal, CancelToken, Receipt
from .compaction.steps import Compaction, Compactor
from .conversation.claimed import ClaimFolder, restore_claimed
from .conversation.conversation import Background, Conversation
from .conversation.live_run import run_to_end
from .conversation.one_call import CancelsCalls
from .conversation.pause import Resumable
from .conversation.queue import OnBusy, busy_error, check_busy
from .conversation.request import Cancel, RunRequest
from .conversation.run_stream import RunStream
from .conversation.saved import save
from .driver import Driver
from .events import State, StreamEvent
from .exceptions import ConfigurationError, Origin
from .interrupts import Interrupt, Rule, RuleBook
from .messages import Message, Prompt
from .models.limiter import Limiter
from .models.model import Model
from .models.names import explain_settings, find_model
from .policies import CancelPolicy, Limits
from .recording import Record
from .result import RunResult
from .run.budget import Budget
from .run.given import Given, RunOptions
from .run.setup import Setup
from .tools.agent_tool import agent_as_tool
from .tools.settings import NeedsApproval, ToolDefaults
from .tools.tool import AnyTool
from .transcript.markdown import conversation_markdown
from .transcript.transcript import Transcript
from .usage import Usage

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._arguments import (
        AgentArguments,
        DriveArguments,
        InsideArguments,
        ResumeArguments,
        RunArguments,
        StartArguments,
        StreamArguments,
        ToolArguments,
    )

__all__ = ["Agent"]

_NO_POLICY: Final = CancelPolicy()
_NO_LIMITS: Final = Limits()
_NO_DEFAULTS: Final = ToolDefaults()

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., None])
_Answers = Mapping[str, Any] | None


def _explained(init: _F) -> _F:
    """Have an error about a setting of the model say where that belongs."""
    known = init.__code__.co_varnames[: 2 + init.__code__.co_kwonlyargcount]

    @wraps(init)
    def wrapper(self: Agent[Any], *args: Any, **settings: Any) -> None:
        try:
            init(self, *args, **settings)
        except TypeError:
            unknown = [name for name in settings if name not in known]
            model = args[0] if args else settings.get("model", "")
            text = explain_settings(model, unknown)
            if text:
                raise TypeError(text) from None
            raise

    return cast("_F", wrapper)


class Agent(CancelsCalls, Generic[Deps]):
    """A model, tools and a conversation.

    Making one costs microseconds: make one for each request, conversation or thread. It
    has one run at a time, on the thread that calls :meth:`run` or iterates over
    :meth:`stream`; :meth:`cancel` ends that run from any thread.

    :param model: a model, or the name of one, such as ``"openai:gpt-6-luna"``.
    :param tools: functions, :class:`~syncagent.tools.tool.Tool` objects, other agents,
        and sources of tools (:class:`~syncagent.tools.source.ToolSource`).
    :param system: the system prompt.
    :param name: its name where it is a tool of another agent.
    :param messages: a conversation to continue; it is repaired if need be.
    :param limits: how much each run may use.
    :param cancel_policy: what a cancelled run leaves in the conversation.
    :param hooks: objects that watch and may change a run; see :mod:`syncagent.hooks`.
    :param parallel_tools: how many tools may run at once.
    :param tool_defaults: settings for those tools that say nothing themselves.
    :param approve: answers whether a tool may be called.
    :param authenticate: returns the credentials that a tool needs.
    :param ask: answers the questions of a tool. All three run on threads of their own,
        so that a cancel waits for no person; a second parameter gets the run's token.
    :param answer_timeout: seconds that each of them has.
    :param requires_approval: true if every tool needs an approval, or a function of the
        arguments and the context that decides; beside what the tools say themselves.
    :param rules: approvals that were remembered.
    :param on_busy: what a second run does while one is live.
    :param deps: data of yours for the tools of runs that are given none. The class is
        generic: ``Agent[Tenant]`` takes a ``Tenant``.
    :param limiter: has requests wait until the provider will accept them, in place of
        the model's own.
    :param budget: how much all runs that share it may use.
    :param sub_agent_events: show the events of sub-agents, too, in
        :class:`~syncagent.events.SubAgentEvent`.
    :param compaction: a step, or a list of steps, that shorten a conversation before it
        fills the model's context window, such as ``[ClearResults(), Summarize()]``; or
        a :class:`~syncagent.compaction.Compaction`.
    :raises ConfigurationError: a setting cannot work; the message says which.
    """

    @_explained
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
        tool_defaults: ToolDefaults = _NO_DEFAULTS,
        approve: Approve | None = None,
        authenticate: Authenticate | None = None,
        ask: Ask | None = None,
        answer_timeout: float | None = None,
        requires_approval: NeedsApproval = False,
        rules: Iterable[Rule] = (),
        on_busy: OnBusy = "raise",
        deps: Deps | None = None,
        sub_agent_events: bool = False,
        compaction: Compaction | Compactor | Sequence[Compactor] | None = None,
        limiter: Limiter | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._setup = Setup(
            find_model(model) if isinstance(model, str) else model,
            tools,
            system=system,
            limits=limits,
            cancel_policy=cancel_policy,
            hooks=hooks,
            parallel_tools=parallel_tools,
            tool_defaults=tool_defaults,
            requires_approval=requires_approval,
            deps=deps,
            sub_agent_events=sub_agent_events,
            compaction=compaction,
            limiter=limiter,
            budget=budget,
        )
        handlers = Handlers(approve, authenticate, ask, answer_timeout)
        if name is not None and not isinstance(name, str):
            raise ConfigurationError(f"name must be a string; got {name!r:.80}")
        #: Its name where it is a tool of another agent.
        self.name = name
        transcript = Transcript(messages)
        transcript.repair()
        self._conversation = Conversation(
            *(self._setup, handlers, check_busy(on_busy)),
            *(transcript, RuleBook(rules), move_to_background),
        )

    # -- running -------------------------------------------------------------------

    @overload
    def run(
        self,
        prompt: Prompt,
        *,
        output: type[_T],
        **settings: Unpack[RunArguments[Deps]],
    ) -> RunResult[_T]: ...

    @overload
    def run(
        self,
        prompt: Prompt,
        *,
        output: None = None,
        **settings: Unpack[RunArguments[Deps]],
    ) -> RunResult[None]: ...

    @overload
    def run(
        self, prompt: Prompt, *, output: object, **settings: Unpack[RunArguments[Deps]]
    ) -> RunResult[Any]: ...

    def run(
        self,
        prompt: Prompt,
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        on_busy: OnBusy | None = None,
        backgroundable: bool = False,
        record: Record | None = None,
        deps: Deps | None = None,
        options: RunOptions | None = None,
        tools: Iterable[Any] = (),
        metadata: Mapping[str, Any] | None = None,
        limiter: Limiter | None = None,
        budget: Budget | None = None,
        run_id: str | None = None,
    ) -> RunResult[Any]:
        """Run until the model is done, and return the result.

        Cancellation: ends at once, wherever it waits; the result says so.

        :param prompt: the user's message.
        :param timeout: seconds after which it is cancelled, with origin ``deadline``.
        :param cancel: an event or a token of yours that also cancels it; it is never
            cleared. If it is set already, the run ends before any request is made.
        :param output: the type of the final answer.
        :param on_busy: in place of the agent's own.
        :param backgroundable: drive it on a thread of its own, so that
            :meth:`background` releases the caller at once, from any wait.
        :param record: a path, or an open file, to which everything that happens is
            written for ``syncagent timeline``, with prompts, arguments and results.
        :param deps: data of yours for tools, hooks and handlers, in place of the
            agent's: ``ctx.deps``. No model and no saved state sees them.
        :param options: of :class:`~syncagent.options.Options`, in place of the model's.
        :param tools: more tools for this run.
        :param metadata: JSON values about the run, kept with it in results, states and
            recordings.
        :param limiter: in place of the agent's or the model's.
        :param budget: in place of the agent's.
        :param run_id: the id of the run, with which idempotency keys begin; by default
            a random one.
        :raises AgentBusy: a run is live.
        :raises InterruptPending: the agent waits for answers.
        :raises SyncAgentError: there is no result; the conversation is valid.
        """
        request = RunRequest.new(
            *(prompt, timeout, cancel, output, record, run_id, on_busy),
            self._given(deps, options, tools, metadata, None, limiter, budget),
        )
        if backgroundable:
            return run_releasable(self._conversation, request)
        return run_to_end(self._conversation, request)

    @overload
    def stream(
        self,
        prompt: Prompt,
        *,
        output: type[_T],
        **settings: Unpack[StreamArguments[Deps]],
    ) -> RunStream[_T]: ...

    @overload
    def stream(
        self,
        prompt: Prompt,
        *,
        output: None = None,
        **settings: Unpack[StreamArguments[Deps]],
    ) -> RunStream[None]: ...

    @overload
    def stream(
        self,
        prompt: Prompt,
        *,
        output: object,
        **settings: Unpack[StreamArguments[Deps]],
    ) -> RunStream[Any]: ...

    def stream(
        self,
        prompt: Prompt,
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        on_busy: OnBusy | None = None,
        record: Record | None = None,
        deps: Deps | None = None,
        options: RunOptions | None = None,
        tools: Iterable[Any] = (),
        metadata: Mapping[str, Any] | None = None,
        limiter: Limiter | None = None,
        budget: Budget | None = None,
        run_id: str | None = None,
    ) -> RunStream[Any]:
        """Run, and return the events as they happen.

        Cancellation: ends at once, wherever it waits; the last event says so.

        Parameters and errors are those of :meth:`run`; errors of the model are raised
        where the next event would come.
        """
        request = RunRequest.new(
            *(prompt, timeout, cancel, output, record, run_id, on_busy),
            self._given(deps, options, tools, metadata, None, limiter, budget),
        )
        return self._conversation.begin(request)

    def run_inside(
        self,
        outer: Answering,
        observer: Callable[[StreamEvent], object],
        prompt: Prompt,
        **settings: Unpack[InsideArguments],
    ) -> RunResult:
        """Run as a part of another run: ``ctx.agent()`` calls this.

        Cancellation: as for :meth:`run`.

        :param observer: called with every event.
        :param settings: see ``RunRequest.inside()``.
        """
        request = RunRequest.inside(self._setup, outer, prompt, **settings)
        return run_to_end(self._conversation, request, observer)

    def _given(
        self,
        deps: Deps | None,
        options: RunOptions | None,
        tools: Iterable[Any],
        metadata: Mapping[str, Any] | None,
        resumed: Resumable | None = None,
        limiter: Limiter | None = None,
        budget: Budget | None = None,
    ) -> Given | None:
        before = None if resumed is None else resumed.progress.given
        return Given.of(
            *(self._setup, deps, options, tools, metadata, before, limiter, budget)
        )

    @overload
    def resume(
        self,
        answers: _Answers = None,
        *,
        output: type[_T],
        **settings: Unpack[ResumeArguments[Deps]],
    ) -> RunResult[_T]: ...

    @overload
    def resume(
        self,
        answers: _Answers = None,
        *,
        output: object = None,
        **settings: Unpack[ResumeArguments[Deps]],
    ) -> RunResult[Any]: ...

    def resume(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        record: Record | None = None,
        deps: Deps | None = None,
        options: RunOptions | None = None,
        tools: Iterable[Any] = (),
        metadata: Mapping[str, Any] | None = None,
        limiter: Limiter | None = None,
        budget: Budget | None = None,
    ) -> RunResult[Any]:
        """Resume a run that waits for answers, or that was cut short.

        Cancellation: as for :meth:`run`.

        :param answers: by the ids of :attr:`interrupts`: true, false or an
            :class:`~syncagent.interrupts.Approval`; credentials; text.
        :param output: the type of the final answer, if the agent was loaded and the run
            was started with one.
        :param record: as for :meth:`run`; an existing file is appended to.
        :param deps: as for :meth:`run`, like the others after it. Each replaces what
            the run had; a loaded run has only its metadata.
        :raises ConfigurationError: there is no such run, or an answer is missing.
        """
        found = self._conversation.find_resumable()
        request = RunRequest.resuming(
            *(found, answers, timeout, cancel, output, record),
            self._given(deps, options, tools, metadata, found, limiter, budget),
        )
        return run_to_end(self._conversation, request)

    @overload
    def resume_stream(
        self,
        answers: _Answers = None,
        *,
        output: type[_T],
        **settings: Unpack[ResumeArguments[Deps]],
    ) -> RunStream[_T]: ...

    @overload
    def resume_stream(
        self,
        answers: _Answers = None,
        *,
        output: object = None,
        **settings: Unpack[ResumeArguments[Deps]],
    ) -> RunStream[Any]: ...

    def resume_stream(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        record: Record | None = None,
        deps: Deps | None = None,
        options: RunOptions | None = None,
        tools: Iterable[Any] = (),
        metadata: Mapping[str, Any] | None = None,
        limiter: Limiter | None = None,
        budget: Budget | None = None,
    ) -> RunStream[Any]:
        """Resume a run as :meth:`resume` does, and return its events.

        Cancellation: as for :meth:`stream`. Parameters are those of :meth:`resume`.
        """
        found = self._conversation.find_resumable()
        request = RunRequest.resuming(
            *(found, answers, timeout, cancel, output, record),
            self._given(deps, options, tools, metadata, found, limiter, budget),
        )
        return self._conversation.begin(request)

    @overload
    def drive(
        self,
        prompt: Prompt | None = None,
        *,
        output: type[_T],
        **settings: Unpack[DriveArguments[Deps]],
    ) -> Driver[_T]: ...

    @overload
    def drive(
        self,
        prompt: Prompt | None = None,
        *,
        output: object = None,
        **settings: Unpack[DriveArguments[Deps]],
    ) -> Driver[Any]: ...

    def drive(
        self,
        prompt: Prompt | None = None,
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        on_event: Callable[[StreamEvent], object] | None = None,
        record: Record | None = None,
        deps: Deps | None = None,
        options: RunOptions | None = None,
        tools: Iterable[Any] = (),
        metadata: Mapping[str, Any] | None = None,
        limiter: Limiter | None = None,
        budget: Budget | None = None,
    ) -> Driver[Any]:
        """Drive runs step by step: ``next()`` runs until a person has to answer.

        Without a prompt it resumes the paused run, or else begins by asking for input.
        *timeout*, *cancel* and *output* are for the first run, *deps* and all after it
        for all of them.

        :param on_event: called with every event of the runs.
        :param record: where all of them are recorded, as for :meth:`run`.
        """
        pause = self._conversation.pause if prompt is None else None
        request = RunRequest.first(
            *(pause, prompt, timeout, cancel, output, record),
            self._given(deps, options, tools, metadata, pause, limiter, budget),
        )
        return Driver(self._conversation, request, on_event)

    @overload
    def start(
        self,
        prompt: Prompt | None = None,
        *,
        output: type[_T],
        **settings: Unpack[StartArguments[Deps]],
    ) -> Handle[_T]: ...

    @overload
    def start(
        self,
        prompt: Prompt | None = None,
        *,
        output: object = None,
        **settings: Unpack[StartArguments[Deps]],
    ) -> Handle[Any]: ...

    def start(
        self,
        prompt: Prompt | None = None,
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        on_busy: OnBusy | None = None,
        keep_alive: bool = False,
        buffer: int = SIZE,
        record: Record | None = None,
        deps: Deps | None = None,
        options: RunOptions | None = None,
        tools: Iterable[Any] = (),
        metadata: Mapping[str, Any] | None = None,
        limiter: Limiter | None = None,
        budget: Budget | None = None,
        run_id: str | None = None,
    ) -> Handle[Any]:
        """Start a run in the background, on a daemon thread of its own.

        Without a prompt it resumes the paused run, or else waits for
        :meth:`Handle.send_input`. *timeout*, *cancel* and *output* are for the first
        run, *deps*, *options*, *tools*, *metadata*, *limiter* and *budget* for all.

        :param keep_alive: wait for more input when there is nothing to do, until
            :meth:`Handle.shutdown`; always true without a first run.
        :param buffer: how many events are kept for subscribers.
        :param record: where all its runs are recorded, as for :meth:`run`.
        :param run_id: the id of its first run, as for :meth:`run`.
        :raises AgentBusy: a run is live.
        """
        pause = self._conversation.pause if prompt is None else None
        request = RunRequest.first(
            *(pause, prompt, timeout, cancel, output, record),
            self._given(deps, options, tools, metadata, pause, limiter, budget),
            run_id,
        )
        return start_handle(
            self._conversation, request, on_busy, keep_alive=keep_alive, size=buffer
        )

    # -- stopping ------------------------------------------------------------------

    def cancel(
        self,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
        background: Background = "keep",
    ) -> Receipt:
        """End the live run, if there is one.

        Call it from any thread, a signal handler, a tool, a hook, twice: it never
        blocks, takes no lock, runs no user code and logs nothing. An agent that waits
        for answers drops the calls that it asked about.

        :param reason: why, for the result and the logs.
        :param mode: ``now``; ``after_tools``: a response ends now, tools that run may
            finish; ``after_turn``: the response and the tools it calls may finish. A
            stronger cancel may follow.
        :param force: do not wait for tools: leave threads behind, kill processes
            without grace. A tool on the run's own thread cannot be left.
        :param background: ``cancel`` also ends a run that was sent to the background,
            and the handles that tools of the run have started.
        :return: true if and only if a run was live, which is then cancelled; wait for
            its end with ``receipt.wait()``.
        :raises TypeError, ValueError: an argument is wrong; nothing is cancelled.
        """
        return self._conversation.cancel(
            reason, origin, mode=mode, force=force, background=background
        )

    def background(self) -> bool:
        """Send the live run to the background, so that its caller returns.

        Call it from any thread or a signal handler. The caller's run or stream returns
        ``stop_reason="backgrounded"`` and a ``handle``: at once with
        ``backgroundable=True``, or while it waits for an answer or for tools on other
        threads; else with the next event, or after the tool that runs.

        :return: whether there is such a run; it may still end before it moves.
        """
        return self._conversation.request_background()

    @property
    def cancel_signal(self) -> CancelSignal:
        """The live run's :class:`threading.Event`, clear when idle. Set it: cancel."""
        live = self._conversation.slot.live
        return (CancelToken() if live is None else live.token).signal

    # -- looking (from any thread, at any time: none of these blocks) --------------

    @property
    def is_running(self) -> bool:
        """True while a run is live."""
        return self._conversation.slot.live is not None

    @property
    def is_paused(self) -> bool:
        """True if a run waits for answers, for ``resume()``."""
        return self.can_resume and self._conversation.unfinished is None

    @property
    def can_resume(self) -> bool:
        """True if ``resume()`` has a run to resume: a paused or unfinished one."""
        return self._conversation.resumable is not None and not self.is_running

    @property
    def state(self) -> State:
        """The state: ``idle``, ``processing``, ``executing_tool``, ..."""
        return self._conversation.state

    @property
    def model(self) -> Model:
        """The model."""
        return self._setup.model

    @property
    def system(self) -> str | None:
        """The system prompt."""
        return self._setup.options.system or None

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools; those of sources as they were in the newest turn."""
        return tuple(self._setup.toolbox.latest.by_name.values())

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far."""
        return self._conversation.messages

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The questions to answer before a paused run can be resumed."""
        return self._conversation.interrupts

    @property
    def usage(self) -> Usage:
        """The usage of all runs."""
        return self._conversation.total_usage

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The approvals that were remembered."""
        return tuple(self._conversation.rules)

    # -- forgetting ----------------------------------------------------------------

    def forget_rules(self) -> None:
        """Forget all remembered approvals."""
        self._conversation.rules.clear()

    def forget_credentials(self) -> None:
        """Forget all credentials: tools ask for them again."""
        self._conversation.credentials.clear()

    # -- saving, forking -----------------------------------------------------------

    def save(self) -> str:
        """Return the state as JSON, for :meth:`load`, in another process or later.

        It holds the conversation, the paused run, rules and usage, and neither keys nor
        credentials. Save when no run is live, or on the thread of a live run: in a
        hook, or between two events of a stream.

        :raises AgentBusy: another thread drives a run.
        """
        return save(self._conversation)

    @classmethod
    def load(
        cls,
        state: str | bytes,
        model: Model | str,
        *,
        tools: Iterable[Any] = (),
        claim: ClaimFolder | None = None,
        **settings: Unpack[AgentArguments[Deps]],
    ) -> Agent[Deps]:
        """Return an agent in the state in which another one was saved.

        Continue its run with :meth:`resume`, :meth:`drive` or :meth:`start`. A tool
        that was running is not called again unless it is ``idempotent``: the model is
        told that it was interrupted.

        :param claim: a folder; of all callers that name it, one can load the state.
        :param settings: as for the class.
        :raises StateInvalid: it is damaged, from a newer version, or lacks a tool.
        :raises StateTaken: another caller has claimed it.
        """
        agent = cls(model, tools=tools, **settings)
        agent.restore(state, claim=claim)
        return agent

    def restore(self, state: str | bytes, *, claim: ClaimFolder | None = None) -> None:
        """Bring a new agent into a saved state; parameters as for :meth:`load`."""
        if self.is_running or self._conversation.transcript or self.is_paused:
            raise ConfigurationError("a saved agent has its own messages; give it none")
        restore_claimed(self._conversation, state, claim)

    def fork(self) -> Agent[Deps]:
        """Return another agent that starts with the same conversation.

        While a run is in the background, or in a tool or a hook of the run itself,
        that is the conversation before it.

        :raises AgentBusy: a run is live, and its conversation is incomplete.
        """
        return self._fork(is_part=False)

    def _fork(self, *, is_part: bool) -> Agent[Deps]:
        live = self._conversation.slot.live
        if live is not None and not live.is_background:
            error = busy_error(live)
            if error.cause != "inside" or is_part:
                raise error
        other = copy(self)
        other._conversation = self._conversation.fork(is_part=is_part)
        return other

    def as_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        **settings: Unpack[ToolArguments],
    ) -> AnyTool:
        """Return a tool that runs this agent, for another agent.

        Each call starts from the conversation as it is then. It is cancelled with the
        run that calls it, its usage counts there, and questions without a handler here
        are asked there. *settings* are those of :func:`~syncagent.tool`.
        """
        return agent_as_tool(self, name, description, {**settings})

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        tools = counted(len(self.tools), "tool")
        messages = counted(len(self._conversation.transcript), "message")
        return f"<Agent{name}: {self.model!r}, {tools}, {messages}>"

    def _repr_markdown_(self) -> str:
        """Return the conversation, for notebooks."""
        return conversation_markdown(self.messages) or f"`{self!r}`"
