"""``show()``: a run while it is live, in a notebook or in a plain terminal."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any, Final

from ._short import shortened
from .background.handle import Handle
from .cancel import clock
from .conversation.run_stream import RunStream
from .events import (
    InterruptRaised,
    Lagged,
    RunFinished,
    StateChanged,
    StreamEvent,
    SubAgentEvent,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from .exceptions import ConfigurationError
from .transcript.markdown import safe_markdown

__all__ = ["show"]

#: Seconds between two updates of a notebook, which each send the whole text.
_PAUSE: Final = 0.1
#: Characters that a terminal would obey.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def show(run: RunStream[Any] | Handle[Any]) -> None:
    """Show a live run, until it has ended.

    In a notebook this is one area that is updated, with Markdown; elsewhere text is
    printed as it comes. ``stream.result`` or ``handle.result()`` then has the result.
    Ctrl+C, or a notebook's button, ends a stream and stops following a handle.

    Cancellation: a cancel of the run ends it at once.

    :param run: such as ``agent.stream(prompt)`` or ``agent.start(prompt)``.
    :raises ConfigurationError: it is something else.
    :raises SyncAgentError: the error that the run raised.
    """
    if not isinstance(run, (RunStream, Handle)):
        raise ConfigurationError(
            f"show() takes agent.stream(prompt) or agent.start(prompt); got {run!r:.80}"
        )
    screen = _Notebook() if _is_notebook() else _Plain()
    is_handle = isinstance(run, Handle)
    with run if isinstance(run, RunStream) else run.subscribe() as events:
        try:
            for event in events:
                screen.show(event)
                has_failed = isinstance(event, StateChanged) and event.state == "failed"
                if is_handle and (has_failed or isinstance(event, RunFinished)):
                    break  # it may wait for more input
        finally:
            screen.end()
    if isinstance(run, Handle) and run.error is not None:
        run.result(0)  # raises it


def _is_notebook() -> bool:
    """Return whether the output of this process goes to a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class _Plain:
    """Print text as it comes, and a line for each tool."""

    def __init__(self) -> None:
        self._is_open = False

    def show(self, event: StreamEvent | Lagged) -> None:
        """Print what is new."""
        if isinstance(event, TextDelta):
            self._write(event.text)
            self._is_open = not event.text.endswith("\n")
            return
        line = _line(event)
        if line:
            self.end()
            self._write(f"[{line}]\n")

    def end(self) -> None:
        """End the line."""
        if self._is_open:
            self._write("\n")
        self._is_open = False

    def _write(self, text: str) -> None:
        sys.stdout.write(_CONTROLS.sub("", text))
        sys.stdout.flush()


class _Notebook:
    """Keep one area of a notebook up to date."""

    def __init__(self) -> None:
        ipython: Any = import_module("IPython.display")
        self._markdown: Final = ipython.Markdown
        self._lines = [""]
        self._area: Final = ipython.display(self._markdown(""), display_id=True)
        self._next_update = 0.0

    def show(self, event: StreamEvent | Lagged) -> None:
        """Add what is new, and update the area now and then."""
        if isinstance(event, TextDelta):
            self._lines[-1] += event.text
        else:
            line = _line(event)
            if line:
                self._lines += [f"`{line.replace('`', chr(39))}`", ""]
        if clock.now() >= self._next_update:
            self._update()

    def end(self) -> None:
        """Show all of it."""
        self._update()

    def _update(self) -> None:
        parts = (safe_markdown(line) for line in self._lines if line.strip())
        self._area.update(self._markdown("\n\n".join(parts)))
        self._next_update = clock.now() + _PAUSE


def _line(event: StreamEvent | Lagged) -> str:
    """Return the line about an event, or an empty string."""
    if isinstance(event, SubAgentEvent):
        inner = _line(event.event)
        return f"{event.agent or 'sub-agent'}: {inner}" if inner else ""
    if isinstance(event, ToolStarted):
        given = ", ".join(
            f"{name}={value!r}" for name, value in event.arguments.items()
        )
        return f"{event.name}({shortened(given, 100)})"
    if isinstance(event, ToolFinished):
        return f"{event.name}: {event.outcome}"
    if isinstance(event, InterruptRaised):
        return "; ".join(shortened(str(each), 200) for each in event.interrupts)
    if isinstance(event, Lagged):
        return f"{event.missed} events were missed"
    if isinstance(event, RunFinished):
        return event.result.summary
    return ""
