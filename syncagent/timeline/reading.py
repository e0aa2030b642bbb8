"""Read a recording, as far as it can be read."""

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
#: How many lines are read between two looks at the token.
_STRIDE: Final = 4096


class Recording:
    """The lines of a file, by their time."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.lines: list[RecordedLine] = []
        #: Lines in the middle that could not be read, and whether the last one is cut.
        self.unreadable = 0
        self.is_cut = False


def read_recording(
    path: str | os.PathLike[str], token: CancelToken | None = None
) -> Recording:
    """Return what a file says.

    The last line of a process that was killed may be half a line; it is left away.

    Cancellation: looks at *token* from time to time.

    :raises RecordingInvalid: it is no recording, or one that only a newer version can
        read, or cannot be opened.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            return parse_recording(file, name, token)
    except OSError as error:
        why = error.strerror or str(error)
        raise RecordingInvalid(f"{name} cannot be read: {why}") from None


def parse_recording(
    file: Iterable[bytes], name: str, token: CancelToken | None = None
) -> Recording:
    """Return what lines say.

    Cancellation: looks at *token* from time to time.

    :param name: where they come from, for errors.
    :raises RecordingInvalid: they are no recording.
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
        except (msgspec.DecodeError, ValueError):
            header = _later_header(last, name)
            if header is None:
                recording.unreadable += 1
                continue
            # What was written on later: its times count from another moment.
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
    # Threads write when they come to it: only the times tell the order.
    recording.lines.sort(key=lambda line: line.t)
    return recording


def _header(line: bytes, name: str) -> Header:
    try:
        header = _HEADER.decode(line)
    except (msgspec.DecodeError, ValueError):
        header = None
    if header is None or header.syncagent != FORMAT:
        raise RecordingInvalid(
            f"{name} is no recording of a run; a recording is written by "
            "agent.run(..., record=PATH)"
        )
    if header.version > VERSION:
        raise RecordingInvalid(
            f"{name} was recorded by a newer syncagent ({header.sdk}); this one reads "
            f"version {VERSION}, and it is version {header.version}: upgrade syncagent"
        )
    return header


def _later_header(line: bytes, name: str) -> Header | None:
    try:
        return _header(line, name)
    except RecordingInvalid:
        return None


def _wall(header: Header) -> float:
    try:
        return datetime.fromisoformat(header.started).timestamp()
    except ValueError:
        return 0.0
