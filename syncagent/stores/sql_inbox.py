"""List open questions, and record how they were answered, with SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

import msgspec

from ..interrupts import TIMED_OUT, Interrupt
from .inbox import AnswerKind, AuditEntry, InboxEntry, kind_of
from .reader import SQLReader
from .records import StoredAnswer, StoredRun
from .rows import RUN, Statements, to_json, to_questions, to_run

__all__ = ["SQLInbox", "close_live", "put_audit", "withdraw"]

_QUESTION: Final[msgspec.json.Decoder[Interrupt]] = msgspec.json.Decoder(Interrupt)
_IS_ASKING: Final = (
    "r.ended_at IS NULL AND r.cancel_at IS NULL AND (r.state = 'waiting' "
    "OR (r.state = 'running' AND r.live_questions <> '[]'))"
)
_ASKED: Final = "coalesce(r.asked_at, r.created_at)"
_AUDIT: Final = (
    "id, run_id, owner, agent, conversation, approver, question, kind, answer, "
    "given_by, asked_at, given_at"
)


class SQLInbox(SQLReader):
    """The operations about questions and answers of all runs."""

    def inbox(
        self, approvers: Sequence[str], owner: str | None, limit: int
    ) -> list[InboxEntry]:
        conditions, params = [_IS_ASKING], []
        if owner is not None:
            conditions.append("r.owner = ?")
            params.append(owner)
        if approvers:
            # More than it should find; the exact choice follows below. Not LIKE, which
            # has wildcards.
            either = "r.owner = ? OR replace(r.approvers, ?, '') <> r.approvers"
            conditions.append(f"({' OR '.join([either] * len(approvers))})")
            for name in approvers:
                params += [name, to_json(name)]
        answered = set(
            self.single(
                "SELECT a.run_id, a.interrupt FROM syncagent_answer a "
                f"JOIN syncagent_run r ON r.run_id = a.run_id WHERE {_IS_ASKING}"
            )
        )
        entries: list[InboxEntry] = []
        place: tuple[float, str] = (0.0, "")
        while len(entries) < limit:
            rows = self.single(
                f"SELECT {RUN} FROM syncagent_run r WHERE {' AND '.join(conditions)} "
                f"AND ({_ASKED}, r.id) > (?, ?) ORDER BY {_ASKED}, r.id LIMIT ?",
                *(*params, *place, limit),
            )
            entries += [
                entry
                for run in map(to_run, rows)
                for entry in (InboxEntry(run, each) for each in run.interrupts)
                if (run.run_id, entry.question.id) not in answered
                and (not approvers or entry.approver in approvers)
            ]
            if len(rows) < limit:
                break
            last = to_run(rows[-1])
            asked_at = last.created_at if last.asked_at is None else last.asked_at
            place = asked_at, last.id
        return entries[:limit]

    def audit(
        self,
        approvers: Sequence[str],
        owner: str | None,
        run_id: str | None,
        limit: int,
    ) -> list[AuditEntry]:
        conditions: list[str] = ["1 = 1"]
        params: list[str] = [*approvers]
        if approvers:
            conditions.append(f"approver IN ({', '.join('?' * len(approvers))})")
        for column, value in (("owner", owner), ("run_id", run_id)):
            if value is not None:
                conditions.append(f"{column} = ?")
                params.append(value)
        rows = self.single(
            f"SELECT {_AUDIT} FROM syncagent_audit WHERE {' AND '.join(conditions)} "
            "ORDER BY given_at DESC, id LIMIT ?",
            *(*params, limit),
        )
        return [_to_entry(row) for row in rows]


def _to_entry(row: Sequence[Any]) -> AuditEntry:
    names, (question, kind, answer, by, asked_at, given_at) = row[:6], row[6:]
    id, run_id, owner, agent, conversation, approver = names
    return AuditEntry(
        id=id,
        run_id=run_id,
        owner=owner,
        agent=agent,
        conversation=conversation,
        approver=approver,
        question=_QUESTION.decode(question),
        kind=kind,
        answer=StoredAnswer.decode(answer),
        by=by,
        asked_at=asked_at,
        given_at=given_at,
    )


def put_audit(
    do: Statements,
    run: StoredRun,
    question: Interrupt,
    answer: StoredAnswer,
    by: str,
    kind: AnswerKind | None = None,
) -> None:
    """Record how a question was closed.

    :param kind: by default that of the answer.
    """
    do.rows(
        f"INSERT INTO syncagent_audit ({_AUDIT}) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {now})",
        *(uuid4().hex, run.run_id, run.owner, run.agent, run.conversation),
        *(run.approver_of(question), to_json(question), kind or kind_of(answer)),
        *(answer.encode().decode(), by, run.asked_at),
    )


def withdraw(do: Statements, run: StoredRun, by: str) -> None:
    """Record that the open questions of a run went unanswered: it was cancelled."""
    for question in _unanswered(do, run, run.interrupts):
        put_audit(do, run, question, StoredAnswer(), by, "withdrawn")


def close_live(do: Statements, id: str, before: str, now: str = "[]") -> None:
    """Record the questions of sub-agents that are not open any more, unanswered.

    :param before: the questions that were open, as JSON.
    :param now: those that are still open.
    """
    if before in ("[]", now):
        return
    ((*row,),) = do.rows(f"SELECT {RUN} FROM syncagent_run r WHERE r.id = ?", id)
    run = to_run(row)
    still_open = {question.id for question in to_questions(now)}
    closed = [q for q in to_questions(before) if q.id not in still_open]
    for question in _unanswered(do, run, closed):
        if run.cancel is None:
            put_audit(do, run, question, StoredAnswer(TIMED_OUT), "")
        else:
            put_audit(do, run, question, StoredAnswer(), run.cancel.by, "withdrawn")


def _unanswered(
    do: Statements, run: StoredRun, questions: Sequence[Interrupt]
) -> list[Interrupt]:
    if not questions:
        return []
    rows = do.rows(
        "SELECT interrupt FROM syncagent_answer WHERE run_id = ?", run.run_id
    )
    answered = {interrupt for (interrupt,) in rows}
    return [question for question in questions if question.id not in answered]
