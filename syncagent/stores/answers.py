"""Check answers before a store takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..conversation.restored import join_state
from ..conversation.state import StoredMessage
from ..exceptions import ConfigurationError
from ..interrupts import (
    AfterToolResult,
    Approval,
    ApprovalRequest,
    AuthRequest,
    Interrupt,
    is_refusal,
)
from .records import StoredAnswer, StoredRun
from .working import MakeAgent

__all__ = ["check_answers"]


def check_answers(
    run: StoredRun,
    answers: Mapping[str, Any],
    make_agent: MakeAgent | None,
    read_state: Callable[[], tuple[bytes, list[StoredMessage]]],
) -> dict[str, tuple[str, StoredAnswer]]:
    """Return answers in the form that a store keeps.

    :param make_agent: returns the agent whose tools check changed arguments.
    :param read_state: returns the tail and the messages of the run.
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
        question = _find(run, given)
        asked = given if question is None else question.id
        stored[asked] = (given, _stored(question, answer))
        approval = stored[asked][1].approval
        if question is not None and approval is not None and approval.arguments:
            changed[asked] = approval
    if changed:
        if run.state != "waiting" or make_agent is None:
            raise ConfigurationError(
                "arguments can be changed where make_agent= is given, not of sub-agents"
            )
        agent = make_agent(run)
        agent.restore(join_state(*read_state()))
        pause = agent._conversation.pause
        if pause is not None:
            pause.check({**{each.id: False for each in pause.interrupts}, **changed})
    return stored


def _find(run: StoredRun, given: str) -> Interrupt | None:
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
    if not isinstance(answer, str):
        raise ConfigurationError(
            f"a question of a tool needs a string; got a {type(answer).__name__}"
        )
    return StoredAnswer(text=answer)
