"""The daemon threads of the SDK: one runs callbacks, one keeps time.

Guarantees:

- Both threads are made when they are first needed, never at import, and never keep the
  interpreter from exiting.
- ``submit()``, ``post()`` and ``Bell.ring()``, the only calls on the way of a cancel,
  take no lock.
- The timer thread never blocks and never logs: a log handler that hangs cannot delay a
  deadline.
- A callback that hangs delays the others by about :data:`PATIENCE` seconds.
- A forked child starts with fresh services; the threads, runs and sockets of its parent
  are not touched.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import sys
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from .._forks import in_child
from . import clock
from .links import Bell
from .once import start_thread

if TYPE_CHECKING:
    from .claim import RunClaim
    from .token import CancelToken

T = TypeVar("T")

_log = logging.getLogger("syncagent.cancel")

#: How long a thread waits for work before it checks whether it is still in use, in
#: seconds.
_IDLE: Final = 60.0
#: How long a callback may take before the others continue without it, in seconds.
PATIENCE: Final = 1.0
#: How many new timers may wait unsorted before the timer thread is woken for them.
_INBOX: Final = 1000


class ServiceThread:
    """A daemon thread that is made when it is first needed, and then stays."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        # Never taken by cancel(). Re-entrant, because a signal handler may come here
        # while the thread that it interrupted is here.
        self._starting = threading.RLock()

    def ensure_thread(self) -> None:
        """Start the thread unless it is running."""
        if not self._is_running():
            with self._starting:
                if not self._is_running():
                    self._start()

    def _is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def retire(self) -> None:
        """Have the thread end after its current work; a forked child has its own."""
        self._thread = None

    def _start(self) -> None:
        before = self._thread
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._thread = thread
        try:
            start_thread(thread)
        except RuntimeError:  # the system refuses another thread
            self._thread = before
            raise
        # Any other exception is a signal handler's, and the thread may be running. It
        # stays ours. If it is not running yet, the next caller makes another thread,
        # and this one sees that it is no longer current and ends.

    def _is_current(self) -> bool:
        return self._thread is threading.current_thread()

    def _work(self) -> None:
        raise NotImplementedError


class Timer(ServiceThread):
    """Call methods at given times.

    Their owners are held weakly: a token with a deadline an hour away is freed with
    its last user.

    :param report: runs a function that writes to the log, on another thread.
    """

    def __init__(self, report: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("syncagent-timer")
        self._report = report
        self._inbox: deque[_Entry] = deque()
        # The heap and the count of living entries belong to the timer thread alone.
        self._heap: list[_Entry] = []
        self._alive = 0
        self._numbers = itertools.count()
        self._bell = Bell()
        # When the thread will wake by itself: minus infinity while it is awake and
        # about to look into the inbox anyway.
        self._wakes_at = -math.inf

    def call_at(self, when: float, method: Callable[[T], object], owner: T) -> None:
        """Call *method* of *owner* at a monotonic time; it must not block."""
        self.post(when, method, owner)
        self.ensure_thread()

    def post(self, when: float, method: Callable[[T], object], owner: T) -> None:
        """Do the same where no thread may be started: in a cancel. Takes no lock."""
        # No WeakMethod: it has a callback in Python, which would swallow the exception
        # of a signal handler.
        self._inbox.append((when, next(self._numbers), weakref.ref(owner), method))
        if when < self._wakes_at or len(self._inbox) >= _INBOX:
            self.look_again()

    def look_again(self) -> None:
        """Look at the clock now, as it may have been changed."""
        self._bell.ring()

    def _work(self) -> None:
        while self._is_current():
            # Publish first, then look: an entry is either in the inbox by now, or its
            # maker will see when we mean to wake and ring the new bell if need be.
            bell = self._bell = Bell()
            next_at = self._heap[0][0] if self._heap else math.inf
            self._wakes_at = min(next_at, clock.now() + _IDLE)
            if not self._inbox:
                bell.wait(self._wakes_at)
            self._wakes_at = -math.inf
            self._sort_inbox()
            self._call_due()

    def _sort_inbox(self) -> None:
        while self._inbox:
            heapq.heappush(self._heap, self._inbox.popleft())
        # Entries of dead owners are removed in bulk, at a constant cost per entry.
        if len(self._heap) > 2 * self._alive + _INBOX:
            self._heap = [entry for entry in self._heap if entry[2]() is not None]
            heapq.heapify(self._heap)
            self._alive = len(self._heap)

    def _call_due(self) -> None:
        while self._heap and self._heap[0][0] <= clock.now():
            _, _, ref, method = heapq.heappop(self._heap)
            owner = ref()
            if owner is None:
                continue
            try:
                method(owner)
            except BaseException as error:
                message = "a timer raised; the others continue"
                self._report(partial(_log.error, message, exc_info=error))
            del owner  # do not keep it alive until the next one is due


_Entry = tuple[float, int, "weakref.ref[Any]", Callable[[Any], object]]


class Job(Protocol):
    """Work for the callback thread."""

    def run(self) -> None: ...

    def describe(self) -> str: ...


class _Report:
    """A log record to be written; a log handler may block like a callback."""

    def __init__(self, write: Callable[[], None]) -> None:
        self.run = write

    def describe(self) -> str:
        return "a report"


class CallbackThread(ServiceThread):
    """Run user callbacks one after the other, never on the canceller's thread.

    A callback that takes longer than :data:`PATIENCE` is reported and left behind on
    its thread; a new thread runs the rest.
    """

    def __init__(self, timer: Timer) -> None:
        super().__init__("syncagent-cancel")
        self._timer = timer
        # SimpleQueue.put() is re-entrant: cancel() calls it in signal handlers.
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._running: tuple[Job, float] | None = None
        #: True while the timer holds an entry for _look().
        self._is_watched = False

    def submit(self, job: Job) -> None:
        """Run *job* after those before it. Takes no lock."""
        self._jobs.put(job)

    def report(self, write: Callable[[], None]) -> None:
        """Call *write*, which logs something, on the callback thread."""
        self.submit(_Report(write))
        with suppress(RuntimeError):  # no thread now; the next call tries again
            self.ensure_thread()

    def _work(self) -> None:
        while self._is_current():
            try:
                job = self._jobs.get(timeout=_IDLE)
            except Empty:
                continue
            self._run(job)
            del job  # do not keep the callback alive until the next one comes

    def _run(self, job: Job) -> None:
        running = self._running = (job, clock.now())  # publish first, then look
        if not self._is_watched:
            self._watch(running)
        try:
            job.run()
        except BaseException:
            _log.exception("%s raised; the next one runs", job.describe())
        # If it is another's, this thread was left behind and has come back late.
        if self._running is running:
            self._running = None

    def _watch(self, running: tuple[Job, float]) -> None:
        try:
            self._timer.call_at(running[1] + PATIENCE, CallbackThread._look, self)
        except RuntimeError:
            # No timer thread can be started. Better unwatched than not run.
            return
        self._is_watched = True

    def _look(self) -> None:
        # Publish first, then look: a job that begins from here on is watched anew.
        self._is_watched = False
        running = self._running
        if running is None:
            return
        if clock.now() < running[1] + PATIENCE:
            self._watch(running)
        else:
            self._leave_behind(*running)

    def _leave_behind(self, job: Job, started: float) -> None:
        seconds = clock.now() - started
        with self._starting:
            stuck = self._thread
            assert stuck is not None
            self._running = None
            stuck.name += "-stuck"
            try:
                self._start()
            except RuntimeError:  # it runs the rest if it ever returns
                stuck.name = self._name
                raise
        if not isinstance(job, _Report):  # else the log itself is stuck
            self.report(partial(_log_stuck, job, seconds, stuck))


def _log_stuck(job: Job, seconds: float, stuck: threading.Thread) -> None:
    frame = sys._current_frames().get(stuck.ident or 0)
    stack = "  (it has just ended)"
    if frame is not None:
        stack = "".join(traceback.format_stack(frame)).rstrip()
    _log.warning(
        "%s has not returned for %.1f s; the others continue without it. A cancel "
        "callback should only set, close or interrupt something. It is at:\n%s",
        *(job.describe(), seconds, stack),
    )


class Services:
    """The threads of this process, its live runs, and the tokens with resources."""

    def __init__(self) -> None:
        self.timer = Timer(self._report)
        self.callbacks = CallbackThread(self.timer)
        #: Live runs in the order in which they began.
        self.runs: dict[weakref.ref[RunClaim], None] = {}
        self._tokens: dict[weakref.ref[CancelToken], None] = {}

    def start_threads(self) -> None:
        """Start both threads unless they are running."""
        self.timer.ensure_thread()
        self.callbacks.ensure_thread()

    def enrol(self, token: CancelToken) -> None:
        """Remember, weakly, that *token* has links that a fork must cut."""
        # A callback in C: one in Python would swallow a signal handler's exception.
        self._tokens[weakref.ref(token, self._tokens.__delitem__)] = None

    def _report(self, write: Callable[[], None]) -> None:
        self.callbacks.report(write)

    def end_in_child(self) -> None:
        """Take what belongs to the parent process off every token."""
        # The fork may have happened in a callback: then this very thread is one of
        # them, and must not continue the parent's work.
        self.timer.retire()
        self.callbacks.retire()
        for ref in list(self._tokens):
            token = ref()
            if token is not None:
                token._cut_after_fork()


#: The services of this process. Always read it through the module: a fork replaces it.
current = Services()


@in_child
def _renew_in_child() -> None:
    global current
    # In this order: nothing that end_in_child() calls may find the parent's services.
    inherited, current = current, Services()
    inherited.end_in_child()
