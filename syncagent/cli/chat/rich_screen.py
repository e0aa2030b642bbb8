"""A terminal with prompt_toolkit and rich, extra ``[cli]``.

The line that is typed stays at the bottom, with all that prompt_toolkit knows about
editing; what is said goes up above it, and is given some colour by rich.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import (
    ConditionalProcessor,
    Processor,
    Transformation,
    TransformationInput,
)
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from ..plain_text import harmless
from .colour import Colour
from .commands import complete
from .flow import clip
from .keys import ESCAPE_SECONDS
from .prints import printing_to
from .raw_mode import terminal_size, typed_ahead
from .saying import Saying
from .screen import Command, LineKind, Player
from .ui_loop import hearing

__all__ = ["RichScreen"]

#: Seconds between two looks at the clock, while something goes on.
_TICK: Final = 0.1
#: Rows for what is typed.
_ROWS: Final = 10
_STYLE: Final = Style.from_dict({"status": "ansibrightblack", "bar": "reverse"})


class _Hidden(Processor):
    """Shows nothing of what is typed, not even how much."""

    def apply_transformation(self, given: TransformationInput) -> Transformation:
        return Transformation([], lambda _: 0, lambda _: 0)


class RichScreen(Saying):
    """The terminal that this program was started in."""

    is_interactive: bool = True

    def __init__(self) -> None:
        super().__init__()
        self._stdout = sys.stdout
        self._in, self._out = sys.stdin.fileno(), self._stdout.fileno()
        #: The modes before, and while it runs.
        self._modes: list[Any] = []
        self._raw_modes: list[Any] = []
        #: What was sent before it runs.
        self._lines: list[str] = []
        self._has_colour = not os.environ.get("NO_COLOR")
        self._colour = Colour(is_plain=not self._has_colour)
        self._posted: deque[Callable[[], object]] = deque()
        self._buffer = Buffer(multiline=True, on_text_changed=self._typed)
        self._player: Player
        self._is_ticking = False
        self._is_suspended = False
        self._app = self._make_app()
        #: prompt_toolkit's own, while it runs.
        self._loop: Any = None

    # -- what is shown -------------------------------------------------------------

    @property
    def text(self) -> str:
        """What was typed and not sent."""
        return self._buffer.text

    def set_text(self, text: str) -> None:
        """Put *text* where somebody types."""
        self._buffer.reset()
        self._buffer.insert_text(text)

    def _answer_row(self, row: str) -> str:
        return self._colour.of_answer(row)

    def _line_row(self, row: str, kind: LineKind) -> str:
        return self._colour.of_line(row, kind)

    def post(self, work: Callable[[], object]) -> None:
        """Have *work* done on this thread; from any thread."""
        self._posted.append(work)
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._work)
            except RuntimeError:
                pass  # it is over

    @property
    def _width(self) -> int:
        return max(10, terminal_size(self._out)[0] - 1)

    def _size(self) -> Size:
        columns, lines = terminal_size(self._out)
        return Size(rows=lines, columns=columns)

    # -- going on ------------------------------------------------------------------

    def run(self, player: Player) -> None:
        """Show it, and pass on what is typed, until *player* is over.

        Cancellation: :meth:`Player.leave`, and every signal that ends a program.
        """
        self._player = player
        handlers: dict[int, Callable[[int], object]] = {
            signal.SIGINT: lambda _: self.post(lambda: player.press("ctrl-c")),
            signal.SIGTERM: self._end,
            signal.SIGHUP: self._end,
            signal.SIGCONT: lambda _: self.post(self._come_back),
        }
        self._modes = termios.tcgetattr(self._in)
        self._lines = typed_ahead(self._in)
        with hearing(handlers), printing_to(self._print):
            try:
                self._app.run(
                    pre_run=self._begin,
                    set_exception_handler=False,
                    handle_sigint=False,
                )
            except EOFError:  # the terminal is gone
                player.leave(0)
            finally:
                self._loop = None
                self._finish()
                self._restore()

    def _begin(self) -> None:
        self._loop = self._app.loop
        self._guard(self._player.begin)
        for line in self._lines:
            self._guard(partial(self._player.submit, line))
        self._loop.call_soon(self._work)  # what was posted before

    def _print(self, text: str) -> None:
        self.post(lambda: self.aside(text, "tool"))

    def _end(self, signum: int) -> None:
        """Leave; and if that takes too long, somebody says it twice."""
        if self._player.is_over:
            self._restore()
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
        self.post(lambda: self._player.leave(128 + signum))

    def _restore(self) -> None:
        """Make the modes what they were, whatever prompt_toolkit came to."""
        try:
            termios.tcsetattr(self._in, termios.TCSANOW, self._modes)
        except (OSError, termios.error):
            pass  # it was closed

    def _work(self) -> None:
        """Do what was posted."""
        for _ in range(len(self._posted)):
            self._guard(self._posted.popleft())

    def _guard(self, work: Callable[[], object]) -> None:
        """Do *work*, show what it changes, and let no error of it be lost."""
        app = self._app
        try:
            work()
        except BaseException as error:
            if not app.is_done:
                app.exit(exception=error)
            return
        if self._player.is_over and app.is_running and not app.is_done:
            app.exit()
        app.invalidate()

    def _tick(self) -> None:
        self._is_ticking = False
        self._app.invalidate()

    # -- keys ----------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        is_empty = Condition(lambda: not self._buffer.text)
        is_asking = Condition(lambda: self._player.is_asking)

        def on(key: str, work: Callable[[], object], filter: Any = True) -> None:
            def press(event: KeyPressEvent) -> None:
                self._guard(work)

            bindings.add(key, eager=True, filter=filter)(press)

        def command(name: Command) -> Callable[[], object]:
            return lambda: self._player.press(name)

        on("enter", self._submit)
        on("c-j", lambda: self._buffer.insert_text("\n"))
        on("c-c", command("ctrl-c"))
        on("escape", command("escape"))
        on("c-b", command("ctrl-b"))
        on("c-d", command("ctrl-d"), is_empty)
        on("c-z", self._suspend)
        on("c-\\", self._quit)
        on("c-l", lambda: self._app.renderer.clear())
        on("tab", lambda: self.set_text(complete(self.text)))
        on("up", lambda: None, is_asking)
        on("down", lambda: None, is_asking)
        return bindings

    def _quit(self) -> None:
        self._restore()
        signal.raise_signal(signal.SIGQUIT)

    def _suspend(self) -> None:
        self._is_suspended = True
        self._app.suspend_to_background()

    def _come_back(self) -> None:
        """Draw all of it again: a shell may have changed the modes, and the screen."""
        if self._is_suspended:  # by Ctrl+Z: prompt_toolkit knows what to do
            self._is_suspended = False
            return
        if self._raw_modes:
            termios.tcsetattr(self._in, termios.TCSANOW, self._raw_modes)
        self._app.renderer.reset()

    def _typed(self, buffer: Buffer) -> None:
        if not buffer.text and self._loop is not None:
            self.post(self._player.typed)  # when the key is done with

    def _submit(self) -> None:
        # Bytes that are no text come as surrogates, which no model can be sent.
        data = self._buffer.text.encode("utf-8", "surrogateescape")
        text = data.decode("utf-8", "replace")
        if not self._player.is_asking and text.strip():
            self._buffer.append_to_history()
        self._buffer.reset()
        self._player.submit(text)

    # -- drawing -------------------------------------------------------------------

    def _make_app(self) -> Application[None]:
        stdout = self._stdout
        app: Application[None] = Application(
            layout=Layout(self._container()),
            key_bindings=self._bindings(),
            style=_STYLE,
            color_depth=None if self._has_colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
            terminal_size_polling_interval=None,
            # It is not asked where the cursor is: not every terminal answers.
            output=Vt100_Output(
                stdout, self._size, os.environ.get("TERM"), enable_cpr=False
            ),
        )
        app.ttimeoutlen = ESCAPE_SECONDS
        app.before_render += self._before_render
        app.after_render += self._after_render
        return app

    def _container(self) -> HSplit:
        def text(words: Callable[[], str], style: str = "") -> Window:
            control = FormattedTextControl(lambda: [(style, words())])
            # None at all, rather than no window, if there is no room.
            return Window(control, Dimension(min=0), dont_extend_height=True)

        def shown(words: Callable[[], str], style: str = "") -> ConditionalContainer:
            return ConditionalContainer(
                text(words, style), Condition(lambda: bool(words()))
            )

        typed = Window(
            BufferControl(
                self._buffer,
                input_processors=[
                    ConditionalProcessor(
                        _Hidden(), Condition(lambda: self._player.is_secret)
                    )
                ],
            ),
            height=Dimension(min=1, max=_ROWS),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=self._prefix,
        )
        return HSplit(
            [
                shown(lambda: self._flow.rest),
                shown(self._status, "class:status"),
                typed,
                text(self._bar, "class:bar"),
            ]
        )

    def _prefix(self, line: int, wrapped: int) -> str:
        if wrapped:
            return ""
        return "  " if line else self._player.label

    def _status(self) -> str:
        width = self._width
        return "\n".join(clip(harmless(row), width) for row in self._player.status())

    def _bar(self) -> str:
        width = self._width
        return clip(f" {harmless(self._player.summary())} ", width).ljust(width)

    def _before_render(self, app: Application[None]) -> None:
        """Let what is new go up, before the rows below are drawn again."""
        if self._said:
            app.renderer.erase()
            self._write_said()

    def _after_render(self, app: Application[None]) -> None:
        if not self._raw_modes:
            self._raw_modes = termios.tcgetattr(self._in)
        if self._player.is_busy and not self._is_ticking and self._loop is not None:
            self._is_ticking = True
            self._loop.call_later(_TICK, self._tick)

    def _write_said(self) -> None:
        rows, self._said = self._said, []
        output = self._app.output
        output.write_raw("".join(f"{row}\r\n" for row in rows))
        output.flush()

    def _finish(self) -> None:
        """Leave what was said."""
        self.pause()
        try:
            self._write_said()
        except OSError:
            pass  # nobody sees it any more
