"""Show what happens in a run, as it happens."""

from __future__ import annotations

import time
from typing import Any, Protocol

from ..events import (
    InterruptRaised,
    RunFinished,
    StreamEvent,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    encode_event,
)
from ..messages import Text
from .handlers import call_in_words
from .notes import Notes
from .plain_text import on_one_line
from .streams import OutputStream

__all__ = ["JsonLines", "PlainText", "Shown"]


class Shown(Protocol):
    """A hook that shows events."""

    def on_event(self, event: StreamEvent) -> None:
        """Show *event*."""

    def finish(self, event: RunFinished) -> None:
        """Show the last one."""

    def end(self) -> None:
        """There will be no more, perhaps as there is an error instead."""


class JsonLines:
    """Events as lines of JSON, which :func:`syncagent.events.decode_event` reads.

    :param answer: where to.
    """

    def __init__(self, answer: OutputStream) -> None:
        self._answer = answer

    def on_event(self, event: StreamEvent) -> None:
        """Write *event*."""
        self._answer.write(encode_event(event).decode() + "\n")

    def finish(self, event: RunFinished) -> None:
        """Write the last one."""
        self.on_event(event)

    def end(self) -> None:
        """Do nothing: every line is complete."""


class PlainText:
    """The model's words on one stream, and what else happens on the other.

    :param answer: for the words.
    :param notes: for tools.
    """

    def __init__(self, answer: OutputStream, notes: Notes) -> None:
        self._answer = answer
        self._notes = notes
        self._is_apart = True
        self._began: dict[str, float] = {}

    def on_event(self, event: StreamEvent) -> None:
        """Show *event*."""
        if isinstance(event, TextDelta):
            if not self._is_apart:  # words of another turn
                self._answer.end_line()
            self._is_apart = True
            self._answer.write(event.text)
        elif isinstance(event, ToolStarted):
            self._is_apart = False
            self._began[event.call_id] = time.monotonic()
            self._notes.tell(f"tool {call_in_words(event.name, event.arguments)}")
        elif isinstance(event, ToolProgress):
            self._notes.tell(f"tool {event.name}: {_shown(event.value)}")
        elif isinstance(event, ToolFinished):
            self._is_apart = False
            is_odd = event.outcome in ("interrupted", "abandoned")
            (self._notes.warn if is_odd else self._notes.tell)(self._ended(event))
        elif isinstance(event, InterruptRaised):
            self._is_apart = False

    def _ended(self, event: ToolFinished) -> str:
        began = self._began.pop(event.call_id, None)
        took = "" if began is None else f", {time.monotonic() - began:.1f} s"
        said = ""
        if event.outcome != "done":
            words = (b.text for b in event.result.content if isinstance(b, Text))
            said = f": {on_one_line(' '.join(words), 200)}"
        return f"tool {event.name} {event.outcome.replace('_', ' ')}{took}{said}"

    def finish(self, event: RunFinished) -> None:
        """Show nothing: all that it has was shown."""

    def end(self) -> None:
        """Complete the last line."""
        self._answer.end_line()


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return on_one_line(text, 200)
