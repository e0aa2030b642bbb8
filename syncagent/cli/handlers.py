"""Handlers of ``syncagent run``: answer questions of the run by a rule or by asking."""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from ..asking.answering import InputAnswer
from ..cancel import CancelToken
from ..exceptions import Cancelled
from ..interrupts import Approval, ApprovalRequest, AuthRequest, Question
from .approvals import DENIED, approval_question, choices, parse_choice
from .formatting import call_text
from .forms import fill_in
from .notes import Notes
from .plain_text import on_one_line
from .streams import read_line

__all__ = ["ApprovalMode", "TerminalHandlers", "ask_on_terminal", "has_terminal"]

#: Allow all tools, allow none, or ask the user about each call.
ApprovalMode = Literal["all", "none", "ask"]


def has_terminal() -> bool:
    """Return True if there is a terminal to ask on, whatever standard input is."""
    try:
        os.close(_open_terminal())
    except OSError:
        return False
    return True


def _open_terminal() -> int:
    return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)


def ask_on_terminal(
    question: str, notes: Notes, token: CancelToken, *, is_secret: bool = False
) -> str | None:
    """Return the line that the user types, None if the terminal is gone.

    Cancellation: stops waiting for the user at once.

    :param is_secret: do not show the line.
    :raises Cancelled: *token* was cancelled.
    """
    try:
        terminal = _open_terminal()
    except OSError:
        return None
    try:
        with _hidden_keys(terminal, is_secret):
            notes.ask(question)
            line = read_line(terminal, token)
        if is_secret:
            notes.warn("")  # the user's Enter was not shown
        return line
    finally:
        os.close(terminal)


@contextmanager
def _hidden_keys(terminal: int, is_secret: bool) -> Iterator[None]:
    if not is_secret:
        yield
        return
    before = termios.tcgetattr(terminal)
    hidden = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(terminal, termios.TCSAFLUSH, hidden)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


class TerminalHandlers:
    """The ``approve``, ``ask`` and ``authenticate`` handlers of an agent.

    :param mode: how tools that need an approval get one.
    :param notes: shows questions and denials.
    """

    def __init__(self, mode: ApprovalMode, notes: Notes) -> None:
        self._mode = mode
        self._notes = notes

    def approve(self, request: ApprovalRequest, token: CancelToken) -> Approval:
        """Decide whether a tool may be called.

        Cancellation: stops waiting for the user at once.
        """
        if self._mode == "all":
            return Approval(True)
        if self._mode == "none":
            call = on_one_line(call_text(request.tool, request.arguments))
            self._notes.warn(f"denied: {call}; allow it with --approve all")
            return Approval(False, reason="No user is present to approve it.")
        question = on_one_line(approval_question(request))
        while True:
            answer = self._ask(f"{question}\n{choices('yes', 'no', 'always')}", token)
            choice = parse_choice(answer or "no")
            match choice:
                case "yes":
                    return Approval(True)
                case "always":
                    return Approval(True, remember="tool")
                case "no":
                    return Approval(False, reason=DENIED)
            self._notes.warn("(y: yes; n: no; a: always, also later calls of it)")

    def ask(self, question: Question, token: CancelToken) -> InputAnswer:
        """Return the user's answer to a question of a tool.

        Cancellation: stops waiting for the user at once.

        :raises TimeoutError: no user is present.
        """
        answer: InputAnswer = None
        if self._mode == "ask" and question.form is not None:
            answer = fill_in(
                question,
                question.form,
                lambda prompt: self._ask(prompt, token),
                self._notes.warn,
            )
        elif self._mode == "ask":
            answer = self._ask(f"{on_one_line(question)} ", token)
        if answer is None:
            self._notes.warn(f"no user to answer: {on_one_line(question)}")
            raise TimeoutError("no user is present to answer")
        return answer

    def authenticate(self, request: AuthRequest) -> None:
        """Refuse credentials: they do not belong on a command line."""
        self._notes.warn(
            f"denied: {request.tool} needs credentials for {request.provider}; pass "
            "them from a program, with Agent(authenticate=...)"
        )

    def _ask(self, question: str, token: CancelToken) -> str | None:
        """Return the line that the user types, None if the terminal is gone."""
        try:
            return ask_on_terminal(question, self._notes, token)
        except Cancelled as cancelled:
            raise TimeoutError("the run has ended") from cancelled
