"""Read the lines of a recording; unreadable ones are counted and left out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from ..cancel import CancelToken
from ..exceptions import RecordingInvalid
from ..recording import FORMAT, VERSION, Header, RecordedLine

__all__ = ["Recording", "parse_recording", "read_recording"]

_HEADER: Final = msgspec.json.Decoder(Header)
_LINE: Final = msgspec.json.Decoder(RecordedLine)
#: Number of lines between two checks of the token.
_STRIDE: Final = 4096


class Recording:
    """The lines of a recording, ordered by time."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.lines: list[RecordedLine] = []
        #: The number of lines that could not be read, and whether the last one is cut.
        self.unreadable = 0
        self.is_cut = False


def read_recording(
    path: str | os.PathLike[str], token: CancelToken | None = None
) -> Recording:
    """Return the recording in a file.

    The last line of a process that was killed may be incomplete; it is left out.

    Cancellation: checks *token* every few thousand lines.

    :raises RecordingInvalid: the file is not a recording, is of a newer version, or
        cannot be opened.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            return parse_recording(file, name, token)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RecordingInvalid(f"{name} cannot be read: {reason}") from None


def parse_recording(
    file: Iterable[bytes], name: str, token: CancelToken | None = None
) -> Recording:
    """Return the recording in lines.

    Cancellation: checks *token* every few thousand lines.

    :param name: the name of their source, for errors.
    :raises RecordingInvalid: they are not a recording.
    """
    token = token or CancelToken()
    recording: Recording | None = None
    shift = latest = 0.0
    number, last = 0, b"\n"
    for number, last in enumerate(file, 1):
        if number % _STRIDE == 0:
            token.checkpoint()
        if recording is None:
            recording = Recording(_header(last, name))
            continue
        try:
            line = _LINE.decode(last)
        except (msgspec.DecodeError, ValueError, RecursionError):
            try:
                header = _header(last, name)
            except RecordingInvalid:
                recording.unreadable += 1
                continue
            # Lines that were appended later: their times count from another moment.
            shift = max(latest, _wall(header) - _wall(recording.header))
        else:
            if shift:
                line = msgspec.structs.replace(line, t=line.t + shift)
            latest = max(latest, line.t)
            recording.lines.append(line)
    if recording is None:
        raise RecordingInvalid(
            f"{name} is empty; a recording is written by agent.run(..., record=PATH)"
        )
    if number > 1 and not last.endswith(b"\n") and recording.unreadable:
        recording.is_cut = True
        recording.unreadable -= 1
    # Threads write their lines late: only the times give the order.
    recording.lines.sort(key=lambda line: line.t)
    return recording


def _header(line: bytes, name: str) -> Header:
    try:
        header = _HEADER.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        header = None
    if header is None or header.syncagent != FORMAT:
        raise RecordingInvalid(
            f"{name} is not a recording of a run; a recording is written by "
            "agent.run(..., record=PATH)"
        )
    if header.version > VERSION:
        raise RecordingInvalid(
            f"{name} was recorded by a newer syncagent ({header.sdk}); this one reads "
            f"version {VERSION}, and it is version {header.version}: upgrade syncagent"
        )
    return header


def _wall(header: Header) -> float:
    try:
        return datetime.fromisoformat(header.started).timestamp()
    except ValueError:
        return 0.0
