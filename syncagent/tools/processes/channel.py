"""Frames between a worker process and its parent.

A frame is its kind, the number of its call, the length of its payload, the payload, and
the number again. The parent makes up the number, a new random one for each call.

Guarantees, whatever arrives at the parent:

- A result belongs to the call that waits for it. Only the worker knows the number of
  the current call; a process that was forked in an earlier one knows an older number.
- Foreign bytes are noticed: before a frame by its number, within a frame because the
  number does not follow the payload.
- A length is not believed: memory grows with the bytes that have arrived, up to a
  limit.
"""

from __future__ import annotations

import os
import struct
from typing import Final

__all__ = [
    "ANSWER",
    "CALL",
    "Channel",
    "FrameReader",
    "NOT_CALLED",
    "OutOfStep",
    "PROGRESS",
    "QUESTION",
    "RAISED",
    "RETURNED",
    "TOO_LARGE",
    "UNPICKLABLE",
    "frame_parts",
    "new_number",
]

# The kinds of frames. To the worker: a call; the user's answer to a question.
CALL: Final = b"c"
ANSWER: Final = b"a"
# From the worker while a function runs: a progress report; a question for the user.
PROGRESS: Final = b"p"
QUESTION: Final = b"q"
# From the worker, at the end of a call: a result; a result that cannot be pickled; one
# that is too large; an exception; the call could not be made.
RETURNED: Final = b"r"
UNPICKLABLE: Final = b"u"
TOO_LARGE: Final = b"l"
RAISED: Final = b"e"
NOT_CALLED: Final = b"n"

_AT_THE_END: Final = RETURNED + UNPICKLABLE + TOO_LARGE + RAISED + NOT_CALLED
_FROM_WORKER: Final = frozenset(PROGRESS + QUESTION + _AT_THE_END)
_NUMBER: Final = 16
_HEADER: Final = struct.Struct(f"!c{_NUMBER}sQ")
#: Payloads below this size, in bytes, are cheaper to copy than to write separately.
_SMALL: Final = 65536
#: The bytes to read at once. More than a socket holds would only cost memory.
_LARGE: Final = 4 * _SMALL


class OutOfStep(Exception):
    """The worker has sent something that is not a frame of its call."""


def new_number() -> bytes:
    """Return a number for a call that no other process can guess."""
    return os.urandom(_NUMBER)


def frame_parts(kind: bytes, number: bytes, payload: bytes) -> tuple[bytes, ...]:
    """Return the bytes of a frame, in as many parts as are to be written."""
    header = _HEADER.pack(kind, number, len(payload))
    if len(payload) < _SMALL:
        return (header + payload + number,)
    return header, payload, number


class FrameReader:
    """Makes frames of the bytes that a worker sends in the course of one call.

    :param number: of the call.
    :param limit: the bytes of the largest payload.
    """

    def __init__(self, number: bytes, limit: int) -> None:
        self._number = number
        self._limit = limit
        self._buffer = bytearray()
        #: The length of the frame that begins the buffer; 0 if it is not known yet.
        self._length = 0

    @property
    def wanted(self) -> int:
        """The number of bytes to read next, at most."""
        return _SMALL if self._length <= _SMALL else _LARGE

    @property
    def is_empty(self) -> bool:
        """True at the end of a frame."""
        return not self._buffer

    def feed(self, data: bytes) -> None:
        """Add bytes that have arrived."""
        self._buffer += data

    def next(self) -> tuple[bytes, memoryview] | None:
        """Return the kind and the payload of the next frame, if all of it is here.

        :raises OutOfStep: these bytes do not belong to the call.
        """
        buffer = self._buffer
        if not self._length and not self._read_header():
            return None
        length = self._length
        if len(buffer) < length:
            return None
        # What follows goes to a new buffer: the payload is a part of this one.
        self._buffer, self._length = buffer[length:], 0
        frame = memoryview(buffer)
        end = length - _NUMBER
        if frame[end:length] != self._number:
            raise OutOfStep("other bytes were sent in the middle of a frame")
        return bytes(frame[:1]), frame[_HEADER.size : end]

    def _read_header(self) -> bool:
        """Check what is here of the header; true if all of it is."""
        buffer = self._buffer
        known = bytes(buffer[1 : 1 + _NUMBER])
        # At once, and not when the header is complete: the rest may never come.
        if buffer and not (
            buffer[0] in _FROM_WORKER and self._number.startswith(known)
        ):
            raise OutOfStep(f"it sent {bytes(buffer[:40])!r}, which is not a frame")
        if len(buffer) < _HEADER.size:
            return False
        size = _HEADER.unpack_from(buffer)[2]
        if size > self._limit:
            raise OutOfStep(
                f"it announced {size:,} bytes, and the limit is {self._limit:,}"
            )
        self._length = _HEADER.size + size + _NUMBER
        return True


class Channel:
    """The worker's end of its connection. It blocks, and believes its parent.

    :param descriptor: of the socket, which the caller owns.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        #: The number of the call that was received last.
        self._number = bytes(_NUMBER)

    def send(self, kind: bytes, payload: bytes) -> None:
        """Send one frame of the current call.

        Cancellation: ends when the other side is killed.

        :raises OSError: the other side is gone.
        """
        for part in frame_parts(kind, self._number, payload):
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def receive(self) -> bytearray:
        """Wait for the next frame and return its payload.

        Cancellation: ends when the other side is killed.

        :raises EOFError: the other side is gone.
        :raises OSError: the same.
        """
        _, self._number, size = _HEADER.unpack(self._read(_HEADER.size))
        payload = self._read(size + _NUMBER)
        del payload[size:]
        return payload

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        with memoryview(data) as view:
            got = 0
            while got < size:
                part = os.readv(self._descriptor, [view[got:]])
                if part == 0:
                    raise EOFError("the other side is gone")
                got += part
        return data
