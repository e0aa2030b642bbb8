"""One limit for all requests to a provider, from any number of threads and agents.

::

    Limiter ──── a Lane for each address and model
                  └ an Admission for each request: waits, is sent, is confirmed, leaves

Guarantees:

- Requests start in the order in which they came. One that was refused keeps its place.
- No thread holds the lock while it waits, and the lock is never taken by a cancel.
- A request counts from its start until it leaves; it leaves on every way out, also if
  it was cancelled, or a signal handler raised. An admission is a member of sets, not a
  number in a counter: leaving twice does no harm.
- A request that leaves the queue, or makes room, wakes the next head. A waiter
  clears its flag before it looks, so that no wake-up is lost.
- After a refusal nothing starts before the time that the provider has named; then one
  request goes first.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Final

from .._checks import check_number
from .._forks import in_child
from ..cancel import CancelToken, clock
from ..cancel.waits import Watch
from ..exceptions import RateLimited
from ..usage import Usage
from .bucket import Bucket
from .rate_headers import read_allowances

__all__ = ["Admission", "Limiter"]

#: Requests without a response that may be out at first, when nothing is known about
#: the provider, and how many more for each response.
_FIRST: Final = 2
_GROWTH: Final = 0.2
#: The part of the learned rate that a refusal leaves, and the part that each response
#: adds.
_CUT: Final = 0.7
_RISE: Final = 0.005
#: The first estimate of the rate, as a part of what was measured.
_MARGIN: Final = 0.85
#: Seconds without a refusal after which the learned rate is forgotten.
_MEMORY: Final = 300.0
#: The wait after a refusal that names none, in seconds, doubled each time.
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
#: Refusals in a row after which the provider's own word for the wait is not enough, and
#: the wait after that, doubled each time.
_ENOUGH: Final = 5
_SHORT_WAIT: Final = 0.05
#: Tokens of a response whose length is not limited.
_RESPONSE: Final = 1000
_MINUTE: Final = 60.0


class Limiter:
    """Make the requests of any number of threads, agents and models fit their limits.

    Give it to the models: ``OpenAIResponses("gpt-6-luna", limiter=limiter)``. Each
    address and model has limits of its own. Without a number the limiter learns from
    the provider: from refusals (status 429), from the wait that they ask for, and from
    the headers with rate limits. A refused request is sent again, and is no failed
    attempt of its run.

    Requests start in the order in which they came. A wait ends with a cancel of its
    run, in the phase ``limiter``.

    :param concurrent: the most responses at the same time.
    :param requests_per_minute: the most requests that start in a minute.
    :param tokens_per_minute: the most tokens, input and output.
    :param max_wait: seconds for which a request is sent again; after that, or if the
        provider asks for a longer wait, the refusal is raised.
    :raises ConfigurationError: a number is not positive.
    """

    def __init__(
        self,
        *,
        concurrent: int | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        max_wait: float = 600.0,
    ) -> None:
        check_number(
            "concurrent", concurrent, minimum=1, is_integer=True, allow_none=True
        )
        for name, number in (
            ("requests_per_minute", requests_per_minute),
            ("tokens_per_minute", tokens_per_minute),
        ):
            check_number(name, number, is_positive=True, allow_none=True)
        check_number("max_wait", max_wait, allow_infinity=True)
        self.concurrent: Final = concurrent
        self.requests_per_minute: Final = requests_per_minute
        self.tokens_per_minute: Final = tokens_per_minute
        self.max_wait: Final = max_wait
        self._lanes: dict[tuple[str, str], _Lane] = {}
        _all.add(self)

    def admission(
        self,
        key: tuple[str, str],
        size: int = 0,
        max_tokens: int | None = None,
        on_phase: Callable[[str], object] | None = None,
    ) -> Admission:
        """Return the admission of one request; it waits in ``enter()``.

        :param key: the address and the model.
        :param size: of the request in bytes.
        :param max_tokens: the longest response.
        :param on_phase: called with ``limiter`` if it has to wait.
        """
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes.setdefault(key, _Lane(self))
        tokens = size // 4 + (_RESPONSE if max_tokens is None else max_tokens)
        return Admission(lane, tokens, on_phase)

    @property
    def waiting(self) -> int:
        """How many requests wait to be sent."""
        return sum(lane.waiting for lane in list(self._lanes.values()))

    @property
    def active(self) -> int:
        """How many requests are sent, and have no complete response yet."""
        return sum(len(lane.active) for lane in list(self._lanes.values()))

    def _start_over(self) -> None:
        """Forget the requests of the parent process."""
        self._lanes = {}

    def __repr__(self) -> str:
        return f"<Limiter: {self.active} active, {self.waiting} waiting>"


_all: weakref.WeakSet[Limiter] = weakref.WeakSet()


@in_child
def _start_over() -> None:
    for limiter in list(_all):
        limiter._start_over()


class _Lane:
    """The limits of one address and model. All fields are guarded by the lock."""

    def __init__(self, limiter: Limiter) -> None:
        self.lock: Final = threading.RLock()  # a signal handler may make a run, too
        self.max_wait: Final = limiter.max_wait
        self._concurrent: Final = limiter.concurrent or math.inf
        #: The places of new requests.
        self.numbers: Final = itertools.count()
        self._queue: list[tuple[int, Admission]] = []
        #: Requests that were sent, and those of them without a head of a response.
        self.active: set[Admission] = set()
        self._unconfirmed: set[Admission] = set()
        #: How many of those there may be.
        self._window = float(_FIRST)
        per_minute, tokens = limiter.requests_per_minute, limiter.tokens_per_minute
        self._requests = None
        if per_minute is not None:
            self._requests = Bucket(per_minute / _MINUTE, max(1.0, per_minute))
        self._tokens = None if tokens is None else Bucket(tokens / _MINUTE, tokens)
        #: The rate that was learned from refusals, and what each response adds to it.
        self._learned: Bucket | None = None
        self._rise = 0.0
        #: Nothing starts before this time; then one request goes first.
        self._closed_until = 0.0
        self._is_probing = False
        #: The requests and tokens that the provider still allows, and until when.
        self._credits: dict[bool, tuple[float, float]] = {}
        #: False as long as nothing but the window counts.
        self._has_limits = (
            limiter.concurrent is not None
            or per_minute is not None
            or tokens is not None
        )
        #: Responses since the lane was opened last.
        self._epoch: float | None = None
        self._confirmed = 0
        self._last_refusal = -math.inf
        #: How often it was closed, so that a wave of refusals counts once.
        self._generation = 0
        self._refusals = 0

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        with self.lock:
            return sum(not each.has_left_queue for _, each in self._queue)

    def _head(self) -> Admission | None:
        queue = self._queue
        while queue and queue[0][1].has_left_queue:
            heapq.heappop(queue)
        return queue[0][1] if queue else None

    def wake_head(self) -> None:
        """Have the first waiter look again."""
        head = self._head()
        if head is not None:
            head.wake()

    def try_start(self, request: Admission) -> float:
        """Start *request* if it may; else return the seconds after which to look."""
        with self.lock:
            if self._queue and not request.is_nested:
                head = self._head()
                if head is not None and head is not request:
                    return math.inf
            now = clock.now()
            # Most lanes are open, and every request passes: look at that first.
            is_open = not self._has_limits and len(self._unconfirmed) < self._window
            request.thread = threading.get_ident()
            delay = 0.0 if is_open else self._delay(request, now)
            if delay > 0:
                return delay
            request.has_left_queue = True
            request.generation = self._generation
            self.active.add(request)
            self._unconfirmed.add(request)
            if self._epoch is None:
                self._epoch = now
            if self._has_limits:
                self._take(request)
            if self._queue:
                self.wake_head()
            return 0.0

    def _delay(self, request: Admission, now: float) -> float:
        if now < self._closed_until:
            return self._closed_until - now
        delay, is_known = 0.0, False
        for is_requests, (left, until) in list(self._credits.items()):
            if now >= until:
                del self._credits[is_requests]
            elif left < 1:
                delay = max(delay, until - now)
            else:
                is_known = is_known or is_requests
        if request.is_nested:
            return delay
        # Where the provider says how many it allows, there is no need to feel the way.
        window = math.inf if is_known else self._window
        if len(self._unconfirmed) >= (1 if self._is_probing else window):
            return math.inf  # a response, or its failure, wakes it
        if len(self.active) >= self._concurrent:
            return math.inf
        if self._requests is not None:
            delay = max(delay, self._requests.delay(1, now))
        if self._tokens is not None:
            delay = max(delay, self._tokens.delay(request.tokens, now))
        if self._learned is not None:
            if now - self._last_refusal > _MEMORY:
                self._learned = None
            else:
                delay = max(delay, self._learned.delay(1, now))
        return delay

    def _take(self, request: Admission) -> None:
        """Take what a request needs out of all buckets."""
        for is_requests, (left, until) in list(self._credits.items()):
            amount = 1 if is_requests else request.tokens
            self._credits[is_requests] = (left - amount, until)
        for bucket, amount in (
            (self._requests, 1),
            (self._tokens, request.tokens),
            (self._learned, 1),
        ):
            if bucket is not None:
                bucket.take(amount)

    def wait_in_line(self, request: Admission) -> None:
        """Put *request* into the queue, at its place.

        A thread that is in the middle of another response must not wait for the end of
        that one: its request passes by all that wait.
        """
        thread = threading.get_ident()
        with self.lock:
            request.is_nested = any(each.thread == thread for each in self.active)
            if request.is_nested:
                return
            request.has_left_queue = False
            heapq.heappush(self._queue, (request.place, request))

    def leave(self, request: Admission) -> None:
        """Forget *request*, wherever it is. Safe to repeat."""
        with self.lock:
            request.has_left_queue = True
            self.active.discard(request)
            self._unconfirmed.discard(request)
            if self._queue:
                self.wake_head()

    def confirm(
        self, request: Admission, status: int, headers: Mapping[str, str]
    ) -> None:
        """Note that the head of a response has come."""
        allowances = read_allowances(headers) if headers else ()
        with self.lock:
            self._unconfirmed.discard(request)
            if status < 400:
                self._confirmed += 1
                self._refusals, self._is_probing = 0, False
                self._window += _GROWTH
                if self._learned is not None:
                    self._learned.rate += self._rise
            now = clock.now() if allowances else 0.0
            for is_requests, remaining, reset in allowances:
                self._has_limits = True
                if reset > self.max_wait:
                    continue  # for the day: the provider has to say no
                # Requests that are on their way are not counted in it yet.
                out = [1 if is_requests else each.tokens for each in self._unconfirmed]
                left = remaining - sum(out)
                known = self._credits.get(is_requests)
                if known is None or now >= known[1] or left < known[0]:
                    self._credits[is_requests] = (left, now + reset)
            if self._queue:
                self.wake_head()

    def refuse(self, request: Admission, asked: float | None) -> float:
        """Note a refusal; return the seconds for which nothing starts.

        :param asked: the seconds that the provider asks to wait.
        """
        with self.lock:
            now, self._has_limits = clock.now(), True
            is_new = request.generation == self._generation
            if asked is None:
                asked = self._usual_wait()
            elif self._refusals > _ENOUGH:  # it is not true that so short a wait helps
                more = _SHORT_WAIT * 2.0 ** min(self._refusals - _ENOUGH, 20)
                asked = max(asked, min(_LONGEST_WAIT, more))
            until = now + asked
            if is_new:  # others that were out at the time are no news
                self._refusals += 1
                self._learn(now, asked)
                self._last_refusal = now
                self._generation += 1
                self._epoch, self._confirmed = None, 0
            self._closed_until = max(self._closed_until, until)
            self._is_probing = True
            return asked

    def _usual_wait(self) -> float:
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(self._refusals, 10))
        return longest * (0.5 + 0.5 * random.random())

    def _learn(self, now: float, wait: float) -> None:
        """Lower the rate."""
        # One request for each wait that is asked for must always be allowed.
        lowest = 1 / max(wait, 0.01)
        if self._learned is None:
            begin = now if self._epoch is None else self._epoch
            measured = self._confirmed / max(now - begin + wait, 0.001)
            rate = max(_MARGIN * measured, lowest)
        else:
            rate = max(_CUT * self._learned.rate, lowest)
        self._learned = Bucket(rate, 1.0, 1.0)
        self._rise = _RISE * rate

    def correct(self, request: Admission, tokens: int) -> None:
        """Replace the estimated tokens of a request by the reported ones."""
        if self._tokens is not None:
            with self.lock:
                self._tokens.take(tokens - request.tokens)


class Admission:
    """One request in a lane, all its attempts included.

    It implements :class:`~syncagent.transport.calls.RequestGate`.
    """

    __slots__ = (
        "_begun",
        "_is_rung",
        "_lane",
        "_on_phase",
        "_watch",
        "generation",
        "has_left_queue",
        "is_nested",
        "place",
        "thread",
        "tokens",
    )

    def __init__(
        self, lane: _Lane, tokens: int, on_phase: Callable[[str], object] | None
    ) -> None:
        self._lane = lane
        self._on_phase = on_phase
        self._watch: Watch | None = None
        self._is_rung = False
        self._begun: float | None = None
        self.tokens = tokens
        #: Its place in the order; a request that is sent again keeps it.
        self.place = next(lane.numbers)
        self.has_left_queue = True
        #: True if its thread is in the middle of another response.
        self.is_nested = False
        self.thread = 0
        self.generation = 0

    def __lt__(self, other: Admission) -> bool:
        return self.place < other.place

    def enter(self, token: CancelToken) -> bool:
        """Wait until an attempt may start.

        Cancellation: ends at once.

        :return: false if *token* was cancelled; nothing has started then.
        """
        lane = self._lane
        if not lane.try_start(self):
            return True
        if self._on_phase is not None:
            self._on_phase("limiter")
        if self._watch is None:
            self._watch = Watch()
        has_started = False
        try:
            lane.wait_in_line(self)
            while not token.cancelled:
                self._is_rung = False  # first: a bell after this is not lost
                delay = lane.try_start(self)
                if not delay:
                    has_started = True
                    return True
                until = None if delay == math.inf else clock.now() + delay
                self._watch.wait(self._has_rung, token, until)
            return False
        finally:
            if not has_started:
                lane.leave(self)

    def _has_rung(self) -> bool:
        return self._is_rung

    def wake(self) -> None:
        """Have the thread that waits look again. Takes no lock."""
        self._is_rung = True  # publish first, then ring
        if self._watch is not None:
            self._watch.wake()

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Note that the head of a response has come."""
        self._lane.confirm(self, status, headers)

    def retries(self, failure: BaseException) -> bool | None:
        """Return whether to send the request again, after a wait in the lane.

        None if it was not refused for its rate, or no wait would help.
        """
        if not isinstance(failure, RateLimited) or not failure.retryable:
            return None
        now = clock.now()
        begun = self._begun = self._begun or now
        wait = self._lane.refuse(self, failure.retry_after)
        return now - begun + wait <= self._lane.max_wait

    def leave(self) -> None:
        """Note that the attempt is over. Safe to repeat."""
        self._lane.leave(self)

    def settle(self, usage: Usage) -> None:
        """Note the tokens that the response has really used."""
        if not usage.estimated and usage.total_tokens:
            self._lane.correct(self, usage.total_tokens)
