"""What tools print, as lines of the conversation."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["printing_to"]


class _Prints(io.TextIOBase):
    """A file to print to; whole lines go to *show*."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show
        self._left: dict[int, str] = {}

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        here = threading.get_ident()  # two that print at once do not mix their words
        *lines, left = (self._left.pop(here, "") + text).split("\n")
        if left:
            self._left[here] = left
        if lines:
            self._show("\n".join(lines))
        return len(text)

    def finish(self) -> None:
        """Show what has no line end."""
        while self._left:
            self._show(self._left.popitem()[1])


@contextmanager
def printing_to(show: Callable[[str], object]) -> Iterator[None]:
    """Have ``print()``, of whatever thread, show lines rather than write over them."""
    before, prints = (sys.stdout, sys.stderr), _Prints(show)
    sys.stdout = sys.stderr = prints
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        prints.finish()
