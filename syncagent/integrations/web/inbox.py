"""Questions of a store over HTTP: who may see and answer them, and who did."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...exceptions import ConfigurationError
from ...interrupts import AfterToolResult
from ...stores import AuditEntry, InboxEntry
from ...stores.answers import find_question
from ...stores.submission import title_of
from .bodies import write_arguments
from .errors import no_such_run, not_your_question
from .kept_bodies import AuditItem, InboxItem
from .stored_run import StoredWebRun

if TYPE_CHECKING:
    from .stored_runs import StoredRuns

__all__ = ["WebInbox", "check_approvers"]

#: How many questions a list shows.
_LIST: Final = 100


def check_approvers(approvers: Any) -> tuple[str, ...]:
    """Return the people and groups that ``approvers_of`` has returned.

    :raises ConfigurationError: they are not a list of strings.
    """
    if approvers is None:
        return ()
    # A single string would be taken for a list of letters.
    if isinstance(approvers, Iterable) and not isinstance(approvers, (str, bytes)):
        found = tuple(approvers)
        if all(isinstance(each, str) for each in found):
            return tuple(dict.fromkeys(each for each in found if each))
    raise ConfigurationError(
        f"approvers_of must return a list of strings; got {approvers!r:.80}"
    )


class WebInbox:
    """The questions of all runs of a store.

    A question that ``approver_of`` has given to another person or group than the owner
    of the run is answered only by them, and the owner of the run cannot do it. All
    others are answered by the clients that may see the run.
    """

    def __init__(self, runs: StoredRuns) -> None:
        self._runs: Final = runs

    def list(
        self, request: Any, person: str, approvers: Collection[str]
    ) -> tuple[InboxItem, ...]:
        """Return the questions that wait for a person, those that wait longest first.

        :param person: the owner of the runs that the client would start.
        :param approvers: the people and groups that the person answers for.
        :raises Refused: the store is unavailable.
        """
        names = dict.fromkeys((*approvers, person))
        with self._runs.refusals():
            found = self._runs.store.inbox(*names, limit=_LIST)
            entries = [
                entry
                for entry in found
                if not isinstance(entry.question, AfterToolResult)
                and self._is_asked(entry, request, person, approvers)
            ]
            titles = self._titles_of(entries)
        return tuple(
            InboxItem(
                run=entry.run.id,
                question=self._runs.presentation.interrupts((entry.question,))[0],
                owner=entry.run.owner,
                approver=entry.approver,
                agent=entry.run.agent,
                title=titles[entry.run.id],
                conversation=entry.run.conversation if is_own else "",
                is_own=is_own,
                asked_at=entry.run.asked_at,
                expires_at=entry.run.expires_at,
            )
            for entry in entries
            for is_own in (entry.run.owner == person,)
        )

    def _is_asked(
        self, entry: InboxEntry, request: Any, person: str, approvers: Collection[str]
    ) -> bool:
        # Not by name alone: a group may have the name of another owner.
        if entry.approver != entry.run.owner:
            return entry.approver in approvers
        return entry.run.owner == person and self._runs.is_seen(request, entry.run)

    def _titles_of(self, entries: Iterable[InboxEntry]) -> dict[str, str]:
        """Return the titles of conversations by the ids of their runs."""
        titles: dict[str, str] = {}
        known: dict[tuple[str, str], str] = {}
        for run in {entry.run.id: entry.run for entry in entries}.values():
            name = (run.owner, run.conversation)
            if run.conversation and name not in known:
                found = self._runs.store.conversation(run.conversation, owner=run.owner)
                known[name] = found.title
            titles[run.id] = known.get(name) or title_of(run.prompt)
        return titles

    def audit(self, person: str, approvers: Collection[str]) -> tuple[AuditItem, ...]:
        """Return the closed questions of a person's runs, and those put to them.

        :raises Refused: the store is unavailable.
        """
        with self._runs.refusals():
            found = list(self._runs.store.audit(owner=person, limit=_LIST))
            if approvers:
                found += [
                    entry
                    for entry in self._runs.store.audit(*approvers, limit=_LIST)
                    if entry.approver != entry.owner
                ]
        entries = {entry.id: entry for entry in found}.values()
        newest = sorted(entries, key=lambda entry: entry.given_at, reverse=True)
        return tuple(map(self._audit_item, newest[:_LIST]))

    def _audit_item(self, entry: AuditEntry) -> AuditItem:
        approval = entry.answer.approval
        text = entry.answer.shown
        changed = None
        if approval is not None:
            text, changed = approval.reason, approval.arguments
        return AuditItem(
            id=entry.id,
            run_id=entry.run_id,
            question=self._runs.presentation.interrupts((entry.question,))[0],
            owner=entry.owner,
            approver=entry.approver,
            agent=entry.agent,
            kind=entry.kind,
            by=entry.by,
            text=text,
            arguments_text="" if changed is None else write_arguments(changed),
            asked_at=entry.asked_at,
            given_at=entry.given_at,
        )

    def find(
        self,
        id: str,
        request: Any,
        answers: Mapping[str, Any],
        approvers: Collection[str],
    ) -> tuple[StoredWebRun, frozenset[str]]:
        """Return a run whose questions a client may answer, and for whom it does.

        :param answers: by the id of the question or of the tool call.
        :param approvers: the people and groups that the client answers for.
        :raises Refused: there is no such run, or the client may neither see it nor
            answer these questions; the error is the same. Or the client may see the
            run, and another person has to answer.
        """
        run, is_seen = self._runs.find(id, request)
        if run is None:
            raise no_such_run()
        owner = run.owner
        allowed = frozenset(each for each in approvers if each != owner)
        if is_seen:
            allowed |= {owner}
        asked = {owner} if not answers else set()
        for given in answers:
            question = find_question(run.record, given)
            asked.add(owner if question is None else run.record.approver_of(question))
        if not asked <= allowed:
            raise not_your_question() if is_seen else no_such_run()
        return run, allowed
