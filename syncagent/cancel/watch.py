"""Wait until something is so that other threads bring about."""

from __future__ import annotations

from collections.abc import Callable

from .. import _clock
from .deadlines import earlier
from .links import Bell
from .mailbox import Wake
from .token import CancelToken


class Watch:
    """Any number of threads wait, any thread wakes them to look again.

    Waking takes no lock, so that it may happen in a signal handler.
    """

    __slots__ = ("bells",)

    def __init__(self) -> None:
        #: Of those who wait.
        self.bells: dict[Bell, None] = {}

    def wake(self) -> None:
        """Have all who wait look again."""
        if self.bells:
            for bell in list(self.bells):
                bell.ring()

    def wait(
        self,
        is_so: Callable[[], bool],
        token: CancelToken,
        until: float | None = None,
    ) -> bool:
        """Wait until *is_so* is true.

        Cancellation: ends at once.

        :param is_so: looks; called on this thread, again after every wake.
        :param until: a monotonic time to wait for at most.
        :return: whether it is so; false if *token* was cancelled, or it is late.
        """
        if is_so():
            return True
        bell = Bell()
        wake = Wake(bell)
        end = earlier(until, token.deadline)
        try:
            self.bells[bell] = None  # publish first, then look
            token._link(wake)
            while not is_so():
                if token.cancelled or (end is not None and end <= _clock.now()):
                    return is_so()
                bell.wait(end)
            return True
        finally:
            token._unlink(wake)
            self.bells.pop(bell, None)
