"""The progress of a batch: a bar, a counter, or a function of the caller's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Protocol

import msgspec

from ..cancel import clock
from ..exceptions import ConfigurationError

__all__ = ["BatchCounts", "Progress", "ProgressDisplay", "find_progress"]

#: Seconds between two drawings.
_EVERY: Final = 0.1


class BatchCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many items of a batch have ended."""

    #: How many there are; None for a generator.
    total: int | None = None
    #: All that have ended, however they did.
    done: int = 0
    #: They raised an error.
    failed: int = 0
    #: They were cancelled, or never started.
    cancelled: int = 0

    def __str__(self) -> str:
        text = f"{self.done}" if self.total is None else f"{self.done}/{self.total}"
        failed = f", {self.failed} failed" if self.failed else ""
        cancelled = f", {self.cancelled} cancelled" if self.cancelled else ""
        return f"{text} runs{failed}{cancelled}"


#: True for a bar, or a function that is called with the counts.
Progress = bool | Callable[[BatchCounts], object] | None


class ProgressDisplay(Protocol):
    """Shows counts."""

    def show(self, counts: BatchCounts) -> None:
        """Show *counts*."""

    def close(self) -> None:
        """Show the last counts, and end."""


def find_progress(progress: Progress) -> ProgressDisplay:
    """Return what shows the progress of a batch.

    :raises ConfigurationError: *progress* is neither a bool nor a function.
    """
    if callable(progress):
        return _Function(progress)
    if progress is not None and not isinstance(progress, bool):
        raise ConfigurationError(
            f"progress takes True, or a function of the counts; got {progress!r:.80}"
        )
    if not progress or sys.stderr is None:
        return _Function(lambda counts: None)
    if find_spec("rich") is not None and sys.stderr.isatty():
        return _Bar()
    return _Counter()


class _Function:
    """Call a function of the caller's."""

    def __init__(self, function: Callable[[BatchCounts], object]) -> None:
        self._function = function

    def show(self, counts: BatchCounts) -> None:
        self._function(counts)

    def close(self) -> None:
        pass


class _Counter:
    """Count on one line of a terminal, or write the last count elsewhere."""

    def __init__(self) -> None:
        self._output = sys.stderr
        self._is_terminal = self._output.isatty()
        self._counts: BatchCounts | None = None
        self._next = 0.0

    def show(self, counts: BatchCounts) -> None:
        self._counts = counts
        if self._is_terminal and clock.now() >= self._next:
            self._next = clock.now() + _EVERY
            self._write(f"\r{counts}")

    def close(self) -> None:
        if self._counts is not None:
            start = "\r" if self._is_terminal else ""
            self._write(f"{start}{self._counts}\n")
            self._counts = None

    def _write(self, text: str) -> None:
        try:
            self._output.write(text)
            self._output.flush()
        except (OSError, ValueError):  # nobody reads it any more
            pass


class _Bar:
    """A bar of rich; without the thread by which rich would draw it."""

    def __init__(self) -> None:
        console = import_module("rich.console").Console(stderr=True)
        module: Any = import_module("rich.progress")
        self._bar = module.Progress(
            module.TextColumn("{task.description}"),
            module.BarColumn(),
            module.TimeElapsedColumn(),
            console=console,
            auto_refresh=False,
        )
        self._task: Any = None
        self._next = 0.0

    def show(self, counts: BatchCounts) -> None:
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", total=counts.total)
        self._bar.update(self._task, completed=counts.done, description=str(counts))
        if clock.now() >= self._next:
            self._next = clock.now() + _EVERY
            self._bar.refresh()

    def close(self) -> None:
        if self._task is not None:
            self._bar.refresh()
            self._bar.stop()
