"""Look at the runs of a store, with SQL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from ..conversation.state import StoredMessage
from .records import CancelRecord, Census, StoredAnswer, StoredRun
from .rows import IS_HELD, RUN, Rows, Statements, to_cancel, to_run

__all__ = ["SQLReader"]

#: How many batches of events are read at once.
_BATCHES: Final = 200


class SQLReader(ABC):
    """A database with runs.

    In statements, ``?`` is a parameter and ``{now}`` the time when the statement began.
    ``{lock}`` locks the rows that were read until the end of the transaction;
    ``{lock_free}`` does so with the rows that no one has locked, and skips the others.
    ``{hint}``, at the end of RETURNING, tells other processes about the run *r*.

    Locks of several runs are taken in one order everywhere, so that no two transactions
    wait for each other: live runs before those that have ended, then by run id.
    """

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Statements]:
        """Return a transaction, which is committed at the end of the block."""

    @abstractmethod
    def single(self, sql: str, *params: Any) -> Rows:
        """Execute one statement as a transaction of its own, and return its rows."""

    @abstractmethod
    def hint(self, run_ids: Iterable[str]) -> None:
        """Tell other processes that something about these runs is new."""

    @abstractmethod
    def lock_owner(
        self, do: Statements, owner: str, *, is_shared: bool = False
    ) -> None:
        """Let no one else add a run of *owner* until the transaction ends.

        :param is_shared: only keep others from locking the owner for themselves alone.
        """

    @abstractmethod
    def lock_run(self, do: Statements, id: str) -> bool:
        """Let no one else write a run until the transaction ends.

        This has to be a statement of its own. One that waits for a lock sees the new
        row afterwards, but all other tables, the leases of workers too, as they were
        before the wait.

        :return: false if there is no such run. It may be added a moment later, and is
            not locked then.
        """

    def locked_row(self, do: Statements, id: str, columns: str) -> Sequence[Any] | None:
        """Lock a run, and return columns of it; ``None`` if there is no such run.

        The lock comes first: the leases of workers are compared as they are after the
        wait for it.
        """
        if not self.lock_run(do, id):
            return None
        rows = do.rows(f"SELECT {columns} FROM syncagent_run r WHERE r.id = ?", id)
        return rows[0] if rows else None

    def cancels(self, worker: str) -> dict[str, CancelRecord]:
        rows = self.single(
            "SELECT run_id, cancel, cancel_mode FROM syncagent_run WHERE worker = ? "
            "AND ended_at IS NULL AND cancel_at IS NOT NULL",
            worker,
        )
        return {run_id: to_cancel(cancel, mode) for run_id, cancel, mode in rows}

    def answers(self, worker: str) -> dict[str, dict[str, StoredAnswer]]:
        rows = self.single(
            "SELECT a.run_id, a.interrupt, a.body FROM syncagent_answer a "
            "JOIN syncagent_run r ON r.run_id = a.run_id WHERE r.worker = ? "
            "AND r.state = 'running' AND r.live_questions <> '[]'",
            worker,
        )
        found: dict[str, dict[str, StoredAnswer]] = {}
        for run_id, interrupt, body in rows:
            found.setdefault(run_id, {})[interrupt] = StoredAnswer.decode(body)
        return found

    def read(self, id: str) -> StoredRun | None:
        rows = self.single(f"SELECT {RUN} FROM syncagent_run r WHERE r.id = ?", id)
        return to_run(rows[0]) if rows else None

    def find(
        self, owner: str | None, is_live: bool | None, limit: int
    ) -> list[StoredRun]:
        conditions, params = ["1 = 1"], []
        if owner is not None:
            conditions.append("r.owner = ?")
            params.append(owner)
        if is_live is not None:
            conditions.append(f"r.ended_at IS {'' if is_live else 'NOT '}NULL")
        rows = self.single(
            f"SELECT {RUN} FROM syncagent_run r WHERE {' AND '.join(conditions)} "
            "ORDER BY r.created_at DESC, r.id LIMIT ?",
            *(*params, limit),
        )
        return [to_run(row) for row in rows]

    def find_ids(self, beginning: str, limit: int) -> list[str]:
        # Not LIKE, which has wildcards, nor a range, which depends on the collation.
        rows = self.single(
            "SELECT id FROM syncagent_run WHERE substr(id, 1, ?) = ? LIMIT ?",
            *(len(beginning), beginning, limit),
        )
        return [id for (id,) in rows]

    def census(self) -> Census:
        rows = self.single(
            "SELECT r.state, count(*), max({now} - r.created_at), "
            "max({now} - r.due_at), "
            f"sum(CASE WHEN r.state = 'running' AND NOT {IS_HELD} THEN 1 ELSE 0 END) "
            "FROM syncagent_run r WHERE r.ended_at IS NULL GROUP BY r.state"
        )
        ages = {state: (age, overdue) for state, _, age, overdue, _ in rows}
        ((workers,),) = self.single(
            "SELECT count(*) FROM syncagent_worker WHERE until > {now}"
        )
        return Census(
            {state: count for state, count, *_ in rows},
            *ages.get("queued", (0.0, 0.0)),
            unheld=int(sum(row[-1] for row in rows)),
            workers=workers,
        )

    def messages(self, id: str) -> list[StoredMessage]:
        rows = self.single(
            "SELECT m.body, m.calls FROM syncagent_message m JOIN syncagent_run r "
            "ON r.conversation_key = m.conversation_key WHERE r.id = ? "
            "AND m.n < r.messages ORDER BY m.n",
            id,
        )
        return [StoredMessage(body.encode(), calls.encode()) for body, calls in rows]

    def tail(self, id: str) -> bytes:
        rows = self.single("SELECT tail FROM syncagent_run WHERE id = ?", id)
        return rows[0][0].encode() if rows else b""

    def events(self, run_id: str, after: int) -> list[tuple[int, bytes]]:
        # A reader may have stopped in the middle of a batch.
        rows = self.single(
            "SELECT n, body FROM syncagent_event WHERE run_id = ? AND n >= coalesce("
            "(SELECT max(n) FROM syncagent_event WHERE run_id = ? AND n <= ?), 0) "
            "ORDER BY n LIMIT ?",
            *(run_id, run_id, after + 1, _BATCHES),
        )
        return [
            (number, line)
            for n, body in rows
            for number, line in enumerate(body.encode().split(b"\n"), n)
            if number > after
        ]
