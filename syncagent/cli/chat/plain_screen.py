"""A terminal with the standard library alone.

What is said goes up; below it stay the row that is not full yet, what goes on, and the
line that is typed. Those few rows are drawn anew whenever something changes.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from typing import Final

from ...cancel import clock
from ..plain_text import harmless
from .commands import complete
from .editor import Editor, Picture
from .flow import clip, columns
from .keys import ESCAPE_SECONDS, Key, KeyReader
from .prints import printing_to
from .raw_mode import RawMode, terminal_size, typed_ahead
from .saying import Saying
from .screen import Command, LineKind, Player
from .ui_loop import UiLoop, hearing

__all__ = ["PlainScreen"]

#: Seconds between two looks at the clock, while something goes on.
_TICK: Final = 0.1
#: Seconds that a terminal which takes nothing is waited for; then it is given up.
_STUCK: Final = 10.0
#: Keys that go past the line that is typed.
_COMMANDS: Final[dict[str, Command]] = {
    "ctrl-b": "ctrl-b",
    "ctrl-c": "ctrl-c",
    "escape": "escape",
}
_STYLES: Final = {"user": "1", "tool": "2", "note": "2", "question": "1", "error": "31"}


class PlainScreen(Saying):
    """The terminal that this program was started in."""

    is_interactive: bool = True

    def __init__(self) -> None:
        super().__init__()
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._encoding = sys.stdout.encoding or "utf-8"
        self._has_style = not os.environ.get("NO_COLOR")
        self._loop = UiLoop()
        self._mode = RawMode(self._in, self._write)
        self._reader = KeyReader()
        self._editor = Editor()
        #: The rows below, as they are drawn, and the row that the cursor is in.
        self._drawn: list[str] = []
        self._row = 0
        self._column = 0
        self._player: Player
        self._escape_at: float | None = None
        self._is_gone = False

    # -- what is shown -------------------------------------------------------------

    @property
    def text(self) -> str:
        """What was typed and not sent."""
        return self._editor.text

    def set_text(self, text: str) -> None:
        """Put *text* where somebody types."""
        self._editor.set(text)

    def post(self, work: Callable[[], object]) -> None:
        """Have *work* done on this thread; from any thread."""
        self._loop.post(work)

    @property
    def _width(self) -> int:
        # One less: a full row would leave the cursor between two.
        return max(10, terminal_size(self._out)[0] - 1)

    def _answer_row(self, row: str) -> str:
        return row

    def _line_row(self, row: str, kind: LineKind) -> str:
        return self._styled(row, _STYLES[kind])

    def _styled(self, row: str, style: str) -> str:
        return f"\x1b[{style}m{row}\x1b[0m" if self._has_style and row else row

    # -- going on ------------------------------------------------------------------

    def run(self, player: Player) -> None:
        """Show it, and pass on what is typed, until *player* is over.

        Cancellation: :meth:`Player.leave`, and every signal that ends a program.
        """
        self._player = player
        handlers: dict[int, Callable[[int], object]] = {
            signal.SIGINT: lambda _: self._loop.notice(lambda: player.press("ctrl-c")),
            signal.SIGTERM: self._end,
            signal.SIGHUP: self._end,
            signal.SIGWINCH: lambda _: self._loop.wake(),
            signal.SIGCONT: lambda _: self._loop.notice(self._come_back),
        }
        lines = typed_ahead(self._in)
        with (
            self._loop,
            hearing(handlers, self._loop),
            self._mode(),
            printing_to(self._print),
        ):
            try:
                player.begin()
                for line in lines:
                    player.submit(line)
                while not player.is_over:
                    self._draw()
                    self._turn()
            finally:
                self._finish()

    def _print(self, text: str) -> None:
        self.post(lambda: self.aside(text, "tool"))

    def _end(self, signum: int) -> None:
        """Leave; and if that takes too long, somebody says it twice."""
        if self._player.is_over:
            self._mode.leave()
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
        self._player.leave(128 + signum)
        self._loop.wake()

    def _come_back(self) -> None:
        """Draw all of it again: a shell may have changed the modes, and the screen."""
        self._mode.enter()
        self._drawn, self._row, self._column = [], 0, 0

    def _turn(self) -> None:
        """Wait for something, and do it."""
        timeout = _TICK if self._player.is_busy else None
        if self._escape_at is not None:
            left = max(0.0, self._escape_at - clock.now())
            timeout = left if timeout is None else min(timeout, left)
        keys: list[Key] = []
        if self._loop.wait(self._in, timeout):
            keys = self._read()
            waits = self._reader.is_waiting
            self._escape_at = clock.now() + ESCAPE_SECONDS if waits else None
        elif self._escape_at is not None and clock.now() >= self._escape_at:
            # Counted from the key: words that come meanwhile do not put it off.
            self._escape_at = None
            keys = self._reader.flush()
        for key in keys:
            if not self._player.is_over:
                self._press(key)
        if keys:
            self._player.typed()
        self._loop.work()

    def _read(self) -> list[Key]:
        try:
            data = os.read(self._in, 65536)
        except OSError:
            data = b""  # the terminal is gone
        if not data:
            self._player.leave(0)
        return self._reader.feed(data)

    def _press(self, key: Key) -> None:
        player, editor = self._player, self._editor
        if key.name == "enter":
            text = editor.text
            if not player.is_asking:
                editor.remember(text)
            editor.set("")
            player.submit(text)
        elif key.name in _COMMANDS:
            player.press(_COMMANDS[key.name])
        elif key.name == "ctrl-d" and not editor.text:
            player.press("ctrl-d")
        elif key.name == "ctrl-z":
            self._erase()
            self._mode.suspend()
        elif key.name == "quit":
            self._mode.leave()
            signal.raise_signal(signal.SIGQUIT)
            self._mode.enter()
        elif key.name == "tab":
            editor.set(complete(editor.text))
        elif key.name == "redraw":
            self._write(b"\x1b[H\x1b[2J")
            self._drawn, self._row, self._column = [], 0, 0
        elif not (player.is_asking and key.name in ("up", "down")):
            editor.press(key)

    # -- drawing -------------------------------------------------------------------

    def _draw(self) -> None:
        """Show what is new, and the rows below it, if anything has changed."""
        columns_there, lines = terminal_size(self._out)
        picture = self._picture(lines - 1)
        is_same = (picture.rows, picture.row, picture.column) == (
            *(self._drawn, self._row, self._column),
        )
        if is_same and not self._said:
            return
        parts = [self._back(columns_there)]
        parts += [f"{row}\r\n" for row in self._said]
        parts.append("\r\n".join(picture.rows))
        up = len(picture.rows) - 1 - picture.row
        parts.append(f"\x1b[{up}A" if up else "")
        parts.append(f"\r\x1b[{picture.column}C" if picture.column else "\r")
        self._said = []
        self._drawn, self._row, self._column = picture
        self._write("".join(parts).encode(self._encoding, "replace"))

    def _picture(self, lines: int) -> Picture:
        """Return the rows below, at most *lines* of them."""
        width = self._width
        above = [self._flow.rest] if self._flow.rest else []
        lines_shown = self._player.status()
        if self._player.is_busy:
            lines_shown.append(f"  {self._player.summary()}")
        for status in lines_shown:
            above.append(self._styled(clip(harmless(status), width), "2"))
        label, is_secret = self._player.label, self._player.is_secret
        typed = self._editor.picture(label, width, is_secret=is_secret)
        # Of a long text, what is around the cursor.
        room = max(1, lines - len(above))
        first = max(0, min(typed.row - room // 2, len(typed.rows) - room))
        rows = above + typed.rows[first : first + room]
        cut = max(0, len(rows) - lines)
        return Picture(rows[cut:], len(above) + typed.row - first - cut, typed.column)

    def _back(self, width: int) -> str:
        """Return what leads to the first of the rows that are drawn, and erases them.

        A terminal that has become narrower has wrapped them.
        """
        if not self._drawn:
            return "\r\x1b[J"
        above = (_plain_columns(row) for row in self._drawn[: self._row])
        up = sum(max(1, -(-size // width)) for size in above) + self._column // width
        return (f"\x1b[{up}A" if up else "") + "\r\x1b[J"

    def _erase(self) -> None:
        self._write(self._back(terminal_size(self._out)[0]).encode())
        self._drawn, self._row, self._column = [], 0, 0

    def _finish(self) -> None:
        """Leave what was said, and nothing of what was below it."""
        self._loop.work()
        self.pause()
        rows = "".join(f"{row}\r\n" for row in self._said)
        self._said = []
        self._erase()
        self._write(rows.encode(self._encoding, "replace"))

    def _write(self, data: bytes) -> None:
        """Write all of it, unless the terminal is gone."""
        while data and not self._is_gone:
            try:
                data = data[os.write(self._out, data) :]
            except BlockingIOError:  # somebody has made it so
                if not select.select([], [self._out], [], _STUCK)[1]:
                    self._lose()
            except OSError:
                self._lose()

    def _lose(self) -> None:
        self._is_gone = True
        if hasattr(self, "_player"):
            self._player.leave(1)


def _plain_columns(row: str) -> int:
    """Return the columns of a row, without its style."""
    if row.startswith("\x1b["):
        row = row.partition("m")[2].removesuffix("\x1b[0m")
    return columns(row)
