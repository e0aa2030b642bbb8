"""Links: what hangs on a token and is reached by its cancel."""

from __future__ import annotations

import math
import threading
from threading import get_ident, main_thread
from typing import TYPE_CHECKING, ClassVar, Final

from . import clock
from .once import Once
from .reason import Cause

if TYPE_CHECKING:
    from .generation import Generation

#: Stands in a killable's fate once its owner has taken it back.
_TAKEN: Final = object()


#: Stands there in a forked child: it was the parent's, so here it is tainted.
_DROPPED: Final = object()


class Link:
    """Something that hangs on a token and is hit when the token is cancelled."""

    __slots__ = ()

    #: Does it stay on the token when the token is reset?
    survives_reset: ClassVar[bool] = True
    #: Does it stay on the token in a forked child?
    survives_fork: ClassVar[bool] = False

    def hit(self, cause: Cause, claimant: object) -> Generation | None:
        """Take the cancel in; called by any thread, a signal handler, ``__del__``.

        :param cause: why the token that this link hangs on was cancelled.
        :param claimant: stands for one call of ``cancel()``, see ``Generation.strike``.
        :return: where the cancel has to go on.
        """
        raise NotImplementedError

    def drop(self) -> None:
        """Make sure that no cancel hits this any more; it is leaving its token."""
        raise NotImplementedError

    @property
    def is_spent(self) -> bool:
        """Is there nothing left to hit?"""
        raise NotImplementedError


class Killable(Link):
    """A resource that a cancel ends at once: a socket, a process group, a queue.

    Ownership moves by one atomic step. Until then the resource belongs to whoever
    attached it; the first of "hit by a cancel" and "taken back" decides, and only the
    winner may touch what the killable owns. So it is never fired twice, and never
    after it was taken back.
    """

    __slots__ = ("_fate",)

    def __init__(self) -> None:
        self._fate: Once[object] = Once()

    def fire(self) -> None:
        """End the resource.

        Must not block, raise, take a lock, log or run anybody else's code. The one
        canceller that owns it may call it again, when a signal handler raised between
        its claim and the end of its work.
        """
        raise NotImplementedError

    def let_go(self) -> None:
        """Close what a forked child inherited, without ending it for the parent."""

    def take(self) -> bool:
        """Take it back; false if a canceller owns it: the resource is tainted."""
        return self._fate.claim(_TAKEN) is _TAKEN

    def hit(self, cause: Cause, claimant: object) -> None:
        if self._fate.claim(claimant) is not claimant:
            return
        try:
            self.fire()
        except Exception:
            # Against the contract, and nowhere to say so: this may be a signal
            # handler. What hangs beside it must still be reached.
            pass

    def drop(self) -> None:
        if self._fate.claim(_DROPPED) is _DROPPED:
            try:
                self.let_go()
            except Exception:  # the other killables of the parent must be let go too
                pass

    @property
    def is_spent(self) -> bool:
        return bool(self._fate)


class Bell:
    """One thread waits, any other may wake it."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        # A bare lock: releasing it needs no other lock, which Event and Condition do.
        self._lock = threading.Lock()
        self._lock.acquire(blocking=False)

    def ring(self) -> None:
        """Wake the thread. Takes no lock, and does no harm when repeated."""
        try:
            self._lock.release()
        except RuntimeError:  # it is awake
            pass

    def wait(self, until: float | None) -> bool:
        """Block until rung (true) or until the monotonic time *until* (false)."""
        end = math.inf if until is None else until
        # A signal that arrives in the instant before the lock is waited for is seen
        # only after the wait, an old race of Python's own. So that a Ctrl+C is late
        # then, and not lost, the main thread looks up once a second.
        nap = 1.0 if get_ident() == main_thread().ident else math.inf
        while (left := end - clock.now()) > 0:
            if clock.acquire(self._lock, min(left, nap)):
                return True
        return False


class Waiter(Bell, Link):
    """A thread that waits for a cancel.

    To wake it twice is as good as once, so it needs no owner: the shortest way from
    ``cancel()`` to the thread is what the whole package is about.
    """

    __slots__ = ("cause",)

    def __init__(self) -> None:
        super().__init__()
        #: Why it was woken, even if the token has been reset since.
        self.cause: Cause | None = None

    def hit(self, cause: Cause, claimant: object) -> None:
        self.cause = cause
        try:  # ring(), without its frame: the thread that wakes needs the GIL we hold
            self._lock.release()
        except RuntimeError:
            pass

    def drop(self) -> None:
        """Nothing to do: a thread of the parent waits in the parent."""

    @property
    def is_spent(self) -> bool:
        return self.cause is not None
