"""A terminal that gives every key as it is pressed, and is itself again afterwards."""

from __future__ import annotations

import os
import select
import signal
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["RawMode", "terminal_size", "typed_ahead"]

#: Pastes are marked, so that a line end in one is not the Enter key; and not.
_MARK_PASTES: Final = b"\x1b[?2004h"
_PLAIN_AGAIN: Final = b"\x1b[?2004l\x1b[?25h\x1b[0m"


class RawMode:
    """The modes of a terminal.

    Ctrl+C and the like are keys, not signals: tools that run are not hit by them.

    :param descriptor: of the terminal that is read.
    :param write: writes to it.
    """

    def __init__(self, descriptor: int, write: Callable[[bytes], object]) -> None:
        self._descriptor = descriptor
        self._write = write
        self._before: list[Any] | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Have a block in which it is raw."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """Make it raw."""
        if self._before is None:
            self._before = termios.tcgetattr(self._descriptor)
        entry, out, control, local, *speeds, characters = self._before
        entry &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
        entry &= ~(termios.BRKINT | termios.ISTRIP)
        local &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
        characters = characters.copy()
        characters[termios.VMIN], characters[termios.VTIME] = 1, 0
        modes = [entry, out, control, local, *speeds, characters]
        # Now: what was typed before is not thrown away, and nothing is waited for.
        termios.tcsetattr(self._descriptor, termios.TCSANOW, modes)
        self._write(_MARK_PASTES)

    def leave(self) -> None:
        """Make it what it was; also if it is gone, or nothing can be written."""
        if self._before is None:
            return
        try:
            termios.tcsetattr(self._descriptor, termios.TCSANOW, self._before)
        except (OSError, termios.error):
            pass  # it was closed: there is nothing to be restored
        self._before = None
        self._write(_PLAIN_AGAIN)

    def suspend(self) -> None:
        """Stop the program, as Ctrl+Z does, until the shell has it go on."""
        self.leave()
        try:
            os.kill(0, signal.SIGTSTP)  # the whole job, as a terminal would
        finally:
            self.enter()


def typed_ahead(descriptor: int) -> list[str]:
    """Return the lines that were sent before anybody has read a key.

    The terminal still has the Enter of each made a line end, which is Ctrl+J to those
    who read keys. What is not sent yet stays, to be typed on.
    """
    if not termios.tcgetattr(descriptor)[3] & termios.ICANON:
        return []
    lines = []
    while select.select([descriptor], [], [], 0)[0]:
        data = os.read(descriptor, 65536)
        if not data.endswith(b"\n"):
            break  # Ctrl+D
        lines.append(data[:-1].decode("utf-8", "replace"))
    return lines


def terminal_size(descriptor: int) -> tuple[int, int]:
    """Return columns and lines; what is usual where nobody says."""
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return 80, 24
    return size.columns or 80, size.lines or 24
