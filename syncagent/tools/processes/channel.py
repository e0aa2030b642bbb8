"""Frames between a worker process and its parent.

A frame is its kind, the number of its call, the length of its payload, twice, the
payload, and the number again. The parent makes up the number, a new random one for each
call.

Guarantees, whatever arrives at the parent:

- A result belongs to the call that waits for it. Only the worker knows the number of
  the current call; a process that was forked in an earlier one knows an older number.
- Foreign bytes are noticed: before a frame by its number, in its header because the
  two lengths differ, and in its payload because the number does not follow.
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
_HEADER: Final = struct.Struct(f"!c{_NUMBER}sQQ")
#: Payloads below this size, in bytes, are cheaper to copy than to write separately.
_SMALL: Final = 65536
#: The bytes to read at once: of a frame whose length is unknown, and of a large one.
#: The memory is taken before they arrive, so more than there can be only costs time.
_FIRST: Final = 4096
_LARGE: Final = 4 * _SMALL
#: The bytes that a frame may always have: messages of errors are shorter.
_MESSAGE: Final = 1 << 20


class OutOfStep(Exception):
    """The worker has sent something that is not a frame of its call."""


def new_number() -> bytes:
    """Return a number for a call that no other process can guess."""
    return os.urandom(_NUMBER)


def frame_parts(kind: bytes, number: bytes, payload: bytes) -> tuple[bytes, ...]:
    """Return the bytes of a frame, in as many parts as are to be written."""
    header = _HEADER.pack(kind, number, len(payload), len(payload))
    if len(payload) < _SMALL:
        return (header + payload + number,)
    return header, payload, number


class FrameReader:
    """Makes frames of the bytes that a worker sends in the course of one call.

    :param number: of the call.
    :param limit: the bytes of the largest payload, or a megabyte if it is less.
    """

    def __init__(self, number: bytes, limit: int) -> None:
        self._number = number
        self._limit = max(limit, _MESSAGE)
        self._buffer: bytes | bytearray = b""
        #: The length of the frame that begins the buffer; 0 if it is not known yet.
        self._length = 0
        #: The number of bytes to read next, at most.
        self.wanted = _FIRST

    @property
    def is_empty(self) -> bool:
        """True at the end of a frame."""
        return not self._buffer

    def feed(self, data: bytes) -> None:
        """Add bytes that have arrived."""
        if not self._buffer:
            self._buffer = data
        elif isinstance(self._buffer, bytes):
            self._buffer = bytearray(self._buffer) + data
        else:
            self._buffer += data

    def next(self) -> tuple[bytes, memoryview] | None:
        """Return the kind and the payload of the next frame, if all of it is here.

        :raises OutOfStep: these bytes do not belong to the call.
        """
        buffer = self._buffer
        if not buffer:
            return None
        if not self._length:
            self._read_header(buffer)
        length = self._length
        if not length or len(buffer) < length:
            return None
        # The payload stays where it is; what follows it goes to a new buffer.
        self._buffer, self._length, self.wanted = buffer[length:], 0, _FIRST
        frame, end = memoryview(buffer), length - _NUMBER
        if frame[end:length] != self._number:
            raise OutOfStep("other bytes were sent in the middle of a frame")
        return bytes(frame[:1]), frame[_HEADER.size : end]

    def _read_header(self, buffer: bytes | bytearray) -> None:
        """Find the length of the next frame, if all of its header is here."""
        # Check the bytes that have arrived now: the rest may never come.
        known = bytes(buffer[1 : 1 + _NUMBER])
        if buffer[0] not in _FROM_WORKER or not self._number.startswith(known):
            raise OutOfStep(f"it sent {bytes(buffer[:40])!r}, which is not a frame")
        if len(buffer) >= _HEADER.size:
            _, _, size, again = _HEADER.unpack_from(buffer)
            if size != again:
                raise OutOfStep("other bytes were sent in the middle of a frame")
            if size > self._limit:
                raise OutOfStep(
                    f"it announced {size:,} bytes, and the limit is {self._limit:,}"
                )
            self._length = _HEADER.size + size + _NUMBER
            self.wanted = _FIRST if size < _FIRST else _LARGE


class Channel:
    """The worker's end of its connection. It blocks, and believes its parent.

    :param descriptor: of the socket, which the caller owns.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        #: The pid of the worker; a forked child of it has another one.
        self.process = os.getpid()
        #: The number of the call that was received last.
        self._number = bytes(_NUMBER)

    def send(self, kind: bytes, payload: bytes) -> None:
        """Send one frame of the current call.

        Cancellation: ends when the other side is killed.

        :raises OSError: the other side is gone.
        """
        for part in frame_parts(kind, self._number, payload):
            rest: bytes | memoryview = part
            while (sent := os.write(self._descriptor, rest)) < len(rest):
                rest = memoryview(rest)[sent:]

    def receive(self) -> memoryview:
        """Wait for the next frame and return its payload.

        Cancellation: ends when the other side is killed.

        :raises EOFError: the other side is gone.
        :raises OSError: the same.
        """
        # The parent sends one frame, and the next after an answer: there is no more to
        # read than this one.
        data: bytes | bytearray = os.read(self._descriptor, _FIRST)
        while len(data) < _HEADER.size:
            if not data:
                raise EOFError("the other side is gone")
            part = os.read(self._descriptor, _FIRST)
            data = data + part if part else b""
        _, self._number, size, _ = _HEADER.unpack_from(data)
        length = _HEADER.size + size + _NUMBER
        if len(data) < length:
            begin, data = data, bytearray(length)
            data[: len(begin)] = begin
            with memoryview(data) as view:
                got = len(begin)
                while got < length:
                    more = os.readv(self._descriptor, [view[got:]])
                    if more == 0:
                        raise EOFError("the other side is gone")
                    got += more
        return memoryview(data)[_HEADER.size : length - _NUMBER]
