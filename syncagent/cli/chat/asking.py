"""What a run asks, put to whoever sits at the terminal."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from ...exceptions import ConfigurationError, InterruptOver
from ...interrupts import (
    TIMED_OUT,
    AfterToolResult,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    Interrupt,
)
from .talk import AgentWork
from .wording import whole_call

__all__ = ["Asking", "Verdict"]

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
            self.work.handle.respond(self.interrupt.id, TIMED_OUT)
        except InterruptOver:
            pass
