"""The events of a run, as they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .._closeable import Closeable
from ..cancel import CancelMode, Receipt, RunClaim
from ..cancel.once import finish_despite_signals
from ..events import RunFinished, StreamEvent
from ..exceptions import ConfigurationError, Origin
from ..messages import Message
from ..result import Cancellation, RunResult
from .live_run import CLOSED, SHUT, Pump, RunEnd, settled
from .settling import seconds_since

__all__ = [
    "RunStream",
    "run_to_end",
]


class RunStream(Closeable, Iterator[StreamEvent]):
    """The events of a run: iterate over it, best in a ``with`` block.

    Each step of the run is made when its event is asked for, on the thread that asks.
    Whoever stops early closes it, which cancels the run with origin ``closed``; so does
    dropping it.
    """

    def __init__(self, end: RunEnd, pump: Pump) -> None:
        self.run_id = end.run.id
        self.claim = end.run.claim
        #: The number of messages that were there before.
        self.start = end.run.start
        #: Has another thread begun it?
        self.is_moved = False
        self._end: RunEnd | None = end
        self._over: RunResult | None = None
        # It knows the end, and not this object: without a circle, what is dropped is
        # closed at once.
        self._events = settled(end, pump)

    @classmethod
    def never_begun(cls, claim: RunClaim, messages: tuple[Message, ...]) -> RunStream:
        """Return one of a run that was cancelled before it had its turn."""
        cause = claim.token.reason
        assert cause is not None
        cancellation = Cancellation(
            str(cause), cause.origin, claim.phase, seconds_since(cause)
        )
        claim.end()
        self = cls.__new__(cls)
        self.run_id, self.claim, self._end = claim.run_id, claim, None
        self.start, self.is_moved = len(messages), False
        self._over = result = RunResult(
            text="",
            stop_reason="cancelled",
            run_id=claim.run_id,
            messages=messages,
            start=len(messages),
            cancellation=cancellation,
        )
        self._events = (event for event in (RunFinished(result),))
        return self

    @classmethod
    def moved(cls, end: RunEnd, pump: Pump) -> RunStream:
        """Return one for the thread that is to go on with a run."""
        self = cls(end, pump)
        self.is_moved = True
        self._events = settled(end, pump, is_moved=True)
        return self

    @property
    def result(self) -> RunResult:
        """What the run has come to.

        :raises ConfigurationError: it has not ended, or has ended with an error.
        """
        result = self._over
        if self._end is not None:
            left = None if self.is_moved else self._end.left
            result = left or self._end.result
        if result is not None:
            return result
        error = None if self._end is None else self._end.error
        if error is not None:
            raise ConfigurationError(f"the run has no result: it raised {error!r:.200}")
        raise ConfigurationError(
            "the run has no result yet; iterate over the stream to its end, or close it"
        )

    @property
    def has_begun(self) -> bool:
        """Has it had its turn? One that was cancelled before has said nothing."""
        return self._end is not None

    @property
    def is_at_work(self) -> bool:
        """Is a thread in the middle of a step?"""
        return bool(getattr(self._events, "gi_running", False))

    def cancel(
        self,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
    ) -> Receipt:
        """Cancel this run, and no other. As safe as :meth:`syncagent.Agent.cancel`."""
        return self.claim.cancel(reason, origin, mode=mode, force=force)

    def close(self) -> None:
        """End the run if it has not ended."""
        end = self._end
        if end is not None and end.begun.claim(SHUT) is SHUT:
            self.claim.cancel(CLOSED, "closed")
            end.conclude(GeneratorExit())
            return
        try:
            self._events.close()
        except ValueError:  # another thread is in the middle of a step, which ends now
            self.claim.cancel(CLOSED, "closed")

    def give_up(self) -> None:
        """End the run, wherever it is driven by now: nobody will know of it."""
        self.claim.cancel(CLOSED, "closed")
        self.close()

    def __iter__(self) -> Iterator[StreamEvent]:
        return self._events

    def __next__(self) -> StreamEvent:
        return next(self._events)

    def __repr__(self) -> str:
        return f"<RunStream of run {self.run_id}>"


def run_to_end(begin: Callable[[], RunStream]) -> RunResult:
    """Drive a run to its end on this thread.

    Cancellation: ends at once; the result says so.

    :param begin: makes the stream; not before, as a signal handler may raise meanwhile.
    """
    stream = None
    try:
        stream = begin()
        for _ in stream:
            pass
        return stream.result  # noqa: TRY300, a signal handler may raise here, too
    except BaseException:
        if stream is not None:
            finish_despite_signals(stream.give_up)
        raise
