"""What is written down of a run, in memory and no more than that, and its timeline."""

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

__all__ = ["RECORDING", "WebRecording", "Shown", "TIMELINE_HEADERS"]

#: Returns an event as it may be seen outside.
Shown = Callable[[StreamEvent | Lagged], StreamEvent | Lagged]

#: Bytes that are recorded of one run.
RECORDING: Final = 1024 * 1024
#: To be sent with the page of a timeline, which runs nothing, and needs nothing.
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
    """A file in memory that takes so much and no more; for ``record=``.

    :param limit: in bytes. What comes later is left away.
    """

    def __init__(self, limit: int = RECORDING) -> None:
        self._left = limit
        #: Added to by one thread at a time, read by any.
        self._pieces: list[bytes] = []

    def write(self, text: bytes) -> int:
        """Add lines, as long as there is room: whole ones only."""
        if len(text) > self._left:
            kept = text[: self._left]
            self._pieces.append(kept[: kept.rfind(b"\n") + 1])
            self._left = 0
        else:
            self._pieces.append(text)
            self._left -= len(text)
        return len(text)

    def render(self, shown: Shown, error: RunError | None = None) -> bytes:
        """Return the timeline as a page; of a live run, up to now.

        :param shown: returns an event as it may be seen.
        :param error: what may be said of what the run has raised.
        """
        lines = b"".join(list(self._pieces)).splitlines(keepends=True)
        recording = parse_recording(lines, "the recording")
        words = error or RunError("failed", "")
        failure = Failure(words.code, words.message)
        recording.lines = [_seen(line, shown, failure) for line in recording.lines]
        return render_html(build_timeline(recording)).encode(errors="replace")


def _seen(line: RecordedLine, shown: Shown, failure: Failure) -> RecordedLine:
    """Return a line as it may be seen: errors may name what is nobody's business."""
    if line.error is not None:
        return msgspec.structs.replace(line, error=failure)
    if not bytes(line.event):
        return line
    try:
        event = shown(decode_event(bytes(line.event)))
    except ValueError:  # of a tool whose words are none of ours
        return msgspec.structs.replace(line, event=msgspec.Raw(b""), lost="unreadable")
    return msgspec.structs.replace(line, event=msgspec.Raw(encode_event(event)))
