"""Notes about a run, on standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..cancel import CancelToken
from .plain_text import on_one_line
from .streams import OutputStream

__all__ = ["Notes", "warnings_as_notes"]


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
        both = self.is_terminal and output.is_terminal
        self._is_shared = both or self._stream.is_same_file(output)

    @property
    def is_terminal(self) -> bool:
        """True if standard error is a terminal."""
        return self._stream.is_terminal

    def tell(self, line: str, style: str = "", part: str = "") -> None:
        """Write *line*, unless only warnings are wanted.

        :param style: a colour, for a terminal that has colours.
        :param part: the part of the line in that colour; by default all of it.
        """
        if not self._is_quiet:
            self.warn(line, style, part)

    def warn(self, line: str, style: str = "", part: str = "") -> None:
        """Write *line*; the arguments are those of :meth:`tell`."""
        self._write(f"{line}\n", style, part)

    def ask(self, question: str) -> None:
        """Write *question*; the user's answer follows on the same line."""
        self._write(question, "yellow")
        self._stream.is_at_line_start = True  # after the user's Enter

    def start_line(self) -> None:
        """End the response's line where it would be continued by something else."""
        if self._is_shared and not self._output.is_at_line_start:
            self._output.end_line()

    def _write(self, text: str, style: str = "", part: str = "") -> None:
        output, token = self._output, self._token
        is_past = output.is_past_cancel or self._stream.is_past_cancel
        is_after_keys = token.cancelled and token.reason == "SIGINT" and not is_past
        if self._is_shared and not output.is_at_line_start:
            # Only where both go to the same place; piped output stays as it is.
            output.is_at_line_start = True
            text = f"\n{text}"
        elif self.is_terminal and is_after_keys:  # a ^C
            text = f"\n{text}"
        try:
            self._stream.write(text, style, part)
        except OSError:  # a full disk for notes is no reason to lose the response
            pass


@contextmanager
def warnings_as_notes(
    notes: Notes | None, name: str = "syncagent", *, without: str = ""
) -> Iterator[None]:
    """Show warnings of the log as notes: their text could take over a terminal.

    :param notes: None to show none.
    :param name: of the logger.
    :param without: a message, before its arguments are filled in, that is not shown.
    """
    handler = logging.NullHandler() if notes is None else _NotesHandler(notes)
    handler.addFilter(lambda record: record.msg != without)
    logger = logging.getLogger(name)
    if any(isinstance(each, _NotesHandler) for each in logger.handlers):
        yield  # a block around this one shows them
        return
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _NotesHandler(logging.Handler):
    def __init__(self, notes: Notes) -> None:
        super().__init__(logging.WARNING)
        self._notes = notes
        self._stderr = sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        line = on_one_line(f"warning: {record.getMessage()}")
        if sys.stderr is self._stderr:
            self._notes.warn(line)
        else:  # the screen of a chat has it
            print(line, file=sys.stderr)
