"""The questions of all work, one after the other, where somebody types."""

from __future__ import annotations

from collections import deque
from typing import Final

from ...events import InterruptRaised
from ...exceptions import InterruptOver
from .asking import Asking
from .screen import Screen
from .talk import AgentWork, Work

__all__ = ["Questions"]


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
            self._screen.line(self.current.question(), "user")

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
                self._screen.line(f"  {asking.label}{text}")

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
