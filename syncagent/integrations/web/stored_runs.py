"""The runs of a store over HTTP: every process of a server has the same ones."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET

from ..._checks import check_number
from ..._closeable import Closeable
from ...background.runtime import ShutdownReport
from ...cancel import CancelToken, Receipt
from ...exceptions import (
    AgentBusy,
    ConfigurationError,
    ConversationChanged,
    InterruptPending,
    NoSuchRun,
    Origin,
    StoreUnavailable,
    TooManyRuns,
)
from ...stores import RunStore, StoredRun
from ...stores.answers import find_question
from ...tools.call_stop import CallReceipt
from .access import Access, Authorize, owner_name
from .bodies import (
    AnswerBody,
    AnswersResponse,
    AnswerStatus,
    CancelCallRequest,
    CancelRequest,
    StartRequest,
    check_changes,
    check_remembering,
)
from .conversations import WebConversations
from .errors import (
    Refused,
    no_such_run,
    public_error,
    shutting_down,
    store_unavailable,
    too_many_followers,
    too_many_runs,
)
from .inbox import WebInbox
from .presentation import Presentation
from .runs import check_choices, register
from .sse import HEARTBEAT, SLOW, RunEventStream
from .stored_run import StoredWebRun
from .web_run import OnDisconnect

__all__ = ["StoredRuns"]

_log = logging.getLogger("syncagent.web")

#: Seconds of work after which every run is cancelled.
_TIMEOUT: Final = 600.0
#: Seconds without a follower after which a run may be cancelled, at least: no process
#: can know at once that the last follower has left.
_SHORTEST_GRACE: Final = 5.0
#: Seconds that runs have to reach the end of a turn when the process ends.
_GRACE: Final = 5.0
#: How many runs a list shows.
_LIST: Final = 100
_NO_CREDENTIALS: Final = (
    "Credentials cannot be given here, because the server would have to store them. "
    "Decline, and ask the people who run it to set them up."
)


class StoredRuns(Closeable):
    """The runs of a store, each with an owner, for the endpoints of any process.

    Everything here may be called from any thread. A run outlives the process that works
    on it, and its followers.

    :param store: the store, which is closed together with this.
    :param authorize: called with a request and a run; returns True if the client may
        see, answer and cancel the run. Without it every request is refused.
    :param on_disconnect: ``cancel`` ends a run that no one has followed for a while;
        ``detach`` lets it continue.
    :param grace: seconds for that. It is at least 5, and at least the lease of the
        store: 15, unless that is set.
    :param timeout: seconds of work after which every run is cancelled.
    :param max_per_owner: how many live runs an owner may have, in all processes.
    :param max_followers: how many streams of one run may be open at once, in each
        process.
    :param max_followers_per_owner: how many streams of all runs of one owner.
    :param slow_seconds: seconds that a client has to take a chunk of a stream before
        it is disconnected, and, after the end of the run, all of the stream.
    :param heartbeat: seconds of silence after which a stream sends a comment.
    :param show_tool_errors: show clients the messages of exceptions raised by tools.
    :param may_change_arguments: accept approvals that change the arguments of a call.
        If the store has ``approver_of``, none of them are accepted, and none that allow
        all later calls of a tool: another person may have to answer those.
    """

    #: Every process has the same runs.
    has_store: Final = True

    def __init__(
        self,
        store: RunStore,
        authorize: Authorize | None = None,
        *,
        on_disconnect: OnDisconnect = "detach",
        grace: float = _SHORTEST_GRACE,
        timeout: float | None = _TIMEOUT,
        max_per_owner: int = 20,
        max_followers: int = 20,
        max_followers_per_owner: int = 40,
        slow_seconds: float = SLOW,
        heartbeat: float = HEARTBEAT,
        show_tool_errors: bool = False,
        may_change_arguments: bool = True,
    ) -> None:
        if not isinstance(store, RunStore):
            raise ConfigurationError(f"store must be a RunStore; got {store!r:.80}")
        check_choices(authorize, on_disconnect, timeout)
        for name, value, minimum in (
            ("grace", grace, 0),
            ("max_per_owner", max_per_owner, 1),
            ("max_followers", max_followers, 1),
            ("max_followers_per_owner", max_followers_per_owner, 1),
            ("slow_seconds", slow_seconds, 0.01),
            ("heartbeat", heartbeat, 0.01),
        ):
            check_number(name, value, minimum=minimum, allow_infinity=True)
        #: The store.
        self.store: Final = store
        self.access: Final = Access(authorize)
        self._unfollowed_seconds = (
            max(grace, _SHORTEST_GRACE, store.lease)
            if on_disconnect == "cancel"
            else None
        )
        self._timeout = timeout
        self._max_per_owner = max_per_owner
        self._max_followers = max_followers
        self._max_followers_per_owner = max_followers_per_owner
        self._slow_seconds = slow_seconds
        self._heartbeat = heartbeat
        #: The parts of runs and conversations that clients may see.
        self.presentation: Final = Presentation(
            show_tool_errors,
            may_change_arguments and not store.has_approvers,
            may_remember=not store.has_approvers,
        )
        self.conversations: Final = WebConversations(self)
        self.inbox: Final = WebInbox(self)
        self.start_over()
        register(self)

    def start_over(self) -> None:
        """Continue without followers, in a forked child: they are the parent's."""
        #: Open streams of this process: run id and owner of each.
        self._followers: dict[object, tuple[str, str]] = {}
        #: Cancelled when this process ends.
        self._ending = CancelToken()

    def open(self) -> None:
        """Open the store, so that this process takes over the runs of dead ones."""
        try:
            self.store.list(limit=1)  # unlike open() it tries again for a while
        except StoreUnavailable as error:
            _log.warning("the store of runs is unavailable: %s", error)

    # -- starting ------------------------------------------------------------------

    def submit(self, start: StartRequest, *, owner: str | int | UUID) -> StoredWebRun:
        """Add a run to the store, and have it worked on.

        :param start: the request. Its *options* become ``run.labels``; its
            *conversation* continues that of the same owner.
        :param owner: the owner; ``authorize`` finds it in ``run.owner``, as a string.
        :raises Refused: the owner has too many runs, the conversation has one, the
            store is unavailable, or the server is shutting down.
        :raises ConfigurationError: there is no owner.
        """
        owner = owner_name(owner)
        with self.refusals():
            id = self.store.submit(
                start.prompt,
                owner=owner,
                agent=start.agent,
                conversation=start.conversation,
                labels=start.options,
                timeout=self._timeout,
                max_live=self._max_per_owner,
                unfollowed_seconds=self._unfollowed_seconds,
                version=start.version,
            )
            record = self.store.get(id, has_messages=False)
        if record is None:  # forgotten at the same moment
            raise no_such_run()
        return self._web_run(record)

    def _web_run(self, record: StoredRun) -> StoredWebRun:
        return StoredWebRun(
            self.store,
            record,
            presentation=self.presentation,
            followers=self._followers,
            ending=self._ending,
        )

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Turn the errors of a store into those of HTTP.

        :raises Refused: the store raised one of them, or the server is shutting down.
        """
        if self._ending.cancelled:
            raise shutting_down()
        try:
            yield
        except StoreUnavailable as error:
            _log.warning(
                "refused a request, because the store is unavailable: %s", error
            )
            raise store_unavailable() from error
        except NoSuchRun:
            raise no_such_run() from None
        except TooManyRuns:
            raise too_many_runs() from None
        except (AgentBusy, ConversationChanged, InterruptPending) as error:
            raise Refused(409, *public_error(error)) from error

    # -- finding -------------------------------------------------------------------

    def get(self, id: str, request: Any) -> StoredWebRun:
        """Return a run that the client of *request* may see.

        :raises Refused: there is no such run, or the client may not see it. The error
            is the same, so that clients cannot probe for ids. Or the store is
            unavailable.
        """
        run, is_seen = self.find(id, request)
        if run is None or not is_seen:
            raise no_such_run()
        return run

    def find(self, id: str, request: Any) -> tuple[StoredWebRun | None, bool]:
        """Return a run, if there is one, and whether the client may see it.

        :raises Refused: the store is unavailable.
        """
        record = None
        if id.isascii() and id.replace("-", "").replace("_", "").isalnum():
            with self.refusals():
                record = self.store.get(id, has_messages=False)
        run = None if record is None else self._web_run(record)
        # Checked even without a run, so that both cases are refused alike.
        return run, self.access.may_see(request, run)

    def is_seen(self, request: Any, record: StoredRun) -> bool:
        """Return whether the client of *request* may see a run."""
        return self.access.may_see(request, self._web_run(record))

    def list(self, request: Any, *, owner: str | None = None) -> list[StoredWebRun]:
        """Return the newest runs that the client of *request* may see.

        :param owner: look only among the runs of this owner. Otherwise it looks among
            the newest of all owners.
        :raises Refused: the store is unavailable.
        """
        self.access.check_set_up()
        with self.refusals():
            records = self.store.list(owner=owner, limit=_LIST)
        runs = map(self._web_run, records)
        return [run for run in runs if self.access.may_see(request, run)]

    # -- using one -----------------------------------------------------------------

    def follow(
        self,
        run: StoredWebRun,
        *,
        after: int = 0,
        environ: Mapping[str, Any] | None = None,
    ) -> RunEventStream:
        """Return the events of a run, for one client.

        :param after: how many events the client has seen.
        :param environ: the environ of the request, to notice at once when the client
            leaves, and to disconnect one that reads nothing.
        :raises Refused: the run or its owner has too many open streams, or the store
            is unavailable.
        """
        with self.refusals():
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
                self._check_followers(run.owner, run.run_id, new=0)
            except Refused:
                stream.close()
                raise
        return stream

    def check_followers(self, owner: str) -> None:
        """Refuse to start a run with a stream, if its owner has too many open streams.

        :raises Refused: the owner has too many.
        """
        self._check_followers(owner, "", new=1)

    def _check_followers(self, owner: str, run_id: str, *, new: int) -> None:
        followed = list(self._followers.values())
        of_run = sum(each[0] == run_id for each in followed)
        of_owner = sum(each[1] == owner for each in followed) + new
        if of_run > self._max_followers or of_owner > self._max_followers_per_owner:
            raise too_many_followers()

    def cancel(
        self,
        run: StoredWebRun,
        request: CancelRequest | None = None,
        *,
        origin: Origin = "user",
        by: str = "",
    ) -> Receipt:
        """Cancel a run, whichever process has it.

        :param request: the reason and the mode.
        :param origin: ``user`` for the owner, ``remote`` for an operator.
        :param by: the person who cancels, which is recorded.
        :return: true if and only if the run was live.
        :raises Refused: the store is unavailable. Repeating the request is safe.
        """
        request = request or CancelRequest()
        with self.refusals():
            return self.store.cancel(
                run.id, request.reason, origin, mode=request.mode, by=by
            )

    def cancel_call(
        self, run: StoredWebRun, call_id: str, request: CancelCallRequest
    ) -> CallReceipt:
        """Refuse: the store tells a worker to stop a run, and not a call.

        :raises Refused: always.
        """
        raise Refused(
            409,
            "unsupported",
            "One call of a stored run cannot be stopped.",
        )

    def answer(
        self,
        run: StoredWebRun,
        answers: Mapping[str, AnswerBody],
        *,
        by: str = "",
        approvers: Collection[str] | None = None,
    ) -> AnswersResponse:
        """Answer questions of a run, and return the status of each answer.

        :param answers: by the id of the interrupt or of the tool call.
        :param by: the person who answers, which is recorded.
        :param approvers: refuse answers to questions that none of these people and
            groups is to answer.
        :raises Refused: one of them is not an answer at all, or may not change
            arguments; then none is given. Or the store is unavailable.
        """
        values = {id: body.value() for id, body in answers.items()}
        check_changes(answers, self.presentation.may_change_arguments)
        check_remembering(answers, self.presentation.may_remember)
        statuses: dict[str, AnswerStatus] = {}
        messages: dict[str, str] = {}
        for id, value in values.items():
            if answers[id].credentials is not UNSET:
                statuses[id], messages[id] = "refused", _NO_CREDENTIALS
                continue
            # The question that was checked: a later one may be about the same call.
            question = find_question(run.record, id)
            asked = id if question is None else question.id
            try:
                with self.refusals():
                    statuses[id] = self.store.answer(
                        run.id, {asked: value}, by=by, approvers=approvers
                    )[asked]
            except ConfigurationError as error:
                statuses[id] = "refused" if run.is_live else "over"
                if answers[id].may_be_explained and run.is_live:
                    messages[id] = str(error)
        return AnswersResponse(statuses, messages)

    # -- ending --------------------------------------------------------------------

    def cancel_all(self, reason: str = "", *, is_last: bool = False) -> int:
        """Cancel no run: other processes resume them.

        Takes no lock: signal handlers may call it.

        :param is_last: end the streams of this process, whose clients reconnect, and
            refuse all requests from now on.
        """
        if is_last:
            self._ending.cancel(reason, "shutdown")
        return 0

    def close(self) -> None:
        """Release the runs of this process to others, and close the store.

        Cancellation: it waits for the end of turns, at most 10 seconds.
        """
        self.shutdown()

    def shutdown(self, grace: float = _GRACE) -> ShutdownReport:
        """Do the same as :meth:`close`.

        :param grace: seconds that runs have to reach the end of a turn.
        """
        self.cancel_all(is_last=True)
        self.store.close(grace)
        return ShutdownReport()

    def __repr__(self) -> str:
        return f"<StoredRuns of {self.store!r}>"
