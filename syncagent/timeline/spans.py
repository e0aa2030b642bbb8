"""What a timeline is made of: rows, and when what was in them."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..usage import Usage

__all__ = ["Detail", "SpanKind", "Mark", "Row", "Segment", "Summary", "Timeline"]

#: What a row shows.
SpanKind = Literal["run", "model", "tool", "wait", "thread"]


class Segment(msgspec.Struct, frozen=True):
    """A part of a row: what it was doing, from when to when, in seconds."""

    name: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """How long."""
        return self.end - self.begin


class Mark(msgspec.Struct, frozen=True):
    """A moment."""

    at: float
    text: str


class Detail(msgspec.Struct, frozen=True):
    """Something to read, with a title."""

    title: str
    text: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that took its time: a model call, a tool, a wait, a run."""

    kind: SpanKind
    title: str
    #: What it is about, in a few words, such as a tool's arguments.
    hint: str = ""
    begin: float
    end: float
    #: How many runs and tools it is inside of.
    depth: int = 0
    segments: tuple[Segment, ...] = ()
    #: How it ended, in a word; nothing if that goes without saying.
    outcome: str = ""
    #: Where it ran.
    thread: str = ""
    in_process: bool = False
    #: Was that another thread than its run's?
    is_elsewhere: bool = False
    #: How long it took to end after the cancel, if it was there then.
    after_cancel: float | None = None
    #: Had it not ended when the recording did?
    is_open: bool = False
    marks: tuple[Mark, ...] = ()
    details: tuple[Detail, ...] = ()

    @property
    def seconds(self) -> float:
        """How long."""
        return self.end - self.begin


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What to know about the whole first."""

    run_id: str
    model: str
    #: ``running`` if the recording ends before the run.
    stop_reason: str
    #: The wall clock at its begin.
    started: str
    seconds: float
    turns: int = 0
    tool_calls: int = 0
    sub_agents: int = 0
    usage: Usage = Usage()
    cost: float | None = None
    error: str = ""
    #: How it was cancelled, as a sentence.
    cancellation: str = ""
    prompt: str = ""
    text: str = ""


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as it was recorded."""

    summary: Summary
    rows: tuple[Row, ...]
    #: When it was cancelled, if it was.
    cancels: tuple[Mark, ...] = ()
    #: What is missing of it, or else is to be known about the recording.
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long all of it took."""
        return max((row.end for row in self.rows), default=0.0)
