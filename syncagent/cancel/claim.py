"""The race between a cancel and the end of a run: what makes ``cancel()`` exact.

Guarantees:

- ``bool(receipt)`` is true if and only if a run was live at that moment, and then that
  run ends as cancelled. A cancel and the end of the run claim the same cell of the
  token, so exactly one of them wins.
- No cancel reaches the next run: a token's generation belongs to one run forever.
- A slot holds at most one live run per process. It is free again after ``end()``, and
  also without that, as soon as nothing drives the claim: signal handlers that raise, as
  often as they like, cannot leave it taken. To find out, a claim is looked at; no
  finalizer does it. What a signal handler raises in a finalizer is lost.
- A run of the parent process is no run of a forked child.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final

from ..exceptions import AgentBusy, ConfigurationError, Origin
from . import clock, threads
from .deadlines import absolute, earlier
from .deferred import CancelMode, DeferredCancel, check_mode
from .generation import FINISHED, RESET, Generation
from .once import Once, finish_despite_signals
from .reason import CancelReason, Cause, make_cause
from .token import CancelToken

#: How often a thread that waits for the end of a run looks whether anything drives it
#: any more, in seconds.
LOOK_AGAIN: Final = 0.5


class CancelsRun:
    """Mixin: ``cancel()`` for an object with at most one live run."""

    __slots__ = ()

    def _find_claim(self) -> RunClaim | None:
        """Return the claim of the live run, if there is one. Must take no lock."""
        raise NotImplementedError

    def cancel(
        self,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
    ) -> Receipt:
        """Cancel the live run, if there is one.

        As safe as :meth:`syncagent.Agent.cancel`.

        :param reason: text for the result.
        :param origin: who cancels.
        :param mode: when the cancel takes effect.
        :param force: do not wait for tools.
        :return: true if and only if a run was live, which is then cancelled.
        :raises TypeError: *reason* or *origin* is not a string; nothing is cancelled.
        :raises ValueError: there is no such origin or mode; nothing is cancelled.
        """
        cause = check_cancel(reason, origin, mode)
        claim = self._find_claim()
        if claim is None:
            return Receipt(None, cause)
        return claim.cancel_for(cause, mode, force=force)


def check_cancel(reason: str, origin: Origin, mode: CancelMode) -> Cause:
    """Return the cause of a cancel with these arguments.

    Call it before looking for a run: a wrong argument fails even if nothing runs.

    :raises TypeError: *reason* or *origin* is not a string.
    :raises ValueError: there is no such origin or mode.
    """
    cause = make_cause(reason, origin)
    check_mode(mode)
    return cause


class RunClaim(CancelsRun):
    """One run's hold on its token, from its start to its end.

    The run calls :meth:`finish` when its work is over; from then on no cancel gets in.

    Make it first and end it in ``finally``, so that no exception between two steps
    can leave a slot taken::

        claim = RunClaim()
        try:
            slot.begin(claim)
            ...
            cancelled = claim.finish()
        finally:
            slot.end(claim)

    A claim that is garbage without that, or that nothing drives, counts as ended.

    :param token: the run's token, by default a new one.
    :param run_id: the id of the run.
    :param ancestors: the ids of the runs that started it, the outermost first.
    :raises ConfigurationError: the token is, or was, that of another run.
    """

    __slots__ = (
        "__weakref__",
        "_ended",
        "_generation",
        "ancestors",
        "deferred",
        "drivers",
        "forced",
        "is_background",
        "is_left",
        "phase",
        "run_id",
        "token",
    )

    def __init__(
        self,
        token: CancelToken | None = None,
        run_id: str = "",
        ancestors: tuple[str, ...] = (),
    ) -> None:
        self.token: Final = CancelToken() if token is None else token
        self.run_id: Final = run_id
        self.ancestors: Final = ancestors
        #: True once the run has moved to the background.
        self.is_background = False
        #: Cancelled by ``cancel(force=True)``: wait for nothing any more.
        self.forced: Final = CancelToken()
        #: Cancels that take effect at a later point of the run.
        self.deferred: Final = DeferredCancel()
        #: The current activity of the run, for receipts; only its thread writes it.
        self.phase = ""
        #: The generators that drive the run. It is driven while all of them can go on;
        #: weak, or a run that is dropped would have to wait for the collector.
        self.drivers: tuple[weakref.ref[Any], ...] = ()
        #: True once the thread of the run means to end it: if that is interrupted, a
        #: generator that stands still is over as well.
        self.is_left = False
        end = _End(self)
        self._generation = _claim_generation(self.token, end)
        self._ended: Final = end

    @property
    def ended(self) -> CancelToken:
        """Cancelled when nothing of the run is left."""
        return self._ended

    @property
    def is_stepping(self) -> bool:
        """True while a thread is in the middle of a step of the run."""
        drivers = [ref() for ref in self.drivers]
        return any(driver is not None and driver.gi_running for driver in drivers)

    @property
    def is_driven(self) -> bool:
        """False once something that drives the run is over, or was dropped.

        A generator that has raised is over, even if its frame lives on in a traceback.
        """
        if self.is_stepping:
            return True
        drivers = [ref() for ref in self.drivers]
        # Only its own thread knows that it is not about to do what is_left says.
        if self.is_left and self.is_own_thread:
            return False
        return all(driver is not None and driver.gi_frame for driver in drivers)

    @property
    def helpers(self) -> set[int]:
        """Other threads that work for the run; they add and remove themselves."""
        return self._ended.helpers

    @property
    def is_own_thread(self) -> bool:
        """True on the thread of the run."""
        return self._ended.thread == threading.get_ident()

    @property
    def thread(self) -> int:
        """The identifier of the run's thread; 0 is one that has yet to start."""
        return self._ended.thread

    def drive_here(self) -> None:
        """Make the current thread the run's thread."""
        self.drive_on(threading.get_ident())

    def drive_on(self, thread: int) -> None:
        """Set the identifier of the run's thread; 0 is one that has yet to start."""
        self._ended.thread = thread

    def _find_claim(self) -> RunClaim:
        return self

    def cancel_for(
        self, cause: Cause, mode: CancelMode = "now", *, force: bool = False
    ) -> Receipt:
        """Cancel this run for *cause*, a checked one, unless it has finished."""
        phase = self.phase
        if mode != "now" and not force:
            earlier = self._generation.cause
            standing = self.deferred.defer(mode, cause) if earlier is None else earlier
            if standing is not None:
                return Receipt(
                    *(self._ended, standing),
                    first=standing is cause,
                    phase=phase,
                    generation=self._generation,
                )
            # The run has finished: cancel() below returns FINISHED.
        standing = self._generation.cancel(cause)
        if standing is FINISHED:
            return Receipt(None, cause)
        if force:
            self.forced.cancel()
        return Receipt(self._ended, standing, first=standing is cause, phase=phase)

    def stop(self, reason: str) -> None:
        """Cancel this run because a hook says so, unless a cancel came first.

        A deferred cancel that waits takes effect now, with its own reason.

        :raises TypeError: *reason* is not a string.
        """
        check_cancel(reason, "hook", "now")
        cause = self.deferred.due(("after_tools", "after_turn"))
        if cause is not None:
            self._generation.cancel(cause)
        self.cancel(reason, "hook")

    def raise_if_cancel_due(self, *modes: CancelMode) -> None:
        """Let the deferred cancels with these modes take effect.

        :raises Cancelled: the run is cancelled.
        """
        cause = self.deferred.due(modes)
        if cause is not None:
            self._generation.cancel(cause)
        self.token.checkpoint()

    def finish(self) -> CancelReason | None:
        """Settle how the run ends.

        :return: why it was cancelled; ``None`` if it has finished, and then every
            later cancel returns a false receipt.
        """
        # Close first: a deferred cancel that was accepted, and answered with a true
        # receipt, must still win against FINISHED.
        cause = self.deferred.close()
        if cause is not None:
            self._generation.cancel(cause)
        standing = self._generation.stop.claim(FINISHED)
        return None if standing is FINISHED else CancelReason(*standing)

    def end(self) -> None:
        """Tell all receipts that nothing of the run is left. Safe to repeat."""
        self.finish()
        threads.current.runs.pop(weakref.ref(self), None)
        self._ended.cancel(origin="closed")


class _End(CancelToken):
    """A second token of a run, cancelled when the run has really ended.

    It makes the end of a run something that receipts can wait for wherever a cancel
    may be called. It also owns the run's generation: unlike the claim it can, without
    a reference cycle.

    A thread that looks at it, or waits for it, notices that nothing drives the run.
    """

    __slots__ = ("_claim", "helpers", "thread")

    def __init__(self, claim: RunClaim) -> None:
        super().__init__()
        self._claim: Final = weakref.ref(claim)
        self.thread = threading.get_ident()
        #: Other threads that work for the run, which cannot wait for its end either.
        self.helpers: set[int] = set()

    @property
    def has_ended(self) -> bool:
        return self.cancelled

    def _cause(self) -> Cause | None:
        if not self._generation.stop:
            claim = self._claim()
            if claim is None or not claim.is_driven:
                self.cancel(origin="closed")
        return super()._cause()

    def _block(self, timeout: float | None) -> Cause | None:
        until = absolute(timeout, None)
        while True:
            look_at = earlier(until, clock.now() + LOOK_AGAIN)
            assert look_at is not None
            cause = super()._block(max(0.0, look_at - clock.now()))
            if cause is not None or (until is not None and until <= clock.now()):
                return cause


def _claim_generation(token: CancelToken, owner: _End) -> Generation:
    """Claim the token's generation for one run, and no other."""
    while True:
        generation = token._current()
        standing = generation.owner.claim(owner)
        if standing is owner:
            return generation
        if standing is not RESET:
            raise ConfigurationError(
                "the token is, or was, that of another run; give each run a token of "
                "its own, for example a child() of this one"
            )
        token.reset()  # another thread has begun to: finish it


class Receipt:
    """The outcome of a cancel: true if a run was live, which is then cancelled."""

    __slots__ = ("_cause", "_end", "_generation", "_is_first", "begun", "phase")

    def __init__(
        self,
        end: _End | None,
        cause: Cause,
        *,
        first: bool = False,
        phase: str = "",
        generation: Generation | None = None,
    ) -> None:
        self._end = end
        self._cause = cause
        self._is_first = first
        #: For a deferred cancel, which a stronger one or a deadline may overtake.
        self._generation = generation
        #: The activity of the run at the moment of the cancel.
        self.phase = phase
        #: The ids of calls that a store has recorded as begun; only stores do that.
        self.begun: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self._end is not None

    @property
    def first(self) -> bool:
        """True if this call was the one that cancelled the run."""
        return self._is_first and self._standing() is self._cause

    @property
    def reason(self) -> CancelReason | None:
        """Why the run is cancelled: the reason of the first canceller."""
        return CancelReason(*self._standing()) if self else None

    def _standing(self) -> Cause:
        generation = self._generation
        standing = None if generation is None else generation.cause
        return self._cause if standing is None else standing

    @property
    def latency(self) -> float | None:
        """Seconds from the cancel to the end of the run, ``None`` before that."""
        ended = None if self._end is None else self._end._cause()
        return None if ended is None else ended[2] - self._cause[2]

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the run has really ended, at most *timeout* seconds.

        On the run's own thread, and on those of its tools, it returns at once: the
        wait could never end.

        Cancellation: it waits for the end of a run, so no other cancel ends it.

        :return: whether the run has ended; true if none was live.
        """
        if self._end is None:
            return True
        thread = threading.get_ident()
        is_own = thread == self._end.thread or thread in self._end.helpers
        return self._end.wait(0.0 if is_own else timeout)

    def __repr__(self) -> str:
        if not self:
            return "<Receipt: nothing was running>"
        state = "ended" if self.latency is not None else "ending"
        return f"<Receipt: {state}, first={self.first}, {self.reason!r}>"


class _Occupant:
    """A run's turn in a slot, and the turn after it."""

    __slots__ = ("_claim", "_services", "next")

    def __init__(self, claim: RunClaim | None = None) -> None:
        self._claim: Final = None if claim is None else weakref.ref(claim)
        # Of this process: a forked child has others, and so finds no live run here.
        self._services: Final = threads.current
        self.next: Final[Once[_Occupant]] = Once()

    @property
    def live(self) -> RunClaim | None:
        """The claim, unless its run has ended."""
        claim = None if self._claim is None else self._claim()
        if claim is None or self._services is not threads.current:
            return None
        return None if claim.ended.cancelled else claim


class RunSlot(CancelsRun):
    """The place for one run at a time; every agent has one.

    It holds the claim weakly, and is free when that has ended: nothing has to be taken
    out of it, so nothing can come in between.
    """

    __slots__ = ("__weakref__", "_last")

    def __init__(self) -> None:
        #: The last one known; another thread may have put one after it.
        self._last = _Occupant()

    def begin(self, claim: RunClaim) -> None:
        """Take the slot for a run on this thread.

        :raises AgentBusy: there is a live run.
        """
        if not self.try_begin(claim):
            raise AgentBusy(
                "the agent has a live run; wait for it, cancel it, or use an agent "
                "of its own for each thread"
            )

    def try_begin(self, claim: RunClaim) -> bool:
        """Take the slot for a run on this thread, if it is free."""
        last, mine = self._find_last(), _Occupant(claim)
        if last.live is not None or last.next.claim(mine) is not mine:
            return False
        self._last = mine
        runs = threads.current.runs
        # A callback in C: one in Python would swallow a signal handler's exception.
        runs[weakref.ref(claim, runs.__delitem__)] = None
        return True

    def _find_last(self) -> _Occupant:
        last = self._last
        while last.next:
            last = last.next[None]
        return last

    def end(self, claim: RunClaim) -> None:
        """End the claim, and so free the slot if it is *claim*'s. Safe to repeat."""
        finish_despite_signals(claim.end)

    @property
    def live(self) -> RunClaim | None:
        """The live run, if there is one."""
        return self._find_last().live

    def _find_claim(self) -> RunClaim | None:
        return self.live


def lineage(run_id: str) -> tuple[str, ...]:
    """Return the ids of a live run's ancestors, the outermost first, and its own."""
    for claim in live_runs():
        if claim.run_id == run_id:
            return (*claim.ancestors, run_id)
    return (run_id,)


def live_runs() -> list[RunClaim]:
    """Return the runs that are live in this process, oldest first."""
    runs = (ref() for ref in list(threads.current.runs))
    return [run for run in runs if run is not None and not run.ended.cancelled]
