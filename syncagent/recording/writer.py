"""The file of a recording: lines are written in batches, and never fail the run."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from io import FileIO
from typing import Any, Final, Protocol

import msgspec

from ..__version__ import __version__
from .._redaction import MASK, hidden
from ..cancel import clock
from ..cancel.handler_errors import raised_by_signal_handler
from ..events import StreamEvent
from .lines import (
    FORMAT,
    VERSION,
    Begin,
    CancelledLine,
    Failure,
    Header,
    RecordedLine,
    ToolMoment,
)
from .target import is_path, takes_text

__all__ = ["HasSecrets", "RecordingWriter", "encode_other"]

_log = logging.getLogger("syncagent.recording")

#: Seconds for which small lines wait, to be written together.
_MAX_DELAY: Final = 0.25
#: Length of the shortest secret that is masked; a shorter one could be any word.
_MIN_SECRET: Final = 8


class _OwnFile(FileIO):
    """A file that is closed without a warning if an exception kept us from doing it."""

    # In C: what a signal handler raises in a Python __del__ is lost.
    __del__ = FileIO.close


class HasSecrets(Protocol):
    """The part of a model that a recording needs."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not appear in recordings."""


class RecordingWriter:
    """One file, which all threads of a run and of its sub-agents write to.

    Any thread adds lines, without a lock; one thread at a time writes them. After an
    error nothing more is written: it is logged once, and the run continues.

    :param target: a path, or an open file, which is not closed.
    :param is_new: True to overwrite the file at a path.
    :param since: the monotonic time from which the times of the lines count.
    """

    def __init__(self, target: Any, *, is_new: bool, since: float) -> None:
        self.since: Final = since
        self._pid = os.getpid()
        self._lines: deque[bytes] = deque()
        #: Held by the thread that writes. It is reentrant: in the middle of a write the
        #: collector may close the stream of another run on the same thread.
        self._write_lock = threading.RLock()
        #: Forms of secrets that were passed to hide(), and all that are masked now.
        self._hidden: set[bytes] = set()
        self._secrets: tuple[bytes, ...] = ()
        #: Models, whose secrets may change, and the newest secrets of all of them.
        self._models: tuple[HasSecrets, ...] = ()
        self._keys: tuple[str, ...] = ()
        #: The time at which the next line makes a flush due.
        self._due = since
        #: The file that was opened here, or the one of the caller.
        self._raw: FileIO | None = None
        self._file: Any = None
        self._takes_text = False
        self._is_open = True
        try:
            if is_path(target):
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                flags |= os.O_TRUNC if is_new else 0
                # Only the owner may read a conversation, unless they decide otherwise.
                self._raw = _OwnFile(
                    target, "ab", opener=lambda path, _: os.open(path, flags, 0o600)
                )
            else:
                self._takes_text = takes_text(target)
                self._file = target
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            self._give_up(error)
        self.add(_ENCODER.encode(_header(since)) + b"\n", since)

    def hide(self, secrets: Iterable[str]) -> None:
        """Mask *secrets* in every line from now on."""
        forms = {form for each in (*secrets, *hidden()) for form in _forms(each)}
        if not forms <= self._hidden:
            self._hidden = self._hidden | forms
            self._collect()

    def hide_keys_of(self, model: HasSecrets) -> None:
        """Mask the current secrets of *model* in every line."""
        if not any(each is model for each in self._models):
            self._models = (*self._models, model)
        self.hide(())

    def _collect(self) -> None:
        """Gather all forms of secrets that are masked."""
        forms = {form for each in self._keys for form in _forms(each)}
        # Longest first: a secret that contains another one is masked as a whole.
        self._secrets = tuple(sorted(forms | self._hidden, key=len, reverse=True))

    def add(self, line: bytes, at: float) -> bool:
        """Add a line of the time *at*; return whether a flush is due."""
        self._lines.append(line)
        return at >= self._due

    def flush(self) -> None:
        """Write the lines that were added."""
        if self._pid != os.getpid():  # the file belongs to the parent of a fork
            return
        with self._write_lock:
            lines = []
            try:
                while True:  # a reentrant flush may empty the queue in the middle
                    lines.append(self._lines.popleft())
            except IndexError:
                pass
            self._due = clock.now() + _MAX_DELAY
            if not lines or not self._is_open:
                return
            text = b"".join(lines)
            try:
                keys = tuple(key for model in self._models for key in model.secrets)
                if keys != self._keys:  # one was renewed
                    self._keys = keys
                    self._collect()
                for secret in self._secrets:
                    if secret in text:
                        text = text.replace(secret, MASK.encode())
                self._write(text)
            except Exception as error:
                if raised_by_signal_handler(error):
                    raise
                self._give_up(error)

    def _write(self, text: bytes) -> None:
        if self._file is not None:
            self._file.write(text.decode() if self._takes_text else text)
            flush = getattr(self._file, "flush", None)
            if flush is not None:
                flush()
            return
        while text and self._raw is not None:
            text = text[self._raw.write(text) :]

    def _give_up(self, error: BaseException) -> None:
        if self._is_open:
            self._is_open = False
            _log.warning(
                "the recording stops here, and the run continues: %s: %s",
                type(error).__name__,
                error,
            )

    def close(self) -> None:
        """Write the rest, and close the file if it was opened here; safe to repeat."""
        self.flush()
        with self._write_lock:  # not while another thread is in the middle of a line
            self._is_open, self._file = False, None
            if self._raw is not None:
                self._raw.close()


def encode_other(value: Any) -> str:
    """Return the repr of a value that has no JSON form."""
    return repr(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=encode_other)


def _header(since: float) -> Header:
    import platform  # here: most programs never record anything
    from datetime import datetime, timezone

    ago = clock.now() - since
    wall = datetime.now(timezone.utc).timestamp() - ago
    return Header(
        syncagent=FORMAT,
        version=VERSION,
        started=datetime.fromtimestamp(wall, timezone.utc).isoformat(),
        sdk=__version__,
        python=platform.python_version(),
        pid=os.getpid(),
    )


def _forms(secret: str) -> Iterable[bytes]:
    """Yield the forms of a secret in a line: in JSON, in nested JSON, in a URL."""
    from urllib.parse import quote

    if len(secret.strip()) < _MIN_SECRET:
        return
    if secret.replace("_", "a").isalpha() and secret in _format_words():
        return
    try:
        once = msgspec.json.encode(secret)[1:-1]
    except UnicodeEncodeError:  # then no line can contain it
        return
    yield once
    yield msgspec.json.encode(once.decode())[1:-1]
    yield quote(secret, safe="").encode()


@lru_cache(maxsize=1)
def _format_words() -> str:
    """Return all names of the format; masking one of them would break the file."""
    kinds = (Header, Begin, ToolMoment, CancelledLine, Failure)
    schemas = msgspec.json.schema_components([StreamEvent, *kinds])
    return f"{schemas} {RecordedLine.__struct_fields__}"
