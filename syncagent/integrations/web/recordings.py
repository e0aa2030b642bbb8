"""The recording of a run, in memory and limited in size, for its timeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from ...events import Lagged, StreamEvent, decode_event, encode_event
from ...recording import Failure, RecordedLine
from ...timeline import render_html
from ...timeline.building import build_timeline
from ...timeline.reading import parse_recording
from .bodies import RunError

__all__ = ["PublicEvent", "RECORDING", "TIMELINE_HEADERS", "WebRecording"]

#: Returns the form of an event that clients may see.
PublicEvent = Callable[[StreamEvent | Lagged], StreamEvent | Lagged]

#: Bytes recorded per run.
RECORDING: Final = 1024 * 1024
#: The headers of a timeline page, which has no scripts and loads nothing.
TIMELINE_HEADERS: Final = (
    ("Content-Type", "text/html; charset=utf-8"),
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'; sandbox",
    ),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)


class WebRecording:
    """A file in memory with a size limit, for ``record=``.

    :param limit: in bytes. Later lines are dropped.
    """

    def __init__(self, limit: int = RECORDING) -> None:
        self._room = limit
        #: One thread at a time appends; any thread reads.
        self._pieces: list[bytes] = []

    def write(self, text: bytes) -> int:
        """Append whole lines while there is room."""
        if len(text) > self._room:
            kept = text[: self._room]
            self._pieces.append(kept[: kept.rfind(b"\n") + 1])
            self._room = 0
        else:
            self._pieces.append(text)
            self._room -= len(text)
        return len(text)

    def render(self, public_event: PublicEvent, error: RunError | None = None) -> bytes:
        """Return the timeline as a page; that of a live run ends at this moment.

        :param public_event: returns the form of an event that clients may see.
        :param error: the public form of the error that the run raised.
        """
        lines = b"".join(list(self._pieces)).splitlines(keepends=True)
        recording = parse_recording(lines, "the recording")
        error = error or RunError("failed", "")
        failure = Failure(error.code, error.message)
        recording.lines = [
            _public_line(line, public_event, failure) for line in recording.lines
        ]
        return render_html(build_timeline(recording)).encode(errors="replace")


def _public_line(
    line: RecordedLine, public_event: PublicEvent, failure: Failure
) -> RecordedLine:
    """Return *line* without error messages, which may contain private details."""
    if line.error is not None:
        return msgspec.structs.replace(line, error=failure)
    if not bytes(line.event):
        return line
    try:
        event = public_event(decode_event(bytes(line.event)))
    except ValueError:  # a tool put something into it that cannot be decoded
        return msgspec.structs.replace(line, event=msgspec.Raw(b""), lost="unreadable")
    return msgspec.structs.replace(line, event=msgspec.Raw(encode_event(event)))
