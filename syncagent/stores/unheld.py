"""Runs that no worker has: how they end, and how they get another worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..conversation.restored import unfinished_result
from ..events import RunFinished, StateChanged, encode_event
from ..exceptions import StateInvalid
from ..interrupts import TIMED_OUT
from ..result import Cancellation
from .records import (
    CancelRecord,
    CancelReply,
    EventBatch,
    StoredAnswer,
    StoredError,
    StoredRun,
)
from .rows import (
    ENDED_AT,
    RUN,
    Statements,
    get_answers,
    get_messages,
    put_events,
    to_json,
    to_run,
)
from .sql_inbox import put_audit, withdraw

__all__ = [
    "REDELIVERY",
    "UNHELD",
    "Unheld",
    "cancel_locked",
    "end_unheld",
    "recover_crashed",
    "recover_waiting",
    "resume_if_answered",
    "to_unheld",
]

#: Seconds until a queued run that no worker has begun is handed out again: doubled each
#: time, because an engine's queue may just be long.
REDELIVERY: Final = 30.0
_MAX_DOUBLINGS: Final = 7


#: The columns of a run and its state, in the order of :func:`to_unheld`.
UNHELD: Final = f"{RUN}, r.tail, r.messages, r.conversation_key"
_MODES: Final = {"after_turn": 0, "after_tools": 1, "now": 2}


class Unheld(NamedTuple):
    """A run that no worker has, and its state."""

    run: StoredRun
    #: The state without its messages; empty for a run that has not begun.
    tail: str
    #: How many messages its conversation has.
    messages: int
    #: Names these messages.
    key: str


def to_unheld(row: Sequence[Any]) -> Unheld:
    """Return a run and its state from the columns :data:`UNHELD`."""
    *run, tail, messages, key = row
    return Unheld(to_run(run), tail, messages, key)


def cancel_locked(
    do: Statements,
    unheld: Unheld,
    begun: tuple[str, ...],
    is_held: object,
    cancel: CancelRecord,
) -> CancelReply:
    """Cancel a run that the transaction has locked.

    :param begun: the calls that have begun and not ended.
    :param is_held: true if a living worker has it.
    """
    run = unheld.run
    standing = cancel if run.cancel is None else run.cancel
    is_ours = standing is not cancel and cancel.nonce == standing.nonce != ""
    if not run.is_live:
        names = (standing, run.run_id, run.state)
        had_begun = begun if is_ours else ()
        return CancelReply(is_ours, is_ours, *names, had_begun, has_ended=True)
    is_first = is_ours or run.cancel is None
    if run.state != "running" or not is_held:
        end_unheld(do, unheld, standing)
        return CancelReply(
            True, is_first, standing, run.run_id, run.state, begun, has_ended=True
        )
    if run.cancel is None or _MODES[cancel.mode] > _MODES[standing.mode]:
        do.rows(
            "UPDATE syncagent_run AS r SET cancel = coalesce(cancel, ?), "
            "cancel_mode = ?, cancel_at = coalesce(cancel_at, {now}) "
            "WHERE r.id = ? RETURNING run_id{hint}",
            *(to_json(cancel), cancel.mode, run.id),
        )
    return CancelReply(True, is_first, standing, run.run_id, run.state, begun)


def end_unheld(do: Statements, unheld: Unheld, cancel: CancelRecord) -> None:
    """End a run that no worker has."""
    run, tail, total, key = unheld
    cancellation = Cancellation(cancel.reason, cancel.origin, run.state, 0.0)
    messages = get_messages(do, key, total) if tail else []
    try:
        result = unfinished_result(run.run_id, tail.encode(), messages, cancellation)
    except StateInvalid:  # from a newer worker: it has to end anyway
        result = unfinished_result(run.run_id, b"", [], cancellation)
    events = (RunFinished(result), StateChanged("done"))
    batch = EventBatch(
        *(run.run_id, run.attempt, run.events + 1),
        [encode_event(event) for event in events],
    )
    withdraw(do, run, cancel.by)
    do.rows(
        "UPDATE syncagent_run AS r SET state = 'cancelled', worker = NULL, "
        "cancel = ?, cancel_mode = 'now', cancel_at = coalesce(cancel_at, {now}), "
        f"ended_at = {ENDED_AT}, questions = '[]', result = ?, events = ? "
        "WHERE r.id = ? RETURNING run_id{hint}",
        *(to_json(cancel), to_json(result), batch.last, run.id),
    )
    put_events(do, batch)


def resume_if_answered(do: Statements, run: StoredRun) -> bool:
    """Queue a waiting run that has all its answers."""
    if run.state != "waiting":
        return False
    if len(get_answers(do, run, run.interrupts)) < len(run.interrupts):
        return False
    do.rows(
        "UPDATE syncagent_run AS r SET state = 'queued', answer_by = NULL, "
        "deliveries = 0, due_at = {now} + ? WHERE r.id = ? "
        "RETURNING run_id{hint}",
        *(REDELIVERY, run.id),
    )
    return True


def recover_crashed(do: Statements, unheld: Unheld, max_crashes: int) -> bool:
    """Queue, end or give up a run whose worker died; true to hand it to a worker."""
    run = unheld.run
    if run.cancel is not None:  # its canceller was promised this end
        end_unheld(do, unheld, run.cancel)
        return False
    if run.crashes + 1 >= max_crashes:
        _give_up(do, run, run.crashes + 1)
        return False
    do.rows(
        "UPDATE syncagent_run SET state = 'queued', worker = NULL, "
        "crashes = crashes + 1, deliveries = 0, due_at = {now} + ? WHERE id = ?",
        *(REDELIVERY, run.id),
    )
    return True


def recover_waiting(
    do: Statements, run: StoredRun, max_crashes: int, is_due: Any, is_late: Any
) -> bool:
    """Recover a run that waits for answers or a worker; true to hand it to a worker.

    :param is_due: true if a queued run has to be handed out again.
    :param is_late: true if the time for answers is over.
    """
    if run.state == "waiting" and is_late:
        late = StoredAnswer(TIMED_OUT)
        for question in run.interrupts:
            expired = do.rows(
                "INSERT INTO syncagent_answer (run_id, interrupt, body, given_by, "
                "nonce, given_at) VALUES (?, ?, ?, '', '', {now}) "
                "ON CONFLICT DO NOTHING RETURNING 1",
                *(run.run_id, question.id, late.encode().decode()),
            )
            if expired:
                put_audit(do, run, question, late, "")
        return resume_if_answered(do, run)
    if run.state != "queued" or not is_due:
        return False
    if run.crashes >= max_crashes:
        _give_up(do, run, run.crashes)
        return False
    do.rows(
        "UPDATE syncagent_run SET deliveries = deliveries + 1, "
        "due_at = {now} + ? * (2 << CASE WHEN deliveries < ? "
        "THEN deliveries ELSE ? END) WHERE id = ?",
        *(REDELIVERY, _MAX_DOUBLINGS, _MAX_DOUBLINGS, run.id),
    )
    return True


def _give_up(do: Statements, run: StoredRun, crashes: int) -> None:
    message = f"gave up after {crashes} attempts: no worker survived them"
    batch = EventBatch(
        *(run.run_id, run.attempt, run.events + 1),
        [encode_event(StateChanged("failed", message=message))],
    )
    do.rows(
        "UPDATE syncagent_run AS r SET state = 'failed', worker = NULL, "
        f"crashes = ?, begun = '[]', ended_at = {ENDED_AT}, error = ?, events = ? "
        "WHERE r.id = ? RETURNING run_id{hint}",
        *(crashes, to_json(StoredError("Crash", message)), batch.last, run.id),
    )
    put_events(do, batch)
