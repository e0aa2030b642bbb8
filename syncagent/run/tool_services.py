"""What a run lends to its tools: questions, other agents, a voice."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ..cancel import CancelToken
from ..events import InterruptRaised, RunEvent, StateChanged, ToolProgress
from ..exceptions import SyncAgentError, ToolError
from ..interrupts import AwaitingInput
from ..tools.context import ToolContext
from ..tools.invocation import Host, Invocation
from ..usage import Usage

if TYPE_CHECKING:
    from ..events import State
    from .run import Run

__all__ = ["ToolServices"]

#: What the run is doing while a tool waits for something, for receipts.
_PHASES: Final = {"waiting_for_input": "input", "waiting_for_agent": "agent"}


class ToolServices:
    """What tools, on whatever threads, may do with the run that called them."""

    def __init__(self, run: Run) -> None:
        # Weak, as the run has this: in a circle only the collector would find it.
        self._ref = weakref.ref(run)
        #: The run's.
        self.thread = threading.get_ident()
        #: Takes events from any thread; there is one while tools run.
        self.post: Callable[[RunEvent], object] | None = None
        #: Events of tools on the run's own thread, which they block: observers saw
        #: them at once, and the stream yields them when the tool returns.
        self.backlog: deque[RunEvent] = deque()
        #: What tools wait for, by their call ids, the newest last.
        self._waits: dict[str, State] = {}
        #: For questions of tools, on whatever threads.
        self._numbers = itertools.count(1)

    def host(self) -> Host:
        """Return what tools get to see of this."""
        run = self._run
        return Host(
            run.id,
            run.claim.forced,
            helpers=run.claim.helpers,
            emit=self._progress,
            ask=self._ask if run.respondent.can_ask else None,
            run_agent=self._run_agent,
            watch=None if run.recording is None else run.recording.watch_tool,
        )

    @property
    def _run(self) -> Run:
        run = self._ref()
        if run is None:
            raise ToolError("the run that this call belongs to is over")
        return run

    def drive_here(self) -> None:
        """Note that this is the run's thread: a stream may be handed to another."""
        self.thread = threading.get_ident()
        self._run.claim.drive_here()

    @property
    def waits_for(self) -> tuple[State, str, str] | None:
        """What one of the tools waits for, the newest if there are several."""
        for call_id, state in reversed(list(self._waits.items())):
            return state, "", call_id
        return None

    def _tell(self, event: RunEvent) -> None:
        run = self._run
        if threading.get_ident() == self.thread:
            self.backlog.append(event)
            for observer in run.on_event:
                observer(event)
        elif self.post is not None:
            self.post(event)

    def _pass_on(self, event: Any) -> None:
        """Let those who follow this run know what a sub-agent asks."""
        if event.__class__ is InterruptRaised:
            self._tell(event)

    def _progress(self, invocation: Invocation, value: Any) -> None:
        call = invocation.call
        self._tell(ToolProgress(call.call_id, call.name, value))

    def _begin_wait(self, state: State, call_id: str) -> None:
        """Show that a tool waits for something."""
        run = self._run
        self._waits[call_id] = state
        run.claim.phase = _PHASES[state]
        self._tell(StateChanged(*run.state))

    def _end_wait(self, call_id: str) -> None:
        """Show that it does so no more."""
        run = self._run
        self._waits.pop(call_id, None)
        if not run.token.cancelled:  # else that is what it was doing then
            left = self.waits_for
            run.claim.phase = "tool" if left is None else _PHASES[left[0]]
            self._tell(StateChanged(*run.state))

    def _ask(self, invocation: Invocation, token: CancelToken, question: str) -> str:
        run, call = self._run, invocation.call
        number = invocation.times_asked + next(self._numbers)
        asked = AwaitingInput(
            f"input:{invocation.key}:{number}", call.call_id, call.name, question
        )
        shown = run.respondent.show(run, (asked,))
        self._begin_wait("waiting_for_input", call.call_id)
        try:
            self._tell(InterruptRaised(shown))
            return run.respondent.ask(run, asked, token)
        finally:
            self._end_wait(call.call_id)

    def _run_agent(
        self, context: ToolContext, agent: Any, prompt: Any, settings: dict[str, Any]
    ) -> Any:
        if not callable(getattr(agent, "run_inside", None)) or "cancel" in settings:
            raise ToolError(
                "ctx.agent(agent, prompt) takes an Agent, and cancels it by itself; "
                f"got {agent!r:.60} and {', '.join(settings) or 'nothing else'}"
            )
        run = self._run
        meter = run.meter
        if run.recording is not None:
            settings = {"record": run.recording.for_agent(context.call_id), **settings}
        self._begin_wait("waiting_for_agent", context.call_id)
        try:
            result = agent.run_inside(
                *(run.respondent, self._pass_on, prompt),
                cancel=context.token,
                **settings,
            )
        except SyncAgentError as error:
            if isinstance(error.usage, Usage):
                meter.add(error.usage, agent.model.cost(error.usage))
            raise
        finally:
            self._end_wait(context.call_id)
        meter.add(result.usage, result.cost)
        context.checkpoint()
        return result
