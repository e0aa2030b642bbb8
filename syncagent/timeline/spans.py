"""The parts of a timeline: rows, their segments, and a summary."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..usage import Usage

__all__ = [
    "Detail",
    "Mark",
    "Row",
    "Segment",
    "SpanKind",
    "Summary",
    "Timeline",
]

#: The kinds of rows.
SpanKind = Literal["run", "model", "tool", "wait", "thread"]


class Segment(msgspec.Struct, frozen=True):
    """A part of a row: a phase, with its begin and end in seconds."""

    name: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.end - self.begin


class Mark(msgspec.Struct, frozen=True):
    """A moment with a text."""

    at: float
    text: str


class Detail(msgspec.Struct, frozen=True):
    """A text with a title."""

    title: str
    text: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A model call, a tool, a wait, or a run."""

    kind: SpanKind
    title: str
    #: A few words beside the title, such as a tool's arguments.
    hint: str = ""
    begin: float
    end: float
    #: The number of runs and tools around it.
    depth: int = 0
    segments: tuple[Segment, ...] = ()
    #: How it ended, in a word; empty for an ordinary end.
    outcome: str = ""
    #: The name of its thread.
    thread: str = ""
    in_process: bool = False
    #: True if that is not the thread of its run.
    is_elsewhere: bool = False
    #: Seconds from the cancel to its end, if it was running then.
    after_cancel: float | None = None
    #: True if it had not ended when the recording did.
    is_open: bool = False
    marks: tuple[Mark, ...] = ()
    details: tuple[Detail, ...] = ()

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.end - self.begin


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The key facts of a timeline."""

    run_id: str
    model: str
    #: ``running`` if the recording ends before the run.
    stop_reason: str
    #: The wall-clock time of its start.
    started: str
    seconds: float
    turns: int = 0
    tool_calls: int = 0
    sub_agents: int = 0
    usage: Usage = Usage()
    cost: float | None = None
    error: str = ""
    #: How it was cancelled, in words.
    cancellation: str = ""
    prompt: str = ""
    text: str = ""


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """The timeline of a recording."""

    summary: Summary
    rows: tuple[Row, ...]
    #: The cancels.
    cancels: tuple[Mark, ...] = ()
    #: Remarks about the recording, such as missing lines.
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Duration of the whole in seconds."""
        return max((row.end for row in self.rows), default=0.0)
