"""A limiter: requests wait here rather than be refused by the provider."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from .._checks import check_number
from .._forks import in_child
from ..cancel import CancelToken, clock
from ..exceptions import ProviderError, RateLimited, TransportError
from ..transport.gate import OnPhase
from ..usage import Usage
from .lane import FixedLimits, Lane, Rejection, Ticket

if TYPE_CHECKING:
    from ..options import Options
    from .model import Model

__all__ = ["Limiter", "Passage"]

#: Characters of a payload for each token.
_CHARACTERS: Final = 4


class Limiter:
    """Have requests wait until the provider will accept them. Share it.

    Any number of threads, agents and models may share one; it needs no settings. It
    learns from refusals (429), from ``Retry-After`` and from the rate-limit headers of
    each provider: one refusal makes all threads wait, rather than each find it out by
    itself, and a request that was refused waits for its turn again, whatever the
    model's retries are. Requests start in the order in which they came.

    Each model at each address has limits of its own for each key, as providers count
    them. Waits are in phase ``limiter``, end with a
    cancel and count in the deadline of a run; they do not in the timeouts of a request.

    Fixed limits are for each model. They hold in any 60 seconds: never more requests
    are started, nor for more tokens. Tokens are estimated at first, with *max_tokens*
    for the response if that is given, and corrected when they are known.

    A forked child starts with an empty limiter.

    :param concurrent: how many requests may be open at once.
    :param requests_per_minute: how many may start in any minute.
    :param tokens_per_minute: input and output tokens of those together.
    :param patience: if the provider asks to wait for more seconds than this, or refuses
        all requests for so long, they fail with
        :exc:`~syncagent.exceptions.RateLimited`, and others are not even sent until
        then. A :class:`~syncagent.Fallback` then asks its next model.
    :raises ConfigurationError: one of them is not a positive number.
    """

    def __init__(
        self,
        *,
        concurrent: int | None = None,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        patience: float = 300.0,
    ) -> None:
        limits = {
            "concurrent": concurrent,
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
        }
        for name, value in limits.items():
            check_number(
                f"Limiter({name}=...)",
                value,
                is_positive=True,
                is_integer=True,
                allow_none=True,
            )
        check_number("Limiter(patience=...)", patience, unit="seconds")
        self._fixed: Final = FixedLimits(
            concurrent, requests_per_minute, tokens_per_minute, patience
        )
        self._lanes: dict[tuple[str, str, int], Lane] = {}
        _limiters[weakref.ref(self, _limiters.__delitem__)] = None

    @property
    def waiting(self) -> int:
        """How many requests wait at the moment."""
        return sum(len(lane.places) for lane in list(self._lanes.values()))

    def passage(self, model: Model, sent: int, options: Options) -> Passage:
        """Return the gate for one request, which may take several attempts.

        :param sent: the size of its payload in bytes.
        """
        lanes = self._lanes
        known, lane = model.lane
        if known is not lanes:
            key = (model.base_url, model.name, model.key_id)
            lane = lanes.setdefault(key, Lane(model.full_name, self._fixed))
            model.lane = (lanes, lane)
        return Passage(lane, sent, options.max_tokens)

    def start_over(self) -> None:
        """Forget the waiting threads: in a forked child, they are the parent's."""
        self._lanes = {}

    def __repr__(self) -> str:
        fields = self._fixed.__struct_fields__
        settings = (f"{name}={getattr(self._fixed, name)!r}" for name in fields)
        return f"<Limiter {', '.join(settings)}>"


class Passage:
    """The way of one request through a lane.

    Implements :class:`~syncagent.transport.gate.AttemptGate`. It belongs to the thread
    of the request.
    """

    __slots__ = ("_key", "_lane", "_max_tokens", "_sent", "_started", "_ticket")

    def __init__(self, lane: Lane, sent: int, max_tokens: int | None) -> None:
        self._lane = lane
        self._sent = sent
        self._max_tokens = max_tokens
        #: Under which the lane knows the attempt; None between two attempts.
        self._key: object = None
        #: The newest one that had to wait, or might have.
        self._ticket: Ticket | None = None
        self._started = 0.0

    def enter(self, token: CancelToken, on_phase: OnPhase | None) -> bool:
        """Wait until the next attempt may begin; return whether that took any time.

        Cancellation: ends at once.

        :raises RateLimited: the wait would be longer than the limiter's patience.
        """
        lane = self._lane
        if lane.is_easy and not lane.places:
            # Not this object: the lane must not keep it alive.
            key, pending = object(), lane.pending
            self._key = key
            pending[key] = self._started = clock.now()  # publish first, then look
            if len(pending) <= lane.window:
                return False
            del pending[key]
        return self._wait(token, on_phase)

    def _wait(self, token: CancelToken, on_phase: OnPhase | None) -> bool:
        ticket = Ticket(-(-self._sent // _CHARACTERS), self._max_tokens)
        self._key = self._ticket = ticket  # before it is in line: leave() takes it out

        def begin() -> None:
            if on_phase is not None:
                on_phase("limiter")

        has_waited = self._lane.wait(ticket, token, begin)
        self._started = clock.now()
        error, ticket.error = ticket.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame
        return has_waited

    def begun(self, headers: Mapping[str, str]) -> None:
        """Note that a response has begun, and is not an error."""
        self._lane.begun(self._key, headers)

    def failed(
        self, error: ProviderError | TransportError, headers: Mapping[str, str]
    ) -> bool:
        """Note that the attempt has failed.

        :return: true if it is to wait for another one: the provider limits the rate.
        """
        wait = getattr(error, "retry_after", None)
        is_limit = isinstance(error, RateLimited) and error.retryable
        if not is_limit and wait is None:
            return False
        refusal = Rejection(clock.now(), self._started, wait)
        return self._lane.refused(refusal, headers) and is_limit

    def leave(self) -> None:
        """Note that the attempt is over. Safe to repeat; never blocks."""
        key = self._key
        if key is not None:
            if isinstance(key, Ticket) and not key.is_admitted:
                self._lane.give_up(key)
            self._lane.end(key)
            self._key = None

    @property
    def counts_tokens(self) -> bool:
        """True if the lane wants to know the usage of the request."""
        return self._ticket is not None

    def used(self, usage: Usage) -> None:
        """Note the usage of the request, when it is over."""
        self._lane.used(self._ticket, usage)

    __del__ = leave


#: All limiters, for a fork. A callback in C: one in Python would swallow the exception
#: of a signal handler.
_limiters: Final[dict[weakref.ref[Limiter], None]] = {}


@in_child
def _start_over_in_child() -> None:
    for ref in list(_limiters):
        limiter = ref()
        if limiter is not None:
            limiter.start_over()
