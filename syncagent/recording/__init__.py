"""Write down what a run does, as it happens, one line of JSON for each thing.

``target.py`` says where to, ``writer.py`` writes, ``of_run.py`` says what: one
:class:`RunRecording` for each run, sub-agents included, all in one file. What is in a
line is in ``lines.py``, for writers and readers alike.
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
from .of_run import Part, Recorded, RunRecording
from .target import Record, check_record

__all__ = [
    "Begin",
    "CancelledLine",
    "FORMAT",
    "Failure",
    "Header",
    "RecordedLine",
    "Part",
    "Record",
    "Recorded",
    "RunRecording",
    "ToolMoment",
    "VERSION",
    "check_record",
]
