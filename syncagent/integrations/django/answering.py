"""Answer open questions as a user of the site."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ...exceptions import ConfigurationError
from ...interrupts import (
    AfterToolResult,
    Approval,
    ApprovalRequest,
    AuthRequest,
    Interrupt,
)
from ...stores import StoredRun

__all__ = ["answer_of_form", "ask_for", "may_answer", "names_of"]


def names_of(user: Any) -> tuple[str, ...]:
    """Return the names under which a user can be asked.

    They are the user's name, the owner that ``owners.user_of`` returns, and the names
    of the user's groups.
    """
    groups = getattr(user, "groups", None)
    names = () if groups is None else groups.values_list("name", flat=True)
    return (str(user.get_username()), f"user:{user.pk}", *map(str, names))


def may_answer(names: Collection[str], run: StoredRun, question: Interrupt) -> bool:
    """Return whether a user, who may answer questions, may answer this one.

    A question that ``approver_of`` has given to a person or group is only theirs.

    :param names: of the user, from :func:`names_of`.
    """
    approver = run.approvers.get(question.id)
    return not approver or approver in names


def ask_for(question: Interrupt) -> str:
    """Return the kind of answer that a form can give: ``yes``, ``text``, or ``no``."""
    if isinstance(question, ApprovalRequest):
        return "yes"
    return "no" if isinstance(question, (AuthRequest, AfterToolResult)) else "text"


def answer_of_form(question: Interrupt, form: Mapping[str, str]) -> Any:
    """Return the answer in a form, for the store.

    :raises ConfigurationError: the form has none that fits the question.
    """
    decision, text = form.get("decision"), form.get("text", "").strip()
    kind = ask_for(question)
    if decision == "deny":
        return Approval(False, reason=text)
    if decision == "approve" and kind == "yes":
        return True
    if decision == "answer" and kind == "text" and text:
        return text
    raise ConfigurationError("The answer is empty, or does not fit the question.")
