"""A caller that reads the output of a server itself, and its wake-up."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ...cancel import Bell, CancelToken, Killable, clock

if TYPE_CHECKING:
    from ..pending import Pending
    from .channel import StdioChannel

__all__ = ["LeaderWake", "Leadership"]

#: Seconds that a canceller may need between its claim and its write.
_WRITING: Final = 5.0


class LeaderWake(Killable):
    """Wakes a thread out of its poll when its token is cancelled.

    :param descriptor: the writable end of a pipe that the thread polls.
    """

    __slots__ = ("_bell", "_descriptor", "_is_over")

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._bell = Bell()
        self._is_over = False

    def fire(self) -> None:
        with suppress(OSError):  # full: the thread is awake already
            os.write(self._descriptor, b"!")
        self._is_over = True
        self._bell.ring()

    def settle(self, token: CancelToken) -> None:
        """Take it back: after this no canceller writes to the pipe.

        Cancellation: not needed; at most the write of a canceller is awaited.
        """
        if not token.detach(self) and not self._is_over:
            self._bell.wait(clock.now() + _WRITING)


class Leadership:
    """The part of one request in reading the output.

    It begins before the request is sent: the response may be there at once, and would
    wake the I/O thread. It ends while the caller does something else, such as passing
    on progress, and with the request.
    """

    __slots__ = ("_channel", "_may_lead", "_token", "_wake")

    def __init__(self, channel: StdioChannel, token: CancelToken) -> None:
        self._channel = channel
        self._token = token
        self._may_lead = channel.can_lead
        #: Set while this request reads.
        self._wake: LeaderWake | None = None

    def begin(self, pending: Pending) -> None:
        """Become the leader, if that is possible."""
        if self._may_lead:
            self._wake = self._channel.begin_to_lead(self._token)
        # A question may have come first, for any request; answering it takes long.
        if pending.has_news():
            self.end()

    def wait_for_news(self, pending: Pending, until: float | None) -> bool:
        """Wait until *pending* has news, and return whether it has.

        Cancellation: ends at once.
        """
        if self._wake is None:
            self.begin(pending)
        if self._wake is not None:
            self._channel.lead(pending, until)
            if pending.is_over:
                return True
            self.end()
            if pending.has_news() or self._token.cancelled:
                return pending.has_news()
        return pending.wait_woken(until)

    def end(self) -> None:
        """Leave the output to others. Safe to repeat."""
        if self._wake is not None:
            wake, self._wake = self._wake, None
            self._channel.stop_leading(wake, self._token)
