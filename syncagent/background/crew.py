"""The workers of a batch: threads that make one run after the other."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic

import msgspec

from .._context import work_in_context
from ..cancel import CancelToken, clock
from ..cancel.once import start_thread
from ..cancel.waits import Mailbox, Watch
from ..exceptions import RunCancelled
from ..result import RunResult, Value

if TYPE_CHECKING:
    from ..agent import Agent

__all__ = ["BatchItem", "BatchReceipt", "Crew", "NEVER", "Outcome", "Worker"]

_STOP: Final = "stop"
_LOOK: Final = "look"
#: A token for waits that end by themselves.
NEVER: Final = CancelToken()


class Outcome(msgspec.Struct, Generic[Value], frozen=True, kw_only=True):
    """How one item ended; the words are those of :class:`concurrent.futures.Future`."""

    #: The number of the item, starting at 0.
    index: int
    prompt: Any
    #: The agent of the run, whose conversation can be continued; None if it was never
    #: made.
    agent: Any = None
    value: RunResult[Value] | None = None
    error: BaseException | None = None
    #: False if a cancel came before the run began.
    started: bool = True

    def result(self) -> RunResult[Value]:
        """Return the result of the run, also of one that was cancelled.

        :raises RunCancelled: the run was never started.
        :raises BaseException: the error that ended the run.
        """
        if self.error is not None:
            raise self.error
        assert self.value is not None
        return self.value

    def exception(self) -> BaseException | None:
        """Return the error that :meth:`result` would raise, or None."""
        return self.error


class BatchItem(msgspec.Struct, frozen=True):
    """One item, on its way to a worker."""

    index: int
    prompt: Any
    agent: Any
    context: contextvars.Context


class BatchReceipt:
    """The outcome of a cancel of a batch: true if some of its workers were live."""

    __slots__ = ("_crew", "_was_live", "first")

    def __init__(self, crew: Crew, *, first: bool, was_live: bool) -> None:
        self._crew = crew
        #: True if this call was the one that cancelled the batch.
        self.first = first
        self._was_live = was_live

    def __bool__(self) -> bool:
        return self._was_live

    def wait(self, timeout: float | None = None) -> bool:
        """Block until all runs have really ended, at most *timeout* seconds.

        Cancellation: it waits for the end of a cancel, so no other cancel ends it.
        """
        return self._crew.wait(timeout)


class Crew:
    """The workers of a batch, and what they share with it.

    They do not refer to the batch: one that is dropped is freed, and cancels them.
    """

    def __init__(
        self,
        width: int,
        token: CancelToken,
        make: Callable[[], Agent] | None,
        target: Callable[[int], Any],
        settings: dict[str, Any],
    ) -> None:
        self._width = width
        self.token: Final = token
        self._make = make
        self._target = target
        self._settings = settings
        self.is_over = False
        #: Jobs without a worker, workers without a job, and outcomes to be counted.
        self.backlog: Final[deque[BatchItem]] = deque()
        self.idle: Final[deque[Worker]] = deque()
        self.done: Final[Mailbox[Outcome]] = Mailbox()
        self.workers: Final[list[Worker]] = []
        #: Woken when a worker ends.
        self.watch: Final = Watch()

    def give(self, job: BatchItem) -> None:
        """Hand a job to a worker: an idle one, a new one, or the next to be idle."""
        self.backlog.append(job)  # publish first, then look
        try:
            self.idle.popleft().inbox.put(_LOOK)
        except IndexError:
            pass
        else:
            return
        if len(self.workers) >= self._width:
            return
        worker = Worker(self, len(self.workers))
        self.workers.append(worker)
        try:
            worker.start()
        except RuntimeError:  # the system refuses another thread
            self.workers.remove(worker)
            if not self.workers:
                raise

    def run(self, job: BatchItem) -> Outcome:
        """Make one run, on a worker's thread, and return its outcome.

        Cancellation: ends at once.
        """
        if self.token.cancelled:
            return self.not_started(job)
        agent = job.agent
        try:
            if agent is None:
                assert self._make is not None
                agent = self._make()
            record = self._target(job.index)
            value = agent.run(
                job.prompt, cancel=self.token, record=record, **self._settings
            )
        except BaseException as error:
            return Outcome(index=job.index, prompt=job.prompt, agent=agent, error=error)
        return Outcome(index=job.index, prompt=job.prompt, agent=agent, value=value)

    def not_started(self, job: BatchItem) -> Outcome:
        """Return the outcome of an item that a cancel came before."""
        reason = str(self.token.reason or "") or "the batch was cancelled"
        return Outcome(
            index=job.index,
            prompt=job.prompt,
            agent=job.agent,
            error=RunCancelled(f"the run was not started: {reason}"),
            started=False,
        )

    def dismiss(self) -> None:
        """End all workers that have nothing to do."""
        self.is_over = True  # publish first, then look
        for worker in list(self.workers):
            worker.inbox.put(_STOP)

    def wait(self, timeout: float | None) -> bool:
        """Wait until no worker is left.

        Cancellation: it waits for the end of a cancel, so no other cancel ends it.
        """
        until = None if timeout is None else clock.now() + timeout
        return self.watch.wait(self.is_gone, NEVER, until)

    def is_gone(self) -> bool:
        """Return whether no worker is left."""
        return all(worker.is_gone for worker in list(self.workers))


class Worker:
    """A thread that makes one run after the other."""

    def __init__(self, crew: Crew, number: int) -> None:
        self._crew = crew
        #: Messages that wake it.
        self.inbox: Final[Mailbox[str]] = Mailbox()
        self._has_ended = False
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(work_in_context, self._work),
            name=f"syncagent-many-{number}",
            daemon=True,
        )

    def start(self) -> None:
        """Start the thread."""
        start_thread(self._thread)

    @property
    def is_gone(self) -> bool:
        """True if its thread has ended, or never started."""
        return self._has_ended or self._thread.ident is None

    def _work(self) -> None:
        crew = self._crew
        try:
            while (job := self._next_job()) is not None:
                crew.done.put(job.context.run(crew.run, job))
        finally:
            self._has_ended = True  # publish first, then look
            crew.watch.wake()

    def _next_job(self) -> BatchItem | None:
        """Wait for a job; None if there will be none.

        Cancellation: ends at once when there is no job left.
        """
        crew = self._crew
        while True:
            try:
                return crew.backlog.popleft()
            except IndexError:
                if crew.is_over or crew.token.cancelled:
                    return None
            crew.idle.append(self)  # publish first, then look
            if crew.backlog:
                try:
                    crew.idle.remove(self)
                except ValueError:  # it was chosen: a message is on its way
                    pass
                else:
                    continue
            if self.inbox.get(crew.token) == _STOP:
                return None
