"""Ask whoever sits at the terminal, if somebody does."""

from __future__ import annotations

import os

from ..cancel import CancelToken
from ..exceptions import Cancelled
from ..interrupts import Approval, ApprovalRequest, AuthRequest
from .notes import Notes
from .plain_text import on_one_line
from .streams import read_line

__all__ = ["TerminalHandlers", "call_in_words", "has_terminal"]


def call_in_words(tool: str, arguments: object, limit: int = 300) -> str:
    """Return a call as one would write it, on one line, and not too long.

    :param limit: after how many characters it is cut off; 0 for all of it.
    """
    given = arguments if isinstance(arguments, dict) else {"": arguments}
    shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return on_one_line(f"{tool}({shown})", limit)


def has_terminal() -> bool:
    """Is there a terminal to ask on, whatever standard input is?"""
    try:
        os.close(_open_terminal())
    except OSError:
        return False
    return True


def _open_terminal() -> int:
    return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)


class TerminalHandlers:
    """Answer what a run asks: by a rule, or by asking the user.

    :param mode: ``all`` or ``none`` of the tools are allowed, or ``ask``.
    :param notes: where questions and answers are shown.
    """

    def __init__(self, mode: str, notes: Notes) -> None:
        self._mode = mode
        self._notes = notes

    def approve(self, request: ApprovalRequest, token: CancelToken) -> Approval:
        """Say whether a tool may be called.

        Cancellation: ends the wait for an answer at once.
        """
        if self._mode == "all":
            return Approval(True)
        # All of it: nobody can approve what is cut off.
        wanted = call_in_words(request.tool, request.arguments, limit=0)
        if self._mode == "none":
            self._notes.warn(f"denied: {wanted}; --approve all would allow it")
            return Approval(False, reason="nobody is there who could be asked")
        why = f" ({on_one_line(request.reason)})" if request.reason else ""
        while True:
            said = self._ask(f"Allow {wanted}?{why} [y]es, [n]o, [a]lways: ", token)
            match (said or "no").lower():
                case "y" | "yes":
                    return Approval(True)
                case "a" | "always":
                    return Approval(True, remember="tool")
                case "n" | "no":
                    return Approval(False, reason="the user has said no")

    def ask(self, question: str, token: CancelToken) -> str:
        """Answer a question of a tool.

        Cancellation: ends the wait for an answer at once.

        :raises TimeoutError: nobody is there.
        """
        said = None
        if self._mode == "ask":
            said = self._ask(f"{on_one_line(question)} ", token)
        if said is None:
            self._notes.warn(f"nobody is there to answer: {on_one_line(question)}")
            raise TimeoutError("nobody is there who could be asked")
        return said

    def authenticate(self, request: AuthRequest) -> None:
        """Have no credentials: they do not belong on a command line."""
        self._notes.warn(
            f"denied: {request.tool} needs credentials for {request.provider}; a "
            "program of yours can give them, with Agent(authenticate=...)"
        )

    def _ask(self, question: str, token: CancelToken) -> str | None:
        """Return what the user types, ``None`` if nobody is there any more."""
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
