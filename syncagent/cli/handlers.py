"""Handlers of ``syncagent run``: answer questions of the run by a rule or by asking."""

from __future__ import annotations

import os
from typing import Literal

from ..cancel import CancelToken
from ..exceptions import Cancelled
from ..interrupts import Approval, ApprovalRequest, AuthRequest
from .approvals import DENIED, approval_question, choices, parse_choice
from .formatting import call_text
from .notes import Notes
from .plain_text import on_one_line
from .streams import read_line

__all__ = ["ApprovalMode", "TerminalHandlers", "has_terminal"]

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
            match parse_choice(answer or "no"):
                case "yes":
                    return Approval(True)
                case "always":
                    return Approval(True, remember="tool")
                case "no":
                    return Approval(False, reason=DENIED)

    def ask(self, question: str, token: CancelToken) -> str:
        """Return the user's answer to a question of a tool.

        Cancellation: stops waiting for the user at once.

        :raises TimeoutError: no user is present.
        """
        answer = None
        if self._mode == "ask":
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
            terminal = _open_terminal()
        except OSError:
            return None
        try:
            self._notes.ask(question)
            return read_line(terminal, token)
        except Cancelled as cancelled:
            raise TimeoutError("the run has ended") from cancelled
        finally:
            os.close(terminal)
