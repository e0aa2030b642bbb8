"""The queue between a run and the disk, and the thread that empties it."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from logging.handlers import QueueHandler
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from ..cancel import clock
from ._process import watch_multiprocessing
from ._record import snapshot
from ._redaction import redact_record

if TYPE_CHECKING:
    from ._file import RotatingFile

__all__ = ["LogHandler", "OnError", "LogWriter"]

_THREAD_NAME = "syncagent-logs"

# Every wait has a bound; an idle writer just waits again.
_IDLE_S = 60.0
_HANDOVER_S = 5.0
_COMPLAINT_EVERY_S = 60.0
_LATE_FLUSH_S = 1.0

OnError = Callable[[BaseException], None]
OpenFile = Callable[[OnError], "RotatingFile"]

# A record to write, an event to set when it is reached, or None: the end.
Item = logging.LogRecord | threading.Event | None


class LogWriter:
    """Writes the records of one set-up to its file, in order, on one daemon thread.

    The thread starts with the first record, so that a server which forks its workers
    does so before there is a thread. :class:`LogHandler` calls :meth:`put` under its
    lock; the writer has none of its own, hence nothing a fork could leave locked.

    :param open_file: makes the file; called anew in a forked child.
    :param limit: how many records may wait.
    :param keeps_extras: whether the file shows the fields of ``extra``.
    """

    def __init__(self, open_file: OpenFile, *, limit: int, keeps_extras: bool) -> None:
        self.keeps_extras = keeps_extras
        self._open_file = open_file
        self._limit = limit
        self._former: threading.Thread | None = None
        self._file: RotatingFile | None = None
        self._begin()

    def _begin(self) -> None:
        self.queue: SimpleQueue[Item] = SimpleQueue()
        #: Set when the process ends: from then on a record is written before the
        #: call returns, since there may be no later.
        self.is_ending = False
        self._is_stopped = False
        self._thread: threading.Thread | None = None
        # Each has one kind of writer: callers (under the handler's lock), the thread.
        self._dropped = 0
        self._failed = 0
        self._reported = 0
        self._quiet_until = float("-inf")

    def follow(self, former: LogWriter) -> None:
        """Begin when *former*, which this one replaces, has written its last record."""
        self._former = former._thread

    @property
    def lost(self) -> int:
        """How many records were dropped or could not be written."""
        return self._dropped + self._failed

    def has_room(self) -> bool:
        """Tell whether a record may be put; if not, count it as lost."""
        if self.queue.qsize() < self._limit:
            return True
        self._dropped += 1
        return False

    def put(self, record: logging.LogRecord) -> None:
        """Queue *record*; never waits, except for a moment while the process ends."""
        self.queue.put(record)
        if self._thread is None:
            self._start()
        if self.is_ending:
            self.flush(_LATE_FLUSH_S)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=_THREAD_NAME, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread to be had, or the interpreter ends: the next record tries
            # again, and flush() or stop() write what waits.
            return
        self._thread = thread
        watch_multiprocessing()

    def flush(self, timeout: float) -> bool:
        """Wait until all that was put is written; return whether it was in time."""
        if self._is_stopped:
            return True
        if self._thread is None:
            return self._drain(timeout)
        reached = threading.Event()
        self.queue.put(reached)
        return reached.wait(timeout)

    def stop(self, timeout: float) -> bool:
        """Write what waits, end the thread, close the file; idempotent.

        :return: whether all that happened within *timeout* seconds.
        """
        thread = self._thread
        if thread is None:
            is_done = self._is_stopped or self._drain(timeout)
            self._finish()
            return is_done
        if not self._is_stopped:
            self.queue.put(None)
        thread.join(timeout)
        if thread.is_alive():
            self._complain(
                f"did not finish within {timeout:g} s; records are unwritten"
            )
        return not thread.is_alive()

    def begin_in_child(self) -> None:
        """Start over in a forked child: what waits belongs to the parent."""
        inherited, self._file = self._file, None
        self._former = None
        self._begin()
        if inherited is not None:
            inherited.forget_lock()
            _close(inherited)

    # From here on: the thread (or, without one, whoever drains).

    def _run(self) -> None:
        queue = self.queue
        if self._former is not None:
            self._former.join(_HANDOVER_S)
            self._former = None
        while True:
            try:
                item = queue.get(timeout=_IDLE_S)
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
                item = self.queue.get_nowait()
            except Empty:
                return True
            if item is not None:
                self._handle(item)
        return False

    def _handle(self, item: logging.LogRecord | threading.Event) -> None:
        if isinstance(item, threading.Event):
            item.set()
            return
        is_written = self._write(item)
        # Not before half of the queue is free: one report for a stall, not hundreds.
        if is_written and self.queue.qsize() <= self._limit // 2:
            self._report_lost()

    def _write(self, record: logging.LogRecord) -> bool:
        failed = self._failed
        try:
            redact_record(record)
            if self._file is None:
                self._file = self._open_file(self._on_error)
            # Not handle(): its lock would be held as long as a disk stalls, and
            # logging.shutdown() waits for that lock without a bound.
            self._file.emit(record)
        except Exception as error:  # the thread survives any record
            self._on_error(error)
        return self._failed == failed

    def _report_lost(self) -> None:
        lost, failed = self.lost, self._failed
        if lost == self._reported:
            return
        count = lost - self._reported
        message = (
            f"{count} log record{' was' if count == 1 else 's were'} lost before this "
            f"line: the queue was full or the disk refused them"
        )
        report = logging.LogRecord(
            "syncagent.logs", logging.WARNING, __file__, 0, message, None, None
        )
        if self._write(report):
            self._reported = lost
        else:
            self._failed = failed  # a report is not a record of the user's

    def _finish(self) -> None:
        if not self._is_stopped:
            self._report_lost()
        self._is_stopped = True
        if self._file is not None:
            _close(self._file)

    def _on_error(self, error: BaseException) -> None:
        self._failed += 1
        self._complain(f"cannot write: {error!r}; records are lost until that ends")

    def _complain(self, trouble: str) -> None:
        """Say on standard error what a log file cannot, once a minute at most."""
        now = clock.now()
        if now < self._quiet_until or not logging.raiseExceptions:
            return
        self._quiet_until = now + _COMPLAINT_EVERY_S
        try:
            sys.stderr.write(f"syncagent.logs: {trouble}\n")
        except (AttributeError, OSError, ValueError):
            pass  # there is no standard error, or it is closed


class LogHandler(QueueHandler):
    """Hands copies of records to a writer, and never waits for it."""

    def __init__(self) -> None:
        super().__init__(SimpleQueue())
        self._writer: LogWriter | None = None

    def use(self, writer: LogWriter | None) -> None:
        """Hand records to *writer* from now on, to nobody if it is ``None``.

        :func:`logging.Handler.handle` holds the lock around :meth:`emit`, therefore
        every record is in exactly one of the two queues when this returns.
        """
        lock = self.lock
        assert lock is not None
        with lock:
            self._writer = writer
            self.queue = SimpleQueue() if writer is None else writer.queue

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a copy of *record*, or count it as lost."""
        if self._writer is not None and self._writer.has_room():
            super().emit(record)

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return a copy that may cross to the writer's thread."""
        assert self._writer is not None
        return snapshot(record, keeps_extras=self._writer.keeps_extras)

    def enqueue(self, record: logging.LogRecord) -> None:
        """Put the copy into the writer's queue."""
        assert self._writer is not None
        self._writer.put(record)


def _close(file: RotatingFile) -> None:
    try:
        file.close_files()
    except (OSError, ValueError):
        pass  # closing reports what writing has reported already
