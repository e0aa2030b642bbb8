"""One run, its owner and its followers."""

from __future__ import annotations

import logging
import secrets
import time
from typing import Final, Literal

from ...background.handle import Handle
from ...cancel import CancelToken, Registration, clock
from ...events import Lagged, StreamEvent
from ...result import RunResult
from .bodies import RunError, RunSummary, RunView
from .disconnect import CLIENT_LEFT
from .errors import public_error
from .followed import FollowedEvents
from .presentation import Presentation
from .recordings import WebRecording

__all__ = ["OnDisconnect", "WebRun"]

_log = logging.getLogger("syncagent.web")

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
    :param presentation: what clients may see of it.
    """

    #: Only this process has the run.
    is_stored: Final = False

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
        presentation: Presentation | None = None,
    ) -> None:
        #: The public id: 192 random bits, while the run's own id appears in logs. In
        #: hexadecimal, so that no id looks like an option of a command.
        self.id: Final = secrets.token_hex(24)
        self.owner: Final = owner
        self.handle: Final = handle
        self.agent: Final = agent
        self.conversation: Final = conversation
        self.prompt: Final = prompt
        self.recording: Final = recording
        self.started_at: Final = time.time()
        self.ended_at: float | None = None
        #: The end by the monotonic clock, which no change of the system's time moves.
        self.ended_clock: float | None = None
        self._on_disconnect = on_disconnect
        self._grace = grace
        self._presentation = presentation or Presentation()
        self._followers: dict[object, None] = {}
        #: Set while there are no followers and one may still return.
        self._grace_timer: tuple[CancelToken, Registration] | None = None

    @property
    def is_live(self) -> bool:
        """True until the run has ended."""
        return not self.handle.done()

    @property
    def run_id(self) -> str:
        """The id in logs."""
        return self.handle.run_id

    @property
    def state(self) -> str:
        """The state of the handle."""
        return str(self.handle.state)

    @property
    def event_count(self) -> int:
        """The number of events so far."""
        return self.handle.event_count

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

    def subscribe(self, after: int) -> FollowedEvents:
        """Return the events after a number."""
        return self.handle.subscribe(after=after)

    def has_event_after(self, events: FollowedEvents) -> bool:
        """Return whether the next event is ready."""
        return events.position < self.handle.event_count

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
        """Return the form of *event* that clients may see."""
        return self._presentation.event(event, self.error)

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
            else self._presentation.interrupts(self.handle.interrupts),
            error=None if outcome is None else self.error,
            **self._presentation.result(result),
        )

    def summary(self) -> RunSummary:
        """Return the run as lists show it to its owner."""
        return self.view().summary()

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
