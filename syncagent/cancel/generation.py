"""One life of a token, from new (or reset) to cancelled, finished or retired.

::

    live ──cancel──▶ cancelled ──reset──▶ successor
      ├───finish───▶ FINISHED   ──reset──▶ successor
      └───reset────▶ RETIRED    ─────────▶ successor

Guarantees:

- The first of cancel, finish and reset decides how a generation ends: all three claim
  the one cell :attr:`Generation.stop`, and its value never changes again.
- *Publish first, then look.* A canceller stores its cause, then reads the links; a
  thread that adds a link adds it, then reads the cause. In whatever order threads run,
  one of the two sees the other. Cancelling a link twice is harmless, so it does not
  matter if both do.
- A cancel reaches every link and every descendant, even if a signal handler raises in
  the middle of it.
- No recursion: a chain of ten thousand children needs no deeper stack than one child.
"""

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

#: Takes the place of a cause once a run has finished: no cancel gets in any more.
FINISHED: Final[Cause] = ("finished", "closed", 0.0)
#: Takes its place if a reset came before any cancel: continue with the successor.
RETIRED: Final[Cause] = ("retired", "closed", 0.0)


class Owner(Protocol):
    """The claimant of a generation: a run, or a reset."""

    @property
    def has_ended(self) -> bool: ...


class _Reset:
    has_ended = True


#: Owns a generation once its reset has begun: no run may claim it any more.
RESET: Final[Owner] = _Reset()


class Generation:
    """The state of a token between two resets: its cause and its links."""

    __slots__ = (
        "background",
        "background_requested",
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
        #: The generation that a reset put in its place. Set only after ``stop``.
        self.successor: Once[Generation] = Once()
        #: The run that has claimed it, or RESET.
        self.owner: Once[Owner] = Once()
        #: The earliest of its own and all parents' deadlines.
        self.deadline: float | None = None
        self.own_deadline: float | None = None
        #: The ancestor that set the deadline; None if it is the token's own.
        self.deadline_from: CancelToken | None = None
        #: True once the work should continue in the background.
        self.background_requested = False
        #: Cancelled by that request; made when it is first needed.
        self.background: CancelToken | None = None
        #: True once a canceller has reached every link there was.
        self.is_spread = False

    @property
    def cause(self) -> Cause | None:
        """Why it was cancelled; ``None`` if it was not."""
        stop = self.stop.get(None)
        return None if stop is FINISHED or stop is RETIRED else stop

    def cancel(self, cause: Cause) -> Cause:
        """Cancel for *cause* unless it has ended; return the cause that stands.

        All links, and all descendants, are reached even if an exception intervenes.

        Links are claimed in the name of the *claimant*, an object that identifies this
        one call. Repeating it finishes what an exception has cut short, while another
        canceller finds the links claimed and leaves them alone.
        """
        # Not the cause: a linked token shares it with the tokens it was linked to.
        claimant = object()
        # No loop inside the "try": from 3.12 on, an exception that a signal handler
        # raises at the jump back to its head may bypass the "except".
        try:
            standing = self.stop.setdefault(None, cause)
            if not self.is_spread:
                self._cancel_links(standing, claimant)
        except BaseException:
            self.stop.claim(cause)
            finish_despite_signals(
                lambda: self._cancel_links(self.stop[None], claimant)
            )
            raise
        return standing

    def _cancel_links(self, standing: Cause, claimant: object) -> None:
        # A thread that is woken here cannot run before the canceller releases the GIL:
        # create no object and do nothing twice that most cancels do not need.
        reached = None
        if standing is not FINISHED and standing is not RETIRED:
            for link in list(self.links):
                below = link.cancel(standing, claimant)
                if below is not None:
                    reached = reached or []
                    reached.append(below)
        if reached is not None:
            spread(reached, claimant)
        # Not before all links are reached: the next canceller relies on it.
        self.is_spread = True


def spread(reached: list[Generation], claimant: object) -> None:
    """Cancel the links of all *reached*, and of those they lead to, each once."""
    seen = set(reached)
    # The list grows while it is walked, in place of recursion.
    for generation in reached:
        cause = generation.cause
        if cause is None:
            continue
        for link in list(generation.links):
            below = link.cancel(cause, claimant)
            if below is not None and below not in seen:
                seen.add(below)
                reached.append(below)


class ChildLink(_Ref, Link):
    """A child, on its parent; weak, so that the parent keeps no child alive.

    The parent removes the link of a dead child when it gets its next child.

    The child holds its parent, so the parent is alive whenever a child ends.
    """

    __slots__ = ("_parent",)
    _parent: weakref.ref[CancelToken]

    survives_fork = True

    def __new__(cls, child: CancelToken, parent: CancelToken) -> ChildLink:
        # A callback in C: one in Python would swallow a signal handler's exception.
        self = super().__new__(cls, child, parent._dead_links.append)
        self._parent = weakref.ref(parent)
        return self

    def cancel(self, cause: Cause, claimant: object) -> Generation | None:
        child = self()
        while child is not None:
            generation = child._current()
            # Look at the parent after that, and not at *cause*: if the parent has been
            # reset, its reset has reached every child, and this cancel is outdated.
            parent = self._parent()
            cause_now = None if parent is None else parent._current().cause
            if cause_now is None:
                return None
            if generation.stop.claim(child._inherit(cause_now)) is not RETIRED:
                return generation
            child._start_successor(generation)  # its own reset came first: finish that
        return None

    def drop(self) -> None:
        """Do nothing: it lives as long as its child."""

    @property
    def is_spent(self) -> bool:
        return self() is None
