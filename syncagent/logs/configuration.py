"""``configure()``: check the settings, add a handler to the logger, follow forks."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from .._forks import in_child
from ..cancel import clock
from ..exceptions import ConfigurationError
from .format import JsonFormatter, TextFormatter
from .writer import LogHandler, LogWriter, OnError

__all__ = ["LogSetup", "configure"]

_STOP_S = 5.0


class LogSetup:
    """The set-up made by :func:`configure`; a context manager that stops it."""

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
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def lost(self) -> int:
        """The number of records lost because the disk stalled or refused them."""
        return self._writer.lost

    def flush(self, timeout: float = _STOP_S) -> bool:
        """Wait until everything logged so far is in the file.

        Cancellation: none; the wait is bounded by *timeout*.

        :return: false if that takes longer than *timeout* seconds.
        """
        return self._writer.flush(timeout)

    def stop(self, timeout: float = _STOP_S) -> bool:
        """Remove the handler from the logger, write all records, close the file.

        May be called more than once. If the disk stalls for longer than *timeout*, the
        thread outlives the call; it ends when the disk responds.

        Cancellation: none; the wait is bounded by *timeout*.

        :return: false if not everything was written within *timeout* seconds.
        """
        with _lock:
            if _setups.get(self._logger.name) is self:
                del _setups[self._logger.name]
                self._logger.removeHandler(self._handler)
                if self._logger.level == self._level_set:
                    self._logger.setLevel(self._level_before)
                self._handler.use(None)
        return self._writer.stop(timeout)


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
    """Log to a rotating file that any number of processes may share.

    Records go through a queue to a thread: no run waits for the disk. A second call
    for the same logger replaces the first set-up; every record is written to exactly
    one of the two files.

    Cancellation: opens the file on the calling thread, and waits at most five seconds
    for a set-up that it replaces.

    :param path: the file; its directory must exist. All processes that share it must
        use the same *max_bytes* and *backups*.
    :param level: the lowest level to write, by name or by number. The logger's own
        level is lowered if needed, and restored by :meth:`LogSetup.stop`.
    :param json: write JSON lines instead of text.
    :param max_bytes: rotate when the file has reached this size; 0 means never.
    :param backups: the number of rotated files to keep (``path.1`` is the newest);
        with 0 a full file is emptied.
    :param queue_size: the number of records that may wait for the disk; further ones
        are dropped, counted, and reported in the file.
    :param logger: the name of the logger; the loggers below it are included.
    :raises ConfigurationError: a setting is invalid, or the file cannot be opened.
    """
    file_path = _checked_path(path)
    threshold = _checked_level(level)
    _check_count("max_bytes", max_bytes, minimum=0)
    _check_count("backups", backups, minimum=0)
    _check_count("queue_size", queue_size, minimum=1)
    if not isinstance(logger, str):
        raise TypeError(f"logger must be the name of a logger, not {logger!r}")

    from .file import RotatingFile

    def open_file(on_error: OnError) -> RotatingFile:
        return RotatingFile(
            file_path,
            max_bytes=max_bytes,
            backups=backups,
            formatter=JsonFormatter() if json else TextFormatter(),
            on_error=on_error,
        )

    open_file(lambda error: None).check()
    writer = LogWriter(
        open_file,
        limit=queue_size,
        keeps_extras=bool(json),
        on_start=_watch_multiprocessing,
    )
    return _install(file_path, logging.getLogger(logger), writer, threshold)


def _install(
    path: str, logger: logging.Logger, writer: LogWriter, level: int
) -> LogSetup:
    """Make a set-up for the logger, in place of the former one if there is one."""
    with _lock:
        former = _setups.get(logger.name)
        handler = LogHandler() if former is None else former._handler
        setup = LogSetup(path, logger, handler, writer)
        if former is not None:
            writer.start_after(former._writer)
            if logger.level == former._level_set:
                setup._level_before = former._level_before
        handler.setLevel(level)
        handler.use(writer)
        # Lower the level of the logger if it would hold back records of this level.
        before, parent = setup._level_before, logger.parent
        effective = before or (parent.getEffectiveLevel() if parent else 0)
        setup._level_set = max(level, 1) if level < effective else before
        logger.setLevel(setup._level_set)
        logger.addHandler(handler)
        _setups[logger.name] = setup
    if former is not None:
        former.stop()
    return setup


def _checked_path(path: str | os.PathLike[str]) -> str:
    file_path = os.fspath(path)  # raises TypeError for other types
    if not isinstance(file_path, str):
        raise TypeError(f"path must be a str or a path of str, not {path!r}")
    if not file_path:
        raise ConfigurationError("path is empty; give the path of a log file")
    return os.path.abspath(file_path)


def _checked_level(level: str | int) -> int:
    if isinstance(level, bool) or not isinstance(level, (str, int)):
        raise TypeError(f"level must be a name or a number, not {level!r}")
    number = logging.getLevelName(level.upper()) if isinstance(level, str) else level
    if not isinstance(number, int) or number < 0:
        raise ConfigurationError(
            f"level {level!r} is unknown to the logging module; use DEBUG, INFO, "
            "WARNING, ERROR, CRITICAL, a name added by addLevelName(), or a number"
        )
    return number


def _check_count(name: str, value: int, *, minimum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {value!r}")
    if value < minimum:
        raise ConfigurationError(f"{name} must be at least {minimum}; got {value}")


# -- forks and ends of processes ---------------------------------------------------

#: Below the priorities of others, so that records of their finalizers are written too.
_LAST: Final = -100
#: The finalizer of this process, and whether it is registered again after a fork.
_finalizer: Any = None
_is_watching = False


def _watch_multiprocessing() -> None:
    """Write the last records of a :mod:`multiprocessing` child.

    Such a child may leave through ``os._exit()`` without running :mod:`atexit`. It
    discards its parent's finalizers when it starts to work, which can be after it has
    logged (a module may configure logging when it is imported): then the finalizer is
    registered again.
    """
    global _is_watching
    util = sys.modules.get("multiprocessing.util")
    if util is None:
        return
    if not _is_watching:
        _is_watching = True
        util.register_after_fork(_flush_at_end_of_child, _register_finalizer)
    _register_finalizer(_flush_at_end_of_child)


def _register_finalizer(finalize: Callable[[], None]) -> None:
    global _finalizer
    if _finalizer is None or not _finalizer.still_active():
        util = sys.modules["multiprocessing.util"]
        _finalizer = util.Finalize(None, finalize, exitpriority=_LAST)


def _flush_at_end_of_child() -> None:
    deadline = clock.now() + _STOP_S
    for setup in list(_setups.values()):
        setup._writer.is_ending = True
        setup.flush(max(deadline - clock.now(), 0))


@atexit.register
def _stop_at_exit() -> None:
    deadline = clock.now() + _STOP_S
    for setup in list(_setups.values()):
        setup.stop(max(deadline - clock.now(), 0))


@in_child
def _start_again_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    for setup in _setups.values():
        setup._writer = setup._writer.in_child()
        setup._handler.use(setup._writer)
