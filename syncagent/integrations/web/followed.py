"""The interfaces of runs over HTTP, in this process or in a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ...cancel import Receipt, Watch
from ...events import Lagged, StreamEvent
from ...exceptions import Origin
from ...tools.call_stop import CallReceipt
from .access import Access
from .bodies import (
    AnswerBody,
    AnswersResponse,
    CancelCallRequest,
    CancelRequest,
    RunError,
    RunSummary,
    RunView,
)
from .recordings import WebRecording

if TYPE_CHECKING:
    from .sse import RunEventStream

__all__ = ["FollowedEvents", "FollowedRun", "WebRuns"]


class FollowedEvents(Protocol):
    """The events of a run, for one follower."""

    @property
    def position(self) -> int:
        """The number of the last event."""

    @property
    def is_over(self) -> bool:
        """True if no more events come."""

    @property
    def watch(self) -> Watch:
        """Woken when there may be an event."""

    def get(self, timeout: float | None = None) -> StreamEvent | Lagged | None:
        """Wait for the next event; ``None`` if none comes in time.

        Cancellation: ends when it is closed.
        """

    def close(self) -> None:
        """End it. Safe to repeat."""


class FollowedRun(Protocol):
    """A run that a client may see and follow."""

    @property
    def id(self) -> str:
        """The public id."""

    @property
    def run_id(self) -> str:
        """The id in logs."""

    @property
    def owner(self) -> str:
        """The owner, in the application's own terms."""

    @property
    def agent(self) -> str:
        """The name of the agent."""

    @property
    def conversation(self) -> str:
        """The name of the conversation."""

    @property
    def state(self) -> str:
        """The state of the run."""

    @property
    def is_live(self) -> bool:
        """True until the run has ended."""

    @property
    def is_stored(self) -> bool:
        """True if any process of the server has the run."""

    @property
    def event_count(self) -> int:
        """The number of events so far."""

    @property
    def ended_clock(self) -> float | None:
        """The end by the monotonic clock, as far as it is known."""

    @property
    def recording(self) -> WebRecording | None:
        """The recording of the run, if there is one."""

    @property
    def error(self) -> RunError | None:
        """The error of the run, in a form that any client may see."""

    def subscribe(self, after: int) -> FollowedEvents:
        """Return the events after a number."""

    def has_event_after(self, events: FollowedEvents) -> bool:
        """Return whether the next event is ready."""

    def add_follower(self, follower: object) -> None:
        """Register a follower."""

    def remove_follower(self, follower: object) -> None:
        """Remove a follower; does nothing the second time. Never blocks."""

    def public_event(self, event: StreamEvent | Lagged) -> StreamEvent | Lagged:
        """Return the form of *event* that clients may see."""

    def view(self) -> RunView:
        """Return the run as its owner sees it."""

    def summary(self) -> RunSummary:
        """Return the run as lists show it to its owner."""


class WebRuns(Protocol):
    """Runs as the endpoints use them: those of this process, or those of a store."""

    @property
    def has_store(self) -> bool:
        """True if every process of the server has the same runs."""

    @property
    def access(self) -> Access:
        """Decides who may see which run."""

    def get(self, id: str, request: Any) -> FollowedRun:
        """Return a run that the client of *request* may see."""

    def list(self, request: Any, *, owner: str | None = None) -> Sequence[FollowedRun]:
        """Return the runs that the client of *request* may see, newest first."""

    def follow(
        self, run: Any, *, after: int = 0, environ: Mapping[str, Any] | None = None
    ) -> RunEventStream:
        """Return the events of a run, for one client."""

    def check_followers(self, owner: str) -> None:
        """Refuse to start a run with a stream, if its owner has too many streams."""

    def cancel(
        self,
        run: Any,
        request: CancelRequest | None = None,
        *,
        origin: Origin = "user",
        by: str = "",
    ) -> Receipt:
        """Cancel a run."""

    def cancel_call(
        self, run: Any, call_id: str, request: CancelCallRequest
    ) -> CallReceipt:
        """Stop one tool call of a run."""

    def answer(
        self, run: Any, answers: Mapping[str, AnswerBody], *, by: str = ""
    ) -> AnswersResponse:
        """Answer questions of a run, and return the status of each answer."""
