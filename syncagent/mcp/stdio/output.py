"""Outputs of a server: lines of messages, and the tail of its error output."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["ErrorTail", "LineReader", "LineTooLong"]

_log = logging.getLogger("syncagent.mcp")

#: Bytes of the error output that are kept for error messages.
_TAIL: Final = 8192
#: The longest line of the error output that is logged, in bytes.
_LOGGED: Final = 2000


class LineTooLong(Exception):
    """A line is longer than any message may be."""


class LineReader:
    """Cut an output into lines, however it arrives.

    The work per byte does not depend on the length of a line.

    :param limit: the longest line allowed, in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that end in *data*, without empty ones.

        :raises LineTooLong: the next one is longer than allowed.
        """
        *lines, rest = data.split(b"\n")
        if lines and self._pieces:
            lines[0] = b"".join([*self._pieces, lines[0]])
            self._pieces.clear()
        if lines:
            self._size = 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > self._limit or any(len(line) > self._limit for line in lines):
            raise LineTooLong
        return [line for line in lines if line.strip()]


class ErrorTail:
    """The last bytes of an error output; its lines go to the log at level DEBUG.

    Error output is not a sign of failure: servers log there.

    :param server: the name of the server, for the log.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._tail = bytearray()
        self._line = bytearray()

    def feed(self, data: bytes) -> None:
        """Add output."""
        self._tail += data
        del self._tail[:-_TAIL]
        if not _log.isEnabledFor(logging.DEBUG):
            return
        *lines, rest = (bytes(self._line) + data).split(b"\n")
        self._line = bytearray(rest[:_LOGGED])
        for line in lines:
            text = line[:_LOGGED].decode("utf-8", "replace").rstrip()
            _log.debug("%s wrote to its error output: %s", self._server, text)

    @property
    def text(self) -> str:
        """The tail as text, with control characters made visible."""
        text = bytes(self._tail).decode("utf-8", "replace").strip()
        return "".join(
            letter
            if letter.isprintable() or letter == "\n"
            else f"\\x{ord(letter):02x}"
            for letter in text.replace("\r\n", "\n").replace("\t", "    ")
        )
