"""Write lines to a file: many at once, and never at the cost of the run."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from io import FileIO
from typing import Any, Final

import msgspec

from ..__version__ import __version__
from .._redaction import MASK, hidden
from ..cancel import clock
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

__all__ = ["RecordingWriter", "spelled"]

_log = logging.getLogger("syncagent.recording")

#: Words that come one by one are written together, if they come this fast, in seconds.
_PATIENCE: Final = 0.25
#: Shorter ones could be anything.
_SHORTEST: Final = 8


class RecordingWriter:
    """One file, which all threads of a run and of its sub-agents write to.

    Any thread adds lines, without a lock; one at a time writes them. A file that cannot
    be written to is given up with one line in the log: the run goes on.

    :param target: a path, or an open file, which is not closed.
    :param is_new: is what a path leads to written anew?
    :param since: from when on its times count, by the monotonic clock.
    """

    def __init__(self, target: Any, *, is_new: bool, since: float) -> None:
        self.since: Final = since
        self._pid = os.getpid()
        self._lines: deque[bytes] = deque()
        #: Whose turn it is to write. The same thread may come in twice, as the
        #: collector may close the stream of another run in the middle.
        self._turn = threading.RLock()
        self._secrets: tuple[bytes, ...] = ()
        #: When what was added is written at the latest, if there is more to add.
        self._due = since
        #: What was opened here, and is closed here; or what was given.
        self._raw: FileIO | None = None
        self._file: Any = None
        self._takes_text = False
        self._is_open = True
        try:
            self._open(target, is_new)
        except Exception as error:
            self._give_up(error)
        self.add(_ENCODER.encode(_header(since)) + b"\n", since)

    def _open(self, target: Any, is_new: bool) -> None:
        if not is_path(target):
            self._takes_text = takes_text(target)
            self._file = target
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if is_new else 0)
        # Nobody else is to read what was said, unless the owner says so.
        self._raw = FileIO(target, "ab", opener=lambda at, _: os.open(at, flags, 0o600))

    def hide(self, secrets: Iterable[str]) -> None:
        """Have *secrets* masked from now on, in whatever is said."""
        forms = {form for each in (*secrets, *hidden()) for form in _forms(each)}
        if not forms.issubset(self._secrets):
            forms.update(self._secrets)
            # The longest first: one that contains another goes as a whole.
            self._secrets = tuple(sorted(forms, key=len, reverse=True))

    def add(self, line: bytes, at: float) -> bool:
        """Add a line, of that time; tell whether it is time to write all of them."""
        self._lines.append(line)
        return at >= self._due

    def flush(self) -> None:
        """Write what was added."""
        if self._pid != os.getpid():  # a forked child has no part in it
            return
        with self._turn:
            self._flush()

    def _flush(self) -> None:
        lines = self._lines
        taken = []
        try:
            while True:  # it may also be emptied in the middle, see above
                taken.append(lines.popleft())
        except IndexError:
            pass
        self._due = clock.now() + _PATIENCE
        if not taken or not self._is_open:
            return
        text = b"".join(taken)
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK.encode())
        try:
            self._write(text)
        except Exception as error:
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
                "the recording stops here, and the run goes on: %s: %s",
                type(error).__name__,
                error,
            )

    def close(self) -> None:
        """Write what is left; safe to do again."""
        self.flush()
        with self._turn:  # not while another thread is in the middle of a line
            self._is_open, self._file = False, None
            if self._raw is not None:
                self._raw.close()

    def __del__(self) -> None:
        # Only when an exception came between the run and its end.
        raw = getattr(self, "_raw", None)
        if raw is not None:
            raw.close()


def spelled(value: Any) -> str:
    """Return something for what JSON has no word for."""
    return repr(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=spelled)


def _header(since: float) -> Header:
    import platform  # here, as most programs never record anything
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
    """Yield how a secret may stand in a line of JSON, itself or in JSON of its own."""
    from urllib.parse import quote

    if len(secret.strip()) < _SHORTEST:
        return
    if secret.replace("_", "a").isalpha() and secret in _words():
        return
    try:
        once = msgspec.json.encode(secret)[1:-1]
    except UnicodeEncodeError:  # then it can stand in no line
        return
    yield once
    yield msgspec.json.encode(once.decode())[1:-1]
    yield quote(secret, safe="").encode()


@lru_cache(maxsize=1)
def _words() -> str:
    """Return all words of the format: a secret that is one of them is none."""
    kinds = (Header, Begin, ToolMoment, CancelledLine, Failure)
    schemas = msgspec.json.schema_components([StreamEvent, *kinds])
    return f"{schemas} {RecordedLine.__struct_fields__}"
