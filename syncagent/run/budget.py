"""A budget: how much many runs may use together.

Guarantees:

- A request starts only if it fits beside all that are in flight, each reserved with as
  much as it may use. Only one that is alone may use more than is left: the budget is
  exceeded by that request, if at all.
- Every reservation ends: with the usage of its request, with an estimate of that if the
  request was cut off, or with nothing if it was never sent.
- A cancel ends a wait, and the next request in line goes instead.
- A forked child keeps what was spent, and nothing that is in flight in its parent.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Final

import msgspec

from .._checks import check_number
from .._forks import in_child
from ..cancel import CancelToken
from ..cancel.line import NOW, Line, LinePlace
from ..exceptions import ConfigurationError
from ..models.model import RunModel
from ..policies import LimitName
from ..usage import Usage

__all__ = ["Amounts", "Budget", "Ledger", "Reservation", "largest_usage"]

#: At least so many bytes of a payload are a token.
_BYTES: Final = 2
#: Providers add tokens of their own: for tools, and around messages.
_OVERHEAD: Final = 1000

_numbers: Final = itertools.count()


class Amounts(msgspec.Struct, frozen=True):
    """Amounts of a budget; None for what it does not limit, or for unknown costs."""

    #: In US dollars.
    cost: float | None = None
    #: Input and output tokens.
    tokens: int | None = None
    #: Requests to models.
    calls: int | None = None


class _Charge:
    """The usage of one request; told from others by identity."""

    __slots__ = ("calls", "cost", "model", "tokens")

    def __init__(self, model: str, usage: Usage, cost: float | None, calls: int):
        self.model = model
        self.cost = cost or 0.0
        self.tokens = usage.total_tokens
        self.calls = calls


class _Sums:
    """The sums of all requests. Never changed, only replaced."""

    __slots__ = ("calls", "cost", "last", "tokens")

    def __init__(self, cost: float, tokens: int, calls: int, last: object) -> None:
        self.cost = cost
        self.tokens = tokens
        self.calls = calls
        #: The newest charge that is in here.
        self.last = last

    def plus(self, charge: _Charge) -> _Sums:
        """Return the sums with one more charge."""
        return _Sums(
            self.cost + charge.cost,
            self.tokens + charge.tokens,
            self.calls + charge.calls,
            charge,
        )


class Reservation(LinePlace):
    """The part of a budget that one request may use.

    :param model: the model that is asked.
    :param bound: the most that it may use; None if that is not known.
    """

    __slots__ = (
        *("bound", "cost", "ledger", "model", "refusal", "thread", "tokens", "used"),
    )

    def __init__(self, ledger: Ledger, model: RunModel, bound: Usage | None) -> None:
        super().__init__()
        self.ledger: Final = ledger
        self.model: Final = model.full_name
        self.thread: Final = get_ident()
        self.bound = None if bound is None else bound.total_tokens
        self.cost = self.tokens = math.inf
        if bound is not None:
            self.tokens = bound.total_tokens
            self.cost = model.cost(bound) or 0.0
        #: The usage, once it is settled.
        self.used: _Charge | None = None
        #: The limit that was reached.
        self.refusal: LimitName | None = None

    def wait(self, token: CancelToken, on_wait: Callable[[], object]) -> None:
        """Wait until the request fits beside those in flight.

        If the budget is used up, ``refusal`` names the limit.

        Cancellation: ends at once; nothing is reserved then.

        :param on_wait: called before it really waits.
        :raises Cancelled: *token* was cancelled.
        """
        self.ledger.wait(self, token, on_wait)

    def settle(self, usage: Usage, cost: float | None) -> None:
        """End it with what the request has used. Safe to repeat: the first counts."""
        self.used = self.used or _Charge(self.model, usage, cost, 1)
        self.ledger.settle(self)

    def release(self) -> None:
        """End it: nothing more will be used. Safe to repeat, also after settle()."""
        ledger = self.ledger
        if self.used is not None:
            ledger.settle(self)
        elif not self.is_admitted:
            ledger.give_up(self)
        elif self in ledger.reserved:
            ledger.reserved.pop(self, None)
            ledger.look()


class Ledger(Line):
    """The books of a budget: sums, reservations, and the line of waiting threads.

    :param limits: the amounts of the budget.
    """

    def __init__(self, limits: Amounts, spent: _Sums) -> None:
        super().__init__()
        self._limits: Final = limits
        #: Requests in flight.
        self.reserved: Final[dict[Reservation, None]] = {}
        self._charges: Final[deque[_Charge | Reservation]] = deque()
        self._spent = spent
        #: The most that one request of a model has used: tokens and cost.
        self._largest: Final[dict[str, tuple[int, float]]] = {}

    def charge(self, charge: _Charge) -> None:
        """Charge a request that was not reserved."""
        self._charges.append(charge)
        self.look(always=True)

    def settle(self, reservation: Reservation) -> None:
        """Charge a request in place of its reservation. Safe to repeat."""
        self._charges.append(reservation)
        self.look(always=True)

    @property
    def spent(self) -> _Sums:
        """The sums so far."""
        self.look(always=True)
        return self._spent

    def reached(self, spent: _Sums) -> LimitName | None:
        """Return the limit that is used up, if one is."""
        limits = self._limits
        if limits.cost is not None and spent.cost >= limits.cost:
            return "budget_cost"
        if limits.tokens is not None and spent.tokens >= limits.tokens:
            return "budget_tokens"
        if limits.calls is not None and spent.calls >= limits.calls:
            return "budget_calls"
        return None

    # -- on one thread at a time ---------------------------------------------------

    def prepare(self) -> None:
        """Add up new charges. Safe to repeat at any step: none counts twice."""
        while self._charges:
            item = self._charges[0]
            if not isinstance(item, Reservation):
                self._add(item)
            elif item in self.reserved and item.used is not None:
                self._add(item.used)
                self.reserved.pop(item, None)
            self._charges.popleft()

    def _add(self, charge: _Charge) -> None:
        if self._spent.last is not charge:
            tokens, cost = self._largest.get(charge.model, (0, 0.0))
            largest = (max(tokens, charge.tokens), max(cost, charge.cost))
            self._largest[charge.model] = largest
            self._spent = self._spent.plus(charge)

    def decide(self, place: LinePlace) -> float:
        """Return at once whether the first request in line may start, or be refused."""
        assert isinstance(place, Reservation)
        spent, limits = self._spent, self._limits
        place.refusal = self.reached(spent)
        # Its own thread would wait for itself, as inside of a stream.
        others = [each for each in list(self.reserved) if each.thread != place.thread]
        if place.refusal is not None or not others:
            return NOW
        self._resize(place)
        others = list(self.reserved)
        cost = spent.cost + place.cost + sum(each.cost for each in others)
        tokens = spent.tokens + place.tokens + sum(each.tokens for each in others)
        calls = spent.calls + 1 + len(others)
        fits = (
            (limits.cost is None or cost <= limits.cost)
            and (limits.tokens is None or tokens <= limits.tokens)
            and (limits.calls is None or calls <= limits.calls)
        )
        return NOW if fits else math.inf

    def _resize(self, place: Reservation) -> None:
        """Reserve no less than the largest request of the model has used."""
        largest = self._largest.get(place.model)
        if largest is None:
            return
        tokens, cost = largest
        if place.bound is None:
            place.tokens, place.cost = tokens, cost
        else:
            place.tokens = max(place.tokens, tokens)
            place.cost = max(place.cost, cost)

    def admit(self, place: LinePlace) -> None:
        """Note that a request starts."""
        assert isinstance(place, Reservation)
        if place.refusal is None:
            self._resize(place)
            self.reserved[place] = None

    def withdraw(self, place: LinePlace) -> None:
        """Forget a request that was never sent."""
        self.reserved.pop(place, None)  # type: ignore[call-overload]


class Budget:
    """How much many runs may use together. Share it.

    Any number of threads, agents and sub-agents may share one. A run that finds it used
    up ends with ``stop_reason="limit"``, and ``result.limit`` is ``budget_cost``,
    ``budget_tokens`` or ``budget_calls``; its conversation is valid, and the run can be
    resumed under another budget.

    A request is counted as it starts, with the most that it may use, so that requests
    in flight count, too. The budget is exceeded by one request at most. That is exact
    with ``max_tokens=``, which bounds a response; without it a request counts as much
    as the largest one of its model so far, and the first one goes alone. A request that
    does not fit beside those in flight waits until one of them has ended, in phase
    ``budget``. Cancelled requests count with an estimate of what they have used.

    A forked child goes on with a copy of its own.

    :param cost: in US dollars; the price of every model must be known.
    :param tokens: input and output tokens.
    :param calls: requests to models; attempts at the same request count once.
    :raises ConfigurationError: nothing is limited, or one is not a positive number.
    """

    def __init__(
        self,
        *,
        cost: float | None = None,
        tokens: int | None = None,
        calls: int | None = None,
    ) -> None:
        limits = Amounts(cost, tokens, calls)
        for name in limits.__struct_fields__:
            check_number(
                f"Budget({name}=...)",
                getattr(limits, name),
                is_positive=True,
                is_integer=name != "cost",
                allow_none=True,
            )
        if limits == Amounts():
            raise ConfigurationError("a Budget needs a limit: cost=, tokens= or calls=")
        #: The limits, as they were given.
        self.limits: Final = limits
        #: Runs with several budgets reserve in this order, so that none waits for
        #: another one that waits for it.
        self.number: Final = next(_numbers)
        self._ledger = Ledger(limits, _Sums(0.0, 0, 0, None))
        _budgets[weakref.ref(self, _budgets.__delitem__)] = None

    @property
    def spent(self) -> Amounts:
        """The amounts used so far, without requests in flight."""
        spent = self._ledger.spent
        return Amounts(spent.cost, spent.tokens, spent.calls)

    @property
    def remaining(self) -> Amounts:
        """The amounts left, at least 0; None where there is no limit."""
        spent, limits = self._ledger.spent, self.limits
        cost, tokens, calls = limits.cost, limits.tokens, limits.calls
        return Amounts(
            None if cost is None else max(0.0, cost - spent.cost),
            None if tokens is None else max(0, tokens - spent.tokens),
            None if calls is None else max(0, calls - spent.calls),
        )

    @property
    def in_flight(self) -> int:
        """How many requests are reserved at the moment."""
        return len(self._ledger.reserved)

    @property
    def reached(self) -> LimitName | None:
        """The limit that is used up, as ``result.limit`` names it, or None."""
        return self._ledger.reached(self._ledger.spent)

    def charge(
        self, model: str, usage: Usage, cost: float | None, calls: int = 1
    ) -> None:
        """Charge a request that was not reserved, such as one you make by yourself.

        :param model: its name, for the size of later ones.
        :param cost: in US dollars, if known.
        """
        self._ledger.charge(_Charge(model, usage, cost, calls))

    def reservation(self, model: RunModel, bound: Usage | None) -> Reservation:
        """Return a reservation for a request; it counts once it has waited.

        :param bound: the most that the request may use, if that is known.
        """
        return Reservation(self._ledger, model, bound)

    def start_over(self) -> None:
        """Forget what is in flight: in a forked child, it is the parent's."""
        self._ledger = Ledger(self.limits, self._ledger._spent)

    def __repr__(self) -> str:
        fields = self.limits.__struct_fields__
        left = ((name, getattr(self.remaining, name)) for name in fields)
        shown = (f"{name} {value:g}" for name, value in left if value is not None)
        return f"<Budget: {', '.join(shown)} left>"


def largest_usage(sent: int, max_tokens: int | None) -> Usage | None:
    """Return the most that a request may use, or None if that is not known.

    :param sent: the size of its payload in bytes; 0 if that is not known.
    :param max_tokens: the most tokens of the response.
    """
    if not sent or max_tokens is None:
        return None
    tokens = sent // _BYTES + _OVERHEAD
    return Usage(tokens, max_tokens, cache_write_tokens=tokens)


#: All budgets, for a fork; see limiter.py.
_budgets: Final[dict[weakref.ref[Budget], None]] = {}


@in_child
def _start_over_in_child() -> None:
    for ref in list(_budgets):
        budget = ref()
        if budget is not None:
            budget.start_over()
