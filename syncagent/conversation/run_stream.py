"""The events of a run, as they happen."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any, Generic

from .._closeable import Closeable
from ..cancel import RunClaim
from ..cancel.claim import CancelsRun
from ..events import RunFinished, StreamEvent
from ..exceptions import ConfigurationError
from ..messages import Message
from ..result import Cancellation, RunResult, Value
from .live_run import CLOSE_REASON, LiveRun, settled
from .settling import seconds_since

__all__ = ["RunStream"]

_Observers = list[Callable[[StreamEvent], object]]


class RunStream(CancelsRun, Closeable, Iterator[StreamEvent], Generic[Value]):
    """The events of a run: iterate over it, best in a ``with`` block.

    Each step of the run happens when its event is asked for, on the thread that asks.
    To stop early, close the stream: that cancels the run with origin ``closed``, and so
    does dropping it.
    """

    def __init__(self, live_run: LiveRun, *, is_handle: bool = False) -> None:
        """Make the stream of the caller, or of the handle that takes a run over."""
        self.run_id = live_run.run.id
        self.claim = live_run.run.claim
        #: The number of messages before this run.
        self.start = live_run.run.progress.start
        self._is_handle = is_handle
        self._live_run: LiveRun | None = live_run
        self._unbegun_result: RunResult | None = None
        self._observers: _Observers = []
        # The generator holds the live run and not this stream: without a cycle, a
        # stream that is dropped is closed at once.
        self._events = settled(live_run)
        if is_handle:
            live_run.handle_driver = weakref.ref(self._events)

    @classmethod
    def never_begun(cls, claim: RunClaim, messages: tuple[Message, ...]) -> RunStream:
        """Return the stream of a run that was cancelled before its turn came."""
        cause = claim.token.reason
        assert cause is not None
        cancellation = Cancellation(
            str(cause), cause.origin, claim.phase, seconds_since(cause)
        )
        claim.end()
        self = cls.__new__(cls)
        self.run_id, self.claim, self.start = claim.run_id, claim, len(messages)
        self._live_run, self._is_handle, self._observers = None, False, []
        self._unbegun_result = RunResult(
            text="",
            stop_reason="cancelled",
            run_id=claim.run_id,
            messages=messages,
            start=len(messages),
            cancellation=cancellation,
        )
        self._events = _only(RunFinished(self._unbegun_result), self._observers)
        return self

    def observe(self, observer: Callable[[StreamEvent], object]) -> None:
        """Call *observer* with every event, when it happens.

        Tools on the run's thread block the iteration: an observer sees their events
        before the stream can yield them.
        """
        if self._live_run is None:
            self._observers.append(observer)
        else:
            run = self._live_run.run
            run.on_event = (*run.on_event, observer)

    def leave_observers(self) -> None:
        """Call no observer any more: they may hold the error of the run."""
        if self._live_run is not None:
            self._live_run.run.on_event = ()

    @property
    def result(self) -> RunResult[Value]:
        """The result of the run.

        :raises ConfigurationError: the run has not ended, or ended with an error.
        """
        live_run = self._live_run
        if live_run is None:
            assert self._unbegun_result is not None
            return self._unbegun_result
        handoff = None if self._is_handle else live_run.handoff_result
        result = handoff or live_run.result
        if result is not None:
            return result
        if live_run.error:
            raise ConfigurationError(
                f"the run has no result: it raised {live_run.error}"
            )
        raise ConfigurationError(
            "the run has no result yet; iterate over the stream to its end, or close it"
        )

    @property
    def has_begun(self) -> bool:
        """False if the run was cancelled before its turn came."""
        return self._live_run is not None

    @property
    def is_running(self) -> bool:
        """True while a thread is in the middle of a step."""
        return bool(getattr(self._events, "gi_running", False))

    def _find_claim(self) -> RunClaim:
        return self.claim  # cancel() reaches this run, and no other

    @property
    def is_over(self) -> bool:
        """True once there are no more events."""
        return getattr(self._events, "gi_frame", None) is None

    def drive_from(self, opening: Generator[Any, Any, Any]) -> None:
        """Make the run end with these events, or with the generator that opens them."""
        assert self._live_run is not None
        self._live_run.opening = opening
        self.claim.drivers = (weakref.ref(opening), weakref.ref(self._events))

    def close(self) -> None:
        """End the run if it has not ended."""
        self.claim.is_left = True  # before anything that may be interrupted
        self._close(KeyboardInterrupt())

    def __exit__(self, *error: object) -> None:
        self.claim.is_left = True
        self.close()

    def _close(self, error: BaseException) -> None:
        """Close it, and finish what *error* has interrupted."""
        self.claim.is_left = True
        live_run = self._live_run
        if live_run is not None and live_run.close_unbegun():
            return
        try:
            self._events.close()
        except ValueError:  # another thread is in the middle of a step: end that
            self.claim.cancel(CLOSE_REASON, "closed")
            return
        if live_run is None or live_run.is_released:
            return
        if self._is_handle or not live_run.is_moved:
            live_run.settle_left(error)

    def give_up(self, error: BaseException) -> None:
        """End the run, also if a handle drives it by now: its caller is gone.

        :param error: the exception that its caller gets.
        """
        self.claim.cancel(CLOSE_REASON, "closed")
        self._close(error)

    def __iter__(self) -> Iterator[StreamEvent]:
        return self._events

    def __next__(self) -> StreamEvent:
        return next(self._events)

    def __repr__(self) -> str:
        return f"<RunStream of run {self.run_id}>"


def _only(
    event: StreamEvent, observers: _Observers
) -> Generator[StreamEvent, None, None]:
    for observer in observers:
        observer(event)
    yield event
