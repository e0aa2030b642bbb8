"""The services of a run for its tools: questions, progress, sub-agents."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from ..cancel import CancelToken
from ..cancel.reason import Cause
from ..events import (
    InterruptRaised,
    RunEvent,
    StateChanged,
    SubAgentEvent,
    ToolProgress,
)
from ..exceptions import SyncAgentError, ToolError
from ..interrupts import AwaitingInput
from ..tools.call_stop import CallReceipt, checked_path
from ..tools.context import ToolContext
from ..tools.executor import Executor, ShownEvent
from ..tools.invocation import Invocation
from ..usage import Usage
from .setup import check_price

if TYPE_CHECKING:
    from ..events import State
    from .run import Run

__all__ = ["ToolServices"]

#: The phase of the run while a tool waits.
_PHASES: Final = {"waiting_for_input": "input", "waiting_for_agent": "agent"}


class ToolServices:
    """The services of a run for its tools, which may be on any thread.

    Implements :class:`~syncagent.tools.executor.ExecutorServices`.
    """

    def __init__(self, run: Run) -> None:
        # Weak, because the run holds this object: without a circle a run is freed at
        # once.
        self._ref = weakref.ref(run)
        # Kept here, because a tool that is left behind may outlive its run.
        self.run_id: Final = run.id
        self.forced: Final = run.claim.forced
        self.helpers: Final = run.claim.helpers
        self.deps: Final = run.deps
        self.metadata: Final = run.metadata
        #: The run's thread.
        self.thread = threading.get_ident()
        #: True if a tool can wait for an answer in place. Fixed for a round: a caller
        #: who is leaving for the background cannot answer before the round has ended.
        self.can_ask = False
        #: Runs the tools of the round, and passes their events to the loop.
        self._executor: Executor | None = None
        #: Events of approval policies, which run before the tools do.
        self._unposted: list[RunEvent | ShownEvent] = []
        #: The states of waiting tools by call id, the newest last.
        self._waits: dict[str, State] = {}
        #: The sub-agents that run, with the ids of their calls and their runs.
        self._agents: dict[object, tuple[str, Any, str]] = {}
        #: Numbers the questions of tools on all threads.
        self._numbers = itertools.count(1)

    def begin_round(self, executor: Executor) -> None:
        """Pass events of tools to *executor* until :meth:`end_round`."""
        self.can_ask = self._run.respondent.can_ask
        self._executor = executor
        while self._unposted:
            executor.post(self._unposted.pop(0))

    def end_round(self) -> None:
        """Stop passing on events, and leave no tool to itself. Safe to repeat."""
        if self._executor is not None:
            self._executor.leave_rest()
            self._executor.close_stops()
            self._executor = None  # it holds the run, see __init__

    @property
    def watch(self) -> Callable[..., object] | None:
        """Called on the tool's thread when a call starts and when it has ended."""
        run = self._ref()
        return (
            None if run is None or run.recording is None else run.recording.watch_tool
        )

    @property
    def _run(self) -> Run:
        run = self._ref()
        if run is None:
            raise ToolError("the run of this call is over")
        return run

    def drive_here(self) -> None:
        """Make the calling thread the run's: a stream may move to another thread."""
        self.thread = threading.get_ident()
        self._run.claim.drive_here()

    @property
    def waits_for(self) -> tuple[State, str, str] | None:
        """The state and call id of the tool that started to wait last, or ``None``."""
        for call_id, state in reversed(list(self._waits.items())):
            return state, "", call_id
        return None

    def is_waiting(self, call_id: str) -> bool:
        """True while a call waits for a sub-agent or an answer; asked on any thread."""
        return call_id in self._waits

    def _emit(self, event: RunEvent) -> None:
        executor, observers = self._executor, self._run.on_event
        is_blocking = bool(observers) and threading.get_ident() == self.thread
        item = ShownEvent(event, len(observers)) if is_blocking else event
        post = self._unposted.append if executor is None else executor.post
        post(item)  # first: observers may raise
        if is_blocking:
            for observer in observers:
                observer(event)

    def _pass_on(self, invocation: Invocation | None, name: str, event: Any) -> None:
        """Show the questions of a sub-agent, and more on request, in this run."""
        if event.__class__ is InterruptRaised:
            self._emit(event)
        elif invocation is not None and invocation.is_open and self._run.shows_agents:
            self._emit(SubAgentEvent(invocation.call.call_id, name, event))

    def report_progress(self, invocation: Invocation, value: Any) -> None:
        """Pass on a progress report; drop it if the call has ended."""
        if invocation.is_open:
            call = invocation.call
            self._emit(ToolProgress(call.call_id, call.name, value))

    def _begin_wait(self, state: State, call_id: str) -> None:
        """Enter the state of a tool that waits."""
        run = self._run
        self._waits[call_id] = state
        run.claim.phase = _PHASES[state]
        self._emit(StateChanged(*run.state))

    def _end_wait(self, call_id: str) -> None:
        """Leave that state, unless the run was cancelled in it."""
        run = self._run
        self._waits.pop(call_id, None)
        if not run.token.cancelled:
            other = self.waits_for
            run.claim.phase = "tool" if other is None else _PHASES[other[0]]
            self._emit(StateChanged(*run.state))

    def cancel_call(
        self, call_id: str | Sequence[str], cause: Cause, *, force: bool
    ) -> CallReceipt:
        """Stop one call of the round. As safe as a cancel of the run.

        :param call_id: its id or key; or the ids of the calls of sub-agents that lead
            to it, the outermost first.
        :raises TypeError: it is neither.
        """
        path = checked_path(call_id)
        if len(path) > 1:
            for outer_id, agent, run_id in list(self._agents.values()):
                if outer_id == path[0]:
                    receipt: CallReceipt = agent.stop_call(
                        path[1:], cause, run_id, force=force
                    )
                    if receipt:
                        return receipt
            return CallReceipt(None, cause)
        executor = self._executor
        for call in () if executor is None else executor.calls:
            if call.stop is not None and path[0] in (call.call.call_id, call.key):
                receipt = call.stop.cancel(cause, force=force, is_part=self.is_part)
                if receipt:
                    return receipt
        return CallReceipt(None, cause)

    def is_part(self) -> bool:
        """True on the run's thread, and on those of its tools."""
        thread = threading.get_ident()
        return thread == self.thread or thread in self.helpers

    def ask(
        self,
        invocation: Invocation,
        token: CancelToken,
        question: str,
        form: dict[str, Any] | None,
    ) -> Any:
        """Ask the user, and wait for the answer.

        Cancellation: ends at once.
        """
        run, call = self._run, invocation.call
        number = invocation.times_asked + next(self._numbers)
        interrupt = AwaitingInput(
            *(f"input:{invocation.key}:{number}", call.call_id, call.name),
            *(question, form),
        )
        shown = run.respondent.show(run, (interrupt,), token)
        self._begin_wait("waiting_for_input", call.call_id)
        try:
            self._emit(InterruptRaised(shown))
            return run.respondent.ask(run, interrupt, token)
        finally:
            self._end_wait(call.call_id)

    def run_agent(
        self, context: ToolContext, agent: Any, prompt: Any, options: dict[str, Any]
    ) -> Any:
        """Run a sub-agent, and return its result.

        Cancellation: the sub-agent ends with the run.
        """
        if not callable(getattr(agent, "run_inside", None)) or "cancel" in options:
            raise ToolError(
                "ctx.agent(agent, prompt) takes an Agent and no cancel= (the sub-agent "
                f"ends with its run); got {agent!r:.60} and options "
                f"{', '.join(options) or 'none'}"
            )
        run = self._run
        meter = run.meter
        if meter.needs_price:
            check_price(agent.model)
        if run.recording is not None:
            options = {"record": run.recording.for_agent(context.call_id), **options}
        if run.keeper is not None:
            options["keeper"] = run.keeper.for_agent()
        if "metadata" not in options:
            options["metadata"] = self.metadata or None
        options["run_id"] = options.get("run_id") or uuid4().hex
        self._begin_wait("waiting_for_agent", context.call_id)
        key, name = object(), getattr(agent, "name", None) or ""
        observer = partial(self._pass_on, context.invocation, name)
        try:
            self._agents[key] = (context.call_id, agent, options["run_id"])
            result = agent.run_inside(
                *(run.respondent, observer, prompt),
                cancel=context.token,
                shows_agents=run.shows_agents,
                needs_price=meter.needs_price,
                outer_budgets=meter.budgets,
                outer_deps=self.deps,
                **options,
            )
        except SyncAgentError as error:
            if isinstance(error.usage, Usage):
                meter.add(error.usage, agent.model.cost(error.usage))
            raise
        finally:
            self._agents.pop(key, None)
            self._end_wait(context.call_id)
        meter.add(result.usage, result.cost)
        context.checkpoint()
        return result
