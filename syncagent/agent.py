"""The agent: a model, tools and a conversation, and a blocking loop that stops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Final

import msgspec

from .asking.answering import Answering, Approve, Ask, Authenticate, Handlers
from .background.handle import Handle
from .background.starting import move_to_background, run_releasable, start_handle
from .background.subscriptions import SIZE
from .cancel import CancelMode, CancelSignal, CancelToken, Receipt
from .conversation.conversation import Background, Conversation
from .conversation.queue import OnBusy, check_busy
from .conversation.request import Cancel, RunRequest, check_run
from .conversation.run_stream import RunStream, run_to_end
from .conversation.saved import restore, save
from .driver import Driver
from .events import State, StreamEvent
from .exceptions import AgentBusy, ConfigurationError, Origin
from .hooks import HookSet
from .interrupts import Interrupt, Rule, RuleBook
from .messages import Message, Prompt, user_message
from .models.model import Model
from .models.names import find_model
from .policies import CancelPolicy, Limits
from .recording import Part, Record, Recorded
from .result import RunResult
from .run.setup import (
    Setup,
    check_answering,
    check_settings,
    check_words,
    tools_by_name,
)
from .tools.agent_tool import agent_as_tool
from .tools.settings import NeedsApproval
from .tools.tool import AnyTool
from .transcript.transcript import Transcript
from .usage import Usage

__all__ = ["Agent"]

_NO_POLICY: Final = CancelPolicy()
_NO_LIMITS: Final = Limits()


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
    :param answer_timeout: seconds that each of them has.
    :param requires_approval: is every tool to be approved, or those that a function of
        the arguments and the context says? Beside what the tools say themselves.
    :param rules: what need not be asked, because it was answered before.
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
        answer_timeout: float | None = None,
        requires_approval: NeedsApproval = False,
        rules: Iterable[Rule] = (),
        on_busy: OnBusy = "raise",
    ) -> None:
        model = find_model(model) if isinstance(model, str) else model
        check_settings(model, limits, cancel_policy, parallel_tools)
        check_busy(on_busy)
        handlers = {"approve": approve, "authenticate": authenticate, "ask": ask}
        check_words(system, name, messages, **handlers)
        options = model.options
        if system is not None:
            options = msgspec.structs.replace(options, system=system)
        check_answering(answer_timeout, requires_approval)
        self._setup = Setup(
            *(model, tools_by_name(tools), options, limits, cancel_policy),
            *(HookSet(hooks), parallel_tools, requires_approval),
        )
        self.name = name
        asked = Handlers(approve, authenticate, ask, answer_timeout)
        transcript = Transcript(messages)
        transcript.repair()
        self._conversation = Conversation(
            self._setup, asked, on_busy, transcript, RuleBook(rules)
        )

    # -- running -------------------------------------------------------------------

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
    ) -> RunResult:
        """Say something to the model, and return what comes of it.

        Cancellation: ends at once, wherever it waits; the result says so.

        :param prompt: what the user says.
        :param timeout: seconds after which it is cancelled, with origin ``deadline``.
        :param cancel: what else cancels it, an event or a token of yours; it is never
            cleared. One that is set already ends the run before any request is made.
        :param output: the type that the answer is to be of.
        :param on_busy: in place of the agent's own.
        :param backgroundable: drive it on a thread of its own, so that
            :meth:`background` releases the caller at once, from any wait.
        :param record: a path, or an open file, to which all that happens is written,
            for ``syncagent timeline``; prompts, arguments and results are in it.
        :raises AgentBusy: there is a live run.
        :raises InterruptPending: the agent waits for answers.
        :raises SyncAgentError: there is no answer; the conversation is valid.
        """
        wanted = RunRequest(
            said=user_message(prompt),
            timeout=timeout,
            cancel=cancel,
            output=output,
            on_busy=on_busy,
            record=Recorded.at(record),
        )
        if backgroundable:
            return run_releasable(self._conversation, wanted)
        return run_to_end(lambda: self._begin(wanted))

    def stream(
        self,
        prompt: Prompt,
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        on_busy: OnBusy | None = None,
        record: Record | None = None,
    ) -> RunStream:
        """Say something to the model, and return what happens, as it happens.

        Cancellation: ends at once, wherever it waits; the last event says so.

        Parameters and errors are those of :meth:`run`; errors of the model come where
        the next event would.
        """
        return self._begin(
            RunRequest(
                said=user_message(prompt),
                timeout=timeout,
                cancel=cancel,
                output=output,
                on_busy=on_busy,
                record=Recorded.at(record),
            )
        )

    def run_inside(
        self,
        outer: Answering,
        on_event: Callable[[StreamEvent], object],
        prompt: Prompt,
        **settings: Any,
    ) -> RunResult:
        """Run as a part of another run, which ``ctx.agent()`` does.

        Cancellation: as for :meth:`run`.

        :param outer: answers what there is nobody for here.
        :param on_event: shown every event.
        """
        record = settings.get("record")
        if not isinstance(record, Part):
            settings["record"] = Recorded.at(record)
        wanted = RunRequest(
            said=user_message(prompt), outer=outer, on_event=on_event, **settings
        )
        return run_to_end(lambda: self._begin(wanted))

    def _begin(self, wanted: RunRequest) -> RunStream:
        conversation = self._conversation
        move = partial(move_to_background, conversation)
        return conversation.begin(msgspec.structs.replace(wanted, move=move))

    def resume(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        record: Record | None = None,
    ) -> RunResult:
        """Go on with a run that waits for answers.

        Cancellation: as for :meth:`run`.

        :param answers: by the ids of :attr:`interrupts`: true, false or an
            :class:`~syncagent.interrupts.Approval`; credentials; words.
        :param output: the type that the answer is to be of, if the agent was loaded,
            and the run was begun with one.
        :param record: as for :meth:`run`; a file that is there is written on.
        :raises ConfigurationError: nothing waits for them, or one is missing.
        """
        wanted = self._resuming(answers, timeout, cancel, output, record)
        return run_to_end(lambda: self._begin(wanted))

    def resume_stream(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        record: Record | None = None,
    ) -> RunStream:
        """Go on with a run that waits for answers, and return what happens.

        Cancellation: as for :meth:`stream`. Parameters are those of :meth:`resume`.
        """
        return self._begin(self._resuming(answers, timeout, cancel, output, record))

    def _resuming(
        self,
        answers: Mapping[str, Any] | None,
        timeout: float | None,
        cancel: Cancel | None,
        output: Any,
        record: Record | None,
    ) -> RunRequest:
        pause = self._conversation.pause
        if pause is None or not pause.is_open:
            raise ConfigurationError(
                "the agent does not wait for answers; ask it something with run()"
            )
        given = {} if answers is None else answers
        pause.check(given)
        return RunRequest(
            resumes=pause,
            timeout=timeout,
            cancel=cancel,
            output=output,
            answers=given,
            on_busy="raise",
            record=Recorded.at(record, is_new=False),
        )

    def drive(
        self,
        prompt: Prompt | None = None,
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        on_event: Callable[[StreamEvent], object] | None = None,
        record: Record | None = None,
    ) -> Driver:
        """Pull runs along: each ``next()`` goes on until somebody has to be asked.

        Without a prompt it goes on with the run that waits for answers, if there is
        one, and else begins by asking for input. *timeout*, *cancel* and *output* are
        for the first run.

        :param on_event: shown every event of the runs.
        :param record: where all of them are recorded, as for :meth:`run`.
        """
        first = self._first(prompt, timeout, cancel, output, record)
        if on_event is not None and not callable(on_event):
            raise ConfigurationError(f"on_event is a function; got {on_event!r:.80}")
        return Driver(self._conversation, first, on_event)

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
    ) -> Handle:
        """Begin a run in the background, on a daemon thread of its own.

        Without a prompt it goes on with the run that waits for answers, if there is
        one, and else waits for :meth:`Handle.send_input`. *timeout*, *cancel* and
        *output* are for the first run.

        :param keep_alive: wait for more input when there is nothing to do, until
            :meth:`Handle.shutdown`; always so without a first run.
        :param buffer: how many events are kept for subscribers.
        :param record: where all its runs are recorded, as for :meth:`run`.
        :raises AgentBusy: there is a live run.
        """
        first = self._first(prompt, timeout, cancel, output, record)
        return start_handle(
            self._conversation, first, on_busy, keep_alive=keep_alive, size=buffer
        )

    def _first(
        self,
        prompt: Prompt | None,
        timeout: float | None,
        cancel: Cancel | None,
        output: Any,
        record: Record | None,
    ) -> RunRequest:
        """Return how a driver or a handle begins."""
        check_run(timeout, cancel, output)
        pause = self._conversation.pause
        if prompt is not None or (pause is not None and not pause.is_open):
            pause = None
        return RunRequest(
            said=None if prompt is None else user_message(prompt),
            resumes=pause,
            timeout=timeout,
            cancel=cancel,
            output=output,
            record=Recorded.at(record, is_new=pause is None),
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
        for answers lets those calls go.

        :param reason: what to say about it.
        :param mode: ``now``; ``after_tools``: an answer ends now, tools that run may
            end first; ``after_turn``: the answer, and the tools that it calls, may.
            A stronger one may follow.
        :param force: do not wait for tools: leave threads behind, kill processes
            without grace. A tool on the run's own thread cannot be left.
        :param background: ``cancel`` also ends a run that was sent to the background,
            and the handles that tools of the run have started.
        :return: true if and only if a run was live, which is then cancelled; it can be
            waited for.
        :raises TypeError: *reason* or *origin* is not a string; nothing is cancelled.
        :raises ValueError: there is no such origin or mode; nothing is cancelled.
        """
        return self._conversation.cancel(
            reason, origin, mode=mode, force=force, background=background
        )

    def background(self) -> bool:
        """Have the live run go on in the background, and its caller return.

        Call it from any thread or a signal handler. The caller's :meth:`run` or
        :meth:`stream` returns ``stop_reason="backgrounded"`` and a ``handle``: at once
        with ``backgroundable=True``, or while it waits for somebody's answer or for
        tools on other threads; else with the next event, or after the tool that runs.

        :return: whether there is such a run; it may also end before that.
        """
        run = self._conversation.run
        if run is None or not run.can_background or run.claim.is_background:
            return False
        run.token.request_background()
        return True

    @property
    def cancel_signal(self) -> CancelSignal:
        """The live run's signal, a :class:`threading.Event`; clear when there is none.

        To set it is to cancel that run.
        """
        live = self._conversation.slot.live
        return (CancelToken() if live is None else live.token).signal

    # -- looking -------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Is there a live run?"""
        return self._conversation.slot.live is not None

    @property
    def is_paused(self) -> bool:
        """Is there a run that :meth:`resume` would go on with?"""
        pause = self._conversation.pause
        return pause is not None and pause.is_open and not self.is_running

    @property
    def state(self) -> State:
        """What it is doing: ``idle``, ``processing``, ``executing_tool``, ..."""
        return self._conversation.state

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
        return self._conversation.messages

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """What is to be answered before it can go on."""
        return self._conversation.interrupts

    @property
    def usage(self) -> Usage:
        """What all its runs have used."""
        return self._conversation.total_usage

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What it was told to remember about approvals."""
        return tuple(self._conversation.rules)

    def __repr__(self) -> str:
        named = f" {self.name}" if self.name else ""
        count = len(self._conversation.transcript)
        return f"<Agent{named}: {self.model!r}, {count} messages>"

    # -- more of it ----------------------------------------------------------------

    def forget_rules(self) -> None:
        """Ask again about everything."""
        self._conversation.rules.clear()

    def forget_credentials(self) -> None:
        """Ask for all credentials again."""
        self._conversation.credentials.clear()

    def save(self) -> str:
        """Return its state as JSON, for :meth:`load`, in another process or later.

        That is the conversation, what it waits for, rules and usage; no key and no
        credentials. It can be saved whenever no run is live, and on the thread of a
        live one: in a hook, or between two events of a stream.

        :raises AgentBusy: a live run is driven by another thread.
        """
        return save(self._conversation)

    @classmethod
    def load(
        cls,
        state: str | bytes,
        model: Model | str,
        *,
        tools: Iterable[Any] = (),
        **settings: Any,
    ) -> Agent:
        """Return an agent that is as one was when it was saved.

        A run that was under way, or waits, is gone on with by :meth:`resume`,
        :meth:`drive` or :meth:`start`. A tool that was running then is not called
        again, unless it is ``idempotent``: the model is told that it was interrupted.

        :param settings: as for the class.
        :raises StateInvalid: the state is damaged, from a newer version, or waits for
            a tool that is not there.
        """
        if "messages" in settings:
            raise ConfigurationError(
                "a saved agent has its own messages; load() takes no others"
            )
        agent = cls(model, tools=tools, **settings)
        restore(agent._conversation, state)
        return agent

    def fork(self) -> Agent:
        """Return another agent with the same conversation, which goes its own way.

        If a run is in the background, it is the conversation before that.

        :raises AgentBusy: there is a live run, whose conversation is half said.
        """
        return self._fork(is_part=False)

    def _fork(self, *, is_part: bool) -> Agent:
        live = self._conversation.slot.live
        if live is not None and not live.is_background:
            raise AgentBusy("the agent has a live run; fork it when that has ended")
        other = copy(self)
        other._conversation = self._conversation.fork(is_part=is_part)
        return other

    def as_tool(
        self, name: str | None = None, description: str | None = None
    ) -> AnyTool:
        """Return a tool that runs this agent, for another one.

        Each call goes its own way from the conversation as it is then. It is cancelled
        with the run that calls it, whose usage includes what it uses; and what it asks,
        and has no handler for, is asked there.
        """
        return agent_as_tool(self, name, description)
