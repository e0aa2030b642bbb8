"""The daemon threads of the SDK: one runs callbacks, one keeps time."""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import os
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

from . import clock
from .links import Bell
from .once import start_thread

if TYPE_CHECKING:
    from .claim import RunClaim
    from .token import CancelToken

T = TypeVar("T")


_log = logging.getLogger("syncagent.cancel")


#: How long a thread waits for work before it looks around, in seconds.
_IDLE: Final = 60.0


#: How long a callback may take before the others go on without it, in seconds.
PATIENCE: Final = 1.0


#: How many new timers may wait unsorted before the timer thread is woken for them.
_INBOX: Final = 1000


class Service:
    """A daemon thread that is made when it is first needed, and then stays."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        # Never taken by cancel(). Re-entrant, because a signal handler may come here
        # while the thread that it interrupted is here.
        self._starting = threading.RLock()

    def ensure_thread(self) -> None:
        """Start the thread unless it runs."""
        if not self._is_running():
            with self._starting:
                if not self._is_running():
                    self._start()

    def _is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def retire(self) -> None:
        """Have the thread end after what it is doing; a forked child has its own."""
        self._thread = None

    def _start(self) -> None:
        before = self._thread
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._thread = thread
        try:
            start_thread(thread)
        except RuntimeError:  # no thread to be had
            self._thread = before
            raise
        # Any other exception is a signal handler's, and the thread may run by now. It
        # stays ours; if it does not run yet, the next who needs one makes another, and
        # this one finds itself out of office.

    def _is_current(self) -> bool:
        return self._thread is threading.current_thread()

    def _work(self) -> None:
        raise NotImplementedError


class Timer(Service):
    """Call methods at given times.

    Their owners are held weakly, so that a token with a deadline an hour away is gone
    as soon as its last user is.

    The thread itself never logs: a handler may block, and then no deadline of the whole
    process would count any more.

    :param report: has something written to the log, elsewhere.
    """

    def __init__(self, report: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("syncagent-timer")
        self._report = report
        self._inbox: deque[_Entry] = deque()
        self._heap: list[_Entry] = []
        self._numbers = itertools.count()
        self._alive = 0
        self._bell = Bell()
        # When the thread will wake by itself: minus infinity while it is awake and
        # about to look into the inbox anyway.
        self._wakes_at = -math.inf

    def call_at(self, when: float, method: Callable[[T], object], owner: T) -> None:
        """Have *method* of *owner* called at a monotonic time; it must not block."""
        # No WeakMethod: that has a callback in Python, which would swallow the
        # exception of a signal handler.
        self._inbox.append((when, next(self._numbers), weakref.ref(owner), method))
        self.ensure_thread()
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
            self._take_in()
            self._call_due()

    def _take_in(self) -> None:
        while self._inbox:
            heapq.heappush(self._heap, self._inbox.popleft())
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
                self._report(partial(_log_trouble, error))
            del owner  # do not keep it alive until the next one is due


def _log_trouble(error: BaseException) -> None:
    _log.error("a timer raised; the others go on", exc_info=error)


_Entry = tuple[float, int, "weakref.ref[Any]", Callable[[Any], object]]


class Job(Protocol):
    """Something the courier delivers."""

    def deliver(self) -> None: ...

    def describe(self) -> str: ...


class _Report:
    """Something to be written to the log, which may take its time, too."""

    def __init__(self, write: Callable[[], None]) -> None:
        self.deliver = write

    def describe(self) -> str:
        return "a report"


class Courier(Service):
    """Run user callbacks one after the other, never on the canceller's side.

    One that takes longer than :data:`PATIENCE` is reported and left behind on its
    thread; a new thread goes on with the rest.
    """

    def __init__(self, timer: Timer) -> None:
        super().__init__("syncagent-cancel")
        self._timer = timer
        # SimpleQueue.put() may interrupt itself: cancel() calls it in signal handlers.
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._running: tuple[Job, float] | None = None
        self._is_watched = False

    def submit(self, job: Job) -> None:
        """Have *job* delivered after those before it. Takes no lock."""
        self._jobs.put(job)

    def report(self, write: Callable[[], None]) -> None:
        """Have something written to the log, by *write*."""
        self.submit(_Report(write))
        with suppress(RuntimeError):  # no thread to be had; perhaps later
            self.ensure_thread()

    def _work(self) -> None:
        while self._is_current():
            try:
                job = self._jobs.get(timeout=_IDLE)
            except Empty:
                continue
            self._deliver(job)
            del job  # do not keep the callback alive until the next one comes

    def _deliver(self, job: Job) -> None:
        running = self._running = (job, clock.now())
        if not self._is_watched:
            self._watch(running)
        try:
            job.deliver()
        except BaseException:
            _log.exception("%s raised; the next one runs", job.describe())
        if self._running is running:
            self._running = None

    def _watch(self, running: tuple[Job, float]) -> None:
        try:
            self._timer.call_at(running[1] + PATIENCE, Courier._look, self)
        except RuntimeError:
            # No thread can be started any more. Better unwatched than not delivered.
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
            except RuntimeError:  # it goes on with the rest if it ever returns
                stuck.name = self._name
                raise
        if not isinstance(job, _Report):  # else the log is what is stuck
            self.report(partial(_log_stuck, job, seconds, stuck))


def _log_stuck(job: Job, seconds: float, stuck: threading.Thread) -> None:
    _log.warning(
        "%s has not returned for %.1f s; the others go on without it. A cancel "
        "callback should only set, close or interrupt something. It is at:\n%s",
        job.describe(),
        seconds,
        _stack_of(stuck),
    )


def _stack_of(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return "  (it has just ended)"
    return "".join(traceback.format_stack(frame)).rstrip()


class Services:
    """The threads of this process, its live runs, and the tokens that own something."""

    def __init__(self) -> None:
        self.timer = Timer(self._report)
        self.courier = Courier(self.timer)
        #: Live runs by identity, in the order in which they began.
        self.runs: dict[int, weakref.ref[RunClaim]] = {}
        self._tokens: dict[weakref.ref[CancelToken], None] = {}

    def start_threads(self) -> None:
        """Start both threads unless they run."""
        self.timer.ensure_thread()
        self.courier.ensure_thread()

    def enrol(self, token: CancelToken) -> None:
        """Remember, weakly, that *token* has links that a fork must cut."""
        # A callback in C: one in Python would swallow a signal handler's exception.
        self._tokens[weakref.ref(token, self._tokens.__delitem__)] = None

    def _report(self, write: Callable[[], None]) -> None:
        self.courier.report(write)

    def end_in_child(self) -> None:
        """Take what belongs to the parent process off every token."""
        # The fork may have happened in a callback: then this very thread is one of
        # them, and must not go on with the parent's work.
        self.timer.retire()
        self.courier.retire()
        for ref in list(self._tokens):
            token = ref()
            if token is not None:
                token._cut_after_fork()


#: Those of this process. Always read it through the module: a fork replaces it.
current = Services()


def _renew_in_child() -> None:
    global current
    inherited, current = current, Services()
    inherited.end_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)
