"""Show the events of ``syncagent run`` as they happen."""

from __future__ import annotations

import time
from typing import Protocol

from ..events import (
    Compacted,
    InterruptRaised,
    Lagged,
    ModelChanged,
    Resumed,
    RunFinished,
    StateChanged,
    StreamEvent,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    encode_event,
)
from ..messages import Text
from .formatting import compacted_text, outcome_text, short_call_text
from .notes import Notes
from .plain_text import on_one_line
from .streams import OutputStream
from .wording import error_line

__all__ = ["EventDisplay", "JsonDisplay", "TextDisplay"]


class EventDisplay(Protocol):
    """A hook that shows events."""

    def on_event(self, event: StreamEvent | Lagged) -> None:
        """Show *event*."""

    def finish(self, event: RunFinished) -> None:
        """Show the last event."""

    def fail(self, error: BaseException) -> None:
        """Show that *error* has ended the run, or kept it from starting."""

    def end(self) -> None:
        """End the output; an error may have ended the run before its last event."""


class JsonDisplay:
    """Events as lines of JSON, for :func:`syncagent.events.decode_event`."""

    def __init__(self, output: OutputStream) -> None:
        self._output = output
        self._is_finished = False

    def on_event(self, event: StreamEvent | Lagged) -> None:
        """Write *event*."""
        self._is_finished = self._is_finished or isinstance(event, RunFinished)
        self._output.write(encode_event(event).decode() + "\n")

    def finish(self, event: RunFinished) -> None:
        """Write the last event, unless it has come with the others."""
        if not self._is_finished:
            self.on_event(event)

    def fail(self, error: BaseException) -> None:
        """Write the state ``failed`` with the message of *error*."""
        if not self._is_finished:
            message = error_line(str(error)) or type(error).__name__
            self.on_event(StateChanged("failed", message=message))

    def end(self) -> None:
        """Do nothing: every line is complete."""


class TextDisplay:
    """The model's text on one stream, notes about tools on the other.

    :param is_live: false if events may be shown long after they happened, so that
        nothing is known about durations.
    """

    def __init__(
        self, output: OutputStream, notes: Notes, *, is_live: bool = True
    ) -> None:
        self._output = output
        self._notes = notes
        self._is_live = is_live
        #: True until the text of another turn has to begin on a new line.
        self._is_same_turn = True
        self._started: dict[str, float] = {}

    def on_event(self, event: StreamEvent | Lagged) -> None:
        """Show *event*."""
        if isinstance(event, TextDelta):
            if not self._is_same_turn:
                self._output.end_line()
            self._is_same_turn = True
            self._output.write(event.text)
        elif isinstance(event, ToolStarted):
            self._is_same_turn = False
            if self._is_live:
                self._started[event.call_id] = time.monotonic()
            self._notes.start_line()  # also for the output of the tool
            call = short_call_text(event.name, event.arguments)
            self._notes.tell(f"tool {call}", "cyan", event.name)
        elif isinstance(event, ToolProgress):
            value = event.value if isinstance(event.value, str) else repr(event.value)
            self._notes.tell(f"tool {event.name}: {on_one_line(value, 200)}")
        elif isinstance(event, ToolFinished):
            self._is_same_turn = False
            is_warning = event.outcome in ("interrupted", "abandoned")
            show = self._notes.warn if is_warning else self._notes.tell
            started = self._started.pop(event.call_id, None)
            took = "" if started is None else f", {time.monotonic() - started:.1f} s"
            reason = ""
            if event.outcome != "done":
                texts = (b.text for b in event.result.content if isinstance(b, Text))
                text = on_one_line(" ".join(texts), 200)
                reason = f": {text.removeprefix(f'{event.outcome.capitalize()}: ')}"
            outcome = outcome_text(event.outcome)
            is_done = event.outcome == "done"
            style, part = ("cyan", event.name) if is_done else ("red", outcome)
            show(f"tool {event.name} {outcome}{took}{reason}", style, part)
        elif isinstance(event, ModelChanged):
            text = f"{event.to_model} responds, not {event.from_model}: {event.error}"
            self._notes.warn(on_one_line(text, 300))
        elif isinstance(event, Compacted):
            self._notes.tell(compacted_text(event))
        elif isinstance(event, (InterruptRaised, Resumed)):
            self._is_same_turn = False

    def finish(self, event: RunFinished) -> None:
        """Do nothing: the text of the result has been shown."""

    def fail(self, error: BaseException) -> None:
        """Do nothing: the command ends with a line about it."""

    def end(self) -> None:
        """Complete the last line."""
        self._output.end_line()
