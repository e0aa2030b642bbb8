"""Who won, the cancel or the end of the run: what makes ``cancel()`` exact."""

from __future__ import annotations

import threading
from typing import Final

from ..exceptions import AgentBusy
from . import services
from .generation import FINISHED
from .reason import CancelReason, Origin
from .token import CancelToken


class RunClaim:
    """One run's hold on its token, from its begin to its end.

    The run asks :meth:`finish` once its work is over; from then on no cancel gets in.
    Both sides put into the token's one cell, so exactly one of them wins.
    """

    __slots__ = ("_ended", "_generation", "_thread", "phase", "token")

    def __init__(self, token: CancelToken) -> None:
        self.token: Final = token
        #: What the run is doing, for receipts; only the run's thread writes it.
        self.phase = ""
        self._generation = token._generation
        self._thread = threading.get_ident()
        # A second token, cancelled when the run has really ended: what receipts wait
        # for may be waited for anywhere a cancel may be called.
        self._ended = CancelToken()

    def cancel(self, reason: str = "", origin: Origin = "user") -> Receipt:
        """Cancel this run unless it has finished."""
        return self.hit(CancelReason(reason, origin))

    def hit(self, mine: CancelReason) -> Receipt:
        """Cancel this run for *mine* unless it has finished."""
        phase = self.phase
        standing = self.token._strike(mine)
        if standing is FINISHED:
            return Receipt(None, mine)
        return Receipt(self, standing, first=standing is mine, phase=phase)

    def finish(self) -> CancelReason | None:
        """Settle how the run ends.

        :return: why it was cancelled; ``None`` if it has finished, and then every
            later cancel misses.
        """
        standing = self._generation.stop.put(FINISHED)
        return None if standing is FINISHED else standing

    def end(self) -> None:
        """Tell all receipts that nothing of the run is left."""
        self.finish()
        self._generation.is_held = False
        services.current.runs.pop(self, None)
        self._ended.cancel(origin="closed")

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the run has ended; its own thread does not wait for itself."""
        if threading.get_ident() == self._thread:
            timeout = 0.0
        return self._ended.wait(timeout)

    @property
    def ended_at(self) -> float | None:
        """The monotonic time at which it ended, ``None`` before."""
        ended = self._ended.reason
        return None if ended is None else ended.at


class Receipt:
    """What a cancel hit: true if a run was live, and then that run is cancelled."""

    __slots__ = ("_claim", "_reason", "first", "phase")

    def __init__(
        self,
        claim: RunClaim | None,
        reason: CancelReason,
        *,
        first: bool = False,
        phase: str = "",
    ) -> None:
        self._claim = claim
        self._reason = reason
        #: Was this call the one that hit it?
        self.first = first
        #: What the run was doing.
        self.phase = phase

    def __bool__(self) -> bool:
        return self._claim is not None

    @property
    def reason(self) -> CancelReason | None:
        """Why the run is cancelled: the first canceller's reason."""
        return self._reason if self else None

    @property
    def latency(self) -> float | None:
        """Seconds from the cancel to the end of the run, ``None`` before that."""
        ended_at = None if self._claim is None else self._claim.ended_at
        return None if ended_at is None else ended_at - self._reason.at

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the run has really ended, at most *timeout* seconds.

        On the run's own thread it does not wait, as that would be for ever.

        Cancellation: it waits for the end of one, so nothing else ends it.

        :return: whether it has ended; true if there was none.
        """
        return self._claim is None or self._claim.wait(timeout)

    def __repr__(self) -> str:
        if not self:
            return "<Receipt: nothing was running>"
        state = "ended" if self.latency is not None else "ending"
        return f"<Receipt: {state}, first={self.first}, {self._reason!r}>"


class RunSlot:
    """The place for one run at a time; every agent has one."""

    __slots__ = ("_claims",)

    def __init__(self) -> None:
        # By process services, as a run of the parent is no run of a forked child.
        self._claims: dict[services.Services, RunClaim] = {}

    def begin(self, token: CancelToken | None = None) -> RunClaim:
        """Claim the place for a run on this thread.

        :raises AgentBusy: there is a live run.
        """
        home = services.current
        claim = RunClaim(CancelToken() if token is None else token)
        if self._claims.setdefault(home, claim) is not claim:
            raise AgentBusy(
                "the agent has a live run; wait for it, cancel it, or use an agent "
                "of its own for each thread"
            )
        claim._generation.is_held = True
        home.runs[claim] = None
        return claim

    def end(self, claim: RunClaim) -> None:
        """Free the place; *claim* has ended."""
        home = services.current
        if self._claims.get(home) is claim:
            del self._claims[home]
        claim.end()

    @property
    def live(self) -> RunClaim | None:
        """The live run, if there is one."""
        return self._claims.get(services.current)

    def cancel(self, reason: str = "", origin: Origin = "user") -> Receipt:
        """Cancel the live run, if there is one. As safe as a token's ``cancel()``."""
        mine = CancelReason(reason, origin)
        claim = self.live
        return Receipt(None, mine) if claim is None else claim.hit(mine)


def live_runs() -> list[RunClaim]:
    """Return the runs that are live in this process, oldest first."""
    return list(services.current.runs)
