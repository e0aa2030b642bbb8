"""Many runs at once: prompts in, outcomes out, and one cancel for all of them.

::

    caller's thread                         worker threads, at most *width*
    __next__: pull a prompt ── job ───────▶ agent.run(prompt, cancel=token)
              wait          ◀── outcome ─── put into the mailbox

Guarantees:

- The caller's thread alone pulls prompts, starts workers, and adds up what they used.
- At most twice *width* items are between the two: those that run, and as many that
  wait to be started or to be taken.
- One token cancels everything. A worker that is idle waits for it, too, so that no
  worker outlives a cancel.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, overload

from .._checks import check_number
from .._closeable import Closeable
from ..cancel import CancelReason
from ..conversation.queue import OnBusy
from ..conversation.request import Cancel, run_token
from ..exceptions import ConfigurationError, Origin, SyncAgentError
from ..messages import Prompt
from ..recording import Record
from ..recording.target import is_path
from ..result import RunResult, Value
from ..run.given import RunOptions
from ..usage import Usage
from .batch_progress import BatchCounts, Progress, find_progress
from .crew import NEVER, BatchItem, BatchReceipt, Crew, Outcome

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._arguments import BatchArguments
    from .._deps import Deps
    from ..agent import Agent
    from ..models.limiter import Limiter
    from ..run.budget import Budget

    _Agents: TypeAlias = (
        Agent[Deps] | Callable[[], Agent[Deps]] | Iterable[tuple[Agent[Deps], Prompt]]
    )

__all__ = ["Batch", "run_many"]

_T = TypeVar("_T")
_BatchRecord = str | os.PathLike[str] | Callable[[int], Record | None] | None
#: Seconds that cancelled runs have to end before close() returns without them.
_GRACE: Final = 5.0


@overload
def run_many(
    agents: _Agents[Deps],
    prompts: Iterable[Prompt] | None = None,
    *,
    output: type[_T],
    **settings: Unpack[BatchArguments[Deps]],
) -> Batch[_T]: ...


@overload
def run_many(
    agents: _Agents[Deps],
    prompts: Iterable[Prompt] | None = None,
    *,
    output: None = None,
    **settings: Unpack[BatchArguments[Deps]],
) -> Batch[None]: ...


@overload
def run_many(
    agents: _Agents[Deps],
    prompts: Iterable[Prompt] | None = None,
    *,
    output: object,
    **settings: Unpack[BatchArguments[Deps]],
) -> Batch[Any]: ...


def run_many(
    agents: _Agents[Any],
    prompts: Iterable[Prompt] | None = None,
    *,
    width: int = 8,
    cancel: Cancel | None = None,
    record: _BatchRecord = None,
    progress: Progress = None,
    timeout: float | None = None,
    output: Any = None,
    on_busy: OnBusy | None = None,
    deps: Any = None,
    options: RunOptions | None = None,
    tools: Iterable[Any] = (),
    metadata: Mapping[str, Any] | None = None,
    limiter: Limiter | None = None,
    budget: Budget | None = None,
) -> Batch[Any]:
    """Run an agent for each of many prompts, *width* of them at a time.

    Nothing starts before the returned batch is iterated over. One failure does not end
    the rest.

    Cancellation: ``batch.cancel()`` from any thread, *cancel*, Ctrl+C and closing the
    batch end all runs at once.

    :param agents: an agent, forked for each prompt; a function that makes one for each;
        or pairs of an agent and its prompt, without *prompts*.
    :param prompts: pulled on the thread that iterates, as the width allows; a generator
        may be endless.
    :param width: how many runs are live at once, each on a thread of its own.
    :param cancel: an event or a token of yours that also cancels all; a token with a
        timeout limits all runs together.
    :param record: a folder for one recording for each item, such as ``00007.jsonl``; or
        a function of the index that returns a path or a file.
    :param progress: True for a bar on the standard error; or a function, called with
        :class:`~syncagent.background.batch_progress.BatchCounts`.
    :param timeout: seconds that each run has. It and those after it are as for
        :meth:`syncagent.Agent.run`; *limiter* and *budget* are shared by all runs.
    :raises ConfigurationError: an argument cannot work.
    """
    check_number("width", width, minimum=1, is_integer=True)
    settings = {
        "timeout": timeout,
        "output": output,
        "on_busy": on_busy,
        "deps": deps,
        "options": options,
        "tools": tools,
        "metadata": metadata,
        "limiter": limiter,
        "budget": budget,
    }
    items, make = _work_of(agents, prompts)
    return Batch(items, make, width, cancel, _targets(record), progress, settings)


def _work_of(
    agents: Any, prompts: Any
) -> tuple[Iterable[Any], Callable[[], Agent] | None]:
    """Return the items, and a function that makes the agent of one."""
    if prompts is None:
        if callable(agents) or not isinstance(agents, Iterable):
            raise ConfigurationError("run_many() needs prompts for its agent")
        for item in agents if isinstance(agents, (list, tuple)) else ():
            _pair_of(item)  # rather now than when some of them run
        return agents, None
    if isinstance(prompts, (str, bytes)):
        raise ConfigurationError("prompts takes several prompts; write [prompt]")
    fork = None if isinstance(agents, type) else getattr(agents, "fork", None)
    make = fork if callable(fork) else agents
    if not callable(make):
        raise ConfigurationError(
            "run_many() takes an Agent, or a function that makes one; got "
            f"{agents!r:.80}"
        )
    return prompts, make


def _pair_of(item: Any) -> tuple[Any, Any]:
    """Return an agent and its prompt.

    :raises ConfigurationError: *item* is something else, such as a prompt alone.
    """
    is_pair = isinstance(item, (tuple, list)) and len(item) == 2
    if not is_pair or not callable(getattr(item[0], "run", None)):
        raise ConfigurationError(
            "run_many() without prompts takes pairs of an agent and its prompt; got "
            f"{item!r:.80}. For one agent write run_many(agent, prompts)"
        )
    return item[0], item[1]


def _targets(record: Any) -> Callable[[int], Any]:
    """Return a function of the index that returns where an item is recorded."""
    if record is None or callable(record):
        return record or (lambda index: None)
    if not is_path(record):
        raise ConfigurationError(
            f"record takes a folder, or a function of the index; got {record!r:.80}"
        )
    folder = os.fspath(record)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"record={folder!r:.200}: {error}") from None
    return lambda index: os.path.join(folder, f"{index:05}.jsonl")


class Batch(Closeable, Iterator[Outcome[Value]], Generic[Value]):
    """Many runs: iterate over their outcomes, in the order of the prompts.

    One thread iterates, once; any thread may cancel, and look at the counts. Close it,
    or use it in a ``with`` block, if you stop before its end.
    """

    def __init__(
        self,
        items: Iterable[Any],
        make: Callable[[], Agent] | None,
        width: int,
        cancel: Cancel | None,
        target: Callable[[int], Any],
        progress: Progress,
        settings: dict[str, Any],
    ) -> None:
        self._is_over = False
        self._progress = find_progress(progress)
        self._total = len(items) if isinstance(items, Sized) else None
        self._items = iter(items)
        self._has_pairs = make is None
        self._width = width
        self._token, self._registration = run_token(None, None, cancel)
        self._crew = Crew(width, self._token, make, target, settings)
        self._in_order = True
        self._is_exhausted = False
        #: Outcomes that were counted and not taken yet, by index.
        self._ready: dict[int, Outcome] = {}
        self._pulled = self._taken = 0
        self._counts = BatchCounts(total=self._total)
        self._usage = Usage()
        self._cost: float | None = None

    # -- iterating -----------------------------------------------------------------

    def __iter__(self) -> Batch[Value]:
        return self

    def as_completed(self) -> Batch[Value]:
        """Have the outcomes come as they happen, not in the order of the prompts."""
        self._in_order = False
        return self

    def results(self) -> list[RunResult[Value]]:
        """Wait for all runs, and return their results in order.

        Cancellation: as for :func:`run_many`.

        :raises BaseException: the first error, when all runs have ended; iterate if
            some of them may fail.
        """
        outcomes = sorted(self.as_completed(), key=lambda each: each.index)
        results = []
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
            assert outcome.value is not None
            results.append(outcome.value)
        return results

    def __next__(self) -> Outcome[Value]:
        """Return the next outcome.

        Cancellation: as for :func:`run_many`; outcomes of cancelled runs follow.
        """
        if self._is_over:
            raise StopIteration
        try:
            outcome = self._next()
        except BaseException:  # of the prompts, or a signal handler's: Ctrl+C
            self.close()
            raise
        if outcome is None:
            self.close()
            raise StopIteration
        return outcome

    def _next(self) -> Outcome | None:
        crew = self._crew
        while True:
            while (done := crew.done.take()) is not None:
                self._count(done)
            outcome = self._take()
            if outcome is not None:
                return outcome
            has_room = self._pulled - self._taken < 2 * self._width
            if has_room and not self._is_exhausted:
                self._pull()
            elif self._pulled == self._taken:
                return None
            else:
                self._wait_for_one()

    def _wait_for_one(self) -> None:
        """Wait for the end of a run, or for a cancel."""
        crew = self._crew
        if not self._token.cancelled:
            done = crew.done.get(self._token)
        else:
            # The workers may have left without these; nothing is added any more.
            while crew.backlog:
                try:
                    crew.done.put(crew.not_started(crew.backlog.popleft()))
                except IndexError:  # a worker was faster
                    break
            # Not the batch's token: the outcomes of cancelled runs still come.
            done = crew.done.get(NEVER)
        if done is not None:
            self._count(done)

    def _take(self) -> Outcome | None:
        """Return the outcome that is next, if it is there."""
        if not self._ready:
            return None
        index = self._taken if self._in_order else next(iter(self._ready))
        outcome = self._ready.pop(index, None)
        if outcome is not None:
            self._taken += 1
        return outcome

    def _pull(self) -> None:
        """Start one more item, or note that there are no more."""
        is_cancelled = self._token.cancelled
        try:
            # Nobody knows how many prompts a generator would still make.
            if is_cancelled and self._total is None:
                raise StopIteration
            item = next(self._items)
        except StopIteration:
            self._is_exhausted = True
            return
        agent, prompt = _pair_of(item) if self._has_pairs else (None, item)
        job = BatchItem(self._pulled, prompt, agent, contextvars.copy_context())
        self._pulled += 1
        if is_cancelled:
            self._crew.done.put(self._crew.not_started(job))
        else:
            self._crew.give(job)

    # -- counting ------------------------------------------------------------------

    def _count(self, outcome: Outcome) -> None:
        self._ready[outcome.index] = outcome
        counts, value, error = self._counts, outcome.value, outcome.error
        usage, cost = Usage(), None
        if value is not None:
            usage, cost = value.usage, value.cost
        elif isinstance(error, SyncAgentError) and error.usage is not None:
            usage, cost = error.usage, outcome.agent.model.cost(error.usage)
        self._usage += usage
        if cost is not None:
            self._cost = cost + (self._cost or 0.0)
        is_cancelled = not outcome.started or (value is not None and value.cancelled)
        self._counts = BatchCounts(
            total=counts.total,
            done=counts.done + 1,
            failed=counts.failed + (error is not None and outcome.started),
            cancelled=counts.cancelled + is_cancelled,
        )
        self._progress.show(self._counts)

    @property
    def counts(self) -> BatchCounts:
        """How many items have ended, and how, as far as the iteration has seen."""
        return self._counts

    @property
    def usage(self) -> Usage:
        """The usage of all runs that are counted."""
        return self._usage

    @property
    def cost(self) -> float | None:
        """Their cost in US dollars, as far as prices are known."""
        return self._cost

    # -- ending --------------------------------------------------------------------

    def cancel(self, reason: str = "", origin: Origin = "user") -> BatchReceipt:
        """End all runs at once, and start no more.

        Call it from any thread, a signal handler, a tool, twice: it never blocks, takes
        no lock, runs no user code and logs nothing.
        """
        was_live = not self._crew.is_gone()  # before the cancel, which may be fast
        first = self._token.cancel(reason, origin)
        return BatchReceipt(self._crew, first=first, was_live=was_live)

    def close(self) -> None:
        """Cancel what still runs, and wait for its end, at most 5 seconds.

        Cancellation: not needed, the wait has a bound.
        """
        is_early = self._pulled != self._taken or not self._is_exhausted
        self._is_over = True
        if is_early:
            self._token.cancel("the batch was closed", "closed")
        self._crew.dismiss()
        self._crew.wait(_GRACE)
        self._progress.close()
        if self._registration is not None:
            self._registration.close()

    @property
    def reason(self) -> CancelReason | None:
        """Why it was cancelled, or None."""
        return self._token.reason

    def __del__(self) -> None:
        token = getattr(self, "_token", None)
        if token is not None and not self._is_over:
            token.cancel("the batch was dropped", "closed")

    def __repr__(self) -> str:
        counts = self._counts
        return f"<Batch: {counts.done} of {counts.total or '?'} done>"
