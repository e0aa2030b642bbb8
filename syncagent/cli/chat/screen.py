"""What a conversation needs of a terminal, whatever that can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

__all__ = ["Command", "LineKind", "Player", "Screen"]

#: What a line is: said by the user, about a tool, about the session, a question to the
#: user, or an error.
LineKind = Literal["user", "tool", "note", "question", "error"]
#: The keys that mean the same everywhere.
Command = Literal["ctrl-c", "escape", "ctrl-b", "ctrl-d"]


class Screen(Protocol):
    """Where a conversation is shown, and where somebody types.

    All of it is called on the thread that runs it, except for :meth:`post`.
    """

    #: Is there somebody who can be asked?
    is_interactive: bool

    @property
    def text(self) -> str:
        """What was typed and not sent."""
        ...

    def set_text(self, text: str) -> None:
        """Put *text* where somebody types, in place of what is there."""
        ...

    def say(self, text: str) -> None:
        """Show more of what the model says."""
        ...

    def line(self, text: str, kind: LineKind = "note") -> None:
        """Show a line, or several; what the model was saying ends before it."""
        ...

    def aside(self, text: str, kind: LineKind = "note") -> None:
        """Show a line, but not in the middle of one of the model's."""
        ...

    def pause(self) -> None:
        """Take note that the model has said what it had to say."""
        ...

    def post(self, work: Callable[[], object]) -> None:
        """Have *work* done on the thread of the screen; from any thread."""
        ...

    def run(self, player: Player) -> None:
        """Show it, and pass on what is typed, until *player* is over."""
        ...


class Player(Protocol):
    """Who decides what comes of what is typed."""

    @property
    def is_over(self) -> bool:
        """Is it time to leave?"""
        ...

    @property
    def is_busy(self) -> bool:
        """Is something going on, so that time is shown?"""
        ...

    @property
    def label(self) -> str:
        """What stands before the line that is typed."""
        ...

    @property
    def is_secret(self) -> bool:
        """Is nobody to see what is typed?"""
        ...

    @property
    def is_asking(self) -> bool:
        """Is what is typed an answer, and no part of the conversation?"""
        ...

    def status(self) -> list[str]:
        """Return what goes on right now, in lines."""
        ...

    def summary(self) -> str:
        """Return in one line how it stands."""
        ...

    def begin(self) -> None:
        """Begin."""
        ...

    def typed(self) -> None:
        """Take note that what is typed has changed."""
        ...

    def submit(self, text: str) -> None:
        """Take a line that was typed."""
        ...

    def press(self, key: Command) -> None:
        """Take a key."""
        ...

    def leave(self, code: int) -> None:
        """Be over."""
        ...
