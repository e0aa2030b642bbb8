"""One life of a token, from new (or reset) to cancelled or finished."""

from __future__ import annotations

from typing import Final

from .links import Link
from .once import Once
from .reason import CancelReason

#: Stands where a reason would, once a run has finished: no cancel gets in any more.
FINISHED: Final = CancelReason("finished", "closed")


class Generation:
    """Whether a token is cancelled, and what hangs on it.

    Everything here follows one rule, *publish first, then look*: a canceller puts its
    reason, then reads the links; whoever adds a link adds it, then reads the reason.
    In whatever order threads run, one of the two sees the other. Hitting a link twice
    is harmless, so it does not matter if both do.
    """

    __slots__ = ("background", "is_held", "is_spread", "links", "stop")

    def __init__(self) -> None:
        #: Why it ended; empty while it is live.
        self.stop: Once[CancelReason] = Once()
        #: Links in order of registration (a dict is an ordered set with atomic steps).
        self.links: dict[Link, None] = {}
        self.background = False
        #: A live run has claimed it, so it must not be reset.
        self.is_held = False
        #: A canceller has hit every link there was.
        self.is_spread = False

    @property
    def cause(self) -> CancelReason | None:
        """Why it was cancelled; ``None`` while live, and when it has finished."""
        stop = self.stop.get(None)
        return None if stop is FINISHED else stop


class Strike:
    """One cancel on its way through a token, its children and all that hangs on them.

    Links are claimed in the name of the *claimant*, an object that stands for one call
    of ``cancel()`` and no other. A second strike with the same claimant finishes what
    an exception out of a signal handler cut short; another canceller's strike finds
    the links claimed and leaves them alone.
    """

    __slots__ = ("_reached", "_seen", "claimant")

    def __init__(self, claimant: object) -> None:
        self.claimant = claimant
        self._reached: list[Generation] = []
        self._seen: set[Generation] = set()

    def run(self, generation: Generation) -> None:
        """Hit everything that hangs on a cancelled *generation*, and below."""
        self._hit_all(generation)
        self._go_on()
        # Not before all is hit: whoever cancels next relies on it.
        generation.is_spread = True

    def hit(self, link: Link, cause: CancelReason) -> None:
        """Hit one *link*, and what is below it."""
        link.hit(cause, self)
        self._go_on()

    def reach(self, generation: Generation) -> None:
        """Go on to *generation*, once, however many ways lead there."""
        if generation not in self._seen:
            self._seen.add(generation)
            self._reached.append(generation)

    def _go_on(self) -> None:
        # The list grows while it is walked: ten thousand generations of children need
        # no deeper stack than one.
        for generation in self._reached:
            self._hit_all(generation)

    def _hit_all(self, generation: Generation) -> None:
        cause = generation.cause
        if cause is not None:
            for link in list(generation.links):
                link.hit(cause, self)
