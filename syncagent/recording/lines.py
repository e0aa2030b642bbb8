"""What the lines of a recording say."""

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

#: What the first line says, so that everybody knows what this is.
FORMAT: Final = "recording"
#: Raised when older readers could no longer make sense of it.
VERSION: Final = 1


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line, and the first one of whatever is appended later."""

    #: Always ``recording``.
    syncagent: str
    version: int
    #: The wall clock at the moment from which the times of all further lines count.
    started: str
    #: Which syncagent has written it, on which Python, in which process.
    sdk: str = ""
    python: str = ""
    pid: int = 0


class Begin(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run begins, or goes on with its answers."""

    model: str
    #: The run that it is a part of, and the tool call there.
    parent: str = ""
    call_id: str = ""
    #: What the user says, a message; nothing if the run goes on.
    prompt: Any = None
    is_resumed: bool = False


class ToolMoment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool begins or ends, on the thread that the line names."""

    call_id: str
    name: str
    moment: Literal["begin", "end"]
    #: Is it only waited for on that thread, and runs in a process of its own?
    in_process: bool = False


class CancelledLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """The run was cancelled, at the time of the line: when ``cancel()`` was called."""

    reason: str = ""
    origin: str = "user"
    #: What the run was doing.
    phase: str = ""


class Failure(msgspec.Struct, frozen=True):
    """What a run has raised."""

    type: str
    message: str


class RecordedLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """Any other line: when, in which run, on which thread, and one of the rest."""

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
    #: An event that JSON has no words for: why.
    lost: str | None = None
