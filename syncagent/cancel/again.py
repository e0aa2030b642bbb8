"""Work that a signal handler must not leave half done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

#: How often work that is cut short is begun again. One Ctrl+C needs two; more than a
#: few means that it can never succeed (no stack left), and then that must be said.
_TRIES: Final = 5


def until_done(work: Callable[[], T]) -> T:
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
