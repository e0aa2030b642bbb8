"""The queue between a run and the disk, and the thread that empties it.

Why not a :class:`logging.handlers.QueueListener`: its ``stop()`` waits for the disk
without a bound, its thread holds the lock of the file handler during a write (on which
:func:`logging.shutdown` would then wait), and it cannot bound its queue or report
losses.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from logging.handlers import QueueHandler
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from ..cancel import clock
from .records import redact_record, snapshot

if TYPE_CHECKING:
    from .file import RotatingFile

__all__ = ["LogHandler", "LogWriter", "OnError"]

_THREAD_NAME: Final = "syncagent-logs"
# Every wait has a bound; an idle writer just waits again.
_IDLE_S: Final = 60.0
_HANDOVER_S: Final = 5.0
_COMPLAINT_EVERY_S: Final = 60.0
_LATE_FLUSH_S: Final = 1.0

OnError = Callable[[BaseException], None]


class LogWriter:
    """Writes the records of one set-up to its file, in order, on one daemon thread.

    The thread starts with the first record, so that a server forks its workers before
    there is a thread. :class:`LogHandler` calls :meth:`put` under its lock; the writer
    has no lock of its own that a fork could leave locked.

    :param open_file: opens the file.
    :param limit: the number of records that may wait.
    :param keeps_extras: true if the file shows the fields of ``extra``.
    :param on_start: called when the thread has started.
    """

    def __init__(
        self,
        open_file: Callable[[OnError], RotatingFile],
        *,
        limit: int,
        keeps_extras: bool,
        on_start: Callable[[], object],
    ) -> None:
        self.keeps_extras = keeps_extras
        #: Set when the process ends: from then on a record is written before the call
        #: returns, because there may be no later.
        self.is_ending = False
        self._open_file = open_file
        self._limit = limit
        self._on_start = on_start
        # Items are records to write, or functions to call when their turn comes; None
        # ends the thread.
        self._queue: SimpleQueue[logging.LogRecord | Callable[[], object] | None] = (
            SimpleQueue()
        )
        self._thread: threading.Thread | None = None
        self._former: threading.Thread | None = None
        self._is_stopped = False
        self._file: RotatingFile | None = None
        # Each has one kind of writer: callers (under the handler's lock), the thread.
        self._dropped = 0
        self._failed = 0
        self._reported = 0
        self._quiet_until = float("-inf")

    def in_child(self) -> LogWriter:
        """Return a new writer for a forked child: waiting records are the parent's."""
        if self._file is not None:
            self._file.close_files(in_child=True)
        return LogWriter(
            self._open_file,
            limit=self._limit,
            keeps_extras=self.keeps_extras,
            on_start=self._on_start,
        )

    def start_after(self, former: LogWriter) -> None:
        """Write nothing before *former*, which this one replaces, has finished."""
        self._former = former._thread

    @property
    def lost(self) -> int:
        """The number of records that were dropped or could not be written."""
        return self._dropped + self._failed

    def has_room(self) -> bool:
        """True if a record may be put; otherwise count it as lost."""
        if self._queue.qsize() < self._limit:
            return True
        self._dropped += 1
        return False

    def put(self, record: logging.LogRecord) -> None:
        """Queue *record*; never waits, except for a moment while the process ends."""
        self._queue.put(record)
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=_THREAD_NAME, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # No thread can start: the next record tries again, and flush() or
                # stop() write the records on the caller's thread.
                pass
            else:
                self._thread = thread
                self._on_start()
        if self.is_ending:
            self.flush(_LATE_FLUSH_S)

    def flush(self, timeout: float) -> bool:
        """Wait until all records so far are written; false if that takes too long."""
        if self._is_stopped:
            return True
        if self._thread is None:
            return self._drain(timeout)
        reached = threading.Event()
        self._queue.put(reached.set)
        return reached.wait(timeout)

    def stop(self, timeout: float) -> bool:
        """Write the waiting records, end the thread, close the file; idempotent.

        :return: false if that takes longer than *timeout* seconds.
        """
        thread = self._thread
        if thread is None:
            is_done = self._is_stopped or self._drain(timeout)
            self._finish()
            return is_done
        if not self._is_stopped:
            self._queue.put(None)
        thread.join(timeout)
        if thread.is_alive():
            self._complain(
                f"did not finish within {timeout:g} s; records are unwritten"
            )
        return not thread.is_alive()

    # The rest runs on the thread or, without one, on the caller's in _drain().

    def _run(self) -> None:
        if self._former is not None:
            self._former.join(_HANDOVER_S)
            self._former = None
        while True:
            try:
                item = self._queue.get(timeout=_IDLE_S)
            except Empty:
                continue
            if item is None:
                break
            self._handle(item)
        self._finish()

    def _drain(self, timeout: float) -> bool:
        deadline = clock.now() + timeout
        while clock.now() < deadline:
            try:
                item = self._queue.get_nowait()
            except Empty:
                return True
            if item is not None:
                self._handle(item)
        return False

    def _handle(self, item: logging.LogRecord | Callable[[], object]) -> None:
        if not isinstance(item, logging.LogRecord):
            item()
        # Only when half of the queue is free: one report for a stall, not hundreds.
        elif self._write(item) and self._queue.qsize() <= self._limit // 2:
            self._report_lost()

    def _write(self, record: logging.LogRecord) -> bool:
        failed = self._failed
        try:
            redact_record(record)
            if self._file is None:
                self._file = self._open_file(self._on_error)
            # Not handle(): it would hold the handler's lock while the disk stalls, and
            # logging.shutdown() waits for that lock without a bound.
            self._file.emit(record)
        except Exception as error:  # the thread survives any record
            self._on_error(error)
        return self._failed == failed

    def _report_lost(self) -> None:
        lost, failed = self.lost, self._failed
        count = lost - self._reported
        if not count:
            return
        message = (
            f"{count} log record{' was' if count == 1 else 's were'} lost before this "
            "line: the queue was full or the disk refused them"
        )
        report = logging.LogRecord(
            "syncagent.logs", logging.WARNING, __file__, 0, message, None, None
        )
        if self._write(report):
            self._reported = lost
        else:
            self._failed = failed  # a lost report is not a lost record

    def _finish(self) -> None:
        if not self._is_stopped:
            self._report_lost()
        self._is_stopped = True
        if self._file is not None:
            self._file.close_files()

    def _on_error(self, error: BaseException) -> None:
        self._failed += 1
        self._complain(f"cannot write: {error!r}; records are lost until that ends")

    def _complain(self, problem: str) -> None:
        """Report a problem on standard error, at most once a minute."""
        now = clock.now()
        if now < self._quiet_until or not logging.raiseExceptions:
            return
        self._quiet_until = now + _COMPLAINT_EVERY_S
        try:
            sys.stderr.write(f"syncagent.logs: {problem}\n")
        except (AttributeError, OSError, ValueError):
            pass  # there is no standard error, or it is closed


class LogHandler(QueueHandler):
    """Passes copies of records to a writer, and never waits for it."""

    def __init__(self) -> None:
        super().__init__(SimpleQueue())  # not used: each writer has its own
        self._writer: LogWriter | None = None

    def use(self, writer: LogWriter | None) -> None:
        """Pass further records to *writer*, or drop them if it is ``None``.

        :func:`logging.Handler.handle` holds the lock around :meth:`emit`: when this
        returns, every record is in exactly one of the two queues.
        """
        lock = self.lock
        assert lock is not None
        with lock:
            self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a copy of *record*, or count it as lost."""
        if self._writer is not None and self._writer.has_room():
            super().emit(record)

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return a copy for the writer's thread."""
        assert self._writer is not None
        return snapshot(record, keeps_extras=self._writer.keeps_extras)

    def enqueue(self, record: logging.LogRecord) -> None:
        """Put the copy into the writer's queue."""
        assert self._writer is not None
        self._writer.put(record)
