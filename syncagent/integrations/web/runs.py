"""The runs of this process that were started over HTTP, live and just finished."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from uuid import UUID

from ..._checks import check_number, check_timeout
from ..._closeable import Closeable
from ..._forks import in_child
from ...agent import Agent
from ...background.runtime import ShutdownReport
from ...cancel import Receipt
from ...exceptions import (
    AgentBusy,
    ConfigurationError,
    InterruptOver,
    InterruptPending,
    Origin,
)
from ...messages import Prompt, UserMessage
from ...tools.call_stop import CallReceipt
from .access import Access, Authorize, owner_name
from .bodies import (
    AnswerBody,
    AnswersResponse,
    AnswerStatus,
    CancelCallRequest,
    CancelRequest,
    check_changes,
)
from .errors import Refused, no_such_run, public_error
from .presentation import Presentation, beginning_of
from .recordings import WebRecording
from .registry import RunRegistry
from .sse import HEARTBEAT, SLOW, RunEventStream
from .web_run import OnDisconnect, WebRun

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..._arguments import StartArguments

__all__ = [
    "EndingRuns",
    "Runs",
    "all_runs",
    "check_choices",
    "close_all",
    "register",
]

_log = logging.getLogger("syncagent.web")

#: Seconds after which every run is cancelled: no server notices a client that lost
#: power.
_TIMEOUT: Final = 600.0
#: Seconds that runs have to end when the process does.
_GRACE: Final = 5.0
_SHUTTING_DOWN: Final = "the server is shutting down"
#: Seconds.
_SHORTEST_HEARTBEAT: Final = 0.01


def check_choices(authorize: Any, on_disconnect: Any, timeout: Any) -> None:
    """Check the settings that runs in this process and runs in a store share.

    :raises ConfigurationError: one of them is not of its kind.
    """
    if authorize is not None and not callable(authorize):
        raise ConfigurationError(
            f"authorize must be a function(request, run); got {authorize!r:.80}"
        )
    if on_disconnect not in ("cancel", "detach"):
        raise ConfigurationError(
            f"on_disconnect must be 'cancel' or 'detach'; got {on_disconnect!r:.80}"
        )
    check_timeout(timeout)


class Runs(Closeable):
    """Live and just finished runs, each with an owner.

    Everything here may be called from any thread. A forked child starts without runs.

    :param authorize: called with a request and a run; returns True if the client may
        see, answer and cancel the run. Without it every request is refused.
    :param on_disconnect: ``cancel`` ends a run when its last follower leaves;
        ``detach`` lets it continue.
    :param grace: seconds to wait for a follower to return before that, as after a
        reload.
    :param timeout: seconds after which every run is cancelled.
    :param keep: how long finished runs are kept, in seconds.
    :param max_finished: how many finished runs are kept.
    :param max_finished_per_owner: how many of them may belong to one owner, whose own
        oldest go first.
    :param max_live: how many runs may be live at once.
    :param max_per_owner: how many of them may belong to one owner.
    :param max_followers: how many streams of one run may be open at once.
    :param max_followers_per_owner: how many streams of all runs of one owner.
    :param slow_seconds: seconds that a client has to take a chunk of a stream before
        it is disconnected, and, after the end of the run, all of the stream.
    :param buffer: how many events of each run are kept.
    :param heartbeat: seconds of silence after which a stream sends a comment.
    :param recording: how many bytes of each run are recorded in memory, for its
        timeline; 0 turns recording off.
    :param show_tool_errors: show clients the messages of exceptions raised by tools,
        which may contain private details. The model always sees them.
    :param may_change_arguments: accept approvals that change the arguments of a call.
        Hooks and rules see changed arguments as they see those of the model.
    """

    #: Each process has its own runs.
    has_store: Final = False

    def __init__(
        self,
        authorize: Authorize | None = None,
        *,
        on_disconnect: OnDisconnect = "cancel",
        grace: float = 0.0,
        timeout: float | None = _TIMEOUT,
        keep: float = 300.0,
        max_finished: int = 200,
        max_finished_per_owner: int = 20,
        max_live: int = 200,
        max_per_owner: int = 20,
        max_followers: int = 20,
        max_followers_per_owner: int = 40,
        slow_seconds: float = SLOW,
        buffer: int = 1024,
        heartbeat: float = HEARTBEAT,
        recording: int = 0,
        show_tool_errors: bool = False,
        may_change_arguments: bool = True,
    ) -> None:
        check_choices(authorize, on_disconnect, timeout)
        for name, value, minimum in (
            ("grace", grace, 0),
            ("recording", recording, 0),
            ("slow_seconds", slow_seconds, _SHORTEST_HEARTBEAT),
            ("heartbeat", heartbeat, _SHORTEST_HEARTBEAT),
        ):
            check_number(name, value, minimum=minimum, allow_infinity=True)
        self.access: Final = Access(authorize)
        self._on_disconnect = on_disconnect
        self._grace = grace
        self._timeout = timeout
        self._buffer = buffer
        self._heartbeat = heartbeat
        self._slow_seconds = slow_seconds
        self._recording = recording
        self._presentation = Presentation(show_tool_errors, may_change_arguments)
        self._make_registry = partial(
            RunRegistry,
            keep=keep,
            max_finished=max_finished,
            max_finished_per_owner=max_finished_per_owner,
            max_live=max_live,
            max_per_owner=max_per_owner,
            max_followers=max_followers,
            max_followers_per_owner=max_followers_per_owner,
        )
        self._registry = self._make_registry()
        register(self)

    # -- starting ------------------------------------------------------------------

    def start(
        self,
        agent: Agent,
        prompt: Prompt,
        *,
        owner: str | int | UUID,
        conversation: str = "",
        on_disconnect: OnDisconnect | None = None,
        **settings: Unpack[StartArguments],
    ) -> WebRun:
        """Start a run.

        :param owner: the owner; ``authorize`` finds it in ``run.owner``, as a string.
        :param conversation: the name of the conversation, shown in lists.
        :param on_disconnect: overrides the default of these runs.
        :param settings: as for :meth:`syncagent.Agent.start`.
        :raises Refused: there are too many runs, the server is shutting down, or the
            agent is busy.
        :raises ConfigurationError: there is no owner.
        """
        owner = owner_name(owner)
        if not isinstance(agent, Agent):
            raise ConfigurationError(f"start() takes an Agent; got {agent!r:.80}")
        message = UserMessage.of(prompt)  # type: ignore[arg-type]
        settings.setdefault("timeout", self._timeout)
        settings.setdefault("buffer", self._buffer)
        recording = None
        if self._recording and settings.get("record") is None:
            recording = WebRecording(self._recording)
            settings["record"] = cast(Any, recording)  # it looks like a file

        def start() -> WebRun:
            try:
                handle = agent.start(prompt, **settings)
            except (AgentBusy, InterruptPending) as error:
                raise Refused(409, *public_error(error)) from error
            return WebRun(
                handle,
                owner,
                agent=agent.name or "",
                conversation=conversation,
                prompt=beginning_of(message),
                recording=recording,
                on_disconnect=on_disconnect or self._on_disconnect,
                grace=self._grace,
                presentation=self._presentation,
            )

        registry = self._registry
        run = registry.start_run(owner, start)
        run.handle.add_done_callback(run.note_end)
        try:
            registry.check_accepting()
        except Refused:  # it was closed in between
            run.handle.cancel(_SHUTTING_DOWN, "shutdown")
            raise
        return run

    # -- finding -------------------------------------------------------------------

    def get(self, id: str, request: Any) -> WebRun:
        """Return a run that the client of *request* may see.

        :raises Refused: there is no such run, or the client may not see it. The error
            is the same, so that clients cannot probe for ids.
        """
        self._registry.drop_finished()
        run = self._registry.runs.get(id)
        # Checked even without a run, so that both cases are refused alike.
        is_seen = self.access.may_see(request, run)
        if run is None or not is_seen:
            raise no_such_run()
        return run

    def list(self, request: Any, *, owner: str | None = None) -> list[WebRun]:
        """Return the runs that the client of *request* may see, newest first.

        :param owner: not needed here.
        """
        self._registry.drop_finished()
        self.access.check_set_up()
        runs = list(self._registry.runs.values())
        return [run for run in reversed(runs) if self.access.may_see(request, run)]

    # -- using one -----------------------------------------------------------------

    def follow(
        self, run: WebRun, *, after: int = 0, environ: Mapping[str, Any] | None = None
    ) -> RunEventStream:
        """Return the events of a run, for one client.

        :param after: how many events the client has seen.
        :param environ: the environ of the request, to notice at once when the client
            leaves, and to disconnect one that reads nothing.
        :raises Refused: the run or its owner has too many open streams.
        """
        stream = RunEventStream(
            run,
            after=after,
            environ=environ,
            heartbeat=self._heartbeat,
            slow_seconds=self._slow_seconds,
        )
        if not stream.is_empty:
            # Publish first, then look: of several that open at the same moment, none
            # passes the limit.
            try:
                self._registry.check_followers(run.owner, run)
            except Refused:
                stream.close()
                raise
        return stream

    def check_followers(self, owner: str) -> None:
        """Refuse to start a run with a stream, if its owner has too many open streams.

        :raises Refused: the owner has too many.
        """
        self._registry.check_followers(owner)

    def cancel(
        self,
        run: WebRun,
        request: CancelRequest | None = None,
        *,
        origin: Origin = "user",
        by: str = "",
    ) -> Receipt:
        """Cancel a run.

        :param request: the reason and the mode.
        :param origin: ``user`` for the owner, ``remote`` for an operator.
        :param by: the person who cancels; only a store records it.
        :return: true if and only if the run was live.
        """
        request = request or CancelRequest()
        return run.handle.cancel(request.reason, origin, mode=request.mode)

    def cancel_call(
        self, run: WebRun, call_id: str, request: CancelCallRequest
    ) -> CallReceipt:
        """Stop one tool call of a run; the run goes on.

        :return: true if and only if the call was running or waited for its turn.
        """
        return run.handle.cancel_call(call_id, request.reason, force=request.force)

    def answer(
        self, run: WebRun, answers: Mapping[str, AnswerBody], *, by: str = ""
    ) -> AnswersResponse:
        """Answer questions of a run, and return the status of each answer.

        :param answers: by the id of the interrupt or of the tool call.
        :param by: the person who answers; only a store records it.
        :raises Refused: one of them is not an answer at all, or may not change
            arguments; then none is given.
        """
        values = {id: body.value() for id, body in answers.items()}
        check_changes(answers, self._presentation.may_change_arguments)
        statuses: dict[str, AnswerStatus] = {}
        messages: dict[str, str] = {}
        for id, value in values.items():
            try:
                statuses[id] = "taken" if run.handle.answer(id, value) else "over"
            except InterruptOver:
                statuses[id] = "over"
            except ConfigurationError as error:
                statuses[id] = "refused" if run.is_live else "over"
                if answers[id].may_be_explained and run.is_live:
                    messages[id] = str(error)
        return AnswersResponse(statuses, messages)

    # -- ending --------------------------------------------------------------------

    def cancel_all(self, reason: str = "", *, is_last: bool = False) -> int:
        """Cancel all live runs, with origin ``shutdown``; return how many there were.

        As safe as :meth:`syncagent.Agent.cancel`, even in a signal handler.

        :param is_last: refuse new runs from now on.
        """
        if is_last:
            self._registry.stop_accepting()
        return sum(map(bool, self._registry.cancel_all(reason, "shutdown")))

    def close(self) -> None:
        """Refuse new runs, cancel the live ones and wait until they have ended.

        Cancellation: it waits for the end of runs, at most 5 seconds.
        """
        self.shutdown()

    def shutdown(self, grace: float = _GRACE) -> ShutdownReport:
        """Do the same as :meth:`close`, and return a report.

        Cancellation: it waits for the end of runs, at most *grace* seconds.
        """
        self.cancel_all(_SHUTTING_DOWN, is_last=True)
        return self._registry.shutdown(0.0, grace=grace)

    def open(self) -> None:
        """Do nothing: there are no runs before the first request."""

    def start_over(self) -> None:
        """Continue without runs, in a forked child: the runs belong to the parent."""
        self._registry = self._make_registry()

    def __repr__(self) -> str:
        live = len(self._registry.list())
        return f"<Runs: {live} live of {len(self._registry.runs)}>"


class EndingRuns(Protocol):
    """Runs that a server ends or gives away when it shuts down."""

    def cancel_all(self, reason: str = "", *, is_last: bool = False) -> int:
        """Cancel live runs that no other process can continue. Takes no lock."""

    def shutdown(self, grace: float = ...) -> ShutdownReport:
        """End with the process."""

    def open(self) -> None:
        """Begin with the process, after a fork."""

    def start_over(self) -> None:
        """Continue without runs, in a forked child."""


#: All runs of this process. Only whole-dict operations touch it, so that signal
#: handlers may read it.
_all: Final[dict[weakref.ref[EndingRuns], None]] = {}


def register(runs: EndingRuns) -> None:
    """Have *runs* begin and end with their process."""
    # A callback in C: one in Python would swallow a signal handler's exception.
    _all[weakref.ref(runs, _all.__delitem__)] = None


def all_runs() -> list[EndingRuns]:
    """Return every ``Runs`` and ``StoredRuns`` of this process."""
    found = [reference() for reference in list(_all)]
    return [runs for runs in found if runs is not None]


def close_all(reason: str = "") -> int:
    """Cancel the live runs of every ``Runs``, which then refuse new ones.

    Those of a store are not cancelled: another process continues them.

    As safe as :meth:`syncagent.Agent.cancel`, even in a signal handler.

    :return: how many runs were live.
    """
    return sum(runs.cancel_all(reason, is_last=True) for runs in all_runs())


@in_child
def _start_over_in_child() -> None:
    for runs in all_runs():
        runs.start_over()
