"""The open questions of all runs, and the record of their answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from .._context import call_in_context
from ..interrupts import Interrupt
from .records import StoredAnswer, StoredRun

__all__ = [
    "AnswerKind",
    "ApproverOf",
    "AuditEntry",
    "InboxEntry",
    "NO_APPROVER",
    "find_approvers",
    "kind_of",
]

_log = logging.getLogger("syncagent.store")

#: In place of an approver, if ``approver_of`` has failed.
NO_APPROVER: Final = "(approver_of failed)"
#: Returns the person or group whose inbox gets a question; None for the run's owner.
ApproverOf = Callable[[StoredRun, Interrupt], "str | None"]
#: ``expired``: no one answered in time; ``withdrawn``: the run was cancelled before.
AnswerKind = Literal["approved", "denied", "answered", "expired", "withdrawn"]


class InboxEntry(msgspec.Struct, frozen=True):
    """A question that waits for an answer."""

    #: The run that waits; ``store.answer(entry.run.id, ...)`` answers it.
    run: StoredRun
    question: Interrupt

    @property
    def approver(self) -> str:
        """The person or group whose answer it waits for."""
        return self.run.approver_of(self.question)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A question that is closed: who answered what, and when."""

    id: str
    #: The run, by its id in logs.
    run_id: str
    owner: str
    agent: str
    conversation: str
    #: The person or group that was asked.
    approver: str
    question: Interrupt
    kind: AnswerKind
    answer: StoredAnswer
    #: The person who answered, or cancelled the run; empty if no one did.
    by: str
    #: Seconds since 1970, by the clock of the store.
    asked_at: float | None
    given_at: float


def kind_of(answer: StoredAnswer) -> AnswerKind:
    """Return the kind of an answer that was given, or of one that did not come."""
    approval = answer.approval
    if approval is None:
        return "answered"
    if approval.timed_out:
        return "expired"
    return "approved" if approval.allow else "denied"


def find_approvers(
    approver_of: ApproverOf | None, run: StoredRun, questions: Iterable[Interrupt]
) -> dict[str, str]:
    """Return the approvers, by question, where they are not the owner of the run.

    A question for which *approver_of* fails is in no one's inbox by name, and never in
    the owner's, who might approve what another person has to. Operators see it.
    """
    approvers: dict[str, str] = {}
    if approver_of is None:
        return approvers
    for question in questions:
        try:
            approver = call_in_context(approver_of, run, question)
            if approver is not None and not isinstance(approver, str):
                raise TypeError(f"it must return a string; got {approver!r:.80}")
        except Exception:
            _log.exception(
                "approver_of failed; an operator has to answer run %s", run.run_id
            )
            approver = NO_APPROVER
        if approver:
            approvers[question.id] = approver
    return approvers
