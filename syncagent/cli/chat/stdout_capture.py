"""Capture ``print()`` of tools as lines of the chat."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["capture_stdout"]


class _LineWriter(io.TextIOBase):
    """A file that passes complete lines to *show*."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        # By thread: tools that print at the same time do not mix their lines.
        self._unfinished: dict[int, str] = {}

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        thread = threading.get_ident()
        *lines, rest = (self._unfinished.pop(thread, "") + text).split("\n")
        if rest:
            self._unfinished[thread] = rest
        if lines:
            self._show("\n".join(lines))
        return len(text)

    def finish(self) -> None:
        """Show the lines that were not ended."""
        while self._unfinished:
            self._show(self._unfinished.popitem()[1])


@contextmanager
def capture_stdout(show: Callable[[str], object]) -> Iterator[None]:
    """Pass everything printed by any thread to *show*: it would garble the screen."""
    before, writer = (sys.stdout, sys.stderr), _LineWriter(show)
    sys.stdout = sys.stderr = writer
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        writer.finish()
