"""Who won, the cancel or the end of the run: what makes ``cancel()`` exact."""

from __future__ import annotations

import threading
import weakref
from typing import Final

from ..exceptions import AgentBusy, ConfigurationError, Origin
from . import threads as services
from .deferred import CancelMode, Later, check_mode
from .generation import FINISHED, RESET, Generation
from .once import finish_despite_signals
from .reason import CancelReason, Cause, make_cause
from .token import CancelToken


class RunClaim:
    """One run's hold on its token, from its begin to its end.

    The run asks :meth:`finish` once its work is over; from then on no cancel gets in.
    Both sides put into the token's one cell, so exactly one of them wins.

    Make it first and end it in ``finally``, so that no exception between two steps
    can leave a place taken::

        claim = RunClaim()
        try:
            slot.begin(claim)
            ...
            cancelled = claim.finish()
        finally:
            slot.end(claim)

    A claim that is dropped without that counts as ended.

    :param token: the run's token, by default a new one.
    :param run_id: the run's own name.
    :param ancestors: the names of the runs that it was begun by, the outermost first.
    :raises ConfigurationError: the token is, or was, that of another run.
    """

    __slots__ = (
        "__weakref__",
        "_ended",
        "_generation",
        "ancestors",
        "forced",
        "is_background",
        "later",
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
        #: Has it left whoever had begun it?
        self.is_background = False
        #: Cancelled when nothing is to be waited for any more.
        self.forced: Final = CancelToken()
        #: Cancels that let the run go on for a while.
        self.later: Final = Later()
        #: What the run is doing, for receipts; only the run's thread writes it.
        self.phase = ""
        end = _End()
        self._generation = _own(self.token, end)
        self._ended: Final = end

    @property
    def ended(self) -> CancelToken:
        """Cancelled when nothing of the run is left."""
        return self._ended

    @property
    def helpers(self) -> set[int]:
        """Other threads that work for the run; they come and go by themselves."""
        return self._ended.helpers

    @property
    def is_own_thread(self) -> bool:
        """Is this the thread of the run?"""
        return self._ended.thread == threading.get_ident()

    def drive_here(self) -> None:
        """Note that this is the run's thread from now on."""
        self.drive_on(threading.get_ident())

    def drive_on(self, thread: int) -> None:
        """Note which is the run's thread from now on; 0 is one yet to begin."""
        self._ended.thread = thread

    def hit(
        self, mine: Cause, mode: CancelMode = "now", *, force: bool = False
    ) -> Receipt:
        """Cancel this run for *mine* unless it has finished."""
        phase = self.phase
        if mode != "now" and not force:
            earlier = self._generation.cause
            standing = self.later.put(mode, mine) if earlier is None else earlier
            if standing is not None:
                return Receipt(
                    *(self._ended, standing),
                    first=standing is mine,
                    phase=phase,
                    generation=self._generation,
                )
        standing = self._generation.strike(mine)
        if standing is FINISHED:
            return Receipt(None, mine)
        if force:
            self.forced.cancel()
        return Receipt(self._ended, standing, first=standing is mine, phase=phase)

    def cancel(
        self,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
    ) -> Receipt:
        """Cancel this run unless it has finished."""
        check_mode(mode)
        return self.hit(make_cause(reason, origin), mode, force=force)

    def raise_if_cancel_due(self, *modes: CancelMode) -> None:
        """Cancel now what was to be cancelled at one of these points.

        :raises Cancelled: the run is cancelled.
        """
        cause = self.later.due(modes)
        if cause is not None:
            self._generation.strike(cause)
        self.token.checkpoint()

    def finish(self) -> CancelReason | None:
        """Settle how the run ends.

        :return: why it was cancelled; ``None`` if it has finished, and then every
            later cancel misses.
        """
        cause = self.later.close()
        if cause is not None:
            self._generation.strike(cause)
        standing = self._generation.stop.claim(FINISHED)
        return None if standing is FINISHED else CancelReason(*standing)

    def end(self) -> None:
        """Tell all receipts that nothing of the run is left. Safe to do again."""
        self.finish()
        services.current.runs.pop(id(self), None)
        self._ended.cancel(origin="closed")

    def __del__(self) -> None:
        # Only when an exception came between the run and its end(): see RunSlot.
        ended = getattr(self, "_ended", None)
        if ended is not None and not ended.cancelled:
            self.end()


class _End(CancelToken):
    """A second token of a run, cancelled when the run has really ended.

    So what receipts wait for can be waited for anywhere a cancel may be called. It
    also owns the run's generation: unlike the claim it can, without a cycle.
    """

    __slots__ = ("helpers", "thread")

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()
        #: Other threads that work for the run, which cannot wait for its end either.
        self.helpers: set[int] = set()

    @property
    def has_ended(self) -> bool:
        return self.cancelled


def _own(token: CancelToken, owner: _End) -> Generation:
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
        token.reset()  # somebody has begun to: finish it


class Receipt:
    """What a cancel hit: true if a run was live, and then that run is cancelled."""

    __slots__ = ("_cause", "_end", "_generation", "_is_first", "phase")

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
        #: Where a stronger cancel, or a deadline, may come before one for later.
        self._generation = generation
        #: What the run was doing.
        self.phase = phase

    def __bool__(self) -> bool:
        return self._end is not None

    @property
    def first(self) -> bool:
        """Was this call the one that hit it?"""
        return self._is_first and self._standing() is self._cause

    @property
    def reason(self) -> CancelReason | None:
        """Why the run is cancelled: the reason of whoever has hit it."""
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

        On the run's own thread, and on those of its tools, it does not wait, as that
        would be for ever.

        Cancellation: it waits for the end of one, so nothing else ends it.

        :return: whether it has ended; true if there was none.
        """
        if self._end is None:
            return True
        here = threading.get_ident()
        is_own = here == self._end.thread or here in self._end.helpers
        return self._end.wait(0.0 if is_own else timeout)

    def __repr__(self) -> str:
        if not self:
            return "<Receipt: nothing was running>"
        state = "ended" if self.latency is not None else "ending"
        return f"<Receipt: {state}, first={self.first}, {self.reason!r}>"


class RunSlot:
    """The place for one run at a time; every agent has one.

    It holds the claim weakly. If a signal handler raises at the very moment between a
    run and its :meth:`end`, the place is free as soon as the claim is gone.
    """

    __slots__ = ("__weakref__", "_claims")

    def __init__(self) -> None:
        # By process services, as a run of the parent is no run of a forked child.
        self._claims: dict[services.Services, weakref.ref[RunClaim]] = {}

    def begin(self, claim: RunClaim) -> None:
        """Claim the place for a run on this thread.

        :raises AgentBusy: there is a live run.
        """
        if not self.try_begin(claim):
            raise AgentBusy(
                "the agent has a live run; wait for it, cancel it, or use an agent "
                "of its own for each thread"
            )

    def try_begin(self, claim: RunClaim) -> bool:
        """Claim the place for a run on this thread, if it is free."""
        home = services.current
        mine = weakref.ref(claim, self._forget)
        if self._claims.setdefault(home, mine) is not mine:
            return False
        home.runs[id(claim)] = mine
        return True

    def end(self, claim: RunClaim) -> None:
        """Free the place if it is *claim*'s, and end the claim. Safe to do again."""
        finish_despite_signals(lambda: self._end(claim))

    def _end(self, claim: RunClaim) -> None:
        if self.live is claim:
            self._claims.pop(services.current, None)
        claim.end()

    def _forget(self, ref: weakref.ref[RunClaim]) -> None:
        home = services.current
        if self._claims.get(home) is ref:
            self._claims.pop(home, None)

    @property
    def live(self) -> RunClaim | None:
        """The live run, if there is one."""
        ref = self._claims.get(services.current)
        return None if ref is None else ref()

    def cancel(
        self,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
    ) -> Receipt:
        """Cancel the live run, if there is one. As safe as a token's ``cancel()``."""
        mine = make_cause(reason, origin)
        check_mode(mode)  # also when nothing runs: a mistake shows before it matters
        claim = self.live
        return (
            Receipt(None, mine) if claim is None else claim.hit(mine, mode, force=force)
        )


def lineage(run_id: str) -> tuple[str, ...]:
    """Return the names of a live run and of those that it was begun by."""
    for claim in live_runs():
        if claim.run_id == run_id:
            return (*claim.ancestors, run_id)
    return (run_id,)


def live_runs() -> list[RunClaim]:
    """Return the runs that are live in this process, oldest first."""
    runs = (ref() for ref in list(services.current.runs.values()))
    return [run for run in runs if run is not None]
