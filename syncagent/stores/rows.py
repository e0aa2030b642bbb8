"""The rows of a store: how records become rows, and rows become records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec

from ..conversation.state import Delta, StoredMessage
from ..interrupts import Interrupt
from ..messages import UserMessage
from ..result import RunResult
from .records import (
    CancelRecord,
    EventBatch,
    StoredAnswer,
    StoredError,
    StoredRun,
)

__all__ = [
    "ENDED_AT",
    "IS_HELD",
    "IS_MINE",
    "RUN",
    "Rows",
    "Statements",
    "delete_runs",
    "get_answers",
    "get_messages",
    "put_events",
    "put_messages",
    "to_cancel",
    "to_json",
    "to_questions",
    "to_run",
]

Rows = list[tuple[Any, ...]]

_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)
# Made here and not when first needed: msgspec collects the fields of a type at first
# use, and crashes if another thread uses the type at that moment.
_QUESTIONS: Final = msgspec.json.Decoder(tuple[Interrupt, ...])
_PROMPT: Final = msgspec.json.Decoder(UserMessage)
_RESULT: Final = msgspec.json.Decoder(RunResult)
_ERROR: Final = msgspec.json.Decoder(StoredError)
_CANCEL: Final = msgspec.json.Decoder(CancelRecord)

#: The columns of a run, in the order in which :func:`to_run` takes them.
RUN: Final = (
    "r.id, r.run_id, r.owner, r.agent, r.conversation, r.labels, r.prompt, r.state, "
    "r.attempt, r.crashes, r.cancel, r.cancel_mode, "
    "CASE r.state WHEN 'waiting' THEN r.questions WHEN 'running' "
    "THEN r.live_questions ELSE '[]' END, r.events, "
    "r.created_at, r.ended_at, r.result, r.error, r.unfollowed_seconds IS NOT NULL, "
    "r.approvers, r.asked_at, r.answer_by, "
    "(SELECT w.host || ':' || w.pid FROM syncagent_worker w WHERE w.id = r.worker)"
)
#: When the run *r* ends: after all that its conversation has, even if the clock of the
#: server was set back. The last end tells which state the next run begins with.
ENDED_AT: Final = (
    "(SELECT CASE WHEN max(h.at) >= {now} THEN max(h.at) + 0.000001 ELSE {now} END "
    "FROM (SELECT max(o.ended_at) AS at FROM syncagent_run o "
    "WHERE o.conversation_key = r.conversation_key UNION ALL "
    "SELECT c.head_at FROM syncagent_conversation c "
    "WHERE c.key = r.conversation_key) h)"
)
#: True if a living worker has the run *r*.
IS_HELD: Final = (
    "EXISTS (SELECT 1 FROM syncagent_worker w WHERE w.id = r.worker "
    "AND w.until > {now})"
)
#: True if the run *r* is still that of an attempt.
IS_MINE: Final = "r.id = ? AND r.attempt = ? AND r.state = 'running'"


class Statements(Protocol):
    """An open transaction."""

    def rows(self, sql: str, *params: Any) -> Rows:
        """Execute a statement, and return its rows."""

    def many(self, sql: str, params: Sequence[Sequence[Any]]) -> None:
        """Execute a statement without rows once for each list of parameters."""


def get_messages(do: Statements, key: str, total: int) -> list[StoredMessage]:
    """Return the first *total* messages of a conversation."""
    return [
        StoredMessage(body.encode(), calls.encode())
        for body, calls in do.rows(
            "SELECT body, calls FROM syncagent_message "
            "WHERE conversation_key = ? AND n < ? ORDER BY n",
            *(key, total),
        )
    ]


def get_answers(
    do: Statements, run: StoredRun, questions: Iterable[Interrupt]
) -> dict[str, StoredAnswer]:
    """Return the answers to these questions, by the id of the question."""
    ids = {question.id for question in questions}
    if not ids:
        return {}
    rows = do.rows(
        "SELECT interrupt, body FROM syncagent_answer WHERE run_id = ?", run.run_id
    )
    return {id: StoredAnswer.decode(body) for id, body in rows if id in ids}


def put_messages(do: Statements, key: str, delta: Delta) -> None:
    """Store the new messages of a conversation."""
    do.many(
        # There may be others: a conversation can lose its last messages again, and the
        # run knows how many count.
        "INSERT INTO syncagent_message (conversation_key, n, body, calls) "
        "VALUES (?, ?, ?, ?) ON CONFLICT (conversation_key, n) DO UPDATE "
        "SET body = excluded.body, calls = excluded.calls",
        [
            (key, n, message.body.decode(), message.calls.decode())
            for n, message in enumerate(delta.messages, delta.first)
        ],
    )


def put_events(do: Statements, batch: EventBatch | None) -> None:
    """Store events."""
    if batch is not None and batch.lines:
        do.rows(
            # The reply to an earlier batch, the beginning of this one, may be lost.
            "INSERT INTO syncagent_event (run_id, n, count, attempt, body) "
            "VALUES (?, ?, ?, ?, ?) ON CONFLICT (run_id, n) DO UPDATE "
            "SET count = excluded.count, body = excluded.body",
            *(batch.run_id, batch.first, len(batch.lines), batch.attempt),
            b"\n".join(batch.lines).decode(),
        )


def delete_runs(do: Statements, runs: Rows) -> None:
    """Delete runs, with the messages that no one shares."""
    run_ids = [(run_id,) for _, run_id, _ in runs]
    do.many("DELETE FROM syncagent_event WHERE run_id = ?", run_ids)
    do.many("DELETE FROM syncagent_answer WHERE run_id = ?", run_ids)
    do.many("DELETE FROM syncagent_run WHERE run_id = ?", run_ids)
    do.many(
        "DELETE FROM syncagent_message WHERE conversation_key = ? AND NOT "
        "EXISTS (SELECT 1 FROM syncagent_run WHERE conversation_key = ?) AND NOT "
        "EXISTS (SELECT 1 FROM syncagent_conversation WHERE key = ?)",
        [(key, key, key) for key in dict.fromkeys(key for _, _, key in runs)],
    )


def to_json(value: Any) -> str:
    """Return *value* as JSON; objects that are not JSON become their ``repr()``."""
    return _ENCODER.encode(value).decode()


def to_cancel(body: str, mode: str | None) -> CancelRecord:
    record = _CANCEL.decode(body)
    # A stronger cancel may have followed; the reason of the first one stays.
    return msgspec.structs.replace(record, mode=mode or "now")


def to_questions(body: str) -> tuple[Interrupt, ...]:
    return _QUESTIONS.decode(body)


def to_run(row: Sequence[Any]) -> StoredRun:
    """Return a run from the columns :data:`RUN`."""
    names, (attempt, crashes), rest = row[:8], row[8:10], row[10:]
    id, run_id, owner, agent, conversation, labels, prompt, state = names
    cancel, cancel_mode, questions, events, *rest = rest
    created_at, ended_at, result, error, needs_followers, *rest = rest
    approvers, asked_at, expires_at, worker = rest
    return StoredRun(
        id=id,
        run_id=run_id,
        owner=owner,
        agent=agent,
        conversation=conversation,
        labels=msgspec.json.decode(labels),
        prompt=_PROMPT.decode(prompt),
        state=state,
        attempt=attempt,
        crashes=crashes,
        needs_followers=bool(needs_followers),
        worker=worker or "",
        cancel=None if cancel is None else to_cancel(cancel, cancel_mode),
        interrupts=to_questions(questions),
        approvers=msgspec.json.decode(approvers),
        asked_at=asked_at,
        expires_at=expires_at,
        events=events,
        created_at=created_at,
        ended_at=ended_at,
        result=_RESULT.decode(result) if result else None,
        error=_ERROR.decode(error) if error else None,
    )
