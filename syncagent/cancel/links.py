"""Links: objects on a token that its cancel reaches.

Guarantees:

- A link may be cancelled by several threads at once, and again after an interruption;
  the effect is that of one cancel.
- A :class:`Killable` has exactly one owner. Ownership is decided by one atomic claim,
  and only the owner touches the resource.
- Waking a thread is one release of a bare lock.
"""

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

#: The owner of a killable that was taken back.
_TAKEN: Final = object()
#: The owner of a killable in a forked child: the resource is the parent's.
_DROPPED: Final = object()


class Link:
    """Something on a token that the token's cancel reaches."""

    __slots__ = ()

    #: True if it stays on the token when the token is reset.
    survives_reset: ClassVar[bool] = True
    #: True if it stays on the token in a forked child.
    survives_fork: ClassVar[bool] = False

    def cancel(self, cause: Cause, claimant: object) -> Generation | None:
        """Pass the cancel on; called by any thread, a signal handler, ``__del__``.

        :param cause: why the token of this link was cancelled.
        :param claimant: identifies one call of ``cancel()``, see
            ``Generation.cancel()``.
        :return: the generation of a child token, whose links come next.
        """
        raise NotImplementedError

    def drop(self) -> None:
        """Make sure that no cancel reaches this any more; it leaves its token."""
        raise NotImplementedError

    @property
    def is_spent(self) -> bool:
        """True if there is nothing left to cancel."""
        raise NotImplementedError


class Killable(Link):
    """A resource that a cancel ends at once: a socket, a process group, a queue.

    Ownership moves by one atomic step. Until then the resource belongs to the caller
    that attached it. The first of "cancelled" and "taken back" decides, and only the
    winner may touch the resource. So it is never fired twice, and never after it was
    taken back.
    """

    __slots__ = ("_fate",)

    def __init__(self) -> None:
        #: The owner: a canceller's claimant, _TAKEN or _DROPPED.
        self._fate: Once[object] = Once()

    def fire(self) -> None:
        """End the resource.

        Must not block, raise, take a lock, log or run foreign code. The one canceller
        that owns it may call it again, if a signal handler raised between its claim
        and the end of its work.
        """
        raise NotImplementedError

    def let_go(self) -> None:
        """Close what a forked child inherited, without ending it for the parent."""

    def take(self) -> bool:
        """Take it back; false if a canceller owns it: the resource is tainted."""
        return self._fate.claim(_TAKEN) is _TAKEN

    def cancel(self, cause: Cause, claimant: object) -> None:
        if self._fate.claim(claimant) is not claimant:
            return
        try:
            self.fire()
        except Exception:
            # It breaks the contract, and cannot be logged: this may be a signal
            # handler. The other links must still be reached.
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
    """One thread waits; any other may wake it."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        # A bare lock: releasing it needs no other lock, unlike Event and Condition.
        # Invariant: locked while nothing has rung since the last wait().
        self._lock = threading.Lock()
        self._lock.acquire(blocking=False)

    def ring(self) -> None:
        """Wake the thread. Takes no lock; ringing twice is harmless."""
        try:
            self._lock.release()
        except RuntimeError:  # it has rung already
            pass

    def wait(self, until: float | None) -> bool:
        """Block until rung (true) or until the monotonic time *until* (false)."""
        end = math.inf if until is None else until
        # A signal that arrives in the instant before Python waits for the lock is
        # handled only after the wait, an old race of CPython. The main thread looks up
        # once a second, so that a Ctrl+C is late then, but not lost.
        nap = 1.0 if get_ident() == main_thread().ident else math.inf
        while (remaining := end - clock.now()) > 0:
            if clock.acquire(self._lock, min(remaining, nap)):
                return True
        return False


class Waiter(Bell, Link):
    """A thread that waits for a cancel.

    Waking it twice is as good as once, so it needs no owner: this is the shortest way
    from ``cancel()`` to the thread.
    """

    __slots__ = ("cause",)

    def __init__(self) -> None:
        super().__init__()
        #: Why it was woken, even if the token has been reset since.
        self.cause: Cause | None = None

    def cancel(self, cause: Cause, claimant: object) -> None:
        self.cause = cause  # before the release: the thread reads it as it wakes
        try:  # ring(), without its frame: the thread that wakes needs the GIL we hold
            self._lock.release()
        except RuntimeError:
            pass

    def drop(self) -> None:
        """Do nothing: the waiting thread is the parent's, and not in the child."""

    @property
    def is_spent(self) -> bool:
        return self.cause is not None
