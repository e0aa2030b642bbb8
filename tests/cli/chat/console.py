"""A real terminal for tests: a pseudo-terminal, and a screen that can be read."""

import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path

import pyte
from support.commands import LIMIT as BOUND
from support.commands import Fork
from support.commands import environment as bare_environment

HERE = Path(__file__).parent

KEYS = {
    "enter": "\r",
    "ctrl-b": "\x02",
    "ctrl-c": "\x03",
    "ctrl-d": "\x04",
    "ctrl-j": "\n",
    "ctrl-u": "\x15",
    "ctrl-z": "\x1a",
    "escape": "\x1b",
    "up": "\x1b[A",
    "left": "\x1b[D",
    "right": "\x1b[C",
    "down": "\x1b[B",
    "delete": "\x1b[3~",
    "f5": "\x1b[15~",
}


class Console:
    """A program in a terminal of its own. Everything waits for a condition.

    :param arguments: of ``syncagent``; *command* is anything else.
    """

    def __init__(self, *arguments, command=None, columns=80, lines=24, **environment):
        self.master, self.slave = os.openpty()
        self.screen = pyte.HistoryScreen(columns, lines, history=20_000, ratio=0.5)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._set_size(columns, lines)
        self.modes = termios.tcgetattr(self.slave)
        environment.setdefault("TERM", "xterm-256color")
        terminal = os.ttyname(self.slave)
        env = bare_environment(**environment)
        if command is None:
            self.process = Fork(arguments, env, HERE, terminal=terminal)
            return
        # The first terminal that the leader of a session opens is its terminal.
        opens = ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', terminal]
        self.process = subprocess.Popen(
            [*opens, *command],
            env=env,
            cwd=HERE,
            start_new_session=True,
        )

    def _set_size(self, columns, lines):
        ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))

    def resize(self, columns, lines):
        """Make the window another size."""
        self.screen.resize(lines, columns)
        self._set_size(columns, lines)

    # -- typing --------------------------------------------------------------------

    def type(self, text):
        """Type words."""
        os.write(self.master, text.encode())

    def press(self, *keys):
        """Press keys, by their names."""
        for key in keys:
            self.type(KEYS[key])

    def enter(self, text):
        """Type a line, and send it when it is seen to be typed."""
        self.type(text)
        last = text.splitlines()[-1][-20:]
        self.wait_for(lambda: last in self.typed)
        self.press("enter")

    # -- reading -------------------------------------------------------------------

    def _pump(self, timeout):
        if select.select([self.master], [], [], timeout)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return False
            self.raw += data
            self._stream.feed(data)
            return bool(data)
        return False

    @property
    def rows(self):
        """The rows of the screen, without what is empty at the right and below."""
        rows = [row.rstrip() for row in self.screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def text(self):
        """All that was ever shown and is still there, what has scrolled away too."""
        top = [
            "".join(line[column].data for column in range(self.screen.columns)).rstrip()
            for line in self.screen.history.top
        ]
        return "\n".join([*top, *self.rows])

    @property
    def input(self):
        """The row of the cursor, up to it: what is being typed."""
        cursor = self.screen.cursor
        return self.screen.display[cursor.y][: cursor.x]

    @property
    def typed(self):
        """The same, with the row before it, if it is wrapped."""
        above = self.screen.display[max(0, self.screen.cursor.y - 1)]
        return above.rstrip() + self.input

    def wait_for(self, condition, bound=BOUND):
        """Wait until a condition holds, or a text is shown, in one row or in two."""
        holds = condition if callable(condition) else lambda: self.shows(condition)
        until = time.monotonic() + bound
        while not holds():
            left = until - time.monotonic()
            if left <= 0:
                raise AssertionError(
                    f"not seen: {condition!r}; the screen is:\n" + "\n".join(self.rows)
                )
            if not self._pump(min(left, 0.1)) and self.process.poll() is not None:
                while self._pump(0):
                    pass
                if not holds():
                    raise AssertionError(f"it has ended; it has said:\n{self.text}")

    def shows(self, text):
        """Is *text* there, wherever its rows end?"""
        shown = self.text
        return text in shown or " ".join(text.split()) in " ".join(shown.split())

    def timer(self, name):
        """Return the seconds that are shown behind what is at work, if they are."""
        found = re.search(re.escape(name) + r"\s+(\d+\.\d) s", self.text)
        return float(found[1]) if found else None

    def wait_for_timer(self, name):
        """Wait until something is shown at work, and that time passes."""
        self.wait_for(lambda: self.timer(name) is not None)
        first = self.timer(name)
        self.wait_for(lambda: (self.timer(name) or first) > first)

    def wait_for_prompt(self):
        """Wait until it is idle, the line is empty, and all of it is drawn."""

        def is_drawn():
            while self.is_idle():
                if not self._pump(0.01):
                    return True
            return False

        self.wait_for(is_drawn)

    def is_idle(self):
        """Is the prompt there, and nothing at work?"""
        cursor = self.screen.cursor
        prompt = self.screen.display[cursor.y].rstrip() == ">"
        return prompt and cursor.x == 2 and not self.is_busy()

    def is_busy(self):
        """Is it shown that something is at work?"""
        return any(re.search(r"\d s,.*Ctrl\+B", row) for row in self.rows)

    # -- the end -------------------------------------------------------------------

    def wait_for_end(self, bound=BOUND):
        """Wait until the program has ended; return its exit code."""
        until = time.monotonic() + bound
        while self.process.poll() is None:
            assert time.monotonic() < until, f"it goes on:\n{self.text}"
            self._pump(0.05)
        while self._pump(0):
            pass
        return self.process.returncode

    def is_restored(self):
        """Is the terminal as it was: its modes, its cursor, its pastes?"""
        assert termios.tcgetattr(self.slave) == self.modes
        shown, marked = self.raw.rfind(b"\x1b[?25h"), self.raw.rfind(b"\x1b[?2004h")
        assert shown >= self.raw.rfind(b"\x1b[?25l")
        assert self.raw.rfind(b"\x1b[?2004l") >= marked
        return True

    def hang_up(self):
        """Close the window."""
        os.close(self.slave)
        os.close(self.master)
        self.master, self.slave = os.openpty()  # to be read, and closed, as before

    def close(self):
        """End the program, if it has not ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(BOUND)
        if isinstance(self.process, Fork):
            self.process.close()
        os.close(self.master)
        os.close(self.slave)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def chat(*arguments, is_fresh=False, **settings):
    """Return a console with ``syncagent chat``; in a fresh interpreter, if need be."""
    if not is_fresh:
        return Console("chat", *arguments, **settings)
    command = [sys.executable, "-m", "syncagent", "chat", *arguments]
    return Console(command=command, **settings)
