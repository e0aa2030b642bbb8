"""Questions of a run in the chat, and the answers typed there."""

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
from .screen import Screen
from .talk import AgentWork, Work
from .wording import whole_call

__all__ = [
    "Asking",
    "Questions",
    "Verdict",
]


class Questions:
    """What is asked, and what waits to be asked."""

    def __init__(self, screen: Screen) -> None:
        self._screen: Final = screen
        self._waiting: deque[Asking] = deque()
        #: What is asked right now.
        self.current: Asking | None = None

    @property
    def label(self) -> str:
        """What stands before the answer; nothing if nothing is asked."""
        if self.current is None:
            return ""
        number = self.current.work.number
        return f"[run {number}] " * bool(number) + self.current.label

    @property
    def is_waiting(self) -> bool:
        """Is something to be asked when the line is empty?"""
        return self.current is None and bool(self._waiting)

    def take(self, work: AgentWork, event: InterruptRaised) -> None:
        """Take what a run asks; only what no handler of the agent answers."""
        ids = {question.id for question in work.questions}
        asked = [each for each in event.interrupts if each.id in ids]
        if not asked:
            return
        if not self._screen.is_interactive:
            for interrupt in asked:
                asking = Asking(work, interrupt)
                self._screen.line(f"{asking.question()} Nobody can be asked here.")
                asking.give_up()
        elif work.number:
            self._screen.aside(
                f"(run {work.number} in the background waits for your answer: "
                f"/runs {work.number})"
            )
        else:
            self._waiting.extend(Asking(work, interrupt) for interrupt in asked)
        self.ask_next()

    def take_all_of(self, work: AgentWork) -> None:
        """Take what work in the background waits for."""
        known = {ask.interrupt.id for ask in self._waiting}
        for interrupt in work.questions:
            if interrupt.id not in known:
                self._waiting.append(Asking(work, interrupt))

    def put_off(self, work: Work) -> None:
        """Do not ask what *work* asks; it waits."""
        self._waiting = deque(ask for ask in self._waiting if ask.work is not work)
        if self.current is not None and self.current.work is work:
            self._end()

    def drop_over(self) -> None:
        """Forget what nobody waits for any more."""
        self._waiting = deque(ask for ask in self._waiting if ask.is_open)
        if self.current is not None and not self.current.is_open:
            self._end()

    def ask_next(self) -> None:
        """Put the next question, but never over a line that somebody is typing.

        So what was meant for the model is never taken for an answer.
        """
        self.drop_over()
        if self.is_waiting and not self._screen.text:
            self.current = self._waiting.popleft()
            self._screen.line(self.current.question(), "question")

    def answer(self, text: str) -> None:
        """Take a line as the answer to what is asked."""
        asking = self.current
        assert asking is not None
        try:
            verdict = asking.take(text)
        except InterruptOver:
            self._screen.line("(that is over already)")
            verdict = "answered"
        if verdict == "again":
            self._screen.line(f"({asking.remark})")
            self._screen.set_text(text if asking.is_editing else "")
        elif verdict == "edit":
            self._screen.set_text(asking.arguments)
        else:
            self.current = None
            if not asking.is_secret:
                self._screen.line(f"{asking.label}{text}", "user")

    def refuse(self) -> Work | None:
        """Go back from the arguments to the question, or from that to nothing.

        :return: the work that is to be stopped.
        """
        asking = self.current
        assert asking is not None
        if asking.is_editing:
            asking.is_editing = False
            self._screen.set_text("")
            self._screen.line("(unchanged)")
            return None
        self._end()
        self._screen.line("(no, and stopped)")
        return asking.work

    def _end(self) -> None:
        self.current = None
        self._screen.set_text("")


#: What came of a line: it was an answer; it was none; or the words to be changed.
Verdict = Literal["answered", "again", "edit"]


_YES: Final = frozenset(("y", "yes"))


_NO: Final = frozenset(("n", "no"))


_ALWAYS: Final = frozenset(("a", "always"))


_EDIT: Final = frozenset(("e", "edit"))


class Asking:
    """One question, until it is answered."""

    def __init__(self, work: AgentWork, interrupt: Interrupt) -> None:
        self.work: Final = work
        self.interrupt: Final = interrupt
        #: Are the arguments being changed?
        self.is_editing = False
        #: What to say about the line that was typed.
        self.remark = ""

    @property
    def is_open(self) -> bool:
        """Does it still wait for an answer?"""
        return self.interrupt.id in {each.id for each in self.work.questions}

    @property
    def is_secret(self) -> bool:
        """Is nobody to see the answer?"""
        return isinstance(self.interrupt, AuthRequest)

    @property
    def tool(self) -> str:
        """The tool that it is about."""
        return getattr(self.interrupt, "tool", "")

    @property
    def arguments(self) -> str:
        """The arguments, as JSON that can be changed."""
        assert isinstance(self.interrupt, ApprovalRequest)
        return msgspec.json.encode(self.interrupt.arguments).decode()

    def question(self) -> str:
        """Return what is asked."""
        asked = self.interrupt
        if isinstance(asked, ApprovalRequest):
            why = f" ({asked.reason})" if asked.reason else ""
            return f"May it call {whole_call(asked.tool, asked.arguments)}?{why}"
        if isinstance(asked, AuthRequest):
            return f"{asked.tool} needs credentials for {asked.provider}."
        if isinstance(asked, AwaitingInput) and asked.tool:
            return f"{asked.tool} asks: {asked.question}"
        return "It asks for more."

    @property
    def label(self) -> str:
        """What stands before the answer."""
        if self.is_editing:
            return "arguments: "
        if isinstance(self.interrupt, ApprovalRequest):
            return "yes, no, always, edit? "
        return "(hidden) " if self.is_secret else "answer: "

    def take(self, text: str) -> Verdict:
        """Take a line as the answer.

        :raises InterruptOver: nobody waits for it any more.
        """
        try:
            if self.is_editing:
                return self._edited(text)
            if isinstance(self.interrupt, ApprovalRequest):
                return self._approval(self.interrupt, text.strip().lower())
            return self._words(text)
        except ConfigurationError as error:  # it makes no sense, and still waits
            self.remark = str(error)
            return "again"

    def _approval(self, asked: ApprovalRequest, word: str) -> Verdict:
        if word in _EDIT:
            self.is_editing = True
            return "edit"
        if word in _YES:
            asked.approve()
        elif word in _ALWAYS:
            asked.approve(remember="tool")
            self._approve_others(asked)
        elif word in _NO:
            asked.deny("The user said no.")
        else:
            self.remark = (
                "yes (y), no (n), always (a: also all later calls of this tool) or "
                "edit (e: change the arguments first); ESC says no, and stops it"
            )
            return "again"
        return "answered"

    def _approve_others(self, asked: ApprovalRequest) -> None:
        """Say yes to what else of the round is about the same tool."""
        for other in self.work.questions:
            if isinstance(other, ApprovalRequest) and other.tool == asked.tool:
                try:
                    other.approve()
                except InterruptOver:
                    pass

    def _edited(self, text: str) -> Verdict:
        assert isinstance(self.interrupt, ApprovalRequest)
        try:
            arguments: Any = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            self.remark = f"this is no JSON: {error}"
            return "again"
        if not isinstance(arguments, dict):
            self.remark = 'arguments are an object, such as {"name": "value"}'
            return "again"
        self.interrupt.approve(arguments)
        return "answered"

    def _words(self, text: str) -> Verdict:
        asked = self.interrupt
        if isinstance(asked, AuthRequest):
            if text:
                asked.provide(text)
            else:
                asked.deny("The user gave none.")
        elif isinstance(asked, (AwaitingInput, AfterToolResult)):
            asked.submit(text)
        return "answered"

    def give_up(self) -> None:
        """Say that nobody is there to answer, which is not a no."""
        try:
            self.work.handle.answer(self.interrupt.id, TIMED_OUT)
        except InterruptOver:
            pass
