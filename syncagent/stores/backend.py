"""The interface of a back end: twelve operations, and a few to look and tidy up.

Guarantees that every back end gives, and ``tests/stores/test_contract_*.py`` check:

- Each operation is one transaction. It happens as a whole, or not at all.
- Each is safe to repeat: a caller whose reply was lost does the same again, and gets
  the reply that it missed.
- Writes of a worker name the attempt. They happen only if the run is still that
  worker's, and, at a gate, only if no one has cancelled it: one conditional UPDATE
  decides.
- Time is the store's own. Clocks of workers are never compared.

An operation raises :exc:`~syncagent.exceptions.StoreUnavailable` if the store cannot be
reached or is locked; then it is not known whether the operation has happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, Protocol

from ..conversation.state import Delta, StoredMessage
from ..exceptions import NoSuchRun
from .inbox import AuditEntry, InboxEntry
from .records import (
    Answered,
    CancelRecord,
    CancelReply,
    Census,
    Changed,
    Claim,
    ConversationChange,
    ConversationRecord,
    EventBatch,
    Lease,
    NewRun,
    Recovered,
    StoredAnswer,
    StoredEnd,
    StoredRun,
    Verdict,
)

__all__ = ["Added", "Backend", "SWEEP", "missing_run"]

#: In place of a run id in a hint: a run waits for a worker.
SWEEP: Final = "sweep"
#: ``known``: the id was added before; ``busy``: the conversation has a live run;
#: ``waiting``: and that run waits for answers; ``no room``: the owner has too many.
#: ``changed``: the conversation has another version than the caller has seen;
#: ``taken``: it is the id of another owner's run.
Added = Literal["added", "known", "busy", "waiting", "changed", "no room", "taken"]


def missing_run(id: str) -> NoSuchRun:
    """Return the error for an id that the store does not know."""
    # Only the beginning: an id is a secret.
    return NoSuchRun(f"the store has no run {id[:8]!r}..., or has forgotten it")


class Backend(Protocol):
    """A database with runs."""

    #: True if an operation can block for long: it is done on a thread of its own.
    may_block: bool

    # -- the protocol --------------------------------------------------------------

    def add(self, run: NewRun, max_live: int | None) -> Added:
        """Add a run, queued.

        :param max_live: how many live runs its owner may have.
        """

    def claim(self, id: str, worker: str, nonce: str) -> Claim | None:
        """Take a run for a worker, in a new attempt.

        :param nonce: recognises a claim that is sent again.
        :return: ``None`` if it has ended, waits, or a living worker has it.
        :raises NoSuchRun: there is no such run.
        """

    def beat(self, lease: Lease) -> bool:
        """Renew the lease of a process.

        :return: false if it had ended, or is the first: others may have its runs.
        """

    def checkpoint(
        self,
        id: str,
        attempt: int,
        delta: Delta | None,
        *,
        step: int = 0,
        begun: Sequence[str] = (),
        seconds_left: float | None = None,
        is_gate: bool = False,
    ) -> Verdict:
        """Store how far a run is.

        :param delta: ``None`` to ask only whether the run may continue.
        :param step: grows with each checkpoint of an attempt. An earlier one, which was
            delayed on its way, is refused.
        :param begun: the calls that have begun and not ended.
        :param is_gate: true to refuse it if the run is cancelled.
        """

    def park(
        self,
        id: str,
        attempt: int,
        delta: Delta,
        questions: bytes,
        events: EventBatch | None,
        *,
        seconds_left: float | None,
        answer_seconds: float | None,
        approvers: Mapping[str, str] = MappingProxyType({}),
    ) -> Verdict:
        """Let a run wait for answers, without a worker; refused if it is cancelled.

        :param answer_seconds: seconds after which it continues without answers.
        :param approvers: the approvers, by question, if not the owner.
        """

    def release(
        self, id: str, attempt: int, *, is_urgent: bool, has_crashed: bool = False
    ) -> bool:
        """Give a run back, so that another worker resumes it.

        :param is_urgent: resume it now, not after a while.
        :param has_crashed: count it as a crash.
        :return: false if it was not this worker's any more.
        """

    def finish(
        self,
        id: str,
        attempt: int,
        ending: StoredEnd,
        delta: Delta | None,
        events: EventBatch | None,
    ) -> Verdict:
        """End a run. Refused if it is cancelled and *ending* is not."""

    def cancel(self, id: str, cancel: CancelRecord) -> CancelReply:
        """Cancel a run; end it here if no living worker has it.

        :raises NoSuchRun: there is no such run.
        """

    def answer(
        self,
        id: str,
        answers: Mapping[str, bytes],
        by: str,
        nonce: str,
        approvers: Collection[str] | None = None,
    ) -> Answered:
        """Answer questions; the first answer to each one wins.

        :param nonce: recognises answers that are sent again.
        :param approvers: refuse answers to questions that none of these is to answer.
        :raises NoSuchRun: there is no such run.
        """

    def ask(
        self,
        id: str,
        attempt: int,
        questions: bytes,
        approvers: Mapping[str, str] = MappingProxyType({}),
    ) -> bool:
        """Note the questions that sub-agents of a run wait for.

        :param approvers: the approvers, by question, if not the owner.
        :return: false if it was not this worker's any more.
        """

    def append(self, batches: Iterable[EventBatch]) -> list[str]:
        """Store events of many runs.

        :return: the run ids whose events were refused: the runs are lost.
        """

    def recover(self, limit: int, max_crashes: int, worker: str = "") -> Recovered:
        """Queue the runs of dead workers, and find those that no one has begun.

        It also answers questions whose time is over, and cancels runs that no one
        follows any more.

        :param limit: return so many runs at most.
        :param max_crashes: a run that so many workers died with has failed.
        :param worker: the process that asks; it learns which runs it has.
        """

    def prune(
        self,
        events_seconds: float,
        runs_seconds: float,
        limit: int,
        *,
        conversations_seconds: float = math.inf,
        audit_seconds: float = math.inf,
    ) -> int:
        """Delete what is too old: logs, runs, conversations without runs, and answers.

        :param limit: delete so many of each kind at most.
        :return: how many were deleted, of the kind with the most.
        """

    # -- conversations -------------------------------------------------------------

    def conversation(self, key: str) -> ConversationRecord | None:
        """Return a conversation; ``None`` if it has not begun."""

    def conversations(self, owner: str | None, limit: int) -> list[ConversationRecord]:
        """Return conversations, last changed first."""

    def conversation_messages(self, key: str) -> list[StoredMessage]:
        """Return the messages that the next run of a conversation begins with."""

    def change(self, change: ConversationChange) -> Changed:
        """Change a conversation, or begin it; messages only while no run is live."""

    def fork(self, key: str, at: int | None, change: ConversationChange) -> Changed:
        """Begin a conversation with the messages of another.

        :param at: only with so many of them.
        """

    def forget_conversation(self, key: str, owner: str) -> bool:
        """Delete a conversation and its runs; return whether there was one."""

    # -- questions of all runs -----------------------------------------------------

    def inbox(
        self, approvers: Sequence[str], owner: str | None, limit: int
    ) -> list[InboxEntry]:
        """Return open questions, those that wait longest first.

        :param approvers: only those that one of these is to answer; empty for all.
        """

    def audit(
        self,
        approvers: Sequence[str],
        owner: str | None,
        run_id: str | None,
        limit: int,
    ) -> list[AuditEntry]:
        """Return closed questions, newest first.

        :param approvers: only those that one of these was asked; empty for all.
        """

    # -- looking -------------------------------------------------------------------

    def read(self, id: str) -> StoredRun | None:
        """Return a run."""

    def messages(self, id: str) -> list[StoredMessage]:
        """Return the messages of the conversation of a run, up to its end."""

    def tail(self, id: str) -> bytes:
        """Return the state of a run without its messages."""

    def events(self, run_id: str, after: int) -> list[tuple[int, bytes]]:
        """Return the next events with their numbers, in order."""

    def find(
        self, owner: str | None, is_live: bool | None, limit: int
    ) -> list[StoredRun]:
        """Return runs, newest first."""

    def find_ids(self, beginning: str, limit: int) -> list[str]:
        """Return the ids that begin with *beginning*.

        For operators only: an id is a secret, and this helps to guess it.
        """

    def census(self) -> Census:
        """Count the live runs and the workers."""

    def cancels(self, worker: str) -> dict[str, CancelRecord]:
        """Return the cancels of the runs that a process has, by run id."""

    def answers(self, worker: str) -> dict[str, dict[str, StoredAnswer]]:
        """Return the answers for sub-agents in the runs that a process has."""

    # -- the rest ------------------------------------------------------------------

    def follow(self, run_ids: Sequence[str]) -> None:
        """Note that runs are being followed."""

    def forget(self, owner: str) -> int:
        """Delete all runs of an owner; return how many there were."""

    def leave(self, worker: str) -> None:
        """End the lease of a process that has no runs any more."""

    def migrate(self) -> tuple[int, int]:
        """Bring the schema up to date; return the version before and now."""

    def check(self) -> Mapping[str, str]:
        """Return facts about the database, for a person who looks for a fault."""

    def hint(self, run_ids: Iterable[str]) -> None:
        """Tell all processes that something about these runs is new."""

    def listen(self, worker: str, on_hint: Callable[[Sequence[str]], object]) -> None:
        """Pass on hints until :meth:`stop_listening`; blocks.

        *on_hint* is called without ids after each (re)connect: anything may have
        happened before.

        :raises StoreUnavailable: the connection was cut.
        """

    def stop_listening(self) -> None:
        """End :meth:`listen`, from any thread."""

    def deliver_now(self, id: str) -> None:
        """Let the next sweep, of any process, hand out a queued run."""

    def before_fork(self) -> None:
        """Let go of what must not be carried across a fork."""

    def cut(self, thread: int) -> None:
        """Cut the connection of a thread that has blocked for too long."""

    def close(self) -> None:
        """Close all connections."""

    def start_over(self) -> None:
        """Forget all connections without closing them, in a forked child."""
