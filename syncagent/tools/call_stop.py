"""The race between the cancel of one call and its end.

Guarantees:

- ``bool(receipt)`` is true if and only if the call was running, or waited for its turn
  in the round, at that moment. A cancel and the end of the call claim the same cell, so
  exactly one of them wins.
- ``cancel()`` never blocks, takes no lock, runs no user code and logs nothing.
- *Publish first, then look.* A canceller claims the cell, then reads the token of the
  call; the run publishes the token, then reads the cell. One of the two sees the other.
- A call is told once. The run, and the other calls of the round, are not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..cancel import CancelReason, CancelToken, clock
from ..cancel.generation import FINISHED
from ..cancel.once import Once, finish_despite_signals
from ..cancel.reason import Cause
from ..messages import Outcome

__all__ = ["CallReceipt", "CallStop", "checked_path"]


class CallStop:
    """The way for a cancel of one call, from its place in the round to its end.

    :param wake: has the thread of the run look at its calls; must take no lock.
    """

    __slots__ = (
        "_decision",
        "_ended",
        "_forced",
        "_token",
        "_wake",
        "forced_at",
        "outcome",
    )

    def __init__(self, wake: Callable[[], object]) -> None:
        #: The cause of the cancel, or FINISHED.
        self._decision: Once[Cause] = Once()
        #: Cancelled at the end; made for the first thread that waits for it.
        self._ended: Once[CancelToken] = Once()
        #: Cancelled by ``force``; made for the first thread that wants it.
        self._forced: Once[CancelToken] = Once()
        self._token: CancelToken | None = None
        self._wake: Callable[[], object] | None = wake
        #: Monotonic time of the first cancel with ``force``.
        self.forced_at: float | None = None
        #: How the call has ended; ``None`` before that.
        self.outcome: Outcome | None = None

    # -- the canceller's side ------------------------------------------------------

    def cancel(
        self, cause: Cause, *, force: bool, is_part: Callable[[], bool]
    ) -> CallReceipt:
        """Tell the call to stop, unless it has ended.

        :param is_part: true on a thread that cannot wait for the end of the call.
        """
        standing = finish_despite_signals(lambda: self._cancel(cause, force=force))
        if standing is FINISHED:
            return CallReceipt(None, cause)
        return CallReceipt(self, standing, first=standing is cause, is_part=is_part)

    def _cancel(self, cause: Cause, *, force: bool) -> Cause:
        """Claim the cell, and reach what is there. Safe to repeat."""
        standing = self._decision.claim(cause)
        if standing is FINISHED or self.outcome is not None:
            return FINISHED
        if force:
            self.forced_at = self.forced_at or clock.now()
            forced = self._forced.value
            if forced is not None:
                forced.cancel(standing[0])
        token, wake = self._token, self._wake
        if token is not None:
            token.cancel(standing[0], standing[1])
        if wake is not None:
            wake()
        return standing

    # -- the run's side ------------------------------------------------------------

    @property
    def cause(self) -> Cause | None:
        """Why the call was told to stop; ``None`` if it was not."""
        standing = self._decision.get(None)
        return None if standing is FINISHED else standing

    def begin(self, token: CancelToken) -> None:
        """Set the token of the next attempt; cancelled at once if the call was."""
        self._token = token
        cause = self.cause
        if cause is not None:
            token.cancel(cause[0], cause[1])

    def forced_by(self, run_forced: CancelToken) -> CancelToken:
        """Return a token that a cancel with ``force``, of call or run, cancels."""
        token = self._forced.claim(run_forced.child())
        if self.forced_at is not None:
            token.cancel()
        return token

    def settle(self) -> bool:
        """Decide that the call has ended, or waits for an answer.

        :return: false if a cancel came first.
        """
        return self._decision.claim(FINISHED) is FINISHED

    def close(self, outcome: Outcome) -> None:
        """Note how the call has ended, and tell receipts. Safe to repeat."""
        self.settle()
        self._token = self._wake = None
        self.outcome = outcome
        ended = self._ended.value
        if ended is not None:
            ended.cancel(origin="closed")

    @property
    def ended(self) -> CancelToken:
        """A token that is cancelled when the call has ended."""
        token = self._ended.claim(CancelToken())
        if self.outcome is not None:
            token.cancel(origin="closed")
        return token


class CallReceipt:
    """The answer of ``cancel_call()``: true if the call was told to stop."""

    __slots__ = ("_cause", "_is_part", "_stop", "first")

    def __init__(
        self,
        stop: CallStop | None,
        cause: Cause,
        *,
        first: bool = False,
        is_part: Callable[[], bool] = bool,
    ) -> None:
        self._stop: Final = stop
        self._cause: Final = cause
        self._is_part: Final = is_part
        #: True if this cancel was the first one of the call.
        self.first: Final = first

    def __bool__(self) -> bool:
        return self._stop is not None

    @property
    def reason(self) -> CancelReason | None:
        """Why the call was told to stop: the reason of the first canceller."""
        return CancelReason(*self._cause) if self else None

    @property
    def outcome(self) -> Outcome | None:
        """How the call has ended; ``None`` before that, and for a false receipt."""
        return None if self._stop is None else self._stop.outcome

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the call has ended, at most *timeout* seconds.

        On the run's own thread, and on those of its tools, it returns at once: the
        wait could never end.

        Cancellation: it waits for the end of a call, so no other cancel ends it.

        :return: whether the call has ended; true if nothing was cancelled.
        """
        if self._stop is None:
            return True
        return self._stop.ended.wait(0.0 if self._is_part() else timeout)

    def __repr__(self) -> str:
        if not self:
            return "<CallReceipt: no such call was running>"
        return f"<CallReceipt: {self.outcome or 'ending'}, first={self.first}>"


def checked_path(call_id: str | Sequence[str]) -> tuple[str, ...]:
    """Return the id of a call, or the ids that lead to it, as a tuple.

    :raises TypeError: it is neither.
    """
    path = (call_id,) if isinstance(call_id, str) else call_id
    if not isinstance(path, (tuple, list)) or not path:
        raise TypeError(f"call_id must be a str, or a tuple of them; got {call_id!r}")
    for each in path:
        if not isinstance(each, str):
            raise TypeError(f"the id of a call must be a str; got {each!r}")
    return tuple(path)
