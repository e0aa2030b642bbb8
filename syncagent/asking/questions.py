"""The open questions of a run, answered from any thread.

Guarantees:

- The first answer counts; every later one learns that the question is over.
- An answer is checked before it counts: one that does not fit leaves the question open.
- A question is found until it is in the list of past ones: no moment says "unknown".
- Nothing takes a lock; :meth:`OpenQuestions.answer` works on any thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ..cancel import CancelToken, Mailbox
from ..cancel.once import Once
from ..exceptions import ConfigurationError, InterruptOver
from ..interrupts import TIMED_OUT, AfterToolResult, Interrupt

__all__ = ["OpenQuestions"]

#: How many ids of past questions are remembered, for a better error.
_PAST: Final = 512


class _Question:
    """A question, and the first answer to it."""

    __slots__ = ("answer", "check", "deliver", "interrupt", "mail", "token")

    def __init__(
        self,
        interrupt: Interrupt,
        token: CancelToken,
        check: Callable[[Any], Any],
        deliver: Callable[[Any], object] | None,
    ) -> None:
        self.interrupt = interrupt
        self.token = token
        self.check = check
        self.deliver = deliver
        # In a tuple: any value is an answer, also None.
        self.answer: Once[tuple[Any]] = Once()
        self.mail: Mailbox[tuple[Any]] = Mailbox()

    @property
    def is_open(self) -> bool:
        return not self.answer and not self.token.cancelled


class OpenQuestions:
    """The questions of a run that wait for an answer from any thread."""

    def __init__(self) -> None:
        self._questions: dict[str, _Question] = {}
        self._past: deque[str] = deque(maxlen=_PAST)

    def add(
        self,
        interrupt: Interrupt,
        token: CancelToken,
        check: Callable[[Any], Any],
        deliver: Callable[[Any], object] | None = None,
    ) -> Interrupt:
        """Add a question; return it bound to this, so that it can be answered directly.

        :param token: whose cancel withdraws the question.
        :param check: turns an answer into the value that is used, or raises.
        :param deliver: called with the answer, if no thread waits for it here.
        """
        question = self._questions.get(interrupt.id)
        if question is None:
            bound = interrupt.answered_by(self.answer)
            question = _Question(bound, token, check, deliver)
            self._questions[interrupt.id] = question
        return question.interrupt

    @property
    def open(self) -> tuple[Interrupt, ...]:
        """The unanswered questions, in the order in which they were asked."""
        questions = list(self._questions.values())
        return tuple(each.interrupt for each in questions if each.is_open)

    def answer(self, id: str, answer: Any) -> None:
        """Answer a question.

        :param id: the id of the question, or of the tool call that it is about.
        :raises InterruptOver: it was answered, or its run has ended or gone on.
        :raises ConfigurationError: there is no such question, or the answer does not
            fit; nothing is lost.
        """
        question = self._find(id)
        candidate = (question.check(answer),)
        if question.token.cancelled:
            raise InterruptOver(
                f"{id!r} is over: it was withdrawn, or its run was cancelled"
            )
        if question.answer.claim(candidate) is not candidate:
            raise InterruptOver(
                f"{id!r} was answered already, or its run has continued"
            )
        if question.deliver is not None:
            question.deliver(candidate[0])
        question.mail.put(candidate)

    def _find(self, id: str) -> _Question:
        questions = list(self._questions.values())
        for question in questions:
            if id == question.interrupt.id:
                return question
        # The newest first: models repeat the ids of calls.
        of_call = [q for q in reversed(questions) if _call_id(q.interrupt) == id]
        open_ones = [question for question in of_call if question.is_open]
        if len(open_ones) > 1:
            ids = ", ".join(sorted(question.interrupt.id for question in open_ones))
            raise ConfigurationError(
                f"several open calls have the id {id!r}; answer by the id of the "
                f"interrupt: {ids}"
            )
        for question in (*open_ones, *of_call):
            return question
        if id in self._past:
            raise InterruptOver(f"{id!r} is over: its run has continued")
        ids = ", ".join(interrupt.id for interrupt in self.open) or "none"
        raise ConfigurationError(f"no open question {id!r}; open: {ids}")

    def wait(self, id: str, token: CancelToken) -> Any:
        """Wait for an answer, and take the question out.

        Cancellation: ends at once.

        :param token: its own deadline is the time for an answer; once that has passed,
            the answer is :data:`~syncagent.interrupts.TIMED_OUT`.
        :raises Cancelled: *token* was cancelled by anything else.
        """
        question = self._questions[id]
        try:
            while not question.answer:
                question.mail.get(token)
                if token.cancelled and token.origin == "deadline":
                    question.answer.claim((TIMED_OUT,))
                else:
                    token.checkpoint()
            return question.answer[None][0]
        finally:
            self.drop(id)

    def drop(self, id: str) -> None:
        """Take a question out: its time has passed. Safe to repeat."""
        question = self._questions.get(id)
        if question is not None:
            self._past.extend(filter(None, (id, _call_id(question.interrupt))))
            question.answer.claim((None,))  # an answer that comes now is too late
            # Last: a thread that answers at this moment finds it in one of the two.
            self._questions.pop(id, None)

    def clear(self) -> None:
        """Take out all questions."""
        for id in list(self._questions):
            self.drop(id)


def _call_id(interrupt: Interrupt) -> str:
    return "" if isinstance(interrupt, AfterToolResult) else interrupt.call_id
