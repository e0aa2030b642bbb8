"""A screen drawn with prompt_toolkit and rich, from the extra ``[cli]``.

The input stays at the bottom, with the editing of prompt_toolkit; rows of text scroll
up above it, with Markdown as text in colours. Above the input there is also what has no
row yet, such as a line of code that is not complete.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    Layout,
)
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from rich.text import Text

from ..plain_text import harmless
from .bottom import PLAIN_STYLE, STYLE, Bottom
from .inline_markdown import Piece
from .markdown import Markdown
from .pastes import Pastes
from .rich_colours import RowColours
from .screen import CommandKey, Controller, LineKind
from .slash_commands import complete
from .stdout_capture import capture_stdout
from .ui_loop import handle_signals
from .word_wrap import WordWrap

__all__ = ["RichScreen"]

#: Seconds between two updates of the times shown, while a run is live.
_TICK: Final = 0.1
#: Seconds in which the rest of a key's sequence follows its ESC.
_ESCAPE_SECONDS: Final = 0.05
#: Rows of the response that have not scrolled away.
_MAX_LIVE_ROWS: Final = 8
_KEYS: Final = """\
Ctrl+C or ESC      stop the response, and keep it; in a question: no, and stop
Ctrl+C             clear the line; on an empty line, twice: leave
Ctrl+B             continue the run in the background
Ctrl+D             leave
Ctrl+J, Tab        a new line; complete a command
arrow keys         earlier lines; in an approval: choose, then Enter"""


class RichScreen:
    """The terminal in which the program was started."""

    is_interactive: bool = True
    key_help: str = _KEYS

    def __init__(self) -> None:
        self._stdout = sys.stdout
        self._in, self._out = sys.stdin.fileno(), self._stdout.fileno()
        #: The terminal's modes before, and while the screen runs.
        self._modes: list[Any] = []
        self._raw_modes: list[Any] = []
        self._has_colour = not os.environ.get("NO_COLOR")
        self._colours = RowColours(is_plain=not self._has_colour)
        #: The response, and rows to print above the input.
        self._response = Markdown(has_marks=not self._has_colour)
        self._rows: list[str] = []
        self._pastes = Pastes()
        #: Lines that wait for the end of the response's last row.
        self._asides: deque[tuple[str, LineKind]] = deque()
        self._posted: deque[Callable[[], object]] = deque()
        self._buffer = Buffer(multiline=True, on_text_changed=self._on_text_changed)
        self._controller: Controller
        self._bottom = Bottom(
            self._buffer,
            self._pastes,
            controller=lambda: self._controller,
            width=lambda: self._width,
            response=self._render_rest,
        )
        self._is_ticking = False
        self._is_suspended = False
        self._app: Application[None] = Application(
            layout=Layout(self._bottom.container()),
            key_bindings=self._bindings(),
            style=STYLE if self._has_colour else PLAIN_STYLE,
            color_depth=None if self._has_colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
            terminal_size_polling_interval=None,
            # Without the request for the cursor's position: not every terminal answers.
            output=Vt100_Output(
                self._stdout, self._size, os.environ.get("TERM"), enable_cpr=False
            ),
        )
        self._app.ttimeoutlen = _ESCAPE_SECONDS
        self._app.before_render += self._before_render
        self._app.after_render += self._after_render
        #: prompt_toolkit's event loop, while it runs.
        self._loop: Any = None

    # -- output --------------------------------------------------------------------

    @property
    def text(self) -> str:
        """Input that is typed and not sent."""
        return self._pastes.unfold(self._buffer.text)

    def set_text(self, text: str) -> None:
        """Replace the input that is typed and not sent."""
        self._buffer.reset()
        self._buffer.insert_text(self._pastes.fold(text))

    def fold(self, text: str) -> str:
        """Return *text* with a short note in place of each long paste."""
        return self._pastes.describe(text)

    def write(self, text: str) -> None:
        """Append *text* to the model's response."""
        rows = self._response.feed(text, self._width)
        self._rows += map(self._colours.render, rows)
        if self._response.is_between_lines:
            self._show_asides()

    def end_response(self) -> None:
        """End the response and its last line."""
        self._rows += map(self._colours.render, self._response.end(self._width))
        self._show_asides()

    def line(self, text: str, kind: LineKind = "note") -> None:
        """Show *text*; the response's last line, if there is one, stays below it."""
        self._add_rows(text, kind)

    def aside(self, text: str, kind: LineKind = "note") -> None:
        """Show *text* as soon as the response is between two lines."""
        self._asides.append((text, kind))
        if self._response.is_between_lines:
            self._show_asides()

    def _show_asides(self) -> None:
        while self._asides:
            self._add_rows(*self._asides.popleft())

    def _add_rows(self, text: str, kind: LineKind) -> None:
        for line in harmless(text).replace("\t", "    ").split("\n"):
            if kind == "user":  # as it was typed: it may be code
                self._rows.append(self._colours.line(line, kind))
                continue
            wrapper = WordWrap()
            rows = wrapper.add([Piece(line)], self._width) + wrapper.end(self._width)
            for row in rows or [Text()]:
                self._rows.append(self._colours.line(row.plain, kind))

    def _render_rest(self) -> str:
        """Return the part of the response that has no row yet."""
        count = max(1, min(_MAX_LIVE_ROWS, self._size().rows - 6))
        rows = self._response.rest(self._width, count)
        return "\n".join(map(self._colours.render, rows))

    @property
    def _width(self) -> int:
        return max(10, self._size().columns - 1)

    def _size(self) -> Size:
        try:
            size = os.get_terminal_size(self._out)
        except OSError:
            return Size(rows=24, columns=80)
        return Size(rows=size.lines or 24, columns=size.columns or 80)

    # -- running -------------------------------------------------------------------

    def post(self, work: Callable[[], object]) -> None:
        """Have *work* called on the screen's thread; from any thread."""
        self._posted.append(work)
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._work)

    def run(self, controller: Controller) -> None:
        """Show the chat and pass on input until *controller* is over.

        Cancellation: :meth:`Controller.leave`, and every signal that ends a program.
        """
        self._controller = controller
        handlers: dict[int, Callable[[int], object]] = {
            signal.SIGINT: lambda _: self.post(lambda: controller.press("ctrl-c")),
            signal.SIGTERM: self._on_end,
            signal.SIGHUP: self._on_end,
            signal.SIGCONT: lambda _: self.post(self._redraw),
        }
        self._modes = termios.tcgetattr(self._in)
        lines = _typed_ahead(self._in)

        def begin() -> None:
            self._loop = self._app.loop
            self._guard(controller.begin)
            for line in lines:
                self._guard(partial(controller.submit, line))
            self._loop.call_soon(self._work)  # for work that was posted before

        def show_print(text: str) -> None:
            self.post(lambda: self.aside(text, "tool"))

        with handle_signals(handlers), capture_stdout(show_print):
            try:
                self._app.run(
                    pre_run=begin, set_exception_handler=False, handle_sigint=False
                )
            except EOFError:  # the terminal is gone
                controller.leave(0)
            finally:
                self._loop = None
                self.end_response()
                with suppress(OSError):  # the terminal is gone
                    self._print_rows()
                self._restore_modes()

    def _on_end(self, signum: int) -> None:
        """Leave; a second signal ends the program at once."""
        if self._controller.is_over:
            self._restore_modes()
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
        self.post(lambda: self._controller.leave(128 + signum))

    def _restore_modes(self) -> None:
        with suppress(OSError, termios.error):  # the terminal is gone
            termios.tcsetattr(self._in, termios.TCSANOW, self._modes)

    def _work(self) -> None:
        """Call the work that was posted until now."""
        for _ in range(len(self._posted)):
            self._guard(self._posted.popleft())

    def _guard(self, work: Callable[[], object]) -> None:
        """Call *work* and redraw; an error ends the application, which raises it."""
        app = self._app
        try:
            work()
        except BaseException as error:
            if not app.is_done:
                app.exit(exception=error)
            return
        if self._controller.is_over and app.is_running and not app.is_done:
            app.exit()
        app.invalidate()

    # -- keys ----------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        is_empty = Condition(lambda: not self._buffer.text)
        is_asking = Condition(lambda: self._controller.is_asking)

        def on(key: str, work: Callable[[], object], filter: Any = True) -> None:
            def press(event: KeyPressEvent) -> None:
                self._guard(work)

            bindings.add(key, eager=True, filter=filter)(press)

        def command(name: CommandKey) -> Callable[[], object]:
            return lambda: self._controller.press(name)

        def submit() -> None:
            # Bytes that are not UTF-8 arrive as surrogates, which cannot be sent.
            data = self.text.encode("utf-8", "surrogateescape")
            text = data.decode("utf-8", "replace")
            if not self._controller.is_asking and text.strip():
                self._buffer.append_to_history()
            self._buffer.reset()
            self._controller.submit(text)

        def suspend() -> None:
            self._is_suspended = True
            self._app.suspend_to_background()

        def quit() -> None:
            self._restore_modes()
            signal.raise_signal(signal.SIGQUIT)

        on("enter", submit)
        on("c-j", lambda: self._buffer.insert_text("\n"))
        on("c-c", command("ctrl-c"))
        on("escape", command("escape"))
        on("c-b", command("ctrl-b"))
        on("c-d", command("ctrl-d"), is_empty)
        on("c-z", suspend)
        on("c-\\", quit)
        on("c-l", lambda: self._app.renderer.clear())
        on("tab", lambda: self.set_text(complete(self.text)))
        on("up", lambda: None, is_asking)
        on("down", lambda: None, is_asking)
        can_choose = Condition(lambda: self._bottom.can_choose)
        for key, step in (("up", -1), ("left", -1), ("down", 1), ("right", 1)):
            on(key, partial(self._bottom.choose, step), can_choose)

        def paste(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            is_answer = self._controller.is_asking
            self._buffer.insert_text(text if is_answer else self._pastes.add(text))

        bindings.add(Keys.BracketedPaste, eager=True)(paste)
        return bindings

    def _on_text_changed(self, buffer: Buffer) -> None:
        if not buffer.text and self._loop is not None:
            self.post(self._controller.input_changed)  # once the key is handled

    def _redraw(self) -> None:
        """Continue after SIGCONT: the shell may have changed modes and screen."""
        if self._is_suspended:  # by Ctrl+Z, which prompt_toolkit handles
            self._is_suspended = False
            return
        if self._raw_modes:
            with suppress(
                OSError, termios.error
            ):  # sent when the terminal is gone, too
                termios.tcsetattr(self._in, termios.TCSANOW, self._raw_modes)
        self._app.renderer.reset()

    # -- drawing -------------------------------------------------------------------

    def _before_render(self, app: Application[None]) -> None:
        """Print new rows above the input before that is drawn again."""
        if self._rows:
            app.renderer.erase()
            self._print_rows()

    def _after_render(self, app: Application[None]) -> None:
        def tick() -> None:
            self._is_ticking = False
            app.invalidate()

        if not self._raw_modes:
            self._raw_modes = termios.tcgetattr(self._in)
        if self._controller.is_busy and not self._is_ticking and self._loop is not None:
            self._is_ticking = True
            self._loop.call_later(_TICK, tick)

    def _print_rows(self) -> None:
        rows, self._rows = self._rows, []
        output = self._app.output
        output.write_raw("".join(f"{row}\r\n" for row in rows))
        output.flush()


def _typed_ahead(descriptor: int) -> list[str]:
    """Return the lines that the user sent before the screen reads keys.

    The terminal has turned their Enter into a line end, which would be Ctrl+J for the
    screen. A line that was not sent stays in the terminal, to be edited.
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
