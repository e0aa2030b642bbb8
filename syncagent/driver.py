"""Drive a run: pump its loop, and answer what it asks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from threading import get_ident
from typing import Any, Final

from ._run_id import run_id
from .cancel import CancelToken
from .events import RunEvent
from .exceptions import Cancelled
from .interrupts import Approval, ApprovalRequest, AuthRequest, Interrupt
from .loop import Answers, StopReason, run_loop
from .run import Run
from .tools.handlers import ask_handler

__all__ = [
    "Approve",
    "Authenticate",
    "CLOSED",
    "GivenAnswers",
    "Handlers",
    "drive",
]

#: Why a run is cancelled whose stream is closed.
CLOSED: Final = "the stream was closed"

#: They may take the run's token as a second argument, to hear of a cancel.
Approve = (
    Callable[[ApprovalRequest], bool | Approval]
    | Callable[[ApprovalRequest, CancelToken], bool | Approval]
)
Authenticate = Callable[[AuthRequest], Any] | Callable[[AuthRequest, CancelToken], Any]


class Handlers:
    """Who answers what a run asks.

    They are called on a thread of their own, with the context variables of the run: a
    person may take for ever, and a cancel must not wait for that. A handler with a
    second parameter is given the token, and can end by itself.
    """

    def __init__(
        self, approve: Approve | None = None, authenticate: Authenticate | None = None
    ) -> None:
        self._approve = approve
        self._authenticate = authenticate

    def answer(self, questions: tuple[Interrupt, ...], run: Run) -> Answers:
        """Have all *questions* answered; nothing if there is nobody for one of them.

        Cancellation: ends at once.
        """
        found = [(question, self._handler(question)) for question in questions]
        if any(handler is None for _, handler in found):
            return None
        answers: dict[str, Any] = {}
        for question, handler in found:
            assert handler is not None
            answer = _call(handler, question, run)
            if isinstance(question, ApprovalRequest):
                answer = Approval.of(answer)
            answers[question.id] = answer
        return answers

    def _handler(self, question: Interrupt) -> Callable[..., Any] | None:
        is_approval = isinstance(question, ApprovalRequest)
        return self._approve if is_approval else self._authenticate


class GivenAnswers(Handlers):
    """Answers that are there already; what else is asked goes to *others*."""

    def __init__(self, answers: Mapping[str, Any], others: Handlers) -> None:
        super().__init__()
        self._answers = answers
        self._others = others

    def answer(self, questions: tuple[Interrupt, ...], run: Run) -> Answers:
        if all(question.id in self._answers for question in questions):
            # Once: a later call may have the same id.
            answers, self._answers = self._answers, {}
            return answers
        return self._others.answer(questions, run)


def _call(handler: Callable[..., Any], question: Interrupt, run: Run) -> Any:
    name = "approve" if isinstance(question, ApprovalRequest) else "authenticate"
    later = run.claim.later
    try:
        # No tool runs meanwhile: what is to end after the tools ends now.
        token = later.answering(run.token)
        return ask_handler(name, run.id, handler, question, token)
    except Cancelled:
        run.claim.come_due("after_tools")
        raise
    finally:
        later.answered()


def drive(run: Run, handlers: Handlers) -> Generator[RunEvent, None, StopReason]:
    """Pump the loop of *run* and answer what it asks, until it has ended.

    Cancellation: ends at once.
    """
    loop, lending = run_loop(run), run.lending
    on_event = run.setup.hooks.on_event
    answers: Answers = None
    try:
        while True:
            # No reset(): a signal handler may raise before its token is in our hands.
            before = run_id.get()
            try:
                run_id.set(run.id)
                if get_ident() != lending.thread:
                    lending.drive_here()
                try:
                    step = loop.send(answers)
                except StopIteration as end:
                    stop: StopReason = end.value
                    return stop
                answers = None
                if isinstance(step, tuple):
                    answers = handlers.answer(step, run)
                    continue
            finally:
                run_id.set(before)
            if on_event:
                early = lending.early
                if early and early[0] is step:
                    early.popleft()
                else:
                    for hook in on_event:
                        hook(step)
            yield step
    except GeneratorExit:
        run.claim.cancel(CLOSED, "closed")
        raise
    finally:
        loop.close()
