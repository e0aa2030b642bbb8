"""The lines of a recording."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

__all__ = [
    "Begin",
    "CancelledLine",
    "FORMAT",
    "Failure",
    "Header",
    "RecordedLine",
    "ToolMoment",
    "VERSION",
]

#: The first line has this value, so that a reader can tell what the file is.
FORMAT: Final = "recording"
#: Raised with every change that older readers would not understand.
VERSION: Final = 1


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line, and the first one of each part that is appended later."""

    #: Always ``recording``.
    syncagent: str
    version: int
    #: The wall-clock time from which the times of the lines below count.
    started: str
    #: The version of syncagent, the version of Python, and the process.
    sdk: str = ""
    python: str = ""
    pid: int = 0


class Begin(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run starts, or is resumed with answers."""

    model: str
    #: The run that a sub-agent belongs to, and the tool call there.
    parent: str = ""
    call_id: str = ""
    #: The user message; None for a resumed run.
    prompt: Any = None
    is_resumed: bool = False
    #: The metadata that the run was given.
    metadata: dict[str, Any] = {}


class ToolMoment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool starts or ends, on the thread of the line."""

    call_id: str
    name: str
    moment: Literal["begin", "end"]
    #: True if it runs in a process of its own, and the thread only waits for it.
    in_process: bool = False


class CancelledLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """The run was cancelled, at the time of the line: when ``cancel()`` was called."""

    reason: str = ""
    origin: str = "user"
    #: The phase of the run.
    phase: str = ""


class Failure(msgspec.Struct, frozen=True):
    """The exception that a run raised."""

    type: str
    message: str


class RecordedLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """Any other line: the time, the run, the thread, and one of the other fields."""

    #: Seconds since the start.
    t: float
    run: str = ""
    thread: str = ""
    begin: Begin | None = None
    phase: str | None = None
    #: As :func:`syncagent.events.decode_event` takes it.
    event: msgspec.Raw = msgspec.Raw(b"")
    tool: ToolMoment | None = None
    cancel: CancelledLine | None = None
    error: Failure | None = None
    #: Why an event is missing: it has no JSON form.
    lost: str | None = None
