"""A store of runs: any process can begin, follow, answer and cancel them.

One row for each run is the truth. Threads of this process, or an engine such as Celery,
only carry the id of a run to a worker; hints only say "look".

A run goes through these states; each arrow is one transaction::

    submit() ──▶ queued ──work()──▶ running ──────────────▶ done, failed, limit,
                   ▲                 │  │  ▲                 cancelled
                   │ its worker died │  │  │ answer(), work()
                   └─────────────────┘  ▼  │                 ▲
                                      waiting ───cancel()────┘
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar
from uuid import uuid4

from .._checks import check_number, check_timeout
from .._context import ContextFactory
from ..cancel import CancelMode, CancelToken
from ..cancel.claim import check_cancel
from ..conversation.request import Cancel, run_token
from ..exceptions import (
    ConfigurationError,
    InterruptPending,
    NoSuchRun,
    Origin,
    StoreUnavailable,
)
from ..messages import Prompt
from ..result import RunResult
from .answers import check_answers, check_with_agent
from .archive import StoreArchive
from .conversations import StoredConversation
from .deliveries import Deliveries, Enqueue
from .event_log import StoredEvents
from .inbox import ApproverOf
from .lifetimes import OPEN_STORES
from .receipts import StoreReceipt
from .records import (
    CancelRecord,
    ConversationRecord,
    StoredRun,
    conversation_key,
)
from .settings import StoreSettings
from .submission import check_added, check_texts, new_run
from .worker import StoreWorker
from .working import MakeAgent, work_on

__all__ = ["Enqueue", "MakeAgent", "RunStore"]

_log = logging.getLogger("syncagent.store")
_T = TypeVar("_T")
_DAY: Final = 86400.0
#: Seconds that cancelled runs have to end, and threads to stop.
_ENDING: Final = 5.0


class RunStore(StoreArchive):
    """Runs in a database, which outlive the process that works on them.

    It opens nothing before it is first used, so it may be made before a fork. Call
    everything here from any thread. None of it is for signal handlers: unlike
    :meth:`syncagent.Agent.cancel`, these calls wait for a database.

    :param url: ``sqlite:///runs.db``, or ``postgresql://...``.
    :param make_agent: returns a new agent for a run, in any process; without it this
        process can look at runs, cancel and answer them, and begins none.
    :param enqueue: hands a run to an engine, such as Celery, whose task calls
        :meth:`work`. Without it runs are worked on by threads of this process.
    :param max_workers: how many threads; other runs wait for their turn.
    :param lease: seconds without a sign of life after which a process counts as dead,
        and others take over its runs.
    :param max_crashes: a run has failed once so many workers have died with it.
    :param keep_events: seconds that the events of a run are kept after its end.
    :param keep_runs: seconds that runs are kept after their end.
    :param keep_conversations: seconds that conversations are kept after their last run.
    :param keep_audit: seconds that the record of answers is kept.
    :param approver_of: returns the person or group whose inbox gets a question of a
        run; by default its owner.
    :param timeout: seconds that a call waits for a store that is unavailable.
    :param cancel: a token that ends the waits of all calls, and no run.
    :raises ConfigurationError: an argument cannot work.
    """

    def __init__(
        self,
        url: str,
        make_agent: MakeAgent | None = None,
        enqueue: Enqueue | None = None,
        *,
        max_workers: int = 64,
        lease: float = 15.0,
        max_crashes: int = 5,
        keep_events: float = _DAY,
        keep_runs: float = 7 * _DAY,
        keep_conversations: float = 90 * _DAY,
        keep_audit: float = 365 * _DAY,
        approver_of: ApproverOf | None = None,
        timeout: float = 10.0,
        cancel: CancelToken | None = None,
    ) -> None:
        for name, arguments, function in (
            ("make_agent", "run", make_agent),
            ("enqueue", "run", enqueue),
            ("approver_of", "run, question", approver_of),
        ):
            if function is not None and not callable(function):
                raise ConfigurationError(
                    f"{name} must be a function({arguments}); got {function!r:.80}"
                )
        settings = StoreSettings(
            max_workers=max_workers,
            lease=lease,
            max_crashes=max_crashes,
            keep_events=keep_events,
            keep_runs=keep_runs,
            keep_conversations=keep_conversations,
            keep_audit=keep_audit,
            timeout=timeout,
        )
        super().__init__(url, settings, cancel)
        self._url = url
        self._make_agent = make_agent
        self._enqueue = enqueue
        self._approver_of = approver_of
        #: Seconds without a sign of life after which a process counts as dead.
        self.lease: Final = lease
        #: Makes the context that surrounds the work on each run and each tool call,
        #: such as the application context of Flask.
        self.context: ContextFactory | None = None
        self._deliveries = self._new_deliveries()
        OPEN_STORES.add(self)

    def observer(self, cancel: CancelToken | None = None) -> RunStore:
        """Return the same store for a program that only looks, cancels and answers."""
        return RunStore(
            self._url,
            enqueue=self._enqueue,
            timeout=self._settings.timeout,
            cancel=cancel,
        )

    @property
    def has_approvers(self) -> bool:
        """True if ``approver_of`` decides who answers a question."""
        return self._approver_of is not None

    # -- this process --------------------------------------------------------------

    def _new_deliveries(self) -> Deliveries:
        return Deliveries(
            *(self._settings.max_workers, self._work_on_thread, self._enqueue),
            read=self._read_for_engine,
            on_free=self._has_room,
        )

    def _new_worker(self) -> StoreWorker:
        return StoreWorker(
            self.backend,
            self._settings,
            deliver=self._deliveries.start,
            room=lambda: self._deliveries.room,
            approver_of=self._approver_of,
            is_observer=self._make_agent is None,
        )

    # -- beginning -----------------------------------------------------------------

    def submit(
        self,
        prompt: Prompt,
        *,
        owner: str = "",
        agent: str = "",
        conversation: str = "",
        labels: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        id: str | None = None,
        run_id: str | None = None,
        max_live: int | None = None,
        unfollowed_seconds: float | None = None,
        version: int | None = None,
    ) -> str:
        """Add a run, and have it worked on; from now on a cancel finds it.

        :param owner: the owner, in the application's own terms.
        :param agent: the name of the agent, for ``make_agent``.
        :param conversation: the name of a conversation of this owner, which the run
            continues; by default the run has one of its own.
        :param labels: anything else for ``make_agent`` and ``enqueue``, as JSON.
        :param timeout: seconds of work after which it is cancelled; time in which it
            waits for answers or for a worker does not count.
        :param id: the id of the run; submitting the same id again does nothing. It must
            not be easy to guess where clients use it.
        :param run_id: the id in logs and idempotency keys.
        :param max_live: how many live runs the owner may have.
        :param unfollowed_seconds: cancel it once no one has followed its events for so
            long.
        :param version: refuse the run unless its conversation has this version.
        :return: the id of the run.
        :raises AgentBusy: the conversation has a live run.
        :raises InterruptPending: that run waits for answers.
        :raises ConversationChanged: it has another version.
        :raises TooManyRuns: the owner has *max_live* runs.
        :raises StoreUnavailable: the store is unavailable; the run may have been added.
        """
        if self._make_agent is None and self._enqueue is None:
            raise ConfigurationError("submit() needs make_agent= or enqueue=")
        run = new_run(
            prompt,
            owner=owner,
            agent=agent,
            conversation=conversation,
            labels=labels,
            timeout=timeout,
            id=id,
            run_id=run_id,
            unfollowed_seconds=unfollowed_seconds,
            version=version,
            lease=self.lease,
        )
        added = self.call(lambda store: store.add(run, max_live))
        check_added(added, conversation, max_live)
        # Also if it is known: the reply to the first attempt may have been lost.
        self._deliveries.deliver(run.id)
        return run.id

    def _read_for_engine(self, id: str) -> StoredRun | None:
        """Return a run, also while this closes: no other process hands it out soon."""
        if not self._is_closed:
            return self.call(lambda store: store.read(id))
        with self.observer() as store:
            return store.call(lambda backend: backend.read(id))

    def _has_room(self) -> None:
        """Look again for runs that this process had no room for."""
        worker = self._worker
        if worker is not None and worker.has_skipped_runs:
            worker.sweep_soon()

    def work(self, id: str) -> RunResult | None:
        """Work on a run until it ends or waits, on this thread.

        This is all that the task of an engine has to do. A run that has ended, waits,
        or is another worker's is left alone, so any number of deliveries is harmless.
        A closed store has another process hand the run out again.

        Cancellation: a cancel of the run ends it at once.

        :return: the result; ``None`` if there was nothing to do.
        :raises NoSuchRun: there is no such run.
        :raises StoreUnavailable: the store is unavailable; it can be delivered again.
        """
        if self._make_agent is None:
            raise ConfigurationError("work() needs make_agent=, see RunStore()")
        self._deliveries.check_work(id)
        try:
            worker = self.open()
            keeper = worker.claim(id, self.call)
        except (ConfigurationError, StoreUnavailable):
            if not self._is_closed:
                raise
            with self.observer() as store:  # engines deliver to a process that ends
                return store.call(lambda backend: backend.deliver_now(id))
        if keeper is None:
            return None
        try:
            return work_on(keeper, self._make_agent, self.context)
        finally:
            worker.drop(keeper)

    def _work_on_thread(self, id: str) -> None:
        try:
            self.work(id)
        except NoSuchRun:
            pass  # it was deleted before it began
        except Exception:
            if not self._is_closed:  # else another process finds it
                _log.exception("the work on a run ended; a sweep delivers it again")

    # -- using one -----------------------------------------------------------------

    def cancel(
        self,
        id: str,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
        by: str = "",
    ) -> StoreReceipt:
        """Cancel a run, whichever process of whichever host has it.

        :param reason: why, for the result and the logs.
        :param mode: as for :meth:`syncagent.Agent.cancel`; a run that no worker has
            ends at once in any mode.
        :param force: do not wait for tools, if the run is in this process.
        :param by: the person or program that cancels; it is recorded.
        :return: true if and only if the run had not ended. Then its stored end is
            ``cancelled``, whatever happens to its worker.
        :raises NoSuchRun: there is no such run.
        :raises StoreUnavailable: it is not known whether the cancel was recorded;
            doing it again is safe. A run in this process ends in any case.
        """
        check_cancel(reason, origin, mode)
        check_texts({"reason": reason, "by": by}, can_have_null=True)
        record = CancelRecord(reason, origin, mode, by, uuid4().hex)
        worker = self.open()
        worker.cancel_here(id, record, force=force)  # at once, whatever the store does
        reply = self.call(lambda store: store.cancel(id, record))
        worker.cancel_here(id, record, force=force)  # if it was just claimed
        worker.followers.wake([reply.run_id])
        return StoreReceipt(reply, lambda: self.events(id, after=_AT_END))

    def answer(
        self,
        id: str,
        answers: Mapping[str, Any],
        *,
        by: str = "",
        approvers: Collection[str] | None = None,
    ) -> dict[str, Literal["taken", "over", "refused"]]:
        """Answer questions of a run; the first answer to each one wins.

        :param answers: by the id of the question or of the tool call: true, false or an
            :class:`~syncagent.interrupts.Approval`; text. Never credentials: those are
            not stored, give ``make_agent``'s agent ``authenticate=``.
        :param by: the person who answers; it is recorded.
        :param approvers: refuse answers to questions that none of these people and
            groups is to answer.
        :return: for each, ``taken``; ``over`` if it was answered before, or the run has
            continued or ended; ``refused`` if there is no such question.
        :raises ConfigurationError: an answer does not fit its question; then none is
            taken.
        :raises NoSuchRun: there is no such run.
        :raises StoreUnavailable: not known; doing it again is safe.
        """
        check_texts({"by": by})
        run = self._read(id)
        stored = check_answers(run, answers, self._check_arguments)
        bodies = {asked: answer.encode() for asked, (_, answer) in stored.items()}
        nonce = uuid4().hex
        allowed = None if approvers is None else frozenset(approvers)
        answered = self.call(lambda store: store.answer(id, bodies, by, nonce, allowed))
        self.open().look([run.run_id])
        if answered.is_ready:
            if self._make_agent is None and self._enqueue is None:
                self.call(lambda store: store.deliver_now(id))
            else:
                self._deliveries.deliver(id)
        return {given: answered.statuses[asked] for asked, (given, _) in stored.items()}

    def _check_arguments(self, run: StoredRun, answers: Mapping[str, Any]) -> None:
        """Check changed arguments as the tool of the agent does."""
        if run.state != "waiting" or self._make_agent is None:
            raise ConfigurationError(
                "this approval cannot change arguments: the store needs make_agent= to "
                "check them, and those of sub-agents cannot be changed; allow or deny "
                "the call as it is"
            )
        tail, messages = self.call(lambda s: (s.tail(run.id), s.messages(run.id)))
        check_with_agent(self._make_agent(run), tail, messages, answers)

    def events(
        self, id: str, after: int = 0, *, cancel: Cancel | None = None
    ) -> StoredEvents:
        """Return the events of a run: those so far, then new ones as they happen.

        All followers read the store, those in the process of the run too, and see the
        same numbers. ``position`` is the number of the last event.

        Cancellation: ends at once, with *cancel* or when it or the store is closed.

        :param after: begin after so many events.
        :raises NoSuchRun: there is no such run.
        """
        check_number("after", after, is_integer=True, unit="events")
        run = self._read(id)
        worker, run_id = self.open(), run.run_id
        ending = CancelToken.any_of(worker.stopping, self._cancel or CancelToken())
        token, registration = run_token(None, None, cancel, ending)
        if run.needs_followers:
            self.call(lambda store: store.follow([run_id]))
        news = worker.followers.add(run_id, needs_followers=run.needs_followers)
        return StoredEvents(
            run,
            min(after, run.events),
            read=lambda number: worker.perform(
                lambda store: store.events(run_id, number), token
            ),
            look=lambda: worker.perform(lambda store: store.read(id), token),
            news=news,
            leave=lambda: worker.followers.remove(run_id),
            token=token,
            registration=registration,
        )

    def result(self, id: str, timeout: float | None = None) -> RunResult:
        """Wait until a run has ended or waits for answers, and return its result.

        Cancellation: a cancel of the run ends the wait.

        :raises TimeoutError: it has not ended after *timeout* seconds.
        :raises InterruptPending: it waits for answers; ``get(id)`` has the questions.
        :raises RunFailed: it failed.
        :raises NoSuchRun: there is no such run.
        :raises StoreUnavailable: the token of the store ended the wait.
        """
        check_timeout(timeout)
        with self.events(id, after=_AT_END) as events:
            run = events.wait_for_rest(timeout)
        if run is None:
            raise TimeoutError(f"the run has not ended after {timeout} s")
        if run.state == "waiting":
            raise InterruptPending("the run waits for answers")
        run = self.get(id)
        if run is None:
            raise NoSuchRun("the store has forgotten the run")
        return run.final_result()

    # -- conversations -------------------------------------------------------------

    def conversation(self, id: str, *, owner: str = "") -> StoredConversation:
        """Return a conversation as it is now; its first run begins it.

        :param id: its name, which is unique for its owner.
        """
        check_texts({"id": id, "owner": owner})
        if not id:
            raise ConfigurationError("a conversation needs an id, in the form of text")
        key = conversation_key(owner, id, "")
        record = self.call(lambda store: store.conversation(key))
        record = record or ConversationRecord(key=key, id=id, owner=owner)
        return StoredConversation(self, record)

    def conversations(
        self, *, owner: str | None = None, limit: int = 100
    ) -> Sequence[StoredConversation]:
        """Return conversations, last changed first.

        :param owner: only those of this owner.
        """
        check_number("limit", limit, minimum=1, is_integer=True)
        records = self.call(lambda store: store.conversations(owner, limit))
        return [StoredConversation(self, record) for record in records]

    # -- ending --------------------------------------------------------------------

    def close(self, grace: float = 10.0) -> None:
        """Release the runs of this process to others, and close everything.

        Runs get *grace* seconds to reach the end of a turn. Then this process releases
        them: another one resumes them at once, from their last checkpoints.

        Cancellation: it waits for the end of runs, *grace* and 5 seconds at most.
        """
        check_timeout(grace, "grace")
        with self._lock:
            self._is_closed = True
            worker, self._worker = self._worker, None
        if worker is None:
            self.backend.close()
            return
        self._deliveries.close()
        worker.give_runs_away(grace, _ENDING)
        self._deliveries.join(0.0 if worker.keepers else _ENDING)
        worker.stop(_ENDING)
        self.backend.close()

    def start_over(self) -> None:
        """Continue as a new process, in a forked child."""
        self._lock = threading.Lock()
        self._worker, self._deliveries = None, self._new_deliveries()
        self.backend.start_over()

    def __repr__(self) -> str:
        live = 0 if self._worker is None else len(self._worker.keepers)
        return f"<RunStore: {live} runs in this process>"


#: After the last event of any run.
_AT_END: Final = 2**62
