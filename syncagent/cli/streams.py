"""Reading and writing that a cancel ends, whatever is at the other end."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from ..cancel import CancelToken
from ..exceptions import ConfigurationError
from .plain_text import harmless

__all__ = [
    "OutputStream",
    "mend_standard_streams",
    "read_all",
    "read_line",
    "stdout_kept",
]

#: What can be written to whoever is ready for more, without waiting for him.
_PIECE: Final = 512
#: Seconds that a reader who is asleep has after a cancel, to take what there is.
_LAST_CHANCE: Final = 0.5
#: Seconds for which a pipe may be silent before somebody is told.
_PATIENCE: Final = 1.0
#: Bytes that are read as a prompt; no model takes as many.
_MOST: Final = 64 * 2**20


class OutputStream:
    """One of the standard streams; everything is written at once.

    What goes to a terminal is made harmless. A reader who has fallen asleep, such as a
    pager, keeps nobody from ending: after a cancel he has half a second to go on.

    :param descriptor: in place of the stream's own.
    """

    def __init__(
        self, stream: TextIO, token: CancelToken, descriptor: int | None = None
    ) -> None:
        self._stream = stream
        self._token = token
        self._descriptor = _descriptor(stream) if descriptor is None else descriptor
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self.is_terminal = self._descriptor is not None and os.isatty(self._descriptor)
        self._is_given_up = False
        #: Is the last line of it complete?
        self.is_at_line_start = True
        #: Was a line completed since the cancel? After a ^C on the screen, that is.
        self.is_past_cancel = False

    def write(self, text: str) -> None:
        """Write *text*.

        Cancellation: half a second later what could not be written is dropped.

        :raises OSError: nobody reads it any more, or the disk is full.
        """
        if not text:
            return
        self.is_at_line_start = text.endswith("\n")
        if self._token.cancelled and "\n" in text:
            self.is_past_cancel = True
        shown = harmless(text) if self.is_terminal else text
        if self._descriptor is None:
            self._stream.write(shown)
            self._stream.flush()
        else:
            self._stream.flush()  # what others have printed came first
            self._send(self._descriptor, shown.encode(self._encoding, "replace"))

    def end_line(self) -> None:
        """Complete the last line."""
        if not self.is_at_line_start:
            self.write("\n")

    def _send(self, descriptor: int, data: bytes) -> None:
        while data and self._can_take(descriptor):
            try:
                data = data[os.write(descriptor, data[:_PIECE]) :]
            except BlockingIOError:  # somebody else has filled it up
                continue

    def _can_take(self, descriptor: int) -> bool:
        """Wait until more can be written."""
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
    """Return everything that comes, up to its end.

    Cancellation: ends at once.

    :param on_wait: called once if nothing comes for a while.
    :raises Cancelled: *token* was cancelled.
    :raises ConfigurationError: it is more than any model takes, or cannot be read.
    """
    data = bytearray()
    while piece := _read(descriptor, token, on_wait=None if data else on_wait):
        data += piece
        if len(data) > _MOST:
            raise ConfigurationError(
                f"there are more than {_MOST // 2**20} MB on standard input; no model "
                "takes as many"
            )
    return data.decode("utf-8-sig", "replace")


def read_line(descriptor: int, token: CancelToken) -> str | None:
    """Return the next line that somebody types, ``None`` if there is no more.

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
        both = [descriptor, alarm]
        if on_wait is not None and not select.select(both, [], [], _PATIENCE)[0]:
            on_wait()
        while True:
            select.select(both, [], [])
            token.checkpoint()
            try:
                return os.read(descriptor, size)
            except BlockingIOError:  # somebody else was faster
                continue
            except OSError as error:
                raise ConfigurationError(
                    f"standard input cannot be read: {error.strerror}"
                ) from error


@contextmanager
def _alarm(token: CancelToken) -> Iterator[int]:
    """Give a descriptor that can be read from once *token* is cancelled."""
    alarm, bell = os.pipe()
    try:
        with token.on_cancel(lambda: os.write(bell, b"!")):
            yield alarm
    finally:
        os.close(alarm)
        os.close(bell)


@contextmanager
def stdout_kept() -> Iterator[int | None]:
    """Keep standard output for the caller: what others print goes to standard error.

    A tool that prints, a program that it starts, a library that greets: none of them
    is a part of the answer.

    :return: the descriptor to write the answer to.
    """
    if _descriptor(sys.stdout) != 1 or _descriptor(sys.stderr) != 2:
        yield None  # somebody has redirected them already
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield kept
    finally:
        try:
            sys.stdout.flush()
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def mend_standard_streams() -> None:
    """See to it that there is something to read from and to write to.

    A program may be started with streams that are closed, and the next file that it
    opens would be its standard output. And what an encoding has no character for is
    worth a question mark, and no error.
    """
    for descriptor, name, mode in (
        (0, "stdin", "r"),
        (1, "stdout", "w"),
        (2, "stderr", "w"),
    ):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one
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
