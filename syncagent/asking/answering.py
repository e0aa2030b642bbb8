"""Who answers what a run asks: answers at hand, handlers, whoever comes to a desk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ..cancel import CancelToken
from ..exceptions import Cancelled, ToolError
from ..interrupts import (
    TIMED_OUT,
    AfterToolResult,
    Approval,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    Interrupt,
    RuleBook,
    is_refusal,
)
from ..loop import Answers
from ..messages import UserMessage, user_message
from ..run.run import Run
from ..run.tool_round import check_answer, remember
from .handler_call import HandlerCall, call_handler
from .inbox import Inbox
from .questions import OpenQuestions

__all__ = [
    "Answering",
    "Approve",
    "Ask",
    "Authenticate",
    "Handlers",
    "NOT_YET",
]

#: They may take the run's token as a second argument, to hear of a cancel.
Approve = (
    Callable[[ApprovalRequest], bool | Approval]
    | Callable[[ApprovalRequest, CancelToken], bool | Approval]
)
Authenticate = Callable[[AuthRequest], Any] | Callable[[AuthRequest, CancelToken], Any]
Ask = Callable[[str], str] | Callable[[str, CancelToken], str]

_ANY_QUESTION: Final = AwaitingInput("")
#: Stands for answers that are waited for elsewhere, as the run is to be moved.
NOT_YET: Final[Mapping[str, Any]] = {"": "not yet"}


class Handlers(msgspec.Struct, frozen=True):
    """The functions of an agent that answer what its runs ask.

    They are called on a thread of their own, with the context variables of the run: a
    person may take for ever, and a cancel must not wait for that. A handler with a
    second parameter is given the token, and can end by itself.
    """

    approve: Approve | None = None
    authenticate: Authenticate | None = None
    ask: Ask | None = None
    #: Seconds that each answer may take; who raises TimeoutError has not answered.
    timeout: float | None = None

    def find(self, question: Interrupt) -> tuple[str, Callable[..., Any] | None]:
        """Return who answers *question*, with its name."""
        if isinstance(question, ApprovalRequest):
            return "approve", self.approve
        if isinstance(question, AuthRequest):
            return "authenticate", self.authenticate
        if isinstance(question, AwaitingInput):
            return "ask", self.ask
        return "", None


class Answering:
    """Who answers what one run asks.

    :param given: answers that are there already, by ids.
    :param desk: where questions lie for which there is no handler; without one, the
        run ends until they are answered.
    :param inbox: what is said to the run between two turns.
    :param is_pulled: is somebody shown that it could be said now?
    :param waits_for: nobody looks at the desk until this is asked for the background.
    :param outer: who answers what the run asks that this one is a part of, and is asked
        for whatever there is nobody for here.
    """

    def __init__(
        self,
        handlers: Handlers,
        given: Mapping[str, Any] | None = None,
        *,
        desk: OpenQuestions | None = None,
        inbox: Inbox | None = None,
        is_pulled: bool = False,
        waits_for: CancelToken | None = None,
        outer: Answering | None = None,
    ) -> None:
        self._handlers = handlers
        self._given = given or {}
        self._desk = desk
        self._inbox = inbox
        self._is_pulled = is_pulled
        self._waits_for = waits_for
        self._outer = outer
        #: What handlers have answered, and the one who is asked now.
        self._answers: dict[str, Any] = {}
        self._token: CancelToken | None = None
        self._inquiry: tuple[str, HandlerCall] | None = None

    @property
    def desk(self) -> OpenQuestions | None:
        """Where questions lie, if somebody looks there."""
        is_attended = self._waits_for is None or self._waits_for.background_requested
        if is_attended and self._desk is not None:
            return self._desk
        outer = self._outer
        # Who pulls the outer run along cannot answer in the middle of its tool.
        return None if outer is None or outer._is_pulled else outer.desk

    @property
    def unheard(self) -> tuple[UserMessage, ...]:
        """What was said to the run, and not heard yet."""
        return () if self._inbox is None else self._inbox.messages

    def attend(self, desk: OpenQuestions, inbox: Inbox) -> None:
        """Have somebody attend to a run that nobody did before."""
        self._desk, self._inbox = desk, inbox

    def close(self) -> None:
        """Leave a handler behind for which nobody waits any more."""
        if self._inquiry is not None:
            self._inquiry[1].leave()

    # -- what a round asks ---------------------------------------------------------

    def show(self, run: Run, questions: tuple[Interrupt, ...]) -> tuple[Interrupt, ...]:
        """Return *questions* as those are to see them who follow the run."""
        if self._has_all(questions):
            return ()
        if isinstance(questions[0], AfterToolResult) and not self._is_pulled:
            return ()
        if self.desk is not None and self._find(questions[0]) is None:
            questions = tuple(self._lay(run, question) for question in questions)
        return questions

    def answer(self, questions: tuple[Interrupt, ...], run: Run) -> Answers:
        """Have all *questions*, of one kind, answered.

        Cancellation: ends at once.

        :return: nothing if there is nobody who could; :data:`NOT_YET` if the run is to
            be moved, and asks again afterwards.
        """
        if self._has_all(questions):
            # Once: a later call may have the same id.
            given, self._given = self._given, {}
            return given
        if isinstance(questions[0], AfterToolResult):
            return self._take_input(questions[0], run)
        handler = self._find(questions[0])
        if handler is None and self.desk is None:
            return None
        # No tool runs meanwhile: what is to end after the tools ends now.
        later = run.claim.later
        answers: Answers = None
        token = self._token = self._token or later.answering(run.token)
        try:
            if handler is not None:
                answers = self._by_handler(handler, questions, run, token)
            else:
                answers = self._by_desk(questions, run, token)
        except Cancelled:
            run.claim.raise_if_cancel_due("after_tools")
            raise
        finally:
            if answers is not NOT_YET:
                later.answered()
                self._token = None
        return answers

    def _has_all(self, questions: tuple[Interrupt, ...]) -> bool:
        """Are the answers at hand?"""
        return all(question.id in self._given for question in questions)

    def _find(self, question: Interrupt) -> Callable[..., Any] | None:
        return self._who(question)[1]

    def _who(self, question: Interrupt) -> tuple[str, Callable[..., Any] | None]:
        """Return who answers *question*, here or in the outer run, with its name."""
        name, handler = self._handlers.find(question)
        if handler is None and self._outer is not None:
            return self._outer._who(question)
        return name, handler

    @property
    def _timeout(self) -> float | None:
        own = self._handlers.timeout
        return self._outer._timeout if own is None and self._outer else own

    def _lay(self, run: Run, question: Interrupt) -> Interrupt:
        assert self.desk is not None
        if isinstance(question, AfterToolResult):
            assert self._inbox is not None
            # It is input like any other: heard in order, saved, and not lost.
            return self.desk.lay(question, run.token, user_message, self._inbox.put)
        round = run.round
        assert round is not None
        return self.desk.lay(
            question, run.token, lambda answer: check_answer(round, question, answer)
        )

    def _take_input(self, pause: AfterToolResult, run: Run) -> Answers:
        run.claim.raise_if_cancel_due(
            "after_turn", "after_tools"
        )  # what ends now hears nothing
        if self.desk is not None:
            self.desk.drop(pause.id)
        return {pause.id: [] if self._inbox is None else self._inbox.take()}

    def _by_desk(
        self, questions: tuple[Interrupt, ...], run: Run, token: CancelToken
    ) -> Answers:
        desk = self.desk
        assert desk is not None
        for question in questions:
            self._lay(run, question)
        # The whole round has the same time, from when it was asked.
        limit = token.child(self._timeout)
        return {asked.id: desk.wait(asked.id, limit) for asked in questions}

    def _by_handler(
        self,
        handler: Callable[..., Any],
        questions: tuple[Interrupt, ...],
        run: Run,
        token: CancelToken,
    ) -> Answers:
        said = RuleBook()
        for question in questions:
            if question.id in self._answers or self._goes_for(question, said):
                continue
            inquiry = self._inquire(handler, question, run, token)
            try:
                wake = run.token.background if run.may_leave else None
                if not inquiry.wait(wake):
                    return NOT_YET
                answer = inquiry.answer()
            except TimeoutError:
                answer = TIMED_OUT
            self._inquiry = None
            assert run.round is not None
            answer = check_answer(run.round, question, answer)
            self._answers[question.id] = answer
            if isinstance(question, ApprovalRequest):
                is_same = answer.arguments is None
                called = question.arguments if is_same else answer.arguments
                remember(said, question.tool, called, answer)
        answers, self._answers = self._answers, {}
        return answers

    def _goes_for(self, question: Interrupt, said: RuleBook) -> bool:
        """Was it said just now, and for good, what the answer is?"""
        if not isinstance(question, ApprovalRequest):
            return False
        rule = said.find(question.tool, question.arguments)
        if rule is not None:
            self._answers[question.id] = Approval(rule.allow, reason=rule.reason)
        return rule is not None

    def _inquire(
        self,
        handler: Callable[..., Any],
        question: Interrupt,
        run: Run,
        token: CancelToken,
    ) -> HandlerCall:
        """Begin to ask a handler, unless that was asked on another thread before."""
        if self._inquiry is not None and self._inquiry[0] == question.id:
            return self._inquiry[1]
        name = self._who(question)[0]
        limit = token.child(self._timeout)
        asked = question.question if isinstance(question, AwaitingInput) else question
        inquiry = HandlerCall(name, run.id, handler, asked, limit)
        self._inquiry = (question.id, inquiry)
        return inquiry

    # -- what a tool asks ----------------------------------------------------------

    @property
    def can_ask(self) -> bool:
        """Can tools wait for an answer of the user?"""
        if self._find(_ANY_QUESTION) is not None:
            return True
        return self.desk is not None and not self._is_pulled

    def ask(self, run: Run, question: AwaitingInput, token: CancelToken) -> str:
        """Have the user answer what a tool asks.

        Cancellation: ends at once.

        :raises ToolError: nobody has answered in time.
        """
        limit = token.child(self._timeout)
        try:
            handler = self._find(question)
            if handler is not None:
                words = question.question
                answer = call_handler("ask", run.id, handler, words, limit)
            else:
                assert self.desk is not None
                answer = self.desk.wait(question.id, limit)
        except TimeoutError:
            answer = TIMED_OUT
        if is_refusal(answer):
            raise ToolError("the user did not answer")
        return str(answer)
