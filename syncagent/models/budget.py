"""A budget for many runs: reserved before each request, settled after it.

Guarantees:

- A request starts only if what was spent, what is reserved and its own reservation fit
  the budget, or if something is left and no other request is out. So the budget is
  exceeded by one request at most, if no request needs more than its reservation: its
  input, and the longest response.
- A reservation is settled on every way out, with the reported or estimated usage.
- No thread holds the lock while it waits, and no cancel takes it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

import msgspec

from .._checks import check_number
from .._forks import in_child
from ..cancel import CancelToken, clock
from ..cancel.waits import Watch
from ..compaction.sizes import estimate, tokens_of
from ..events import MessageFinished
from ..exceptions import Cancelled, ConfigurationError, SyncAgentError
from ..messages import AssistantMessage, Message
from ..options import Options, ToolSpec
from ..transport.timeouts import Timeouts
from ..usage import Usage
from .model import RunModel
from .response import NOT_SENT, Events, ModelResponse

__all__ = ["Budget", "BudgetedModel", "OverBudget", "Reservation", "Spent"]

#: Tokens of a response whose length is not limited.
_RESPONSE: Final = 4096


class OverBudget(Exception):
    """Ends a run whose budget is used up; its result has ``limit="budget"``."""


class Spent(msgspec.Struct, frozen=True):
    """An amount that was spent, or is left."""

    #: US dollars.
    cost: float = 0.0
    #: Input and output tokens.
    tokens: int = 0
    #: Requests to a model.
    calls: int = 0

    def plus(self, other: Spent) -> Spent:
        """Return the sum of both."""
        return Spent(
            self.cost + other.cost,
            self.tokens + other.tokens,
            self.calls + other.calls,
        )


class Budget:
    """A limit for all runs that share it, on any number of threads.

    ``Agent(budget=budget)``: the runs of all such agents, and of their sub-agents, are
    counted together. Once it is used up, no request starts: runs end with
    ``stop_reason="limit"`` and ``limit="budget"``, and ``resume()`` goes on with them
    when there is a new budget. Near the end a request waits, in the phase ``budget``,
    until those that are out have told what they cost; a cancel ends the wait.

    The budget is exceeded by one request at most, if ``max_tokens`` is set; else a
    response is taken to have 4,096 tokens, or as many as the longest so far.

    :param cost: US dollars. The prices of all models must be known.
    :param tokens: input and output tokens.
    :param calls: requests to models.
    :param per: seconds after which everything is allowed again, such as 86,400.
    :raises ConfigurationError: there is no limit, or one is not positive.
    """

    def __init__(
        self,
        *,
        cost: float | None = None,
        tokens: int | None = None,
        calls: int | None = None,
        per: float | None = None,
    ) -> None:
        for name, limit in (("cost", cost), ("tokens", tokens), ("calls", calls)):
            check_number(
                f"Budget({name}=...)",
                limit,
                is_positive=True,
                is_integer=name != "cost",
                allow_none=True,
            )
        check_number("Budget(per=...)", per, is_positive=True, allow_none=True)
        if cost is None and tokens is None and calls is None:
            raise ConfigurationError("a budget needs a limit: cost, tokens or calls")
        self._limits: dict[str, float] = {}
        for name, limit in (("cost", cost), ("tokens", tokens), ("calls", calls)):
            if limit is not None:
                self._limits[name] = limit
        self._per = per
        self._until: float | None = None
        self._spent = Spent()
        #: The largest request so far.
        self._largest = Spent()
        self._start_over()
        _all.add(self)

    def _start_over(self) -> None:
        """Forget the requests of other threads: in a child of a fork there are none."""
        self._lock = threading.RLock()  # a signal handler may make a run, too
        self._held: dict[Reservation, Spent] = {}
        self._watch = Watch()

    # -- for its owner -------------------------------------------------------------

    @property
    def spent(self) -> Spent:
        """The sum of all requests that have ended."""
        with self._lock:
            self._renew()
            return self._spent

    @property
    def is_used_up(self) -> bool:
        """True once no request may start."""
        with self._lock:
            self._renew()
            return self._is_over()

    @property
    def counts_cost(self) -> bool:
        """True if it limits the cost, so that prices must be known."""
        return "cost" in self._limits

    def extend(self, *, cost: float = 0.0, tokens: int = 0, calls: int = 0) -> None:
        """Allow more, beside what was allowed before.

        :raises ConfigurationError: it has no such limit, or a number is negative.
        """
        more = {"cost": cost, "tokens": tokens, "calls": calls}
        for name, amount in more.items():
            check_number(name, amount)
            if amount and name not in self._limits:
                raise ConfigurationError(f"the budget has no limit on {name}")
        with self._lock:
            for name in self._limits:
                self._limits[name] += more[name]
        self._watch.wake()

    def reset(self) -> None:
        """Forget what was spent. Requests that are out still count when they end."""
        with self._lock:
            self._spent, self._until = Spent(), None
        self._watch.wake()

    def __repr__(self) -> str:
        spent = self.spent
        parts = [
            f"{getattr(spent, name):g} of {limit:g} {name}"
            for name, limit in self._limits.items()
        ]
        return f"<Budget: {', '.join(parts)}>"

    # -- for requests --------------------------------------------------------------

    def reserve(
        self,
        held: Reservation,
        amount: Spent,
        token: CancelToken,
        on_phase: Callable[[str], object] | None = None,
    ) -> None:
        """Reserve *amount* for one request, as soon as it fits.

        Cancellation: a wait ends at once.

        :param held: stands for the request; it must be settled in any case.
        :param on_phase: called with ``budget`` if it has to wait.
        :raises OverBudget: it is used up.
        :raises Cancelled: *token* was cancelled.
        """
        if not self._try(held, amount):
            if on_phase is not None:
                on_phase("budget")
            self._watch.wait(lambda: self._try(held, amount), token)
            token.checkpoint()
        if held not in self._held:
            raise OverBudget("the budget is used up")

    def _try(self, held: Reservation, amount: Spent) -> bool:
        """Reserve, if it fits; return false to wait for those that are out."""
        with self._lock:
            self._renew()
            if held in self._held or self._is_over():
                return True  # in the second case without a reservation
            largest = self._largest
            amount = Spent(
                max(amount.cost, largest.cost), max(amount.tokens, largest.tokens), 1
            )
            total = self._spent.plus(amount)
            for other in self._held.values():
                total = total.plus(other)
            limits = self._limits.items()
            fits = all(getattr(total, name) <= limit for name, limit in limits)
            # A thread in the middle of another response cannot wait for its end.
            is_nested = any(each.thread == held.thread for each in self._held)
            if not fits and self._held and not is_nested:
                return False
            self._held[held] = amount
            return True

    def settle(self, held: Reservation, amount: Spent | None) -> None:
        """Replace a reservation by what was used; None for nothing. Safe to repeat."""
        with self._lock:
            if self._held.pop(held, None) is None:
                return
            if amount is not None:
                self._add(amount)
        self._watch.wake()

    def add(self, amount: Spent) -> None:
        """Add what was spent without a reservation."""
        with self._lock:
            self._add(amount)

    def _add(self, amount: Spent) -> None:
        self._renew()
        if self._per is not None and self._until is None:
            self._until = clock.now() + self._per
        self._spent = self._spent.plus(amount)
        self._largest = Spent(
            max(self._largest.cost, amount.cost),
            max(self._largest.tokens, amount.tokens),
        )

    def _is_over(self) -> bool:
        limits = self._limits.items()
        return any(getattr(self._spent, name) >= limit for name, limit in limits)

    def _renew(self) -> None:
        """Begin a new period if the last one is over."""
        if self._until is not None and clock.now() >= self._until:
            self._spent, self._until = Spent(), None


_all: weakref.WeakSet[Budget] = weakref.WeakSet()


@in_child
def _start_over() -> None:
    for budget in list(_all):
        budget._start_over()


class Reservation:
    """The part of a budget that one request may use."""

    __slots__ = ("_budget", "thread")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        #: The thread that makes the request.
        self.thread = threading.get_ident()

    def settle(self, amount: Spent | None) -> None:
        """Replace it by what was used; None for nothing. Safe to repeat."""
        self._budget.settle(self, amount)


class BudgetedModel:
    """The model of one run, whose requests need a part of each budget."""

    def __init__(self, model: RunModel, budgets: Sequence[Budget]) -> None:
        self._model = model
        self._budgets = budgets
        #: The estimate of the first messages, and how many they are.
        self._known: tuple[int, int] = (0, 0)

    @property
    def full_name(self) -> str:
        """The provider and the name of the model that is asked now."""
        return self._model.full_name

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of the newest request."""
        return self._model.cost(usage)

    def ask(
        self,
        messages: Sequence[Message] | str,
        tools: Sequence[ToolSpec] = (),
        *,
        token: CancelToken | None = None,
        options: Options | None = None,
        timeouts: Timeouts | None = None,
        on_phase: Callable[[str], object] | None = None,
    ) -> ModelResponse:
        """Request the next message, once the budgets allow it.

        Cancellation: ends at once, also the wait for the budgets.
        """
        token = token or CancelToken()
        size = self._estimate(messages, tools, options)
        longest = (options and options.max_tokens) or _RESPONSE
        usage = Usage(size, longest)
        amount = Spent(self._model.cost(usage) or 0.0, usage.total_tokens, 1)

        response = _BudgetedResponse()

        def note(phase: str) -> None:
            response.is_sent = response.is_sent or phase not in NOT_SENT
            if on_phase is not None:
                on_phase(phase)

        def ask() -> ModelResponse:
            return self._model.ask(
                *(messages, tools),
                token=token,
                options=options,
                timeouts=timeouts,
                on_phase=note,
            )

        response.play(self._events(response, ask, amount, token, on_phase))
        return response

    def _estimate(
        self,
        messages: Sequence[Message] | str,
        tools: Sequence[ToolSpec],
        options: Options | None,
    ) -> int:
        """Return the estimated tokens of a request; only new messages are looked at."""
        if isinstance(messages, str):
            return tokens_of(len(messages))
        count, total = self._known
        if count > len(messages):
            count = total = 0
        total += estimate(messages[count:])
        self._known = (len(messages), total)
        system = 0 if options is None else len(options.system)
        specs = sum(len(each.name) + len(each.description) + 200 for each in tools)
        return total + tokens_of(system + specs)

    def _events(
        self,
        response: _BudgetedResponse,
        ask: Callable[[], ModelResponse],
        amount: Spent,
        token: CancelToken,
        on_phase: Callable[[str], object] | None,
    ) -> Events:
        """Yield the events of a response, and settle the reservations at its end."""
        held = [Reservation(budget) for budget in self._budgets]
        used: Usage | None = None
        try:
            for budget, each in zip(self._budgets, held, strict=True):
                budget.reserve(each, amount, token, on_phase)
            with closing(ask()) as response.current:
                for event in response.current:
                    if event.__class__ is MessageFinished:
                        assert isinstance(event, MessageFinished)
                        used = event.usage
                    yield event
        except (Cancelled, SyncAgentError) as error:
            used = error.usage if isinstance(error.usage, Usage) else used
            raise
        except GeneratorExit:
            used = used or response.current.usage
            raise
        finally:
            spent = None
            if used is not None and response.is_sent:
                cost = self._model.cost(used) or 0.0
                spent = Spent(cost, used.total_tokens, 1)
            for each in held:
                each.settle(spent)


class _BudgetedResponse(ModelResponse):
    """The response of the model behind the budgets."""

    def __init__(self) -> None:
        super().__init__()
        #: The response of that model.
        self.current = ModelResponse()
        #: True once the provider may have received the request.
        self.is_sent = False

    def play(self, events: Events) -> None:
        """Make *events* the events of this response."""
        self._events = events

    def partial(self) -> AssistantMessage | None:
        """Return the content so far, as a message that was cut off, or None."""
        return self.current.partial()

    @property
    def usage(self) -> Usage:
        """The usage so far."""
        return self.current.usage
