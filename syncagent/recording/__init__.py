"""Record a run as it happens, one line of JSON for each event, phase and tool.

=====================  ===============================================================
:mod:`~.recorder`      one :class:`RunRecording` for each run, sub-agents included
:mod:`~.lines`         the format of a line, for writers and readers
:mod:`~.target`        where a recording goes
:mod:`~.writer`        the file, which all runs of a recording share
=====================  ===============================================================
"""

from __future__ import annotations

from .lines import (
    FORMAT,
    VERSION,
    Begin,
    CancelledLine,
    Failure,
    Header,
    RecordedLine,
    ToolMoment,
)
from .recorder import Recorder, RunRecording, SubAgentRecorder
from .target import Record, check_record

__all__ = [
    "Begin",
    "CancelledLine",
    "FORMAT",
    "Failure",
    "Header",
    "Record",
    "RecordedLine",
    "Recorder",
    "RunRecording",
    "SubAgentRecorder",
    "ToolMoment",
    "VERSION",
    "check_record",
]
