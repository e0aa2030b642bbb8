"""One life of a token, from new (or reset) to cancelled, finished or retired."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final, Protocol

from .links import Link
from .once import Once, finish_despite_signals
from .reason import Cause

if TYPE_CHECKING:
    from .token import CancelToken

    _Ref = weakref.ref[CancelToken]
else:
    _Ref = weakref.ref

#: Stands where a reason would, once a run has finished: no cancel gets in any more.
FINISHED: Final[Cause] = ("finished", "closed", 0.0)
#: Stands there once a reset has come before any cancel: go on to the successor.
RETIRED: Final[Cause] = ("retired", "closed", 0.0)


class Owner(Protocol):
    """Who has claimed a generation: a run, or a reset."""

    @property
    def has_ended(self) -> bool: ...


class _Reset:
    has_ended = True


#: Owns a generation once its reset has begun: no run may claim it any more.
RESET: Final[Owner] = _Reset()


class Generation:
    """Whether a token is cancelled, and what hangs on it.

    Everything here follows one rule, *publish first, then look*: a canceller puts its
    reason, then reads the links; whoever adds a link adds it, then reads the reason.
    In whatever order threads run, one of the two sees the other. Hitting a link twice
    is harmless, so it does not matter if both do.
    """

    __slots__ = (
        "background",
        "background_asked",
        "deadline",
        "deadline_from",
        "is_spread",
        "links",
        "own_deadline",
        "owner",
        "stop",
        "successor",
    )

    def __init__(self) -> None:
        #: Why it ended; empty while it is live.
        self.stop: Once[Cause] = Once()
        #: Links in order of registration (a dict is an ordered set with atomic steps).
        self.links: dict[Link, None] = {}
        #: What a reset put in its place.
        self.successor: Once[Generation] = Once()
        #: The run that has claimed it, or RESET.
        self.owner: Once[Owner] = Once()
        #: The earliest of its own and all parents' deadlines.
        self.deadline: float | None = None
        self.own_deadline: float | None = None
        #: The ancestor that set the deadline; None if it is the token's own.
        self.deadline_from: CancelToken | None = None
        #: Has somebody asked for the background? And the token of who waits for that.
        self.background_asked = False
        self.background: CancelToken | None = None
        #: A canceller has hit every link there was.
        self.is_spread = False

    @property
    def cause(self) -> Cause | None:
        """Why it was cancelled; ``None`` if it was not."""
        stop = self.stop.get(None)
        return None if stop is FINISHED or stop is RETIRED else stop

    def strike(self, mine: Cause) -> Cause:
        """Cancel for *mine* unless it has ended; return what stands.

        All that hangs on it, and below, is hit even if an exception comes in between.

        Links are claimed in the name of the *claimant*, an object that stands for this
        one call. So to do it again finishes what an exception has cut short, while
        another canceller finds the links claimed and leaves them alone.
        """
        # Not the reason: a linked token shares it with those it was linked to.
        claimant = object()
        # No loop inside the "try": from 3.12 on, an exception that a signal handler
        # raises at the jump back to its head may pass the "except" by.
        try:
            standing = self.stop.setdefault(None, mine)
            if not self.is_spread:
                self._hit_all(standing, claimant)
        except BaseException:
            self.stop.claim(mine)
            finish_despite_signals(lambda: self._hit_all(self.stop[None], claimant))
            raise
        return standing

    def _hit_all(self, standing: Cause, claimant: object) -> None:
        # A thread that is woken here cannot run before the canceller is through: no
        # object is made, and nothing done twice, that most cancels do not need.
        reached = None
        if standing is not FINISHED and standing is not RETIRED:
            for link in list(self.links):
                below = link.hit(standing, claimant)
                if below is not None:
                    reached = reached or []
                    reached.append(below)
        if reached is not None:
            spread(reached, claimant)
        # Not before all is hit: whoever cancels next relies on it.
        self.is_spread = True


def spread(reached: list[Generation], claimant: object) -> None:
    """Hit what hangs on all *reached*, and on those they lead to, each once."""
    seen = set(reached)
    # The list grows while it is walked: ten thousand generations of children need no
    # deeper stack than one.
    for generation in reached:
        cause = generation.cause
        if cause is None:
            continue
        for link in list(generation.links):
            below = link.hit(cause, claimant)
            if below is not None and below not in seen:
                seen.add(below)
                reached.append(below)


class ChildLink(_Ref, Link):
    """A child, on its parent; weak, so that children come and go as they like.

    One whose child is gone is found by the parent when it gets the next.

    The child holds its parent, so the parent is there whenever a child ends.
    """

    __slots__ = ("_parent",)
    _parent: weakref.ref[CancelToken]

    survives_fork = True

    def __new__(cls, child: CancelToken, parent: CancelToken) -> ChildLink:
        # A callback in C: one in Python would swallow a signal handler's exception.
        self = super().__new__(cls, child, parent._lost.append)
        self._parent = weakref.ref(parent)
        return self

    def hit(self, cause: Cause, claimant: object) -> Generation | None:
        child = self()
        while child is not None:
            generation = child._current()
            # Look after that, and not at *cause*: if the parent was reset meanwhile,
            # its reset has reached every child, and this is none of our business.
            cause_now = self._cause_of_parent()
            if cause_now is None:
                return None
            if generation.stop.claim(child._inherit(cause_now)) is not RETIRED:
                return generation
            child._succeed(generation)  # its own reset came first: finish that
        return None

    def _cause_of_parent(self) -> Cause | None:
        parent = self._parent()
        return None if parent is None else parent._current().cause

    def drop(self) -> None:
        """Stay: it survives everything but its child."""

    @property
    def is_spent(self) -> bool:
        return self() is None
