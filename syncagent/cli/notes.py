"""Notes about a run, on standard error."""

from __future__ import annotations

import sys

from ..cancel import CancelToken
from .streams import OutputStream

__all__ = ["Notes"]


class Notes:
    """Lines on standard error that never begin in the middle of the response.

    :param output: the stream of the response; both may be the same terminal.
    :param is_quiet: show only warnings.
    """

    def __init__(
        self, token: CancelToken, output: OutputStream, is_quiet: bool = False
    ) -> None:
        self._token = token
        self._stream = OutputStream(sys.stderr, token)
        self._output = output
        self._is_quiet = is_quiet

    @property
    def is_terminal(self) -> bool:
        """True if standard error is a terminal."""
        return self._stream.is_terminal

    def tell(self, line: str) -> None:
        """Write *line*, unless only warnings are wanted."""
        if not self._is_quiet:
            self.warn(line)

    def warn(self, line: str) -> None:
        """Write *line*."""
        self._write(f"{line}\n")

    def ask(self, question: str) -> None:
        """Write *question*; the user's answer follows on the same line."""
        self._write(question)
        self._stream.is_at_line_start = True  # after the user's Enter

    def _write(self, text: str) -> None:
        output, token = self._output, self._token
        is_past = output.is_past_cancel or self._stream.is_past_cancel
        is_after_keys = token.cancelled and token.reason == "SIGINT" and not is_past
        if self.is_terminal and output.is_terminal and not output.is_at_line_start:
            # The newline goes to the screen only; piped output stays as it is.
            output.is_at_line_start = True
            text = f"\n{text}"
        elif self.is_terminal and is_after_keys:  # a ^C
            text = f"\n{text}"
        try:
            self._stream.write(text)
        except OSError:  # a full disk for notes is no reason to lose the response
            pass
