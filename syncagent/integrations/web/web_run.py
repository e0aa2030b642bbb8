"""One run, its owner and its followers."""

from __future__ import annotations

import logging
import secrets
import time
from typing import Final, Literal

import msgspec

from ...background.handle import Handle
from ...cancel import CancelToken, Registration, clock
from ...events import (
    InterruptRaised,
    Lagged,
    RunFinished,
    StateChanged,
    StreamEvent,
    ToolFinished,
    ToolStarted,
)
from ...interrupts import ApprovalRequest, Interrupt
from ...messages import Text, ToolOutcome
from ...result import RunResult
from .bodies import (
    RunError,
    RunSummary,
    RunView,
    ShownApproval,
    ShownToolStart,
    write_arguments,
)
from .disconnect import CLIENT_LEFT
from .errors import public_error
from .recordings import WebRecording

__all__ = ["OnDisconnect", "WebRun"]

_log = logging.getLogger("syncagent.web")

#: Characters of the prompt that a list shows.
_LONGEST_PROMPT: Final = 300
#: Replaces the message of an exception that a tool raised, which may contain host names
#: and paths.
_TOOL_FAILED: Final = "The tool failed."

#: The events that clients see in another form; the many others pass unchanged.
_CHANGED_EVENTS: Final = frozenset(
    (InterruptRaised, RunFinished, StateChanged, ToolFinished, ToolStarted)
)

#: Cancel a run when its last follower leaves, or let it continue.
OnDisconnect = Literal["cancel", "detach"]


class WebRun:
    """A run started over HTTP.

    :param handle: the handle of the run.
    :param owner: the owner, in the application's own terms.
    :param agent: the name of the agent, shown in lists.
    :param conversation: the name of the conversation, shown in lists.
    :param prompt: the prompt, shown in lists.
    :param recording: the recording of the run, if there is one.
    :param on_disconnect: ``cancel`` ends the run when its last follower leaves;
        ``detach`` lets it continue.
    :param grace: seconds to wait for a follower to return before that.
    :param show_tool_errors: show clients the messages of exceptions raised by tools.
    :param may_change_arguments: tell clients that an approval may change arguments.
    """

    def __init__(
        self,
        handle: Handle,
        owner: str,
        *,
        agent: str = "",
        conversation: str = "",
        prompt: str = "",
        recording: WebRecording | None = None,
        on_disconnect: OnDisconnect = "cancel",
        grace: float = 0.0,
        show_tool_errors: bool = False,
        may_change_arguments: bool = True,
    ) -> None:
        #: The public id: 192 random bits, while the run's own id appears in logs. In
        #: hexadecimal, so that no id looks like an option of a command.
        self.id: Final = secrets.token_hex(24)
        self.owner: Final = owner
        self.handle: Final = handle
        self.agent: Final = agent
        self.conversation: Final = conversation
        self.prompt: Final = prompt[:_LONGEST_PROMPT]
        self.recording: Final = recording
        self.started_at: Final = time.time()
        self.ended_at: float | None = None
        #: The end by the monotonic clock, which no change of the system's time moves.
        self.ended_clock: float | None = None
        self._on_disconnect = on_disconnect
        self._grace = grace
        self._show_tool_errors = show_tool_errors
        self._may_change_arguments = may_change_arguments
        self._followers: dict[object, None] = {}
        #: Set while there are no followers and one may still return.
        self._grace_timer: tuple[CancelToken, Registration] | None = None

    @property
    def is_live(self) -> bool:
        """True until the run has ended."""
        return not self.handle.done()

    @property
    def outcome(self) -> RunResult | BaseException | None:
        """The result of the run, or its exception; ``None`` while it is live."""
        if self.is_live:
            return None
        try:
            return self.handle.result(timeout=0)
        except BaseException as error:
            return error

    # -- followers -----------------------------------------------------------------

    @property
    def follower_count(self) -> int:
        """The number of streams that are open."""
        return len(self._followers)

    def add_follower(self, follower: object) -> None:
        """Register a follower, whose departure may end the run."""
        self._followers[follower] = None  # publish first, then look
        timer, self._grace_timer = self._grace_timer, None
        if timer is not None:
            timer[1].close()

    def remove_follower(self, follower: object) -> None:
        """Remove a follower; does nothing the second time. Never blocks.

        The departure of the last one ends the run, unless it is detached.
        """
        if self._followers.pop(follower, self) is self:
            return
        if self._on_disconnect == "detach" or not self.is_live:
            return
        if self._grace <= 0.0:
            self._cancel_unfollowed()
            return
        token = CancelToken(self._grace)
        self._grace_timer = (token, token.on_cancel(self._cancel_unfollowed))

    def _cancel_unfollowed(self) -> None:
        if not self._followers:
            self.handle.cancel(CLIENT_LEFT, "disconnect")

    # -- what clients may see ------------------------------------------------------

    def public_event(self, event: StreamEvent | Lagged) -> StreamEvent | Lagged:
        """Return the form of *event* that clients may see.

        The last event would repeat the whole conversation, error messages may contain
        private details, and browsers would round numbers in arguments.
        """
        if type(event) not in _CHANGED_EVENTS:
            return event
        if isinstance(event, RunFinished):
            return RunFinished(
                msgspec.structs.replace(
                    event.result,
                    messages=(),
                    start=0,
                    tool_outcomes=self._public_outcomes(event.result),
                )
            )
        if isinstance(event, StateChanged) and event.message:
            error = self.error
            message = "" if error is None else error.message
            return msgspec.structs.replace(event, message=message)
        if isinstance(event, ToolFinished) and event.outcome == "failed":
            if self._show_tool_errors:
                return event
            result = msgspec.structs.replace(
                event.result, content=(Text(_TOOL_FAILED),)
            )
            return msgspec.structs.replace(event, result=result)
        if isinstance(event, ToolStarted):
            names = (event.call_id, event.name, event.arguments)
            return ShownToolStart(*names, write_arguments(event.arguments))
        if isinstance(event, InterruptRaised):
            return InterruptRaised(self._public_interrupts(event.interrupts))
        return event

    def _public_interrupts(
        self, interrupts: tuple[Interrupt, ...]
    ) -> tuple[Interrupt, ...]:
        return tuple(
            ShownApproval(
                *(each.id, each.call_id, each.tool),
                each.arguments,
                each.reason,
                write_arguments(each.arguments),
                self._may_change_arguments,
            )
            if isinstance(each, ApprovalRequest)
            else each
            for each in interrupts
        )

    def _public_outcomes(self, result: RunResult) -> tuple[ToolOutcome, ...]:
        if self._show_tool_errors:
            return result.tool_outcomes
        return tuple(
            msgspec.structs.replace(each, error=_TOOL_FAILED) if each.error else each
            for each in result.tool_outcomes
        )

    @property
    def error(self) -> RunError | None:
        """The error of the run, in a form that any client may see."""
        error = self.handle.error
        return None if error is None else RunError(*public_error(error))

    def view(self) -> RunView:
        """Return the run as its owner sees it."""
        # The outcome first: once there is one, nothing else changes.
        outcome = self.outcome
        state = self.handle.state
        result = outcome if isinstance(outcome, RunResult) else None
        return RunView(
            id=self.id,
            run_id=self.handle.run_id,
            agent=self.agent,
            conversation=self.conversation,
            prompt=self.prompt,
            state=str(state),
            tool=state.tool,
            is_live=outcome is None,
            started_at=self.started_at,
            ended_at=self.ended_at,
            events=self.handle.event_count,
            interrupts=()
            if outcome is not None
            else self._public_interrupts(self.handle.interrupts),
            text="" if result is None else result.text,
            stop_reason=None if result is None else result.stop_reason,
            cancellation=None if result is None else result.cancellation,
            usage=None if result is None else result.usage,
            cost=None if result is None else result.cost,
            turns=0 if result is None else result.turns,
            tool_outcomes=() if result is None else self._public_outcomes(result),
            error=None if outcome is None else self.error,
        )

    def summary(self) -> RunSummary:
        """Return the run as lists show it to its owner."""
        view = self.view()
        fields = RunSummary.__struct_fields__
        return RunSummary(**{name: getattr(view, name) for name in fields})

    def note_end(self, handle: Handle) -> None:
        """Note the time of the end, and log the error if the run raised one."""
        self.ended_at = time.time()
        self.ended_clock = clock.now()
        outcome = self.outcome
        if isinstance(outcome, BaseException):
            _log.error("%s failed", handle.run_id, exc_info=outcome)

    def __repr__(self) -> str:
        # Without the public id, which must not reach a log.
        return f"<WebRun of run {self.handle.run_id}: {self.handle.state}>"
