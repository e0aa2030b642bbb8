"""A screen of lines: for pipes, and for terminals without the extra ``[cli]``."""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from ..plain_text import harmless
from .screen import Controller, LineKind
from .ui_loop import UiLoop, handle_signals

try:
    import readline
except ImportError:  # not every Python has it
    _HAS_READLINE = False
else:
    _HAS_READLINE = True

__all__ = ["LineScreen"]

#: Seconds after which a run that does not stop shows the prompt all the same.
_PATIENCE: Final = 0.5

_KEYS: Final = """\
Ctrl+C             stop the response, and keep it; in a question: no, and stop
Ctrl+C             clear the line; on an empty line, twice: leave
Ctrl+D             leave
Enter              send the line, also while a run is live
No ESC, Ctrl+B, Ctrl+J or Tab here: pip install "syncagent[cli]" has them."""


class _InputAborted(Exception):
    """A signal ended the editing of a line."""


class LineScreen:
    """Reads lines from standard input and writes responses to standard output.

    Everything else goes to standard error. From a pipe, a line is read when the one
    before is answered, and no questions are asked: the next line is the next prompt.

    On a terminal the user edits lines with readline while no run is live. While one is,
    the terminal itself collects the line, because readline would block the thread that
    shows the run's events.
    """

    key_help: str = _KEYS

    def __init__(self) -> None:
        self._in = -1 if sys.stdin is None or sys.stdin.closed else sys.stdin.fileno()
        self.is_interactive: bool = self._in >= 0 and os.isatty(self._in)
        is_dumb = os.environ.get("TERM", "dumb") == "dumb"
        #: input() uses readline only for the standard streams of the process.
        self._has_readline = (
            _HAS_READLINE
            and not is_dumb
            and self._in == 0
            and self.is_interactive
            and sys.stdout.fileno() == 1
            and os.isatty(1)
        )
        self._loop = UiLoop()
        #: Bytes that were read and are no complete line yet.
        self._unread = b""
        self._is_at_end = self._in < 0
        #: Text to edit in the next line.
        self._draft = ""
        #: Text that was being typed when a question came, to edit after the answer.
        self._line_aside = ""
        self._is_editing = False
        #: True while the response's last line has not ended.
        self._is_in_response = False
        #: True while the cursor stands behind a prompt.
        self._is_prompted = False
        self._is_hidden = False
        self._controller: Controller

    # -- output --------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The line that was being edited when a signal came, else nothing."""
        return self._draft

    def set_text(self, text: str) -> None:
        """Have *text* edited next; without readline, show it."""
        self._draft = text if self._has_readline else ""
        if text and self.is_interactive and not self._has_readline:
            self.line(f"(copy from here: {text})")

    def fold(self, text: str) -> str:
        """Return *text*: the terminal has shown it already."""
        return text

    def write(self, text: str) -> None:
        """Append *text* to the model's response."""
        text = harmless(text)
        if text:
            self._leave_prompt()
            self._print(sys.stdout, text)
            self._is_in_response = not text.endswith("\n")

    def end_response(self) -> None:
        """End the response's last line."""
        if self._is_in_response:
            self._print(sys.stdout, "\n")
            self._is_in_response = False

    def aside(self, text: str, kind: LineKind = "note") -> None:
        """Show *text*; standard error may have it at any time."""
        self.line(text, kind)

    def line(self, text: str, kind: LineKind = "note") -> None:
        """End the response's last line and show *text* on standard error."""
        self.end_response()
        if kind != "user" and text:
            self._leave_prompt()
            self._print(sys.stderr, harmless(text) + "\n")
        if kind == "question":
            self._set_line_aside()
            self._hide(self._controller.is_secret)  # before the user types it

    def _set_line_aside(self) -> None:
        """Take a half-typed line out of the terminal: it does not answer a question."""
        if not self.is_interactive:
            return
        with suppress(OSError, termios.error):  # the terminal is gone
            modes = termios.tcgetattr(self._in)
            characters = [*modes[6]]
            characters[termios.VMIN], characters[termios.VTIME] = 0, 0
            raw = [*modes[:3], modes[3] & ~termios.ICANON, *modes[4:6], characters]
            termios.tcsetattr(self._in, termios.TCSANOW, raw)
            try:
                typed = os.read(self._in, 65536).decode("utf-8", "replace")
            finally:
                termios.tcsetattr(self._in, termios.TCSANOW, modes)
            if self._has_readline:
                self._line_aside += typed
            elif typed:
                self.line(f"(copy from here: {typed})")

    def _print(self, file: Any, text: str) -> None:
        try:
            print(text, end="", flush=True, file=file)
        except UnicodeEncodeError:
            encoding = getattr(file, "encoding", None) or "ascii"
            self._print(file, text.encode(encoding, "replace").decode(encoding))
        except (OSError, ValueError):  # the reader is gone
            self._controller.leave(1)

    def _leave_prompt(self) -> None:
        if self._is_prompted:
            self._is_prompted = False
            self._print(sys.stderr, "\n")

    def _hide(self, is_secret: bool) -> None:
        """Turn the terminal's echo off or on."""
        if is_secret == self._is_hidden or not self.is_interactive:
            return
        self._is_hidden = is_secret
        with suppress(termios.error):  # the terminal is gone
            modes = termios.tcgetattr(self._in)
            modes[3] ^= termios.ECHO
            termios.tcsetattr(self._in, termios.TCSANOW, modes)
        if not is_secret:
            self._print(sys.stderr, "\n")

    # -- running -------------------------------------------------------------------

    def post(self, work: Callable[[], object]) -> None:
        """Have *work* called on the screen's thread; from any thread."""
        self._loop.post(work)

    def run(self, controller: Controller) -> None:
        """Pass on lines until there are no more, or *controller* is over.

        Cancellation: :meth:`Controller.leave`, and every signal that ends a program.
        """
        self._controller = controller
        handlers: dict[int, Callable[[int], object]] = {
            signal.SIGINT: self._on_interrupt,
            signal.SIGTERM: self._on_end,
            signal.SIGHUP: self._on_end,
        }
        if self._has_readline and signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
            handlers[signal.SIGTSTP] = self._on_suspend
        with (
            self._loop,
            self._own_history(),
            handle_signals(handlers, self._loop),
        ):
            try:
                controller.begin()
                while not controller.is_over:
                    self._hide(controller.is_secret)
                    self._turn()
                    self._loop.work()
            finally:
                self._hide(False)
            self._loop.work()
            self.end_response()
            self._leave_prompt()

    def _turn(self) -> None:
        """Take one line, or wait for input or posted work."""
        controller = self._controller
        can_take = self.is_interactive or not controller.is_busy
        line, newline, rest = self._unread.partition(b"\n")
        if can_take and (newline or (self._is_at_end and line)):
            self._unread = rest
            self._is_prompted = False
            controller.submit(line.decode("utf-8", "replace").rstrip("\r"))
        elif can_take and self._is_at_end:
            controller.leave(0)
        elif self._can_edit():
            self._edit_line()
        else:
            if controller.is_asking or not controller.is_busy:
                self._show_prompt()
            timeout = _PATIENCE if controller.is_stopping else None
            if self._loop.wait(self._in if can_take else None, timeout):
                try:
                    data = os.read(self._in, 65536)
                except OSError:  # the terminal is gone
                    data = b""
                self._unread += data
                self._is_at_end = not data
            elif controller.is_stopping and not self._loop.has_work:
                self._show_prompt(start="\n")  # behind the terminal's ^C

    def _show_prompt(self, start: str = "") -> None:
        if self.is_interactive and not self._is_prompted:
            self._is_prompted = True
            self._print(sys.stderr, start + self._controller.prompt)

    # -- editing with readline -----------------------------------------------------

    def _can_edit(self) -> bool:
        """Return True if readline may take the terminal.

        Nothing is posted while no run is live, so nothing waits for the line to end. A
        draft is arguments to edit: their run waits for the answer. Lines that the
        terminal has collected come first.
        """
        controller = self._controller
        is_quiet = not controller.has_live_runs and not controller.is_asking
        return (
            self._has_readline
            and (is_quiet or bool(self._draft))
            and not self._unread
            and not self._loop.wait(self._in, 0)
        )

    def _edit_line(self) -> None:
        """Have the user edit a line, and submit it.

        Cancellation: a signal handler aborts it.
        """
        controller, draft = self._controller, self._draft
        self._draft = ""
        if not controller.is_asking:
            draft, self._line_aside = self._line_aside + draft, ""
        if self._is_prompted:
            self._print(sys.stdout, "\r")  # readline writes the prompt again
        self._is_prompted = True
        readline.set_startup_hook(lambda: readline.insert_text(draft))
        try:
            self._is_editing = True
            text = input(controller.prompt)
            self._is_editing = False
        except EOFError:
            self._is_editing = False
            controller.press("ctrl-d")
            return
        except _InputAborted:
            return
        finally:
            readline.set_startup_hook(None)
        self._is_prompted = False
        if text.strip() and not controller.is_asking:
            readline.add_history(text)
        controller.submit(text)

    def _abort_input(self) -> None:
        """Leave :meth:`_edit_line` from a signal handler; keep the text as a draft."""
        if self._is_editing:
            self._is_editing = False  # first: a second signal must not raise again
            self._draft = readline.get_line_buffer()
            raise _InputAborted

    @contextmanager
    def _own_history(self) -> Iterator[None]:
        """Keep the lines of the chat apart from those of the program around it."""
        if not self._has_readline:
            yield
            return
        length = readline.get_current_history_length()
        before = [readline.get_history_item(number + 1) for number in range(length)]
        readline.clear_history()
        readline.set_auto_history(False)  # answers and secrets stay out of it
        errors = sys.stdin.errors
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
        try:
            yield
        finally:
            sys.stdin.reconfigure(errors=errors)  # type: ignore[union-attr]
            readline.set_auto_history(True)
            readline.clear_history()
            for line in before:
                readline.add_history(line)

    # -- signals -------------------------------------------------------------------

    def _on_interrupt(self, signum: int) -> None:
        def press() -> None:
            self._leave_prompt()
            self._controller.press("ctrl-c")

        if self.is_interactive:
            self._loop.post_from_signal(press)
        else:
            self._controller.leave(128 + signum)
            self._loop.wake()
        self._abort_input()

    def _on_suspend(self, signum: int) -> None:
        """Leave readline before Ctrl+Z stops the program, and edit the line again."""

        def suspend() -> None:
            handler = signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)  # returns when the shell continues the program
            signal.signal(signum, handler)

        if self._is_editing:
            self._loop.post_from_signal(suspend)
            self._abort_input()
        suspend()

    def _on_end(self, signum: int) -> None:
        """Leave; a second signal ends the program at once."""
        if self._controller.is_over:
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
        self._controller.leave(128 + signum)
        self._loop.wake()
        self._abort_input()
