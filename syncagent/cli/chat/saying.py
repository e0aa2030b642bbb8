"""What is said, in rows that go up; the same for every terminal that is drawn on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from ..plain_text import harmless
from .flow import Flow, wrap
from .screen import LineKind

__all__ = ["Saying"]


class Saying(ABC):
    """Rows that are to go up, and the row of the model's that is not full yet."""

    def __init__(self) -> None:
        self._flow = Flow()
        self._said: list[str] = []
        #: Lines that wait for the end of what the model is saying.
        self._asides: deque[tuple[str, LineKind]] = deque()

    @property
    @abstractmethod
    def _width(self) -> int:
        """How long a row may be."""

    @abstractmethod
    def _answer_row(self, row: str) -> str:
        """Return a row of the model's as it is written."""

    @abstractmethod
    def _line_row(self, row: str, kind: LineKind) -> str:
        """Return another row as it is written."""

    def say(self, text: str) -> None:
        """Show more of what the model says."""
        self._said += map(self._answer_row, self._flow.feed(text, self._width))
        if not self._flow.rest:
            self._let_asides_in()

    def pause(self) -> None:
        """Take note that the model has said what it had to say."""
        self._said += map(self._answer_row, self._flow.end())
        self._let_asides_in()

    def line(self, text: str, kind: LineKind = "note") -> None:
        """Show a line, or several; what the model was saying ends before it."""
        self.pause()
        self._add(text, kind)

    def aside(self, text: str, kind: LineKind = "note") -> None:
        """Show a line, but not in the middle of one."""
        self._asides.append((text, kind))
        if not self._flow.rest:
            self._let_asides_in()

    def _let_asides_in(self) -> None:
        while self._asides:
            self._add(*self._asides.popleft())

    def _add(self, text: str, kind: LineKind) -> None:
        for line in harmless(text).replace("\t", "    ").split("\n"):
            for row in wrap(line, self._width):
                self._said.append(self._line_row(row, kind))
