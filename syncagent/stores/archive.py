"""Look at the runs, questions and answers that a store keeps, and delete them."""

from __future__ import annotations

from collections.abc import Sequence

from .._checks import check_number
from ..conversation.restored import whole_messages
from .inbox import AuditEntry, InboxEntry
from .process import StoreProcess
from .records import StoredRun
from .submission import check_texts

__all__ = ["StoreArchive"]


class StoreArchive(StoreProcess):
    """The part of a store that looks and deletes, and begins nothing."""

    def get(self, id: str, *, has_messages: bool = True) -> StoredRun | None:
        """Return a run; ``None`` if its id is unknown or forgotten.

        :param has_messages: give the result of a run that has ended the messages of
            the conversation.
        """
        run = self.call(lambda store: store.read(id))
        if run is None or run.result is None or not has_messages:
            return run
        rows = self.call(lambda store: store.messages(id))
        return run.with_messages(whole_messages(rows))

    def list(
        self, *, owner: str | None = None, live: bool | None = None, limit: int = 100
    ) -> Sequence[StoredRun]:
        """Return runs, newest first.

        :param owner: only those of this owner.
        :param live: only those that have not ended, or only those that have.
        """
        check_number("limit", limit, minimum=1, is_integer=True)
        return self.call(lambda store: store.find(owner, live, limit))

    def inbox(
        self, *approvers: str, owner: str | None = None, limit: int = 100
    ) -> Sequence[InboxEntry]:
        """Return the questions that wait for answers, on all hosts, oldest first.

        :param approvers: only those that one of these people or groups is to answer:
            ``store.inbox("anna", "finance")``.
        :param owner: only those of this owner's runs.
        """
        check_texts({f"approver {n}": each for n, each in enumerate(approvers, 1)})
        check_number("limit", limit, minimum=1, is_integer=True)
        return self.call(lambda store: store.inbox(approvers, owner, limit))

    def audit(
        self,
        *approvers: str,
        owner: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
    ) -> Sequence[AuditEntry]:
        """Return the questions that were answered, expired or withdrawn, newest first.

        :param approvers: only those that one of these people or groups was asked.
        :param owner: only those of this owner's runs.
        :param run_id: only those of one run, by its id in logs.
        """
        check_number("limit", limit, minimum=1, is_integer=True)
        return self.call(lambda store: store.audit(approvers, owner, run_id, limit))

    def forget(self, owner: str) -> int:
        """Delete everything of an owner; return how many runs there were.

        Live runs end. Conversations and the record of answers are deleted, too.
        """
        count = self.call(lambda store: store.forget(owner))
        self.open().sweep_soon()  # some of them may be in this process
        return count
