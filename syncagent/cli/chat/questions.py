"""Questions of runs, asked in the chat one after the other."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Literal

import msgspec

from ...events import InterruptRaised
from ...exceptions import ConfigurationError, InterruptOver
from ...interrupts import (
    TIMED_OUT,
    AfterToolResult,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    Interrupt,
)
from ..approvals import (
    DENIED,
    ApprovalChoice,
    approval_question,
    choices,
    parse_choice,
)
from ..forms import FORM_HINT, FormEntry
from .conversations import AgentChatRun, ChatRun
from .screen import Screen

__all__ = ["ChatQuestion", "QuestionQueue"]

_CHOICES: Final[tuple[ApprovalChoice, ...]] = ("yes", "no", "always", "edit")
_HINT: Final = (
    "y: yes; n: no; a: always, also later calls of this tool; e: edit the arguments "
    "first; then Enter. Ctrl+C: no, and stop the run"
)


class ChatQuestion:
    """One question of a run, until it is answered."""

    def __init__(self, run: AgentChatRun, interrupt: Interrupt) -> None:
        self.run: Final = run
        self.interrupt: Final = interrupt
        #: True while the user edits the arguments of the call.
        self.is_editing = False
        #: Why the last line was no answer.
        self.remark = ""
        self._entry: FormEntry | None = None
        if isinstance(interrupt, AwaitingInput) and interrupt.form is not None:
            self._entry = FormEntry(interrupt.form)

    @property
    def is_open(self) -> bool:
        """True while the run waits for the answer."""
        return self.interrupt.id in {each.id for each in self.run.interrupts}

    @property
    def is_secret(self) -> bool:
        """True if the answer must not be shown."""
        return isinstance(self.interrupt, AuthRequest)

    @property
    def arguments(self) -> str:
        """The arguments of the call as JSON, to be edited."""
        assert isinstance(self.interrupt, ApprovalRequest)
        return msgspec.json.encode(self.interrupt.arguments).decode()

    @property
    def text(self) -> str:
        """The question itself."""
        request = self.interrupt
        if isinstance(request, ApprovalRequest):
            return approval_question(request)
        if isinstance(request, AuthRequest):
            return f"{request.tool} needs credentials for {request.provider}."
        if isinstance(request, AwaitingInput) and request.tool:
            hint = "" if self._entry is None else f"\n({FORM_HINT})"
            return f"{request.tool} asks: {request.question}{hint}"
        return "The run needs more input."

    @property
    def prompt(self) -> str:
        """The text before the answer."""
        if self.is_editing:
            return "arguments: "
        if isinstance(self.interrupt, ApprovalRequest):
            return choices(*_CHOICES)
        if self._entry is not None:
            return self._entry.prompt
        return "(hidden) " if self.is_secret else "answer: "

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers to choose from, if there are any."""
        if self.is_editing:
            return ()
        if isinstance(self.interrupt, ApprovalRequest):
            return _CHOICES
        return () if self._entry is None else self._entry.choices

    def answer(self, text: str) -> Literal["answered", "again", "edit", "next"]:
        """Answer with a line that the user typed.

        :return: ``again`` if it is no answer, ``edit`` to have the arguments edited,
            ``next`` to have the next field of a form filled in.
        :raises InterruptOver: the run does not wait for an answer any more.
        """
        request = self.interrupt
        try:
            if self.is_editing:
                self.remark = self._answer_with_arguments(text)
            elif isinstance(request, ApprovalRequest):
                choice = parse_choice(text)
                if choice == "edit":
                    self.is_editing = True
                    return "edit"
                self.remark = "" if choice else _HINT
                if choice == "no":
                    request.deny(DENIED)
                elif choice == "yes":
                    request.approve()
                elif choice == "always":
                    self._always_approve(request)
            elif isinstance(request, AuthRequest):
                if text:
                    request.provide(text)
                else:
                    request.deny("The user gave no credentials.")
            elif isinstance(request, AwaitingInput) and self._entry is not None:
                self.remark = self._entry.enter(text)
                if self._entry.answer is None:
                    return "again" if self.remark else "next"
                request.submit(self._entry.answer)
            elif isinstance(request, (AwaitingInput, AfterToolResult)):
                request.submit(text)
        except ConfigurationError as error:  # not a valid answer; the question is open
            self.remark = str(error)
        return "again" if self.remark else "answered"

    def _answer_with_arguments(self, text: str) -> str:
        """Approve the call with other arguments; return what is wrong with them."""
        assert isinstance(self.interrupt, ApprovalRequest)
        try:
            arguments: Any = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            return f"not valid JSON: {error}"
        if not isinstance(arguments, dict):
            return 'arguments must be a JSON object, such as {"name": "value"}'
        self.interrupt.approve(arguments)
        return ""

    def _always_approve(self, request: ApprovalRequest) -> None:
        request.approve(remember="tool")
        for other in self.run.interrupts:  # calls of the same tool in this round
            if isinstance(other, ApprovalRequest) and other.tool == request.tool:
                try:
                    other.approve()
                except InterruptOver:
                    pass

    def time_out(self) -> None:
        """Tell the run that no one is there to answer, which is not a no."""
        try:
            self.run.handle.answer(self.interrupt.id, TIMED_OUT)
        except InterruptOver:
            pass


class QuestionQueue:
    """The question that is asked now, and those that wait."""

    def __init__(self, screen: Screen) -> None:
        self._screen: Final = screen
        self._waiting: deque[ChatQuestion] = deque()
        #: The question that is asked now.
        self.current: ChatQuestion | None = None

    @property
    def prompt(self) -> str:
        """The text before the answer, empty if there is no question."""
        if self.current is None:
            return ""
        number = self.current.run.number
        return f"[run {number}] " * bool(number) + self.current.prompt

    @property
    def is_waiting(self) -> bool:
        """True if a question waits for the user's input to be sent or cleared."""
        return self.current is None and bool(self._waiting)

    def add(self, run: AgentChatRun, event: InterruptRaised) -> None:
        """Add the questions of *event* that no handler of the agent answers."""
        open_ids = {each.id for each in run.interrupts}
        questions = [
            ChatQuestion(run, each) for each in event.interrupts if each.id in open_ids
        ]
        if not questions:
            return
        if not self._screen.is_interactive:
            for question in questions:
                self._screen.line(f"{question.text} There is no terminal to ask on.")
                question.time_out()
        elif run.number:
            self._screen.aside(
                f"(run {run.number} in the background waits for your answer: "
                f"/runs {run.number})"
            )
        else:
            self._waiting.extend(questions)
        self.ask_next()

    def add_all_of(self, run: AgentChatRun) -> None:
        """Add the open questions of a run in the background."""
        known = {question.interrupt.id for question in self._waiting}
        for interrupt in run.interrupts:
            if interrupt.id not in known:
                self._waiting.append(ChatQuestion(run, interrupt))

    def put_off(self, run: ChatRun) -> None:
        """Remove the questions of *run*; they stay open."""
        self._waiting = deque(each for each in self._waiting if each.run is not run)
        if self.current is not None and self.current.run is run:
            self._end_current()

    def drop_closed(self) -> None:
        """Remove questions that no run waits for any more."""
        self._waiting = deque(each for each in self._waiting if each.is_open)
        if self.current is not None and not self.current.is_open:
            self._end_current()

    def ask_next(self) -> None:
        """Ask the next question, unless the user is typing.

        A line meant for the model must never be taken for an answer.
        """
        self.drop_closed()
        if self.is_waiting and not self._screen.text:
            self.current = self._waiting.popleft()
            self._screen.line(self.current.text, "question")

    def answer(self, text: str) -> None:
        """Answer the current question with a line that the user typed."""
        question = self.current
        assert question is not None
        prompt = question.prompt
        try:
            verdict = question.answer(text)
        except InterruptOver:
            self._screen.line("(the question is closed)")
            verdict = "answered"
        if verdict == "again":
            self._screen.line(f"({question.remark})")
            self._screen.set_text(text if question.is_editing else "")
        elif verdict == "edit":
            self._screen.set_text(question.arguments)
        else:
            if verdict == "answered":
                self.current = None
            if not question.is_secret:
                self._screen.line(f"{prompt}{text}", "user")

    def refuse(self) -> ChatRun | None:
        """Go back from the arguments to the question, or close the question.

        :return: the run to stop: a round with all its answers would start its calls.
        """
        question = self.current
        assert question is not None
        if question.is_editing:
            question.is_editing = False
            self._screen.set_text("")
            self._screen.line("(unchanged)")
            return None
        self._end_current()
        self._screen.line("(denied; the run is stopped)")
        return question.run

    def _end_current(self) -> None:
        self.current = None
        self._screen.set_text("")
