"""The operations of a back end, in the SQL that SQLite and PostgreSQL share.

One conditional UPDATE is the whole protocol. A write of a worker happens only where
``attempt`` is its own, ``state`` is ``running``, and, at a gate, ``cancel_mode`` is not
``now``. So the database decides all races: between two workers, between a cancel and
the next tool, between a cancel and the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from ..conversation.state import Delta
from .backend import SWEEP, Added, missing_run
from .records import (
    Answered,
    CancelRecord,
    CancelReply,
    Claim,
    EventBatch,
    Lease,
    NewRun,
    StoredAnswer,
    StoredEnd,
    Verdict,
)
from .rows import (
    ENDED_AT,
    IS_HELD,
    IS_MINE,
    RUN,
    Rows,
    get_answers,
    get_messages,
    put_events,
    put_messages,
    to_cancel,
    to_json,
    to_questions,
    to_run,
)
from .sql_conversations import get_head, get_version, live_state, touch_conversation
from .sql_inbox import close_live, put_audit
from .sweeper import SQLSweeper
from .unheld import (
    REDELIVERY,
    UNHELD,
    cancel_locked,
    end_unheld,
    resume_if_answered,
    to_unheld,
)

__all__ = ["SQLBackend"]

_GATE: Final = " AND coalesce(r.cancel_mode, '') <> 'now'"

_STORED: Final = Verdict(True)
#: The conditional UPDATE of a checkpoint, with what else has to hold.
_CHECKPOINT: Final = {
    is_gate: "UPDATE syncagent_run AS r SET tail = ?, begun = ?, messages = ?, "
    # The new tail has no questions: the answers to the last ones are used up.
    f"questions = '[]', seconds_left = ?, step = ? WHERE {IS_MINE}{gate} "
    "AND r.step <= ? "
    "RETURNING cancel, cancel_mode, conversation_key"
    for is_gate, gate in ((False, ""), (True, _GATE))
}


class SQLBackend(SQLSweeper):
    """The operations that write."""

    def write(
        self,
        update: str,
        params: Sequence[Any],
        delta: Delta | None,
        events: EventBatch | None,
    ) -> Rows:
        """Update a run, and where that happens store messages and events with it.

        :param update: returns the key of the conversation as its third column.
        :return: the rows of the update: none if it did not happen.
        """
        with self.transaction() as do:
            rows = do.rows(update, *params)
            if rows:
                if delta is not None and delta.messages:
                    put_messages(do, rows[0][2], delta)
                put_events(do, events)
        return rows

    # -- adding and claiming -------------------------------------------------------

    def add(self, run: NewRun, max_live: int | None) -> Added:
        with self.transaction() as do:
            # A version that is to be compared must not change until the commit.
            is_shared = max_live is None and run.version is None
            self.lock_owner(do, run.owner, is_shared=is_shared)
            known = do.rows("SELECT owner FROM syncagent_run WHERE id = ?", run.id)
            if known:
                return "known" if known == [(run.owner,)] else "taken"
            if max_live is not None:
                ((live,),) = do.rows(
                    "SELECT count(*) FROM syncagent_run WHERE owner = ? "
                    "AND ended_at IS NULL",
                    run.owner,
                )
                if live >= max_live:
                    return "no room"
            if run.version not in (None, get_version(do, run.key)):
                state = live_state(do, run.key)
                if state is None:
                    return "changed"
                return "waiting" if state == "waiting" else "busy"
            added = do.rows(
                "INSERT INTO syncagent_run (id, run_id, owner, agent, conversation, "
                "conversation_key, labels, prompt, state, seconds_left, due_at, "
                "unfollowed_seconds, followed_until, created_at) VALUES "
                "(?, ?, ?, ?, ?, ?, ?, ?, 'queued', ?, {now} + ?, ?, {now} + ?, {now}) "
                "ON CONFLICT DO NOTHING RETURNING id",
                *(run.id, run.run_id, run.owner, run.agent, run.conversation, run.key),
                *(run.labels.decode(), run.prompt.decode(), run.seconds_left),
                *(REDELIVERY, run.unfollowed_seconds, run.unfollowed_seconds),
            )
            if added:
                if run.conversation:
                    touch_conversation(do, run)
                return "added"
            others = do.rows(
                "SELECT id, run_id, state FROM syncagent_run WHERE id = ? "
                "OR run_id = ? OR (conversation_key = ? AND ended_at IS NULL)",
                *(run.id, run.run_id, run.key),
            )
            if any(id == run.id for id, *_ in others):
                return "known"  # the same call, at the same time
            if any(run_id == run.run_id for _, run_id, _ in others):
                return "taken"
            # None of them: the live run has ended since.
            return "waiting" if "waiting" in [state for *_, state in others] else "busy"

    def claim(self, id: str, worker: str, nonce: str) -> Claim | None:
        with self.transaction() as do:
            columns = f"{UNHELD}, r.questions, r.seconds_left, r.nonce, {IS_HELD}"
            found = self.locked_row(do, id, columns)
            if found is None:
                raise missing_run(id)
            *row, questions, seconds_left, last_nonce, is_held = found
            unheld = to_unheld(row)
            run = unheld.run
            is_repeated = run.state == "running" and last_nonce == nonce
            is_free = run.state == "queued" or (run.state == "running" and not is_held)
            if not run.is_live or not (is_free or is_repeated):
                return None
            if run.cancel is not None and not is_repeated:
                end_unheld(do, unheld, run.cancel)
                return None
            attempt = run.attempt
            if not is_repeated:
                attempt += 1
                do.rows(
                    "UPDATE syncagent_run SET state = 'running', attempt = ?, "
                    "worker = ?, nonce = ?, step = 0, live_questions = '[]', "
                    "crashes = crashes + ? "
                    "WHERE id = ?",
                    *(attempt, worker, nonce, int(run.state == "running"), id),
                )
            last_tail, total = "", unheld.messages
            if not unheld.tail:
                last_tail, total = get_head(do, unheld.key)
            return Claim(
                msgspec.structs.replace(run, state="running", attempt=attempt),
                attempt,
                unheld.tail.encode(),
                last_tail.encode(),
                get_messages(do, unheld.key, total),
                get_answers(do, run, to_questions(questions)),
                seconds_left,
            )

    def beat(self, lease: Lease) -> bool:
        known = self.single(
            "UPDATE syncagent_worker SET until = {now} + ? WHERE id = ? "
            "AND until > {now} RETURNING 1",
            *(lease.seconds, lease.worker),
        )
        if not known:
            self.single(
                "INSERT INTO syncagent_worker (id, host, pid, version, until) "
                "VALUES (?, ?, ?, ?, {now} + ?) "
                "ON CONFLICT (id) DO UPDATE SET until = excluded.until",
                *(lease.worker, lease.host, lease.pid, lease.version, lease.seconds),
            )
        return bool(known)

    # -- writes of a worker --------------------------------------------------------

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
        if delta is None:
            gate = _GATE if is_gate else ""
            rows = self.single(
                "SELECT r.cancel, r.cancel_mode, 1 FROM syncagent_run r "
                f"WHERE {IS_MINE}{gate}",
                *(id, attempt),
            )
            return self._verdict(rows, id, attempt)
        update = _CHECKPOINT[is_gate]
        params = (
            *(delta.tail.decode(), to_json(begun) if begun else "[]"),
            *(delta.total, seconds_left),
            *(step, id, attempt, step),
        )
        if delta.messages:
            rows = self.write(update, params, delta, None)
        else:
            rows = self.single(update, *params)
        return self._verdict(rows, id, attempt)

    def _verdict(self, rows: Rows, id: str, attempt: int) -> Verdict:
        """Return the verdict for the rows of a conditional write."""
        if rows:
            cancel, mode = rows[0][:2]
            return _STORED if cancel is None else Verdict(True, to_cancel(cancel, mode))
        rows = self.single(
            f"SELECT r.cancel, r.cancel_mode FROM syncagent_run r WHERE {IS_MINE} "
            "AND r.cancel_at IS NOT NULL",
            *(id, attempt),
        )
        return Verdict(False, to_cancel(*rows[0]) if rows else None)

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
        rows = self.write(
            "UPDATE syncagent_run AS r SET state = 'waiting', worker = NULL, "
            "tail = ?, begun = '[]', messages = ?, questions = ?, approvers = ?, "
            "asked_at = {now}, "
            "seconds_left = ?, answer_by = {now} + ?, events = coalesce(?, events) "
            f"WHERE {IS_MINE} AND r.cancel_at IS NULL "
            "RETURNING cancel, cancel_mode, conversation_key{hint}",
            (
                *(delta.tail.decode(), delta.total, questions.decode()),
                *(to_json(dict(approvers)), seconds_left, answer_seconds),
                None if events is None else events.last,
                *(id, attempt),
            ),
            *(delta, events),
        )
        # The reply to the first time may be lost; it may have its answers by now.
        if not rows and self.single(
            "SELECT 1 FROM syncagent_run WHERE id = ? AND attempt = ? "
            "AND state IN ('waiting', 'queued') AND questions = ?",
            *(id, attempt, questions.decode()),
        ):
            return Verdict(True)
        return self._verdict(rows, id, attempt)

    def release(
        self, id: str, attempt: int, *, is_urgent: bool, has_crashed: bool = False
    ) -> bool:
        with self.transaction() as do:
            found = self.locked_row(do, id, UNHELD)
            if found is None:
                return False
            unheld = to_unheld(found)
            if unheld.run.attempt != attempt:
                return False
            if unheld.run.state != "running":  # the reply may have been lost
                return unheld.run.state == "queued"
            if unheld.run.cancel is not None:  # its canceller was promised this end
                end_unheld(do, unheld, unheld.run.cancel)
                return True
            do.rows(
                "UPDATE syncagent_run AS r SET state = 'queued', worker = NULL, "
                "crashes = crashes + ?, due_at = {now} + ? "
                "WHERE r.id = ? RETURNING run_id{hint}",
                *(int(has_crashed), 0.0 if is_urgent else REDELIVERY, id),
            )
        if is_urgent:
            self.hint([SWEEP])
        return True

    def finish(
        self,
        id: str,
        attempt: int,
        ending: StoredEnd,
        delta: Delta | None,
        events: EventBatch | None,
    ) -> Verdict:
        is_cancelled = ending.state == "cancelled"
        cancel = None if ending.cancel is None else to_json(ending.cancel)
        unless = "" if is_cancelled else " AND r.cancel_at IS NULL"
        # "begun" stays: a canceller whose reply was lost asks for it again.
        rows = self.write(
            "UPDATE syncagent_run AS r SET state = ?, worker = NULL, "
            "questions = '[]', result = ?, error = ?, tail = coalesce(?, tail), "
            "messages = coalesce(?, messages), events = coalesce(?, events), "
            f"cancel = coalesce(cancel, ?), ended_at = {ENDED_AT}, "
            "cancel_mode = CASE WHEN ? = 'cancelled' THEN 'now' END, "
            "cancel_at = CASE WHEN ? = 'cancelled' "
            "THEN coalesce(cancel_at, {now}) END "
            f"WHERE {IS_MINE}{unless} "
            "RETURNING NULL, NULL, conversation_key, live_questions{hint}",
            (
                *(ending.state, ending.result.decode(), ending.error.decode()),
                None if delta is None else delta.tail.decode(),
                None if delta is None else delta.total,
                None if events is None else events.last,
                *(cancel, ending.state, ending.state, id, attempt),
            ),
            *(delta, events),
        )
        # The reply to the first time may be lost.
        known = rows or self.single(
            "SELECT NULL, NULL, 1, live_questions FROM syncagent_run WHERE id = ? "
            "AND attempt = ? AND state = ? AND ended_at IS NOT NULL",
            *(id, attempt, ending.state),
        )
        if known and known[0][3] != "[]":
            self._replace_live(id, attempt, "[]", {}, "ended_at IS NOT NULL")
        return self._verdict(known, id, attempt)

    def append(self, batches: Iterable[EventBatch]) -> list[str]:
        refused = []
        with self.transaction() as do:
            # In one order everywhere: two processes must not wait for each other.
            for batch in sorted(batches):
                rows = do.rows(
                    "UPDATE syncagent_run AS r SET events = ? WHERE r.run_id = ? "
                    "AND r.attempt = ? AND r.state = 'running' "
                    # More than before the batch if the reply to a part of it was lost.
                    "AND r.events >= ? AND r.events < ? RETURNING run_id{hint}",
                    *(batch.last, batch.run_id, batch.attempt),
                    *(batch.first - 1, batch.last),
                )
                if rows:
                    put_events(do, batch)
                elif not do.rows(
                    "SELECT 1 FROM syncagent_event WHERE run_id = ? AND attempt = ? "
                    "AND n <= ? AND n + count > ?",
                    *(batch.run_id, batch.attempt, batch.last, batch.last),
                ):
                    refused.append(batch.run_id)
        return refused

    # -- cancelling and answering --------------------------------------------------

    def cancel(self, id: str, cancel: CancelRecord) -> CancelReply:
        # Nearly always: a living worker has it, and no one has cancelled it yet.
        body = to_json(cancel)
        rows = self.single(
            "UPDATE syncagent_run AS r SET cancel = ?, cancel_mode = ?, "
            "cancel_at = {now} WHERE r.id = ? AND r.state = 'running' "
            f"AND r.cancel_at IS NULL AND {IS_HELD} RETURNING begun, run_id{{hint}}",
            *(body, cancel.mode, id),
        )
        if rows:
            begun = tuple(msgspec.json.decode(rows[0][0]))
            return CancelReply(True, True, cancel, rows[0][1], "running", begun)
        with self.transaction() as do:
            found = self.locked_row(do, id, f"{UNHELD}, r.begun, {IS_HELD}")
            if found is None:
                raise missing_run(id)
            *row, begun_text, is_held = found
            begun = tuple(msgspec.json.decode(begun_text))
            return cancel_locked(do, to_unheld(row), begun, is_held, cancel)

    def answer(
        self,
        id: str,
        answers: Mapping[str, bytes],
        by: str,
        nonce: str,
        approvers: Collection[str] | None = None,
    ) -> Answered:
        with self.transaction() as do:
            found = self.locked_row(do, id, RUN)
            if found is None:
                raise missing_run(id)
            run = to_run(found)
            statuses: dict[str, Literal["taken", "over", "refused"]] = {}
            questions = {
                question.id: question
                for question in run.interrupts
                if approvers is None or run.approver_of(question) in approvers
            }
            for interrupt, body in answers.items():
                taken: Rows = []
                if interrupt in questions:
                    taken = do.rows(
                        "INSERT INTO syncagent_answer (run_id, interrupt, body, "
                        "given_by, nonce, given_at) VALUES (?, ?, ?, ?, ?, {now}) "
                        "ON CONFLICT DO NOTHING RETURNING 1",
                        *(run.run_id, interrupt, body.decode(), by, nonce),
                    )
                if taken:
                    answer = StoredAnswer.decode(body)
                    put_audit(do, run, questions[interrupt], answer, by)
                before = do.rows(
                    "SELECT nonce FROM syncagent_answer WHERE run_id = ? "
                    "AND interrupt = ?",
                    *(run.run_id, interrupt),
                )
                is_over = bool(before) or not run.is_live
                statuses[interrupt] = "over" if is_over else "refused"
                if taken or (nonce and before == [(nonce,)]):
                    statuses[interrupt] = "taken"
            is_ready = resume_if_answered(do, run)
            is_repeated = run.state == "queued" and "taken" in statuses.values()
        if run.state == "running" and "taken" in statuses.values():
            self.hint([run.run_id])  # a sub-agent waits for it
        return Answered(statuses, is_ready or is_repeated)

    def ask(
        self,
        id: str,
        attempt: int,
        questions: bytes,
        approvers: Mapping[str, str] = MappingProxyType({}),
    ) -> bool:
        body = questions.decode()
        return self._replace_live(id, attempt, body, approvers, "state = 'running'")

    def _replace_live(
        self,
        id: str,
        attempt: int,
        questions: str,
        approvers: Mapping[str, str],
        condition: str,
    ) -> bool:
        """Store the questions of sub-agents, and record those that are over."""
        with self.transaction() as do:
            rows = do.rows(
                "SELECT live_questions FROM syncagent_run WHERE id = ? "
                f"AND attempt = ? AND {condition} {{lock}}",
                *(id, attempt),
            )
            if not rows:
                return False
            close_live(do, id, rows[0][0], questions)
            do.rows(
                "UPDATE syncagent_run AS r SET live_questions = ?, approvers = ?, "
                "asked_at = {now} WHERE r.id = ? RETURNING run_id{hint}",
                *(questions, to_json(dict(approvers)), id),
            )
        return True

    # -- presence ------------------------------------------------------------------

    def follow(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            self.single(
                "UPDATE syncagent_run SET followed_until = {now} + unfollowed_seconds "
                "WHERE run_id = ? AND ended_at IS NULL "
                "AND unfollowed_seconds IS NOT NULL",
                run_id,
            )

    def deliver_now(self, id: str) -> None:
        self.single(
            "UPDATE syncagent_run SET due_at = {now} WHERE id = ? AND state = 'queued'",
            id,
        )
        self.hint([SWEEP])

    def leave(self, worker: str) -> None:
        self.single("DELETE FROM syncagent_worker WHERE id = ?", worker)
