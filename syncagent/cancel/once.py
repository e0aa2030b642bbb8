"""A cell that keeps its first value, and work that survives a signal handler."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class Once(dict[None, T], Generic[T]):
    """Hold one value: the first to claim the cell wins, and every claimant learns who.

    ``dict.setdefault`` with a key that hashes and compares in C is one step under the
    GIL (and takes the dict's own lock without it). No other lock is involved, so a
    signal handler or a ``__del__`` that runs in the middle of anything may call it.

    Claiming again with the same object returns the same value, so work that was
    interrupted between claiming and acting can simply be repeated. Truth, not
    :attr:`value`, is the fast test for "the cell is taken".
    """

    __slots__ = ()

    def claim(self, value: T) -> T:
        """Store *value* if the cell is empty, and return the value it holds now."""
        return self.setdefault(None, value)

    @property
    def value(self) -> T | None:
        """The value of the cell, ``None`` while it is empty."""
        return self.get(None)


#: How often interrupted work is started again. One Ctrl+C needs two attempts, and a key
#: that is held down some more; work that cannot succeed (no stack left) must fail.
_TRIES: Final = 30


def finish_despite_signals(work: Callable[[], T]) -> T:
    """Do *work*, again if an exception cuts it short, then raise that exception.

    A signal handler may raise between any two steps of the main thread: the second
    Ctrl+C does. Work that is safe to repeat is finished first.
    """
    interruption: BaseException | None = None
    for _ in range(_TRIES):
        try:
            outcome = work()
            break
        except BaseException as error:
            interruption = error
    if interruption is not None:
        try:
            raise interruption
        finally:
            del interruption  # its traceback has this frame: they would be a cycle
    return outcome


def start_thread(thread: threading.Thread) -> None:
    """Start *thread*.

    If a signal handler raises in the middle, its exception propagates, even where
    Python would replace it by a complaint about a lock. Whether the thread runs is
    unknown then.

    :raises RuntimeError: the system refuses another thread.
    """
    before = sys.exc_info()[1]
    try:
        thread.start()
    except RuntimeError as error:
        raised = error.__context__
        if raised is None or raised is before:
            raise
        raise raised from None
