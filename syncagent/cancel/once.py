"""A cell whose first value stays, and work that a signal handler must not interrupt."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class Once(dict[None, T], Generic[T]):
    """Hold one value; whoever puts first wins, and everybody learns who that was.

    ``dict.setdefault`` with a key that hashes and compares in C is one step under the
    GIL (and takes the dict's own lock without it). No other lock is involved, so a
    signal handler or a ``__del__`` that runs in the middle of anything may call it.

    Putting the same object again gives the same answer, so that work which was
    interrupted between claiming and acting can simply be done again. Truth, not
    :meth:`value`, is the fast test for "somebody put something".
    """

    __slots__ = ()

    def claim(self, value: T) -> T:
        """Put *value* if the cell is empty, and return what stands in it now."""
        return self.setdefault(None, value)

    @property
    def value(self) -> T | None:
        """What stands in the cell, ``None`` while it is empty."""
        return self.get(None)


#: How often work that is cut short is begun again. One Ctrl+C needs two; more than a
#: few means that it can never succeed (no stack left), and then that must be said.
_TRIES: Final = 5


def finish_despite_signals(work: Callable[[], T]) -> T:
    """Do *work*, again if an exception cuts it short, and raise that afterwards.

    A signal handler may raise between any two steps of the main thread: the second
    Ctrl+C does. Work that is safe to do again is finished first.
    """
    interrupted: BaseException | None = None
    for _ in range(_TRIES):
        try:
            done = work()
            break
        except BaseException as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted
    return done


def start_thread(thread: threading.Thread) -> None:
    """Start *thread*.

    What a signal handler raises meanwhile comes out as it is; Python may put its own
    complaint about a lock in its place. The thread may run then, or not.

    :raises RuntimeError: there is no thread to be had.
    """
    before = sys.exc_info()[1]
    try:
        thread.start()
    except RuntimeError as error:
        raised = error.__context__
        if raised is None or raised is before:
            raise
        raise raised from None
