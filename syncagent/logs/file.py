"""The rotating file that processes share; imported by ``configure()`` only."""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Callable
from typing import Any

from concurrent_log_handler import ConcurrentRotatingFileHandler

from ..exceptions import ConfigurationError

__all__ = ["RotatingFile"]


class RotatingFile(ConcurrentRotatingFileHandler):
    """A :class:`ConcurrentRotatingFileHandler` that writes whole lines or nothing.

    Its stream is unbuffered: a fork cannot duplicate half-written text, and after a
    failed write no data is left to fail again.

    :param on_error: called with the error when a record could not be written.
    """

    def __init__(
        self,
        path: str,
        *,
        max_bytes: int,
        backups: int,
        formatter: logging.Formatter,
        on_error: Callable[[BaseException], None],
    ) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=backups)
        self.setFormatter(formatter)
        self._on_error = on_error

    def check(self) -> None:
        """Open and close the log file and its lock file, to report errors early.

        :raises ConfigurationError: records could not be written.
        """
        path = self.baseFilename
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError):  # it does not exist yet, or opening it will fail
            mode = stat.S_IFREG
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise ConfigurationError(
                f"cannot log to {path!r}: it is {kind}, and only a regular file can be "
                "rotated; give the path of a file"
            )
        for needed in (path, self.lockFilename):
            try:
                os.close(os.open(needed, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666))
            except (OSError, ValueError) as error:
                raise ConfigurationError(
                    f"cannot log to {path!r}: opening {needed!r} failed ({error}); "
                    "give a file in an existing directory in which this user may "
                    "create files (rotation renames them)"
                ) from error

    def do_open(self, mode: str | None = None) -> Any:
        """Open the log file, unbuffered."""
        return open(self.baseFilename, f"{mode or 'a'}b", buffering=0)

    def do_write(self, msg: str) -> None:
        """Append a line; if the disk takes only a part of it, remove that part."""
        if self.stream is None or self.stream.closed:
            self.stream = self.do_open()
        stream: Any = self.stream
        line = memoryview(f"{msg}\n".encode("utf-8", "backslashreplace"))
        # The lock file is held: no other process changes the size.
        size = os.fstat(stream.fileno()).st_size
        try:
            while line:
                line = line[stream.write(line) :]
        except OSError:
            os.ftruncate(stream.fileno(), size)
            raise

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if error is not None:
            self._on_error(error)

    def close(self) -> None:
        """Do nothing: :func:`logging.shutdown` calls this in the middle of a write."""

    def close_files(self, *, in_child: bool = False) -> None:
        """Close the log file and its lock file.

        :param in_child: true in a forked child, where the lock is the parent's and
            must not be released.
        """
        if in_child:
            self.is_locked = False
        try:
            super().close()
        except (OSError, ValueError):  # the failed write was reported already
            pass
