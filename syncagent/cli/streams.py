"""Standard streams whose reads and writes a cancel ends."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

from ..cancel import CancelToken
from ..exceptions import ConfigurationError
from .colours import Paint
from .plain_text import harmless

__all__ = [
    "OutputStream",
    "mend_standard_streams",
    "read_all",
    "read_line",
    "reserve_stdout",
]

#: Bytes that a pipe ready for writing takes without blocking (PIPE_BUF).
_PIECE: Final = 512
#: Seconds after a cancel for a blocked reader to take the rest.
_LAST_CHANCE: Final = 0.5
#: Seconds without input before the user is told that the program waits for it.
_PATIENCE: Final = 1.0
#: Bytes of the longest prompt; no model takes as many.
_MAX_INPUT: Final = 64 * 2**20


class OutputStream:
    """A standard stream, unbuffered.

    Text for a terminal is made harmless. A reader that does not read, such as a pager,
    does not keep the program from ending: after a cancel it has half a second.

    :param descriptor: written to instead of the stream's own.
    """

    def __init__(
        self, stream: TextIO, token: CancelToken, descriptor: int | None = None
    ) -> None:
        self._stream = stream
        self._token = token
        self._descriptor = _descriptor(stream) if descriptor is None else descriptor
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self.is_terminal = self._descriptor is not None and os.isatty(self._descriptor)
        self._paint = Paint(stream, is_terminal=self.is_terminal)
        self._is_given_up = False
        #: True if the last line is complete.
        self.is_at_line_start = True
        #: True if a line was ended since the cancel, that is, after a ^C on the screen.
        self.is_past_cancel = False

    def write(self, text: str, style: str = "", part: str = "") -> None:
        """Write *text*.

        Cancellation: half a second later the rest is dropped.

        :param style: a colour, for a terminal that has colours.
        :param part: the part of the text in that colour; by default all of it.
        :raises OSError: the reader is gone, or the disk is full.
        """
        if not text:
            return
        self.is_at_line_start = text.endswith("\n")
        if self._token.cancelled and "\n" in text:
            self.is_past_cancel = True
        shown = harmless(text) if self.is_terminal else text
        if style and self._paint.is_on:
            part = harmless(part) or shown.strip("\n")
            shown = shown.replace(part, self._paint(part, style), 1)
        if self._descriptor is None:
            self._stream.write(shown)
            self._stream.flush()
        else:
            self._stream.flush()  # text that others have printed came first
            data = shown.encode(self._encoding, "replace")
            while data and self._wait_until_writable(self._descriptor):
                try:
                    data = data[os.write(self._descriptor, data[:_PIECE]) :]
                except BlockingIOError:  # another process has filled the pipe
                    continue

    def is_same_file(self, other: OutputStream) -> bool:
        """Return whether both go to the same file, pipe or terminal."""
        if self._descriptor is None or other._descriptor is None:
            return False
        with suppress(OSError):
            mine, theirs = os.fstat(self._descriptor), os.fstat(other._descriptor)
            return os.path.samestat(mine, theirs)
        return False

    def end_line(self) -> None:
        """Complete the last line."""
        if not self.is_at_line_start:
            self.write("\n")

    def _wait_until_writable(self, descriptor: int) -> bool:
        """Wait until more can be written; return False to drop the rest."""
        if select.select([], [descriptor], [], 0)[1]:
            return True
        if self._is_given_up:
            return False
        with _alarm(self._token) as alarm:
            _, ready, _ = select.select([alarm], [descriptor], [])
        if not ready:
            _, ready, _ = select.select([], [descriptor], [], _LAST_CHANCE)
        self._is_given_up = not ready
        return bool(ready)


def read_all(
    descriptor: int, token: CancelToken, *, on_wait: Callable[[], object]
) -> str:
    """Return all input as text.

    Cancellation: ends at once.

    :param on_wait: called once if no input arrives for a while.
    :raises Cancelled: *token* was cancelled.
    :raises ConfigurationError: the input is longer than any prompt, or unreadable.
    """
    data = bytearray()
    while piece := _read(descriptor, token, on_wait=None if data else on_wait):
        data += piece
        if len(data) > _MAX_INPUT:
            raise ConfigurationError(
                f"standard input has more than {_MAX_INPUT // 2**20} MB; no model "
                "takes as much"
            )
    return data.decode("utf-8-sig", "replace")


def read_line(descriptor: int, token: CancelToken) -> str | None:
    """Return the next line that the user types, None at the end of input.

    Cancellation: ends at once.

    :raises Cancelled: *token* was cancelled.
    """
    data = bytearray()
    while not data.endswith(b"\n"):
        piece = _read(descriptor, token, 1)
        if not piece:
            break
        data += piece
    return data.decode(errors="replace").strip() if data else None


def _read(
    descriptor: int,
    token: CancelToken,
    size: int = 2**16,
    on_wait: Callable[[], object] | None = None,
) -> bytes:
    with _alarm(token) as alarm:
        watched = [descriptor, alarm]
        if on_wait is not None and not select.select(watched, [], [], _PATIENCE)[0]:
            on_wait()
        while True:
            select.select(watched, [], [])
            token.checkpoint()
            try:
                return os.read(descriptor, size)
            except BlockingIOError:  # another process has read it
                continue
            except OSError as error:
                raise ConfigurationError(
                    f"cannot read standard input: {error.strerror}"
                ) from error


@contextmanager
def _alarm(token: CancelToken) -> Iterator[int]:
    """Yield a descriptor that becomes readable once *token* is cancelled."""
    reading, writing = os.pipe()
    try:
        with token.on_cancel(lambda: os.write(writing, b"!")):
            yield reading
    finally:
        os.close(reading)
        os.close(writing)


@contextmanager
def reserve_stdout() -> Iterator[int | None]:
    """Reserve standard output for the caller; other output goes to standard error.

    A tool that prints, a program that it starts, a library that greets: their output is
    not part of the response.

    :return: the descriptor to write the response to, None if it is the stream's own.
    """
    if _descriptor(sys.stdout) != 1 or _descriptor(sys.stderr) != 2:
        yield None  # the caller has redirected them already
        return
    sys.stdout.flush()
    reserved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield reserved
    finally:
        try:
            sys.stdout.flush()
        finally:
            os.dup2(reserved, 1)
            os.close(reserved)


def mend_standard_streams() -> None:
    """Open closed standard streams on the null device.

    Otherwise the next file that the program opens would be its standard output. A
    character that the encoding lacks becomes a question mark instead of an error.
    """
    for descriptor, name, mode in (
        (0, "stdin", "r"),
        (1, "stdout", "w"),
        (2, "stderr", "w"),
    ):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
        if getattr(sys, name) is None:
            stream = os.fdopen(descriptor, mode, encoding="utf-8", closefd=False)
            setattr(sys, name, stream)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None
