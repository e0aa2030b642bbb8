"""The interface between a chat session and the screen that shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

__all__ = ["CommandKey", "Controller", "LineKind", "Screen"]

#: The user's own input, a tool, a note of the session, a question, the end of a stopped
#: response, or an error.
LineKind = Literal["user", "tool", "note", "question", "stop", "error"]
#: Keys with the same meaning on every screen that has them.
CommandKey = Literal["ctrl-c", "escape", "ctrl-b", "ctrl-d"]


class Screen(Protocol):
    """Shows a chat and reads the user's input.

    All methods are called on the thread that called :meth:`run`, except :meth:`post`.
    """

    #: True if a user can be asked questions here.
    is_interactive: bool
    #: The keys of this screen, for ``/help``.
    key_help: str

    @property
    def text(self) -> str:
        """Input that is typed and not sent."""
        ...

    def set_text(self, text: str) -> None:
        """Replace the input that is typed and not sent."""
        ...

    def fold(self, text: str) -> str:
        """Return *text* with a short note in place of each long paste."""
        ...

    def write(self, text: str) -> None:
        """Append *text* to the model's response."""
        ...

    def end_response(self) -> None:
        """End the response and its last line."""
        ...

    def line(self, text: str, kind: LineKind = "note") -> None:
        """Show *text* on lines of its own, which never cut a line of the response."""
        ...

    def aside(self, text: str, kind: LineKind = "note") -> None:
        """Show *text* as soon as the response is between two lines."""
        ...

    def post(self, work: Callable[[], object]) -> None:
        """Have *work* called on the screen's thread; from any thread."""
        ...

    def run(self, controller: Controller) -> None:
        """Show the chat and pass on input until *controller* is over."""
        ...


class Controller(Protocol):
    """Decides what to do with the user's input, and what to show."""

    @property
    def is_over(self) -> bool:
        """True once the chat should end."""
        ...

    @property
    def is_busy(self) -> bool:
        """True while a run is live in the foreground."""
        ...

    @property
    def is_stopping(self) -> bool:
        """True while the run in the foreground was stopped and has not ended."""
        ...

    @property
    def has_live_runs(self) -> bool:
        """True while a run is live, in the foreground or in the background."""
        ...

    @property
    def prompt(self) -> str:
        """The text before the input."""
        ...

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers to choose from with the arrow keys, if there are any."""
        ...

    @property
    def is_asking(self) -> bool:
        """True while the input is an answer to a question."""
        ...

    @property
    def is_secret(self) -> bool:
        """True while the input must not be shown."""
        ...

    def status(self) -> list[str]:
        """Return lines about running tools and queued input."""
        ...

    def summary(self) -> str:
        """Return one line about the state of the chat."""
        ...

    def begin(self) -> None:
        """Greet the user; continue a conversation that was loaded."""
        ...

    def input_changed(self) -> None:
        """Take note that the typed text has changed."""
        ...

    def submit(self, text: str) -> None:
        """Handle a line that the user sent."""
        ...

    def press(self, key: CommandKey) -> None:
        """Handle a key."""
        ...

    def leave(self, code: int) -> None:
        """End the chat with exit code *code*; also from a signal handler."""
        ...
