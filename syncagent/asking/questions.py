"""The open questions of a run, answered from any thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ..cancel import CancelToken, Mailbox
from ..cancel.once import Once
from ..exceptions import ConfigurationError, InterruptOver
from ..interrupts import TIMED_OUT, AfterToolResult, Interrupt

__all__ = [
    "OpenQuestions",
]

#: How many names of questions that are over are remembered, to say so.
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
        # In a tuple: any answer is one, also None.
        self.answer: Once[tuple[Any]] = Once()
        self.mail: Mailbox[tuple[Any]] = Mailbox()

    @property
    def is_open(self) -> bool:
        return not self.answer and not self.token.cancelled


class OpenQuestions:
    """The questions of a run. Any thread may answer; the first answer counts."""

    def __init__(self) -> None:
        self._questions: dict[str, _Question] = {}
        self._past: deque[str] = deque(maxlen=_PAST)

    def lay(
        self,
        interrupt: Interrupt,
        token: CancelToken,
        check: Callable[[Any], Any],
        deliver: Callable[[Any], object] | None = None,
    ) -> Interrupt:
        """Add a question, and return it so that it can be answered directly.

        :param token: whose cancel takes it back.
        :param check: makes what is used of an answer, or raises.
        :param deliver: is given the answer, if nobody waits for it here.
        """
        found = self._questions.get(interrupt.id)
        if found is None:
            bound = interrupt.answered_by(self.answer)
            found = _Question(bound, token, check, deliver)
            self._questions[interrupt.id] = found
        return found.interrupt

    @property
    def open(self) -> tuple[Interrupt, ...]:
        """What nobody has answered yet, in the order in which it was asked."""
        found = list(self._questions.values())
        return tuple(each.interrupt for each in found if each.is_open)

    def answer(self, name: str, answer: Any) -> None:
        """Answer a question.

        :param name: its id, or that of the tool call that it is about.
        :raises InterruptOver: it is over.
        :raises ConfigurationError: there is none of that name, or the answer makes no
            sense; nothing is lost then.
        """
        question = self._find(name)
        mine = (question.check(answer),)
        if question.token.cancelled:
            raise InterruptOver(f"{name!r} is over: its run was cancelled")
        if question.answer.claim(mine) is not mine:
            raise InterruptOver(
                f"{name!r} was answered already, or its run has gone on"
            )
        if question.deliver is not None:
            question.deliver(mine[0])
        question.mail.put(mine)

    def _find(self, name: str) -> _Question:
        questions = list(self._questions.values())
        for question in questions:
            if name == question.interrupt.id:
                return question
        # The newest first: models use the ids of calls again.
        of_call = [q for q in reversed(questions) if _call_id(q.interrupt) == name]
        is_open = [question for question in of_call if question.is_open]
        if len(is_open) > 1:
            ids = ", ".join(sorted(question.interrupt.id for question in is_open))
            raise ConfigurationError(
                f"several calls that wait have the id {name!r}; answer by the id of "
                f"the interrupt: {ids}"
            )
        for question in (*is_open, *of_call):
            return question
        if name in self._past:
            raise InterruptOver(f"{name!r} is over: its run has gone on")
        there = ", ".join(asked.id for asked in self.open) or "nothing"
        raise ConfigurationError(f"nobody has asked {name!r}; open is {there}")

    def wait(self, name: str, token: CancelToken) -> Any:
        """Wait for an answer, and take the question off the desk.

        Cancellation: ends at once.

        :param token: its own deadline is the time for an answer; if that has passed,
            the answer is that there is none.
        :raises Cancelled: *token* was cancelled by anything else.
        """
        question = self._questions[name]
        try:
            while not question.answer:
                question.mail.get(token)
                if token.cancelled and token.origin == "deadline":
                    question.answer.claim((TIMED_OUT,))
                else:
                    token.checkpoint()
            return question.answer[None][0]
        finally:
            self.drop(name)

    def drop(self, name: str) -> None:
        """Take a question off the desk: its time has passed."""
        question = self._questions.get(name)
        if question is not None:
            self._past.extend(filter(None, (name, _call_id(question.interrupt))))
            question.answer.claim((None,))  # whoever answers it now is told so
            # Not before: whoever answers at this moment finds it in one of the two.
            self._questions.pop(name, None)

    def clear(self) -> None:
        """Take all questions off the desk."""
        for name in list(self._questions):
            self.drop(name)


def _call_id(interrupt: Interrupt) -> str:
    return "" if isinstance(interrupt, AfterToolResult) else interrupt.call_id
