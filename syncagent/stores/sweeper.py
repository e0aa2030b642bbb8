"""Find the runs that no worker drives, and delete old ones, with SQL."""

from __future__ import annotations

import math
from typing import Final

from ..exceptions import StoreUnavailable
from .backend import SWEEP
from .records import CancelRecord, Recovered
from .rows import IS_HELD, Rows, delete_runs
from .sql_conversations import SQLConversations, keep_heads
from .unheld import (
    UNHELD,
    cancel_locked,
    recover_crashed,
    recover_waiting,
    to_unheld,
)

__all__ = ["SQLSweeper"]

#: How many runs one look ends, at most.
_ENDS: Final = 500
_HAS_NO_RUNS: Final = (
    "NOT EXISTS (SELECT 1 FROM syncagent_run n WHERE n.conversation_key = c.key)"
)
_UNFOLLOWED: Final = CancelRecord("no one follows the run any more", "disconnect")


class SQLSweeper(SQLConversations):
    """The operations that every process does from time to time."""

    def recover(self, limit: int, max_crashes: int, worker: str = "") -> Recovered:
        rows = self.single(
            "SELECT * FROM (SELECT 'due', r.id, '', 0.0 FROM syncagent_run r "
            "WHERE r.ended_at IS NULL AND ("
            f"(r.state = 'running' AND NOT {IS_HELD}) "
            "OR (r.state = 'queued' AND r.due_at <= {now}) "
            "OR (r.state = 'waiting' AND r.answer_by <= {now})) "
            "ORDER BY r.created_at LIMIT ?) AS due "
            # They need no worker, so they end even where there is no room for more.
            "UNION ALL SELECT * FROM (SELECT 'over', r.id, '', 0.0 "
            "FROM syncagent_run r WHERE r.ended_at IS NULL AND ("
            "(r.followed_until <= {now} AND r.cancel_at IS NULL) OR "
            f"(r.cancel_at IS NOT NULL AND r.state = 'running' AND NOT {IS_HELD})) "
            "ORDER BY r.created_at LIMIT ?) AS over_ "
            "UNION ALL SELECT 'next', '', '', min(w.until) - {now} "
            "FROM syncagent_worker w WHERE w.until > {now} AND EXISTS (SELECT 1 "
            "FROM syncagent_run r WHERE r.worker = w.id AND r.ended_at IS NULL) "
            "UNION ALL SELECT 'held', r.id, r.run_id, r.attempt FROM syncagent_run r "
            "WHERE r.worker = ? AND r.ended_at IS NULL",
            *(limit, _ENDS, worker),
        )
        next_look = next(left for kind, _, _, left in rows if kind == "next")
        held = {
            run_id: (id, int(attempt))
            for kind, id, run_id, attempt in rows
            if kind == "held"
        }
        ready: list[str] = []
        for kind, id, _, _ in rows:
            try:
                if kind in ("due", "over") and self._recover(id, max_crashes):
                    ready.append(id)
            except StoreUnavailable:
                if not ready:
                    raise
                break  # no other process gets those that are queued already
        return Recovered(ready, next_look, held)

    def _recover(self, id: str, max_crashes: int) -> bool:
        """Recover one run, if that is still necessary; true to hand it to a worker."""
        with self.transaction() as do:
            found = self.locked_row(
                *(do, id),
                f"{UNHELD}, {IS_HELD}, r.due_at <= {{now}}, r.answer_by <= {{now}}, "
                "r.followed_until <= {now}",
            )
            if found is None:
                return False
            *row, is_held, is_due, is_late, is_left = found
            unheld = to_unheld(row)
            run = unheld.run
            if not run.is_live:
                return False
            if run.state == "running" and not is_held:
                return recover_crashed(do, unheld, max_crashes)
            if is_left and run.cancel is None:
                cancel_locked(do, unheld, (), is_held, _UNFOLLOWED)
                return False
            return recover_waiting(do, run, max_crashes, is_due, is_late)

    def prune(
        self,
        events_seconds: float,
        runs_seconds: float,
        limit: int,
        *,
        conversations_seconds: float = math.inf,
        audit_seconds: float = math.inf,
    ) -> int:
        with self.transaction() as do:
            logs = do.rows(
                "SELECT r.run_id FROM syncagent_run r WHERE "
                "r.ended_at < {now} - ? AND r.has_log = 1 "
                "ORDER BY r.ended_at LIMIT ? {lock_free}",
                *(events_seconds, limit),
            )
            do.many("DELETE FROM syncagent_event WHERE run_id = ?", logs)
            do.many("UPDATE syncagent_run SET has_log = 0 WHERE run_id = ?", logs)
        with self.transaction() as do:
            runs = do.rows(
                "SELECT r.id, r.run_id, r.conversation_key FROM syncagent_run r "
                "WHERE r.ended_at < {now} - ? AND NOT EXISTS (SELECT 1 "
                # It continues the conversation, and needs the state of the last run.
                "FROM syncagent_run l WHERE l.conversation_key = r.conversation_key "
                "AND l.ended_at IS NULL) ORDER BY r.ended_at LIMIT ? {lock_free}",
                *(runs_seconds, limit),
            )
            keep_heads(do, runs)
            delete_runs(do, runs)
        keys = self._prune_conversations(conversations_seconds, limit)
        entries = self.single(
            "DELETE FROM syncagent_audit WHERE id IN (SELECT id FROM syncagent_audit "
            "WHERE given_at < {now} - ? ORDER BY given_at LIMIT ?) RETURNING 1",
            *(audit_seconds, limit),
        )
        self.single("DELETE FROM syncagent_worker WHERE until < {now} - 86400")
        return max(map(len, (logs, runs, keys, entries)))

    def _prune_conversations(self, seconds: float, limit: int) -> Rows:
        """Delete conversations that are too old and have no runs; return their keys."""
        with self.transaction() as do:
            found = do.rows(
                "SELECT c.key FROM syncagent_conversation c "
                f"WHERE c.changed_at < {{now}} - ? AND {_HAS_NO_RUNS} "
                "ORDER BY c.changed_at LIMIT ? {lock_free}",
                *(seconds, limit),
            )
            # Again: a run may have been added before the row was locked. Now it waits.
            keys = [
                key
                for row in found
                for key in do.rows(
                    "DELETE FROM syncagent_conversation AS c WHERE c.key = ? "
                    f"AND {_HAS_NO_RUNS} RETURNING key",
                    *row,
                )
            ]
            do.many("DELETE FROM syncagent_message WHERE conversation_key = ?", keys)
        return keys

    def forget(self, owner: str) -> int:
        with self.transaction() as do:
            self.lock_owner(do, owner)
            runs = do.rows(
                "SELECT r.id, r.run_id, r.conversation_key FROM syncagent_run r "
                "WHERE r.owner = ? ORDER BY r.ended_at IS NOT NULL, r.run_id {lock}",
                owner,
            )
            keys = do.rows(
                "DELETE FROM syncagent_conversation WHERE owner = ? RETURNING key",
                owner,
            )
            delete_runs(do, runs)
            do.many("DELETE FROM syncagent_message WHERE conversation_key = ?", keys)
            do.rows("DELETE FROM syncagent_audit WHERE owner = ?", owner)
        self.hint([SWEEP, *(run_id for _, run_id, _ in runs)])
        return len(runs)
