"""Check answers before a store takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..agent import Agent
from ..conversation.restored import join_state
from ..conversation.state import StoredMessage
from ..exceptions import ConfigurationError
from ..interrupts import (
    AfterToolResult,
    Approval,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    Interrupt,
    is_refusal,
)
from ..schemas.forms import Form
from .records import StoredAnswer, StoredRun

__all__ = ["check_answers", "check_with_agent", "find_question"]


def check_answers(
    run: StoredRun,
    answers: Mapping[str, Any],
    check_arguments: Callable[[StoredRun, Mapping[str, Any]], object],
) -> dict[str, tuple[str, StoredAnswer]]:
    """Return answers in the form that a store keeps.

    :param check_arguments: called for approvals that change arguments.
    :return: by the id of the question, the id that was given, and the answer.
    :raises ConfigurationError: an answer does not fit its question.
    """
    if not isinstance(answers, Mapping):
        raise ConfigurationError(
            "answers must map the ids of questions to answers; got a "
            f"{type(answers).__name__}"
        )
    stored: dict[str, tuple[str, StoredAnswer]] = {}
    changed: dict[str, Approval] = {}
    for given, answer in answers.items():
        question = find_question(run, given)
        asked = given if question is None else question.id
        stored[asked] = (given, _stored(question, answer))
        approval = stored[asked][1].approval
        if question is None or approval is None or approval.arguments is None:
            continue
        changed[asked] = approval
    if changed:
        check_arguments(run, changed)
    return stored


def check_with_agent(
    agent: Agent,
    tail: bytes,
    messages: Sequence[StoredMessage],
    answers: Mapping[str, Any],
) -> None:
    """Check approvals that change arguments, as the tools of *agent* do.

    :raises ConfigurationError: the arguments do not fit.
    """
    agent.restore(join_state(tail, messages))
    pause = agent._conversation.pause
    if pause is not None:
        others = {question.id: False for question in pause.interrupts}
        pause.check({**others, **answers})


def find_question(run: StoredRun, given: str) -> Interrupt | None:
    """Return the open question with this id, or about this tool call."""
    for question in run.interrupts:
        if question.id == given:
            return question
        if not isinstance(question, AfterToolResult) and question.call_id == given:
            return question
    return None


def _stored(question: Interrupt | None, answer: Any) -> StoredAnswer:
    if isinstance(question, ApprovalRequest):
        return StoredAnswer(Approval.of(answer))
    if is_refusal(answer):
        is_approval = isinstance(answer, Approval)
        return StoredAnswer(answer if is_approval else Approval(False))
    if isinstance(question, AuthRequest):
        raise ConfigurationError(
            "credentials are never stored, so they cannot be given through a store; "
            "give the agent that make_agent returns authenticate="
        )
    if question is None and isinstance(answer, bool):
        return StoredAnswer(Approval(answer))
    if isinstance(question, AwaitingInput) and question.form is not None:
        return StoredAnswer(values=Form.of(question.form).check(answer))
    if question is None and isinstance(answer, dict):
        return StoredAnswer(values=answer)
    if not isinstance(answer, str):
        raise ConfigurationError(
            f"a question of a tool needs a string; got a {type(answer).__name__}"
        )
    return StoredAnswer(text=answer)
