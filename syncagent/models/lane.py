"""The requests to one model that share its limits: who may start, and when.

A lane knows three kinds of limits, and a request waits for the strictest:

- fixed ones, which the user has set; they hold exactly, in any minute;
- quotas, which the provider reports in headers;
- its own experience with refusals (429). It begins with few requests at a time and
  allows more with each that is accepted, so that a refusal is learnt from by few. A
  refusal closes the lane for all, for as long as the provider asks; then one request
  goes ahead, and the others follow at the pace at which requests were accepted between
  two refusals: that is the provider's rate, whatever its bucket or window is like. The
  pace rises slowly, until the next refusal.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import deque
from collections.abc import Mapping
from threading import get_ident
from typing import Final

import msgspec

from ..cancel import clock
from ..cancel.line import NOW, Line, LinePlace
from ..exceptions import RateLimited
from ..usage import Usage
from .quotas import Quota, read_quotas

__all__ = ["FixedLimits", "Lane", "Rejection", "Ticket"]

#: Requests that may be unanswered at first, and how many more for each accepted one:
#: for the first responses, after them, and once there is a pace.
_WINDOW: Final = 2.0
_FIRST_GROWTH: Final = 0.125
_GROWTH: Final = 0.25
_PACED_GROWTH: Final = 0.05
_START: Final = 24
#: A request that was not refused for so many seconds counts as accepted.
_NEWS: Final = 1.0
#: The length of the window of fixed limits, in seconds.
_MINUTE: Final = 60.0
#: The part of the measured rate at which requests go on after a refusal.
_CAUTION: Final = 0.9
#: How much shorter the interval gets with each request: after the first, how much more
#: for each, and at most. Carefully around a rate that was measured well, else faster.
_CAREFUL: Final = (0.001, 5e-5, 0.02)
_BOLD: Final = (0.005, 1e-3, 0.06)
#: A rate is measured well if so many requests were accepted, and the wait after the
#: refusal was less than this part of the time.
_ENOUGH: Final = 10
_SHORT: Final = 0.3
#: How much faster requests go on where it could not be measured.
_HOPE: Final = 4.0
#: An interval below this, in seconds, is no limit; none is longer than the second.
_NO_INTERVAL: Final = 0.0005
_MAX_INTERVAL: Final = 60.0
#: It is at most so many of the waits that the provider asks for, or these seconds.
_WAITS: Final = 8
_SHORTEST_LIMIT: Final = 0.1
#: How late a request may be without delaying those after it, in seconds.
_SLACK: Final = 0.1
#: Seconds to wait after a refusal that does not say how long: at first, and at most.
_FIRST_WAIT: Final = 0.5
_MAX_WAIT: Final = 30.0
#: The first responses are searched for quotas, and then one of so many.
_FIRST_RESPONSES: Final = 8
_SAMPLE: Final = 64
#: The same for a provider that has sent some.
_SAMPLE_QUOTAS: Final = 16
#: How many times of accepted requests are kept.
_MOST_TIMES: Final = 1000


class FixedLimits(msgspec.Struct, frozen=True):
    """The limits that the user has set."""

    concurrent: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    #: See :class:`~syncagent.models.limiter.Limiter`.
    patience: float = 300.0


class Rejection(msgspec.Struct, frozen=True):
    """An answer 429, or one that asks to wait."""

    at: float
    #: When the request was started.
    started: float
    #: Seconds that the provider asks to wait.
    wait: float | None


class Ticket(LinePlace):
    """A request that waits, or was started after a wait.

    :param input_tokens: an estimate.
    :param max_tokens: the most that the response may have, if that is known.
    """

    __slots__ = ("error", "input_tokens", "max_tokens", "thread", "tokens")

    def __init__(self, input_tokens: int, max_tokens: int | None) -> None:
        super().__init__()
        self.input_tokens: Final = input_tokens
        self.max_tokens: Final = max_tokens
        self.thread: Final = get_ident()
        #: How much it counts in a limit on tokens.
        self.tokens = 0
        #: Why it is turned away.
        self.error: RateLimited | None = None


class Lane(Line):
    """The line of those requests, and all that is known about their limits.

    Dicts change by single steps on any thread; everything else belongs to the deciding
    thread, see :class:`~syncagent.cancel.line.Line`.

    :param name: of the model, for messages.
    """

    def __init__(self, name: str, fixed: FixedLimits) -> None:
        super().__init__()
        self.name: Final = name
        self.fixed: Final = fixed
        #: When each request was started that has no response yet, in order.
        self.pending: Final[dict[object, float]] = {}
        #: Those that had no refusal for a while.
        self._trusted: Final[dict[object, None]] = {}
        #: All that were started and have not ended.
        self._active: Final[dict[Ticket, None]] = {}
        #: How many may be pending.
        self.window = _WINDOW
        #: True while nothing but the window limits.
        self.is_easy = self._is_unlimited = (
            fixed.concurrent is fixed.requests_per_minute is fixed.tokens_per_minute
        )
        #: When the newest requests were accepted.
        self._accepted: Final[deque[float]] = deque(maxlen=_MOST_TIMES)
        self._responses: Final = itertools.count()
        self._refusals: Final[deque[Rejection]] = deque()
        self._sample = _SAMPLE
        #: By the provider's name. Replaced as a whole.
        self._quotas: dict[str, Quota] = {}
        self._closed_until = NOW
        #: When the last refusal was noticed, and for how long it closed the lane.
        self._cut_at = NOW
        self._closed_for = 0.0
        #: When the first refusal came after which nothing was accepted any more.
        self.bad_since = math.inf
        #: Refusals in a row.
        self._failures = 0
        #: Seconds from one request to the next, and when that is; 0 for no pace.
        self._interval = 0.0
        self._next_at = NOW
        self._since_cut = 0
        self._rise = _BOLD
        #: Measured again when the lane opens: from when on, and over how many seconds.
        self._measured: tuple[float, float, bool] | None = None
        #: Tokens of a usual response.
        self._usual_output = 0.0
        #: The requests of the last minute.
        self._minute: Final[deque[tuple[float, Ticket]]] = deque()

    # -- what requests tell; on any thread -----------------------------------------

    def begun(self, key: object, headers: Mapping[str, str]) -> None:
        """Note that a request was accepted."""
        number = next(self._responses)
        if self.pending.pop(key, None) is not None:
            growth = _GROWTH if number >= _START else _FIRST_GROWTH
            self.window += _PACED_GROWTH if self._interval else growth
        self._trusted.pop(key, None)
        self.bad_since = math.inf
        self._accepted.append(clock.now())
        if self._quotas or number < _FIRST_RESPONSES or not number % self._sample:
            self._read(headers)
        if self.places:
            self.look()

    def refused(self, refusal: Rejection, headers: Mapping[str, str]) -> bool:
        """Note that a request was refused; false if waiting cannot help it."""
        self.is_easy = False  # at once: no other request may start now
        self._read(headers)
        self._refusals.append(refusal)
        self.look(always=True)
        is_short = (refusal.wait or 0.0) <= self.fixed.patience
        return is_short and refusal.at - self.bad_since <= self.fixed.patience

    def end(self, key: object) -> None:
        """Note that a request is over. Safe to repeat."""
        self.pending.pop(key, None)
        self._trusted.pop(key, None)
        self._active.pop(key, None)  # type: ignore[call-overload]
        if self.places:
            self.look()

    def used(self, ticket: Ticket | None, usage: Usage) -> None:
        """Note how many tokens a request has used."""
        self._usual_output += (usage.output_tokens - self._usual_output) / 8
        if ticket is not None:
            ticket.tokens = usage.total_tokens or ticket.tokens

    def _read(self, headers: Mapping[str, str]) -> None:
        found = read_quotas(headers, clock.now()) if headers else {}
        if not found:
            return
        self._sample = _SAMPLE_QUOTAS
        if all(quota.is_ample for quota in found.values()):
            self._quotas = {}  # looked at again before they can be used up
        else:
            self._quotas = {**self._quotas, **found}
            self.is_easy = False

    # -- who may start; on one thread at a time ------------------------------------

    def prepare(self) -> None:
        """Take in refusals, corrections, and what has become old."""
        while self._refusals:
            self.cut(self._refusals[0])
            self._refusals.popleft()
        now = clock.now()
        if self._measured is not None and now >= self._closed_until:
            self.set_pace(*self._measured)
        for key, started in list(self.pending.items()):
            if started > now - _NEWS:
                break
            self._trusted[key] = None
            if self.pending.pop(key, None) is None:
                self._trusted.pop(key, None)  # its response came at this moment
            else:
                self.window += _PACED_GROWTH if self._interval else _GROWTH
        while self._minute and self._minute[0][0] <= now - _MINUTE:
            self._minute.popleft()

    def decide(self, place: LinePlace) -> float:
        """Return when the first request in line may start."""
        assert isinstance(place, Ticket)
        now = clock.now()
        self.turn_away(place, now)
        if place.error is not None:
            return NOW
        when = max(self._closed_until, self._next_at)
        if len(self.pending) >= int(self.window):
            oldest = next(iter(list(self.pending.values())), now)
            when = max(when, oldest + _NEWS)
        fixed, active = self.fixed, list(self._active)
        is_full = fixed.concurrent is not None and len(active) >= fixed.concurrent
        # Its own thread would wait for itself, as inside of a stream.
        if is_full and any(each.thread != place.thread for each in active):
            return math.inf
        full = fixed.requests_per_minute
        if full is not None and len(self._minute) >= full:
            when = max(when, self._minute[0][0] + _MINUTE)
        if fixed.tokens_per_minute is not None:
            when = max(when, self.tokens_at(place, fixed.tokens_per_minute))
        if self._quotas:
            when = max(when, self.quotas_at(place))
        return when

    def admit(self, place: LinePlace) -> None:
        """Note that a request starts."""
        assert isinstance(place, Ticket)
        if place.error is not None or place in self._active:
            return
        now = clock.now()
        self._active[place] = None
        self.pending[place] = now
        if self._interval:
            self._next_at = max(self._next_at, now - _SLACK) + self._interval
            self._since_cut += 1
            first, more, most = self._rise
            self._interval *= 1 - min(most, first + more * self._since_cut)
            if self._interval < _NO_INTERVAL:
                self._interval, self._next_at = 0.0, NOW
        if self._is_unlimited:
            self.is_easy = not (self._interval or self._measured or self._quotas)
        else:
            place.tokens = self._estimate(place)
            self._minute.append((now, place))

    def withdraw(self, place: LinePlace) -> None:
        """Forget a request that was never sent."""
        self.pending.pop(place, None)
        self._active.pop(place, None)  # type: ignore[call-overload]

    def turn_away(self, ticket: Ticket, now: float) -> None:
        """Refuse a request that would wait for too long."""
        left, patience = self._closed_until - now, self.fixed.patience
        is_hopeless = left > 0 and self._cut_at - self.bad_since > patience
        if left <= patience and not is_hopeless:
            return
        ticket.error = RateLimited(
            f"the provider limits the rate of {self.name}, and the limiter waits no "
            f"longer: {left:.0f} s are left, and its patience is {patience:g} s; "
            "nothing was sent",
            status=429,
            retry_after=left,
        )

    def tokens_at(self, ticket: Ticket, limit: int) -> float:
        """Return when a fixed limit on tokens lets a request pass."""
        used = sum(other.tokens for _, other in self._minute)
        # One that is larger than the limit goes when nothing else counts any more.
        excess = used + min(self._estimate(ticket), limit) - limit
        when = NOW
        for started, other in self._minute:
            if excess <= 0:
                break
            excess -= other.tokens
            when = started + _MINUTE
        return when

    def quotas_at(self, ticket: Ticket) -> float:
        """Return when the provider's quotas let a request pass."""
        unanswered = [*list(self.pending), *list(self._trusted)]
        when = NOW
        for quota in self._quotas.values():
            need = self._need(ticket, quota)
            others = sum(self._need(other, quota) for other in unanswered)
            when = max(when, quota.when(need, others))
        return when

    def _need(self, key: object, quota: Quota) -> float:
        """Return how much of a quota a request needs, at most all of it."""
        if quota.kind == "requests" or not isinstance(key, Ticket):
            return 1.0
        need = float(self._estimate(key))
        if quota.kind == "input":
            need = float(key.input_tokens)
        elif quota.kind == "output":
            need -= key.input_tokens
        return need if quota.limit is None else min(need, quota.limit)

    def _estimate(self, ticket: Ticket) -> int:
        """Return how many tokens a request will count, as providers see it."""
        output = ticket.max_tokens
        return ticket.input_tokens + (
            int(self._usual_output) if output is None else output
        )

    # -- learning from a refusal ---------------------------------------------------

    def cut(self, refusal: Rejection) -> None:
        """Close the lane for a while, and slow it down."""
        at, wait = refusal.at, refusal.wait
        self.is_easy = False
        if wait is None:
            wait = self.reset_in(at)
        if refusal.started <= self._cut_at:
            # Sent before the last refusal was known: nothing new, except for the wait.
            if wait is not None:
                self._closed_until = max(self._closed_until, at + wait)
            return
        if self.bad_since == math.inf:
            self.bad_since = at
        if wait is None:
            # Doubled as long as nothing is accepted in between.
            wait = min(_MAX_WAIT, _FIRST_WAIT * 2.0 ** min(self._failures, 10))
        # Between two refusals, what was accepted is what was refilled.
        since, seconds = self._cut_at, at - self._cut_at
        self._rise = _CAREFUL if self._closed_for < _SHORT * seconds else _BOLD
        is_guess = seconds > _MINUTE
        if is_guess:
            # Before this refusal a full bucket was emptied: the wait counts, too.
            since, self._rise = at - max(wait, 1.0), _BOLD
            first = next((time for time in list(self._accepted) if time > since), at)
            seconds = at - first + wait
            self.window = 1.0 if self._cut_at == NOW else self.window
        self.window = max(1.0, self.window / 2)
        self._failures += 1
        self._since_cut = 0
        # Some that were sent before may still be accepted: see set_pace().
        self._measured = (since, max(seconds, 0.001), is_guess)
        self._cut_at, self._closed_for = at, wait
        # Not all processes that share the key come back at the same moment.
        wait *= 1 + random.random() / 10
        self._closed_until = self._next_at = max(self._closed_until, at + wait)

    def set_pace(self, since: float, seconds: float, is_guess: bool) -> None:
        """Go on at the rate at which the provider has accepted requests.

        :param is_guess: there was no refusal to measure it from.
        """
        self._measured = None
        accepted = sum(time > since for time in list(self._accepted))
        if accepted:
            self._failures = 0
            self._interval = seconds / accepted / _CAUTION
            if is_guess and accepted < _ENOUGH:  # they say little about the rate
                self._interval /= _HOPE
        else:
            wait = min(1.0, self._closed_for)
            self._interval = max(self._interval * 1.5, wait / 4)
            self.window = 1.0
        if accepted < _ENOUGH:
            self._rise = _BOLD
        # A provider that refuses at random, and asks for short waits, is no slow one.
        slowest = max(_SHORTEST_LIMIT, _WAITS * self._closed_for)
        self._interval = min(_MAX_INTERVAL, slowest, self._interval)

    def reset_in(self, at: float) -> float | None:
        """Return the seconds until used up quotas are reset, if there are any."""
        resets = [each.reset_at for each in self._quotas.values() if each.remaining < 1]
        return max(0.0, max(resets) - at) if resets else None
