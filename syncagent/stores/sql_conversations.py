"""Read, extend, copy and delete conversations, with SQL.

The head of a conversation is the state that its next run begins with. It is the state
of its last run, or the one that the row of the conversation has: a fork begins with it,
added messages make a new one, and it outlives the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ..conversation.extended import extend_state
from ..conversation.state import Delta, StoredMessage
from .backend import SWEEP
from .records import Changed, ConversationChange, ConversationRecord, NewRun
from .rows import Rows, Statements, delete_runs, get_messages, put_messages
from .sql_inbox import SQLInbox

__all__ = [
    "SQLConversations",
    "get_head",
    "get_version",
    "keep_heads",
    "live_state",
    "touch_conversation",
]

_CONVERSATION: Final = (
    "c.key, c.id, c.owner, c.title, c.labels, c.version, c.created_at, c.changed_at, "
    "(SELECT r.id FROM syncagent_run r WHERE r.conversation_key = c.key "
    "AND r.ended_at IS NULL)"
)
_INSERT: Final = (
    "INSERT INTO syncagent_conversation (key, id, owner, title, version, nonce, "
    "created_at, changed_at) VALUES (?, ?, ?, ?, 1, ?, {now}, {now}) "
    "ON CONFLICT (key) DO UPDATE SET version = syncagent_conversation.version + 1, "
    # Several: another change may come before one whose reply was lost is repeated.
    "nonce = substr(excluded.nonce || ' ' || syncagent_conversation.nonce, 1, 1000), "
    "changed_at = excluded.changed_at, "
    # One that began with labels only has none yet.
    "title = CASE syncagent_conversation.title WHEN '' THEN excluded.title "
    "ELSE syncagent_conversation.title END"
)


class SQLConversations(SQLInbox):
    """The operations on conversations, while no run of them is live."""

    def conversation(self, key: str) -> ConversationRecord | None:
        rows = self.single(
            f"SELECT {_CONVERSATION} FROM syncagent_conversation c WHERE c.key = ?", key
        )
        return _to_record(rows[0]) if rows else None

    def conversations(self, owner: str | None, limit: int) -> list[ConversationRecord]:
        where, params = ("", ()) if owner is None else ("WHERE c.owner = ? ", (owner,))
        rows = self.single(
            f"SELECT {_CONVERSATION} FROM syncagent_conversation c {where}"
            "ORDER BY c.changed_at DESC, c.key LIMIT ?",
            *(*params, limit),
        )
        return [_to_record(row) for row in rows]

    def conversation_messages(self, key: str) -> list[StoredMessage]:
        with self.transaction() as do:
            _, total = get_head(do, key)
            return get_messages(do, key, total)

    def change(self, change: ConversationChange) -> Changed:
        with self.transaction() as do:
            self.lock_owner(do, change.owner)
            state = live_state(do, change.key)
            # Before the row of the conversation is locked, as in a prune: else each of
            # the two could wait for the other. And after the look for a live run, whose
            # end changes it.
            tail, total = get_head(do, change.key)
            rows = do.rows(
                "SELECT version, nonce FROM syncagent_conversation WHERE key = ? "
                "{lock}",
                change.key,
            )
            version, nonces = rows[0] if rows else (0, "")
            if change.nonce in nonces.split():
                return "done"  # the reply to the first time was lost
            if state is not None and change.messages:
                return "waiting" if state == "waiting" else "busy"
            if change.version not in (None, version):
                return "changed"
            if change.messages:
                stored = get_messages(do, change.key, total)
                delta = extend_state(tail.encode(), stored, change.messages)
                self._put_head(do, change, delta)
            else:
                _put(do, change)
            for column in ("title", "labels"):
                value = getattr(change, column)
                if value is not None:
                    do.rows(
                        f"UPDATE syncagent_conversation SET {column} = ? WHERE key = ?",
                        *(value, change.key),
                    )
        return "done"

    def fork(self, key: str, at: int | None, change: ConversationChange) -> Changed:
        with self.transaction() as do:
            self.lock_owner(do, change.owner)
            known = do.rows(
                "SELECT nonce FROM syncagent_conversation WHERE key = ?", change.key
            )
            if known:
                return "done" if change.nonce in known[0][0].split() else "taken"
            original = do.rows(
                "SELECT labels FROM syncagent_conversation WHERE key = ?", key
            )
            if not original:
                return "missing"
            tail, total = get_head(do, key)
            stored = get_messages(do, key, total if at is None else min(at, total))
            delta = extend_state(tail.encode(), stored)
            # All of its messages are new where it is.
            unchanged = tuple(stored[: delta.first])
            whole = Delta(0, unchanged + delta.messages, delta.tail)
            self._put_head(do, change, whole)
            do.rows(
                "UPDATE syncagent_conversation SET labels = ? WHERE key = ?",
                *(original[0][0], change.key),
            )
        return "done"

    def _put_head(
        self, do: Statements, change: ConversationChange, delta: Delta
    ) -> None:
        _put(do, change)
        put_messages(do, change.key, delta)
        do.rows(
            "UPDATE syncagent_conversation SET tail = ?, messages = ?, "
            # After its last run, even if the clock of the server was set back.
            "head_at = (SELECT CASE WHEN max(r.ended_at) >= {now} "
            "THEN max(r.ended_at) + 0.000001 ELSE {now} END FROM syncagent_run r "
            "WHERE r.conversation_key = ?) WHERE key = ?",
            *(delta.tail.decode(), delta.total, change.key, change.key),
        )

    def forget_conversation(self, key: str, owner: str) -> bool:
        with self.transaction() as do:
            self.lock_owner(do, owner)
            runs = do.rows(
                "SELECT r.id, r.run_id, r.conversation_key FROM syncagent_run r "
                "WHERE r.conversation_key = ? "
                "ORDER BY r.ended_at IS NOT NULL, r.run_id {lock}",
                key,
            )
            found = do.rows(
                "DELETE FROM syncagent_conversation WHERE key = ? RETURNING owner, id",
                key,
            )
            delete_runs(do, runs)
            do.rows("DELETE FROM syncagent_message WHERE conversation_key = ?", key)
        self.hint([SWEEP, *(run_id for _, run_id, _ in runs)])
        return bool(found or runs)


def _to_record(row: Sequence[Any]) -> ConversationRecord:
    key, id, owner, title, labels, version, created_at, changed_at, live_run = row
    return ConversationRecord(
        key=key,
        id=id,
        owner=owner,
        title=title,
        labels=msgspec.json.decode(labels),
        version=version,
        created_at=created_at,
        changed_at=changed_at,
        live_run=live_run or "",
    )


def _put(do: Statements, change: ConversationChange) -> None:
    """Count a change of a conversation, and add it if it is new."""
    do.rows(
        _INSERT,
        *(change.key, change.id, change.owner, change.title or "", change.nonce),
    )


def touch_conversation(do: Statements, run: NewRun) -> None:
    """Count a new run of a conversation, and add the conversation if it is new."""
    do.rows(_INSERT, *(run.key, run.conversation, run.owner, run.title, run.id))


def live_state(do: Statements, key: str) -> str | None:
    """Return the state of the live run of a conversation, if it has one."""
    rows = do.rows(
        "SELECT state FROM syncagent_run WHERE conversation_key = ? "
        "AND ended_at IS NULL",
        key,
    )
    return rows[0][0] if rows else None


def get_version(do: Statements, key: str) -> int:
    """Return the version of a conversation, and lock it; 0 if it has not begun."""
    rows = do.rows(
        "SELECT version FROM syncagent_conversation WHERE key = ? {lock}", key
    )
    return int(rows[0][0]) if rows else 0


def get_head(do: Statements, key: str) -> tuple[str, int]:
    """Return the tail and the number of messages that the next run begins with."""
    # The lock keeps its messages from being pruned before the commit.
    last = do.rows(
        "SELECT tail, messages, ended_at FROM syncagent_run "
        "WHERE conversation_key = ? AND ended_at IS NOT NULL "
        "AND tail <> '' ORDER BY ended_at DESC LIMIT 1 {lock}",
        key,
    )
    kept = do.rows(
        "SELECT tail, messages, head_at FROM syncagent_conversation "
        "WHERE key = ? AND tail <> ''",
        key,
    )
    if not last and not kept:
        return "", 0
    tail, messages, _ = max(last + kept, key=lambda head: head[2])
    return tail, messages


def keep_heads(do: Statements, runs: Rows) -> None:
    """Let conversations keep the state of runs that are about to be deleted."""
    do.many(
        "UPDATE syncagent_conversation AS c SET tail = r.tail, messages = r.messages, "
        "head_at = r.ended_at, changed_at = CASE WHEN c.changed_at < r.ended_at "
        "THEN r.ended_at ELSE c.changed_at END FROM syncagent_run r "
        "WHERE r.run_id = ? AND c.key = r.conversation_key AND r.tail <> '' "
        "AND (c.head_at IS NULL OR c.head_at < r.ended_at)",
        # In one order everywhere: two processes must not wait for each other.
        [(run_id,) for _, run_id, _ in sorted(runs, key=lambda run: run[2])],
    )
