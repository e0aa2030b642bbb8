"""A run of a store, as its owner and its followers see it."""

from __future__ import annotations

from typing import Final

from ... import exceptions
from ...cancel import CancelToken, clock
from ...events import Lagged, StreamEvent
from ...interrupts import AfterToolResult, AuthRequest, AwaitingInput
from ...stores import RunStore, StoredEvents, StoredRun
from .bodies import RunError, RunSummary, RunView
from .errors import public_error_of
from .followed import FollowedEvents
from .presentation import Presentation, beginning_of

__all__ = ["StoredWebRun"]

_GAVE_UP: Final = RunError(
    "gave_up",
    "The run was given up, because the server processes that worked on it died.",
)


class StoredWebRun:
    """A run of a store, for one request.

    :param record: the run, as the store knows it.
    :param followers: the open streams of this process: run id and owner of each.
    :param ending: cancelled when this process ends; then streams end, too.
    """

    #: Any process of the server has the run.
    is_stored: Final = True
    #: A store keeps no recording.
    recording: Final = None

    def __init__(
        self,
        store: RunStore,
        record: StoredRun,
        *,
        presentation: Presentation,
        followers: dict[object, tuple[str, str]],
        ending: CancelToken,
    ) -> None:
        self.id: Final = record.id
        self.run_id: Final = record.run_id
        self.owner: Final = record.owner
        self.agent: Final = record.agent
        self.conversation: Final = record.conversation
        self._store: Final = store
        self._record = record
        self._presentation: Final = presentation
        self._followers: Final = followers
        self._ending: Final = ending
        self._events: StoredEvents | None = None
        self._ended_clock: float | None = None

    @property
    def record(self) -> StoredRun:
        """The run, as it was last seen in the store."""
        return self._record if self._events is None else self._events.run

    @property
    def is_live(self) -> bool:
        """True until the run has ended."""
        return self.record.is_live

    @property
    def event_count(self) -> int:
        """The number of events so far."""
        return self.record.events

    @property
    def state(self) -> str:
        """The state of a handle, or ``queued`` or ``running``."""
        record = self.record
        if record.state == "waiting":
            first = record.interrupts[0] if record.interrupts else None
            if isinstance(first, AuthRequest):
                return "waiting_for_auth"
            is_input = isinstance(first, AwaitingInput)
            return "waiting_for_input" if is_input else "waiting_for_approval"
        if record.is_live:
            return record.state
        return "failed" if record.state == "failed" else "done"

    # -- followers -----------------------------------------------------------------

    @property
    def ended_clock(self) -> float | None:
        """When this process noticed the end, by the monotonic clock."""
        if self._ended_clock is None and not self.is_live:
            self._ended_clock = clock.now()
        return self._ended_clock

    def subscribe(self, after: int) -> FollowedEvents:
        """Return the events after a number, from the store."""
        self._events = self._store.events(self.id, after, cancel=self._ending)
        return self._events

    def has_event_after(self, events: FollowedEvents) -> bool:
        """Return whether the next event is ready."""
        return self._events is not None and self._events.is_ready

    def add_follower(self, follower: object) -> None:
        """Count a follower of this process."""
        self._followers[follower] = (self.run_id, self.owner)

    def remove_follower(self, follower: object) -> None:
        """Count one follower less. Never blocks."""
        self._followers.pop(follower, None)

    # -- what clients may see ------------------------------------------------------

    def public_event(self, event: StreamEvent | Lagged) -> StreamEvent | Lagged:
        """Return the form of *event* that clients may see."""
        return self._presentation.event(event, self.error)

    @property
    def error(self) -> RunError | None:
        """The error of the run, in a form that any client may see."""
        error = self.record.error
        if error is None:
            return None
        if error.type == "Crash":
            return _GAVE_UP
        kind = getattr(exceptions, error.type, None)
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            kind = Exception
        return RunError(*public_error_of(kind))

    def view(self) -> RunView:
        """Return the run as its owner sees it."""
        record = self.record
        is_waiting = record.state == "waiting"
        interrupts = record.interrupts if is_waiting else ()
        tools = [e.tool for e in interrupts if not isinstance(e, AfterToolResult)]
        return RunView(
            id=self.id,
            run_id=self.run_id,
            agent=self.agent,
            conversation=self.conversation,
            prompt=beginning_of(record.prompt),
            state=self.state,
            tool=tools[0] if tools else "",
            is_live=record.is_live,
            started_at=record.created_at,
            ended_at=record.ended_at,
            events=record.events,
            interrupts=self._presentation.interrupts(interrupts),
            approvers={
                each.id: record.approver_of(each)
                for each in record.interrupts  # also those of sub-agents
                if record.is_live and record.approver_of(each) != record.owner
            },
            error=self.error,
            is_stored=True,
            **self._presentation.result(record.result),
        )

    def summary(self) -> RunSummary:
        """Return the run as lists show it to its owner."""
        return self.view().summary()

    def __repr__(self) -> str:
        # Without the public id, which must not reach a log.
        return f"<StoredWebRun of run {self.run_id}: {self.state}>"
