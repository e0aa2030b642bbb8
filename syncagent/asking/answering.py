"""Match the questions of a run with answers: at hand, by a handler, from any thread.

A question that stops the loop is answered by the first of these that can:

1. answers at hand: those given to ``resume()``;
2. a handler of the agent (``approve=``, ``authenticate=``, ``ask=``), or of the run
   that this one is part of;
3. a handle or a driver, whose user answers from any thread;
4. no one: the run pauses until it is resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from .._checks import check_timeout
from ..cancel import CancelToken
from ..cancel.handler_errors import raised_by_signal_handler
from ..exceptions import Cancelled, ConfigurationError, Declined, ToolError
from ..interrupts import (
    TIMED_OUT,
    AfterToolResult,
    Approval,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    Interrupt,
    Question,
    RuleBook,
    is_decline,
    is_refusal,
)
from ..loop import Answers
from ..messages import UserMessage, user_message
from ..run.run import Run
from ..run.tool_round import check_answer, remember
from ..schemas.forms import Form
from .handler_call import HandlerCall, call_handler
from .inbox import Inbox
from .questions import OpenQuestions

__all__ = [
    "Answering",
    "Approve",
    "Ask",
    "Attendance",
    "Authenticate",
    "Handlers",
    "InputAnswer",
    "NOT_YET",
]

#: A handler may take the run's token as a second argument, to learn of a cancel.
Approve = (
    Callable[[ApprovalRequest], bool | Approval]
    | Callable[[ApprovalRequest, CancelToken], bool | Approval]
)
Authenticate = Callable[[AuthRequest], Any] | Callable[[AuthRequest, CancelToken], Any]
#: The answer to a :class:`~syncagent.interrupts.Question` of a tool: a text; for a form
#: a dict, or false to decline.
InputAnswer = str | Mapping[str, Any] | bool | None
Ask = Callable[[Question], InputAnswer] | Callable[[Question, CancelToken], InputAnswer]

_ANY_QUESTION: Final = AwaitingInput("")
#: In place of answers: the run moves to a handle, which waits for them.
NOT_YET: Final[Mapping[str, Any]] = {"": "not yet"}


class Attendance(NamedTuple):
    """A handle or a driver as a run sees it: questions go out, input comes in."""

    questions: OpenQuestions
    inbox: Inbox
    #: True for a driver: it also offers the moment after each tool round.
    is_driver: bool = False
    #: True for a store: only sub-agents wait here; the run itself pauses.
    is_for_sub_agents: bool = False


class Handlers(msgspec.Struct, frozen=True):
    """The functions of an agent that answer the questions of its runs.

    They are called on a thread of their own, with the context variables of the run: a
    person may take forever, and a cancel must not wait for that. A handler with a
    second parameter is given the token, and can end by itself.

    :raises ConfigurationError: one of them is not a function.
    """

    approve: Approve | None = None
    authenticate: Authenticate | None = None
    ask: Ask | None = None
    #: Seconds for each answer. A handler that raises TimeoutError did not answer.
    timeout: float | None = None

    def __post_init__(self) -> None:
        for name in ("approve", "authenticate", "ask"):
            handler = getattr(self, name)
            if handler is not None and not callable(handler):
                raise ConfigurationError(
                    f"{name} must be a function; got {handler!r:.80}"
                )
        check_timeout(self.timeout, "answer_timeout")

    def find(self, question: Interrupt) -> tuple[str, Callable[..., Any] | None]:
        """Return the name of the handler for *question*, and the handler if any."""
        if isinstance(question, ApprovalRequest):
            return "approve", self.approve
        if isinstance(question, AuthRequest):
            return "authenticate", self.authenticate
        if isinstance(question, AwaitingInput):
            return "ask", self.ask
        return "", None


class Answering:
    """Answers the questions of one run.

    The run's thread calls everything here. It moves to the handle's thread with the
    run: what a handler was asked before is not asked again.

    :param at_hand: answers given in advance, by id.
    :param attendance: the handle or driver that receives other questions; without one,
        the run pauses.
    :param waits_for: until this token's background is requested, the handle has no
        user who could answer.
    :param outer: answers the questions of the run that this one is part of; asked for
        whatever cannot be answered here.
    """

    def __init__(
        self,
        handlers: Handlers,
        at_hand: Mapping[str, Any] | None = None,
        *,
        attendance: Attendance | None = None,
        waits_for: CancelToken | None = None,
        outer: Answering | None = None,
    ) -> None:
        self._handlers = handlers
        self._at_hand = at_hand or {}
        self._attendance = attendance
        self._waits_for = waits_for
        self._outer = outer
        #: The answers of handlers so far to the questions being asked.
        self._collected: dict[str, Any] = {}
        self._token: CancelToken | None = None
        #: The question that a handler works on, and its call.
        self._handler_call: tuple[str, HandlerCall] | None = None

    @property
    def open_questions(self) -> OpenQuestions | None:
        """Where other threads can answer, if a user looks there."""
        is_attended = self._waits_for is None or self._waits_for.background_requested
        attendance, outer = self._attendance, self._outer
        if is_attended and attendance is not None and not attendance.is_for_sub_agents:
            return attendance.questions
        # A driver of the outer run is inside next(): it cannot answer now.
        return None if outer is None or outer._is_driven else outer._sub_agent_questions

    @property
    def _sub_agent_questions(self) -> OpenQuestions | None:
        """Where sub-agents open their questions."""
        attendance = self._attendance
        if attendance is not None and attendance.is_for_sub_agents:
            return attendance.questions
        return self.open_questions

    @property
    def _is_driven(self) -> bool:
        return self._attendance is not None and self._attendance.is_driver

    @property
    def pending_inputs(self) -> tuple[UserMessage, ...]:
        """Input that was sent to the run and not taken yet."""
        return () if self._attendance is None else self._attendance.inbox.messages

    def attend(self, attendance: Attendance) -> None:
        """Let a handle receive the questions of a run that moved to it."""
        self._attendance = attendance

    def close(self) -> None:
        """Leave a handler behind that still works on an answer."""
        if self._handler_call is not None:
            self._handler_call[1].leave()

    # -- questions of a tool round -------------------------------------------------

    def show(
        self,
        run: Run,
        questions: tuple[Interrupt, ...],
        token: CancelToken | None = None,
    ) -> tuple[Interrupt, ...]:
        """Open *questions* for answers, and return them as events should show them.

        :param token: withdraws them; by default the run's.
        """
        if self._has_all(questions):
            return ()
        if isinstance(questions[0], AfterToolResult) and not self._is_driven:
            return ()
        if self.open_questions is not None and self._handler(questions[0]) is None:
            questions = tuple(
                self._open(run, question, token) for question in questions
            )
        return questions

    def answer(self, questions: tuple[Interrupt, ...], run: Run) -> Answers:
        """Return the answers to all *questions*, which are of one kind.

        Cancellation: ends at once.

        :return: ``None`` if no one can answer now; :data:`NOT_YET` if the run is about
            to move, and asks again afterwards.
        """
        if self._has_all(questions):
            # Use them once: a later call may have the same id.
            at_hand, self._at_hand = self._at_hand, {}
            return at_hand
        if isinstance(questions[0], AfterToolResult):
            return self._take_input(questions[0], run)
        handler = self._handler(questions[0])
        if handler is None and self.open_questions is None:
            return None
        # No tool runs while a person is asked: a cancel after the tools is due now.
        deferred = run.claim.deferred
        answers: Answers = None
        token = self._token = self._token or deferred.operation_token(run.token)
        try:
            if handler is not None:
                answers = self._ask_handler(handler, questions, run, token)
            else:
                answers = self._wait_for_answers(questions, run, token)
        except Cancelled:
            run.raise_if_cancel_due("after_tools")
            raise
        finally:
            if answers is not NOT_YET:
                deferred.operation_ended()
                self._token = None
        return answers

    def _has_all(self, questions: tuple[Interrupt, ...]) -> bool:
        return all(question.id in self._at_hand for question in questions)

    def _handler(self, question: Interrupt) -> Callable[..., Any] | None:
        return self._named_handler(question)[1]

    def _named_handler(
        self, question: Interrupt
    ) -> tuple[str, Callable[..., Any] | None]:
        """Return the handler for *question*, of this run or the outer one."""
        name, handler = self._handlers.find(question)
        if handler is None and self._outer is not None:
            return self._outer._named_handler(question)
        return name, handler

    @property
    def _timeout(self) -> float | None:
        own = self._handlers.timeout
        return self._outer._timeout if own is None and self._outer else own

    def _open(
        self, run: Run, question: Interrupt, token: CancelToken | None = None
    ) -> Interrupt:
        """Open a question to other threads; its check runs on the answering thread."""
        open_questions = self.open_questions
        assert open_questions is not None
        if isinstance(question, AfterToolResult):
            assert self._attendance is not None
            # Input like any other: taken in order, saved, and not lost.
            inbox = self._attendance.inbox
            return open_questions.add(question, run.token, user_message, inbox.put)
        round = run.open_round
        assert round is not None
        return open_questions.add(
            question,
            token or run.token,
            lambda answer: check_answer(round, question, answer),
        )

    def _take_input(self, pause: AfterToolResult, run: Run) -> Answers:
        run.raise_if_cancel_due("after_turn")  # a run that ends now takes no input
        if self.open_questions is not None:
            self.open_questions.drop(pause.id)
        inbox = None if self._attendance is None else self._attendance.inbox
        return {pause.id: [] if inbox is None else inbox.take()}

    def _wait_for_answers(
        self, questions: tuple[Interrupt, ...], run: Run, token: CancelToken
    ) -> Answers:
        open_questions = self.open_questions
        assert open_questions is not None
        for question in questions:
            self._open(run, question)
        # One deadline for the whole round, from when it was asked.
        deadline = token.child(self._timeout)
        return {
            question.id: open_questions.wait(question.id, deadline)
            for question in questions
        }

    def _ask_handler(
        self,
        handler: Callable[..., Any],
        questions: tuple[Interrupt, ...],
        run: Run,
        token: CancelToken,
    ) -> Answers:
        new_rules = RuleBook()
        for question in questions:
            if question.id in self._collected or self._has_rule(question, new_rules):
                continue
            call = self._call_for(handler, question, run, token)
            try:
                wake = run.token.background if run.can_move else None
                if not call.wait(wake):
                    return NOT_YET
                answer = call.answer()
            except TimeoutError as error:
                if raised_by_signal_handler(error):  # a watchdog of the program
                    raise
                answer = TIMED_OUT
            self._handler_call = None
            assert run.open_round is not None
            answer = check_answer(run.open_round, question, answer)
            self._collected[question.id] = answer
            if isinstance(question, ApprovalRequest) and answer.arguments is None:
                # Changed arguments have to pass hooks and rules first.
                remember(new_rules, question.tool, question.arguments, answer)
        answers, self._collected = self._collected, {}
        return answers

    def _has_rule(self, question: Interrupt, new_rules: RuleBook) -> bool:
        """Answer a question by a rule that an answer of the same round made."""
        if not isinstance(question, ApprovalRequest):
            return False
        rule = new_rules.find(question.tool, question.arguments)
        if rule is not None:
            self._collected[question.id] = Approval(rule.allow, reason=rule.reason)
        return rule is not None

    def _call_for(
        self,
        handler: Callable[..., Any],
        question: Interrupt,
        run: Run,
        token: CancelToken,
    ) -> HandlerCall:
        """Return the call of the handler; it may have begun on the caller's thread."""
        if self._handler_call is not None and self._handler_call[0] == question.id:
            return self._handler_call[1]
        name = self._named_handler(question)[0]
        deadline = token.child(self._timeout)
        argument: object = question.showing(run.deps, run.metadata)
        if isinstance(question, AwaitingInput):
            argument = _asked(run, question)
        call = HandlerCall(name, run.id, handler, argument, deadline)
        self._handler_call = (question.id, call)
        return call

    # -- questions of a tool that waits for the answer -----------------------------

    @property
    def can_ask(self) -> bool:
        """True if a tool can wait for the user's answer."""
        if self._handler(_ANY_QUESTION) is not None:
            return True
        return self.open_questions is not None and not self._is_driven

    def ask(self, run: Run, question: AwaitingInput, token: CancelToken) -> Any:
        """Return the user's answer to a question of a tool.

        Cancellation: ends at once.

        :raises Declined: the user said no to a form.
        :raises ToolError: the user did not answer in time, or a handler's answer does
            not fit the form.
        """
        deadline = token.child(self._timeout)
        try:
            handler = self._handler(question)
            if handler is not None:
                asked = _asked(run, question)
                answer = call_handler("ask", run.id, handler, asked, deadline)
            else:
                assert self.open_questions is not None
                answer = self.open_questions.wait(question.id, deadline)
        except TimeoutError as error:
            if raised_by_signal_handler(error):
                raise
            answer = TIMED_OUT
        if question.form is not None and is_decline(answer):
            raise Declined("the user declined")
        if is_refusal(answer):
            raise ToolError("the user did not answer")
        if question.form is None:
            return str(answer)
        try:
            return Form.of(question.form).check(answer)
        except ConfigurationError as error:
            raise ToolError(f"the answer does not fit the form: {error}") from None


def _asked(run: Run, question: AwaitingInput) -> Question:
    """Return the question of a tool as an ``ask=`` handler gets it."""
    return Question(question.question, question.form, run.deps, run.metadata)
