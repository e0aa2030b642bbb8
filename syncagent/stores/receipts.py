"""The receipt of a cancel that a store has recorded."""

from __future__ import annotations

from collections.abc import Callable

from ..cancel import CancelReason, Receipt, clock
from .event_log import StoredEvents
from .records import CancelReply

__all__ = ["StoreReceipt"]


class StoreReceipt(Receipt):
    """The outcome of ``store.cancel()``: true if and only if the run had not ended.

    Then its stored end is ``cancelled``, whatever happens to its worker.
    """

    __slots__ = ("_at", "_follow", "_reply")

    def __init__(self, reply: CancelReply, follow: Callable[[], StoredEvents]) -> None:
        cancel = reply.cancel
        self._at = clock.now()
        super().__init__(None, (cancel.reason, cancel.origin, self._at))
        self._reply = reply
        self._follow = follow
        self.phase = reply.state
        #: The ids of the calls that were recorded as begun before the cancel. No other
        #: call begins after it.
        self.begun = reply.begun

    def __bool__(self) -> bool:
        return self._reply.is_live

    @property
    def first(self) -> bool:
        """True if this call was the one that cancelled the run."""
        return self._reply.is_live and self._reply.is_first

    @property
    def reason(self) -> CancelReason | None:
        """Why the run is cancelled: the reason of the first canceller."""
        cancel = self._reply.cancel
        return CancelReason(cancel.reason, cancel.origin, self._at) if self else None

    @property
    def latency(self) -> float | None:
        """Always ``None``: the run may have ended on another host."""
        return None

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the end of the run is stored, at most *timeout* seconds.

        Cancellation: only the ``cancel`` of the store ends it, at once.

        :return: whether the end is stored; true if the run had ended before.
        """
        if not self or self._reply.has_ended:
            return True
        with self._follow() as events:
            run = events.wait_for_rest(timeout)
            return run is not None and not run.is_live

    def __repr__(self) -> str:
        if not self:
            return "<StoreReceipt: the run had ended>"
        return f"<StoreReceipt: first={self.first}, {self.reason!r}>"
