"""Lines in, words out: where there is no terminal to draw on."""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Callable

from ..plain_text import harmless
from .screen import LineKind, Player
from .ui_loop import UiLoop, hearing

__all__ = ["LineScreen"]


class LineScreen:
    """Standard input, line by line; what is said on standard output, the rest beside.

    From a pipe, the next line is read when the last one is answered; and nobody can be
    asked, as the next line is the next thing to be said, and no answer.
    """

    def __init__(self) -> None:
        self._in = -1 if sys.stdin is None or sys.stdin.closed else sys.stdin.fileno()
        self.is_interactive: bool = self._in >= 0 and os.isatty(self._in)
        self._loop = UiLoop()
        self._left = b""
        self._is_at_end = self._in < 0
        #: Was something said, whose line has not ended?
        self._is_open = False
        self._is_hidden = False
        #: Is it shown that something can be typed?
        self._is_prompted = False
        self._player: Player

    @property
    def text(self) -> str:
        """Nothing: a terminal keeps what is typed until it is sent."""
        return ""

    def set_text(self, text: str) -> None:
        """Show *text*, to be typed again if it is wanted."""
        if text and self.is_interactive:
            self.line(f"(take it from here: {text})")

    def say(self, text: str) -> None:
        """Show more of what the model says."""
        text = harmless(text)
        if text:
            self._leave_prompt()
            self._write(sys.stdout, text)
            self._is_open = not text.endswith("\n")

    def pause(self) -> None:
        """End the line that the model was saying."""
        if self._is_open:
            self._write(sys.stdout, "\n")
            self._is_open = False

    def aside(self, text: str, kind: LineKind = "note") -> None:
        """Show a line; it is no part of what is said, so it may come at any time."""
        self.line(text, kind)

    def line(self, text: str, kind: LineKind = "note") -> None:
        """Show a line, or several, where it is no part of what is said."""
        self.pause()
        if kind != "user" and text:
            self._leave_prompt()
            self._write(sys.stderr, harmless(text) + "\n")
        if kind == "question":
            self._hide(self._player.is_secret)  # before anybody types it

    def post(self, work: Callable[[], object]) -> None:
        """Have *work* done on this thread; from any thread."""
        self._loop.post(work)

    def run(self, player: Player) -> None:
        """Pass on the lines, until there are no more, or *player* is over.

        Cancellation: :meth:`Player.leave`, and every signal that ends a program.
        """
        self._player = player
        handlers: dict[int, Callable[[int], object]] = {
            signal.SIGINT: lambda _: self._loop.notice(self._interrupt),
            signal.SIGTERM: self._end,
            signal.SIGHUP: self._end,
        }
        with self._loop, hearing(handlers, self._loop):
            try:
                player.begin()
                while not player.is_over:
                    self._hide(player.is_secret)
                    self._prompt()
                    self._turn()
            finally:
                self._hide(False)
            self._loop.work()
            self.pause()
            self._leave_prompt()

    def _prompt(self) -> None:
        """Show somebody at a terminal that it is his turn."""
        is_free = self._player.is_asking or not self._player.is_busy
        if self.is_interactive and is_free and not self._is_prompted:
            self._is_prompted = True
            self._write(sys.stderr, self._player.label)

    def _leave_prompt(self) -> None:
        if self._is_prompted:
            self._is_prompted = False
            self._write(sys.stderr, "\n")

    def _hide(self, is_secret: bool) -> None:
        """Have the terminal not show what is typed, or show it again."""
        if is_secret == self._is_hidden or not self.is_interactive:
            return
        self._is_hidden = is_secret
        try:
            modes = termios.tcgetattr(self._in)
            modes[3] ^= termios.ECHO
            termios.tcsetattr(self._in, termios.TCSANOW, modes)
        except termios.error:
            pass  # it is gone
        if not is_secret:
            self._write(sys.stderr, "\n")

    def _interrupt(self) -> None:
        if self.is_interactive:
            self._player.press("ctrl-c")
        else:
            self._player.leave(128 + signal.SIGINT)

    def _end(self, signum: int) -> None:
        if self._player.is_over:
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
        self._player.leave(128 + signum)
        self._loop.wake()

    def _turn(self) -> None:
        can_take = self.is_interactive or not self._player.is_busy
        line = self._take() if can_take else None
        if line is not None:
            self._is_prompted = False
            self._player.submit(line)
        elif self._is_at_end and can_take and not self._player.is_busy:
            self._player.leave(0)
        else:
            can_read = can_take and not self._is_at_end
            if self._loop.wait(self._in if can_read else None, None):
                self._read()
        self._loop.work()

    def _read(self) -> None:
        try:
            data = os.read(self._in, 65536)
        except OSError:
            data = b""
        self._left += data
        self._is_at_end = not data

    def _take(self) -> str | None:
        """Return the next line, if it is there."""
        line, end, left = self._left.partition(b"\n")
        if not end and not (self._is_at_end and line):
            return None
        self._left = left
        return line.decode("utf-8", "replace").rstrip("\r")

    def _write(self, file: object, text: str) -> None:
        try:
            print(text, end="", flush=True, file=file)  # type: ignore[call-overload]
        except UnicodeEncodeError:
            encoding = getattr(file, "encoding", None) or "ascii"
            self._write(file, text.encode(encoding, "replace").decode(encoding))
        except (OSError, ValueError):  # nobody reads it any more
            self._player.leave(1)
