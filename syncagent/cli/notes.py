"""What is said beside the answer, on standard error."""

from __future__ import annotations

import sys

from ..cancel import CancelToken
from .streams import OutputStream

__all__ = ["Notes"]


class Notes:
    """Lines on standard error, which keep out of the answer's way.

    :param answer: where the answer goes; if both are terminals, it is the same one.
    :param is_quiet: only warnings.
    """

    def __init__(
        self, token: CancelToken, answer: OutputStream, is_quiet: bool = False
    ) -> None:
        self._token = token
        self._stream = OutputStream(sys.stderr, token)
        self._answer = answer
        self._is_quiet = is_quiet

    @property
    def is_terminal(self) -> bool:
        """Does somebody look on?"""
        return self._stream.is_terminal

    def tell(self, line: str) -> None:
        """Say what is going on, unless nobody wants to know."""
        if not self._is_quiet:
            self.warn(line)

    def warn(self, line: str) -> None:
        """Say what everybody has to know."""
        self._write(f"{line}\n")

    def ask(self, question: str) -> None:
        """Say something whose answer follows on the same line."""
        self._write(question)
        self._stream.is_at_line_start = True  # once the user has pressed Enter

    def _write(self, text: str) -> None:
        if self.is_terminal and self._is_in_a_line():
            text = f"\n{text}"
        try:
            self._stream.write(text)
        except OSError:  # a disk that is full is no reason to lose the answer, too
            pass

    def _is_in_a_line(self) -> bool:
        """Stands the cursor behind words of the answer, or behind a ^C?"""
        answer = self._answer
        if answer.is_terminal and not answer.is_at_line_start:
            answer.is_at_line_start = (
                True  # on the screen; what is piped stays as it is
            )
            return True
        is_past = answer.is_past_cancel or self._stream.is_past_cancel
        return self._token.cancelled and self._token.reason == "SIGINT" and not is_past
