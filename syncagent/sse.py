"""Server-sent events: bytes in, events out, by the WHATWG specification.

``sseclient-py`` reads the fields of an event. Its mistakes are avoided by what it is
fed: one complete event at a time, with plain line ends, without byte order mark, and
never more than a line of data at once, since it copies all it has at every line. Bytes
pass through it as Latin-1, so that a byte that is not UTF-8 cannot stop it, and are
decoded behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from sseclient import SSEClient

from .exceptions import ResponseTooLarge

__all__ = [
    "EventDecoder",
    "MAX_EVENT_BYTES",
    "MAX_EVENT_LINES",
    "ServerSentEvent",
    "decode_events",
]

#: The largest event by default, in bytes.
MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
#: The most lines of an event by default.
MAX_EVENT_LINES: Final = 100_000

_BOM: Final = b"\xef\xbb\xbf"
_COLON: Final = ord(":")
#: A delay with more digits than this makes no sense, and is ignored.
_MOST_DIGITS: Final = 18

# The form of nearly every event: a line of data, perhaps a name before it. A test shows
# that this shortcut and the full reader give the same event.
_COMMON: Final = re.compile(rb"(?:event: ?([^\n]*)\n)?data: ?([^\n]*)")
# A chunk that is exactly one such event, as a model sends it.
_WHOLE: Final = re.compile(rb"(?:event: ?([^\r\n]*)\n)?data: ?([^\r\n]*)\n\n")


class ServerSentEvent(msgspec.Struct, frozen=True, gc=False):
    """One event of a stream."""

    #: Its data; several lines of it are joined by newlines.
    data: str
    #: Its name, ``message`` if it has none.
    event: str = "message"
    #: The last id in the stream, possibly that of an earlier event.
    id: str = ""


class EventDecoder:
    """Turn the chunks of one stream, however they are cut, into events.

    The work per byte does not depend on how large an event is or how it is cut. By the
    specification, an event without a blank line after it is dropped at the end.

    :param max_event_bytes: the largest event allowed.
    :param max_event_lines: the most lines of an event allowed.
    """

    def __init__(
        self,
        *,
        max_event_bytes: int = MAX_EVENT_BYTES,
        max_event_lines: int = MAX_EVENT_LINES,
    ) -> None:
        self._max_bytes = max_event_bytes
        self._max_lines = max_event_lines
        #: Bytes that may begin a byte order mark; None once that is settled.
        self._start: bytes | None = b""
        self._is_after_cr = False
        # The event that has begun, in pieces, without the newline at its end. That
        # newline is kept as a flag: with the next chunk it may become a blank line.
        self._pieces: list[bytes] = []
        self._has_newline = False
        self._size = 0
        self._lines = 0
        #: The last id in the stream, also that of a block without data.
        self.last_event_id = ""
        #: How many milliseconds the server wants a client to wait before it connects
        #: again. None if it has not said so.
        self.retry: int | None = None

    @property
    def has_begun_an_event(self) -> bool:
        """True if the last event is incomplete; comments do not count."""
        lines = b"".join(self._pieces).split(b"\n")
        return any(line and line[0] != _COLON for line in lines)

    def feed(self, chunk: bytes) -> Iterable[ServerSentEvent]:
        """Return the events that end in *chunk*; exhaust them before the next call.

        :raises ResponseTooLarge: the next event is larger than allowed.
        """
        is_between = not (self._pieces or self._has_newline or self._is_after_cr)
        if is_between and self._start is None and len(chunk) <= self._max_bytes:
            whole = _WHOLE.fullmatch(chunk)
            if whole is not None:
                return (self._event(*whole.groups()),)
        return self._feed(chunk)

    def _feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        if self._start is not None:
            chunk = self._without_bom(chunk)
        if self._is_after_cr or b"\r" in chunk:
            chunk = self._with_plain_line_ends(chunk)
        if self._has_newline:
            chunk = b"\n" + chunk
        *blocks, rest = chunk.split(b"\n\n")
        if blocks:
            if self._pieces:
                blocks[0] = b"".join([*self._pieces, blocks[0]])
                self._pieces.clear()
            self._size = self._lines = 0
            for block in filter(None, blocks):
                if len(block) > self._max_bytes:
                    raise self._too_large(f"{self._max_bytes} bytes")
                common = _COMMON.fullmatch(block)
                if common is not None:
                    yield self._event(*common.groups())
                else:
                    yield from self._read(block)
        # The rest is the beginning of an event whose end is still to come.
        self._has_newline = rest.endswith(b"\n")
        if self._has_newline:
            rest = rest[:-1]
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
            self._lines += rest.count(b"\n")
            if self._size > self._max_bytes:
                raise self._too_large(f"{self._max_bytes} bytes")
            if self._lines >= self._max_lines:
                raise self._too_large(f"{self._max_lines} lines")

    def _event(self, name: bytes | None, data: bytes) -> ServerSentEvent:
        return ServerSentEvent(
            data.decode("utf-8", "replace"),
            (name and name.decode("utf-8", "replace")) or "message",
            self.last_event_id,
        )

    def _without_bom(self, chunk: bytes) -> bytes:
        assert self._start is not None
        start = self._start + chunk
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_BOM)

    def _with_plain_line_ends(self, chunk: bytes) -> bytes:
        # A CR ends its line at once. If it was the first half of a CRLF cut in two, the
        # LF at the head of the next chunk ends no further line.
        if self._is_after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._is_after_cr = False
        if chunk:
            self._is_after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _read(self, block: bytes) -> Iterator[ServerSentEvent]:
        """Read the fields of an event of any form; yield it if it has data."""
        lines = block.split(b"\n")
        if len(lines) > self._max_lines:
            raise self._too_large(f"{self._max_lines} lines")
        data = [line for line in lines if line == b"data" or line.startswith(b"data:")]
        # Of each other field the last line counts; of ids only those without a NUL.
        last = {
            line.partition(b":")[0]: line
            for line in lines
            if not (line.startswith(b"id:") and b"\0" in line)
        }
        if b"retry" in last:
            self._note_retry(lines)
        head = [last[field] for field in (b"event", b"id") if field in last]
        if not data and not head:
            return
        first = b"\n".join([*head, b"data:"])  # sseclient skips an event without data
        blocks = (line + b"\n\n" for line in [first, *data])
        event, *values = SSEClient(blocks, "latin-1").events()
        if event.id is not None:
            self.last_event_id = _decode(event.id)
        if data:
            text = _decode("\n".join(value.data for value in values))
            yield ServerSentEvent(text, _decode(event.event), self.last_event_id)

    def _note_retry(self, lines: list[bytes]) -> None:
        # The last valid one counts: an invalid one is ignored, and changes nothing.
        for line in lines:
            field, _, value = line.partition(b":")
            digits = value.removeprefix(b" ")
            if field == b"retry" and digits.isdigit() and len(digits) <= _MOST_DIGITS:
                self.retry = int(digits)

    def _too_large(self, limit: str) -> ResponseTooLarge:
        return ResponseTooLarge(
            f"the server sent an event of more than {limit}; if that is expected, "
            "raise max_event_bytes or max_event_lines"
        )


def _decode(latin: str) -> str:
    return latin.encode("latin-1").decode("utf-8", "replace")


def decode_events(chunks: Iterable[bytes]) -> Iterator[ServerSentEvent]:
    """Yield the events of a whole stream."""
    decoder = EventDecoder()
    for chunk in chunks:
        yield from decoder.feed(chunk)
