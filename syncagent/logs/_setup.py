"""``configure()``: check the settings, put a handler on the logger, keep it alive."""

from __future__ import annotations

import logging
import os
import threading
from types import TracebackType

from ..cancel import clock
from ..exceptions import ConfigurationError
from ._format import JsonFormatter, TextFormatter
from ._process import on_process_events
from ._writer import LogHandler, LogWriter, OnError

__all__ = ["LogSetup", "configure"]

_STOP_S = 5.0


class LogSetup:
    """What :func:`configure` set up; a context manager that stops it at the end."""

    def __init__(
        self, path: str, logger: logging.Logger, handler: LogHandler, writer: LogWriter
    ) -> None:
        self.path = path
        self._logger = logger
        self._handler = handler
        self._writer = writer
        self._level_before = self._level_set = logger.level

    def __repr__(self) -> str:
        return f"<LogSetup {self._logger.name!r} -> {self.path!r}>"

    def __enter__(self) -> LogSetup:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def lost(self) -> int:
        """How many records were lost to a disk that stalled or refused them."""
        return self._writer.lost

    def flush(self, timeout: float = _STOP_S) -> bool:
        """Wait until everything logged so far is in the file.

        Cancellation: none, the wait is bounded by *timeout*.

        :return: whether it got there within *timeout* seconds.
        """
        return self._writer.flush(timeout)

    def stop(self, timeout: float = _STOP_S) -> bool:
        """Take the handler off the logger, write what waits, close the file.

        May be called more than once. Only if the disk stalls for longer than *timeout*
        does the thread outlive the call; it ends when the disk answers.

        Cancellation: none, the wait is bounded by *timeout*.

        :return: whether everything was written within *timeout* seconds.
        """
        with _lock:
            if _setups.get(self._logger.name) is self:
                del _setups[self._logger.name]
                self._logger.removeHandler(self._handler)
                if self._logger.level == self._level_set:
                    self._logger.setLevel(self._level_before)
                self._handler.use(None)
        return self._writer.stop(timeout)

    def _take_over(self, former: LogSetup | None, level: int) -> None:
        """Become the set-up of the logger, in place of *former* if there is one."""
        if former is not None:
            self._writer.follow(former._writer)
            if self._logger.level == former._level_set:
                self._level_before = former._level_before
        self._handler.setLevel(level)
        self._handler.use(self._writer)
        self._level_set = self._level_for(level)
        self._logger.setLevel(self._level_set)
        self._logger.addHandler(self._handler)

    def _level_for(self, level: int) -> int:
        """Return what lets *level* pass the logger, and all that passed before."""
        before, parent = self._level_before, self._logger.parent
        effective = before or (parent.getEffectiveLevel() if parent else 0)
        return max(level, 1) if level < effective else before

    def _begin_in_child(self) -> None:
        self._writer.begin_in_child()
        self._handler.use(self._writer)

    def _begin_to_end(self, timeout: float) -> None:
        self._writer.is_ending = True
        self._writer.flush(timeout)


# The live set-ups, by logger name. The lock is held for moments, never while waiting.
_setups: dict[str, LogSetup] = {}
_lock = threading.Lock()


def configure(
    path: str | os.PathLike[str],
    *,
    level: str | int = "INFO",
    json: bool = False,
    max_bytes: int = 10 * 1024 * 1024,
    backups: int = 5,
    queue_size: int = 10_000,
    logger: str = "syncagent",
) -> LogSetup:
    """Log to a file that rotates and that any number of processes may share.

    Records go through a queue to a thread of their own: no run waits for the disk.
    Called again for the same logger, it replaces the former set-up; every record ends
    up in exactly one of the two files.

    Cancellation: opens the file on the calling thread, and waits at most five seconds
    for a set-up that it replaces.

    :param path: the file; its directory must exist. All processes that share it must
        use the same *max_bytes* and *backups*.
    :param level: the lowest level to write, by name or by number. The logger's own
        level is lowered if needed, and restored by :meth:`LogSetup.stop`.
    :param json: write JSON lines instead of text.
    :param max_bytes: rotate when the file has reached this size; 0 means never.
    :param backups: how many rotated files to keep (``path.1`` is the newest); with 0
        a full file starts from empty.
    :param queue_size: how many records may wait for the disk; further ones are
        dropped, counted, and reported in the file.
    :param logger: the name of the logger to listen to, with all below it.
    :raises ConfigurationError: if a setting cannot work, or the file cannot be opened.
    """
    file_path = _checked_path(path)
    threshold = _checked_level(level)
    _check_count("max_bytes", max_bytes, lowest=0)
    _check_count("backups", backups, lowest=0)
    _check_count("queue_size", queue_size, lowest=1)
    if not isinstance(logger, str):
        raise TypeError(f"logger must be the name of a logger, not {logger!r}")

    from ._file import RotatingFile

    def open_file(on_error: OnError) -> RotatingFile:
        return RotatingFile(
            file_path,
            max_bytes=max_bytes,
            backups=backups,
            formatter=JsonFormatter() if json else TextFormatter(),
            on_error=on_error,
        )

    open_file(_ignore).check()
    writer = LogWriter(open_file, limit=queue_size, keeps_extras=bool(json))
    return _install(file_path, logging.getLogger(logger), writer, threshold)


def _install(
    path: str, logger: logging.Logger, writer: LogWriter, level: int
) -> LogSetup:
    with _lock:
        former = _setups.get(logger.name)
        handler = LogHandler() if former is None else former._handler
        setup = LogSetup(path, logger, handler, writer)
        setup._take_over(former, level)
        _setups[logger.name] = setup
    if former is not None:
        former.stop()
    return setup


def _ignore(error: BaseException) -> None:
    """Take the errors of a file that is only tried."""


def _checked_path(path: str | os.PathLike[str]) -> str:
    given = os.fspath(path)  # a TypeError for what is no path
    if not isinstance(given, str):
        raise TypeError(f"path must be a str or a path of str, not {path!r}")
    if not given:
        raise ConfigurationError(
            "path is empty, so there is no file to log to; give the path of a file"
        )
    return os.path.abspath(given)


def _checked_level(level: str | int) -> int:
    if isinstance(level, bool) or not isinstance(level, (str, int)):
        raise TypeError(f"level must be a name or a number, not {level!r}")
    number = logging.getLevelName(level.upper()) if isinstance(level, str) else level
    if not isinstance(number, int) or number < 0:
        raise ConfigurationError(
            f"level {level!r} is unknown to the logging module; use DEBUG, INFO, "
            f"WARNING, ERROR, CRITICAL, a name added by addLevelName(), or a number"
        )
    return number


def _check_count(name: str, value: int, *, lowest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {value!r}")
    if value < lowest:
        raise ConfigurationError(
            f"{name} is {value}, which makes no sense; use {lowest} or more"
        )


def _in_forked_child() -> None:
    global _lock
    _lock = threading.Lock()
    for setup in _setups.values():
        setup._begin_in_child()


def _at_end_of_child() -> None:
    deadline = clock.now() + _STOP_S
    for setup in list(_setups.values()):
        setup._begin_to_end(max(deadline - clock.now(), 0))


def _at_exit() -> None:
    deadline = clock.now() + _STOP_S
    for setup in list(_setups.values()):
        setup.stop(max(deadline - clock.now(), 0))


on_process_events(
    in_forked_child=_in_forked_child,
    at_end_of_child=_at_end_of_child,
    at_exit=_at_exit,
)
