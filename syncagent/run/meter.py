"""The meter of a run: what it has used, and what its limits leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..cancel import CancelToken
from ..models.model import Model, RunModel
from ..policies import LimitName, Limits
from ..usage import Usage
from .budget import Budget, Reservation

__all__ = ["Meter"]


class Meter:
    """Count what a run uses. A resumed run keeps its meter.

    A run that goes on after an error, a limit or a cancel keeps its sums, and its
    limits count anew: :meth:`renew`.

    :param needs_price: True if a limit of an outer run counts the cost of this one.
    :param budgets: those that the run shares with others; an outer run's are among
        them, and it must not charge them again.
    """

    def __init__(
        self,
        limits: Limits,
        model: Model,
        *,
        needs_price: bool = False,
        budgets: Iterable[Budget | None] = (),
    ) -> None:
        self._limits = limits
        self._reservations: tuple[Reservation, ...] = ()
        #: True if a limit counts the cost: every price must be known.
        self.needs_price = needs_price or limits.cost is not None
        self.turns = 0
        self.tool_calls = 0
        #: The limit that was reached, if one was.
        self.limit: LimitName | None = None
        #: Usage and cost of each response: sub-agents append from their own threads.
        self._charges: Final = list[tuple[Usage, float | None]]()
        #: How many of them were added up, and their sums. Replaced as a whole: any
        #: thread may ask for the usage in the middle of a run.
        self._counted: tuple[int, Usage, float | None] = (0, Usage(), None)
        self._has_warned = False
        #: Turns, tool calls, tokens and cost that the limits do not count any more.
        self._before: tuple[int, int, int, float] = (0, 0, 0, 0.0)
        self.use(model, budgets)

    def use(self, model: Model, budgets: Iterable[Budget | None]) -> None:
        """Ask *model* and charge *budgets* from here on."""
        found = {each for each in budgets if each is not None}
        #: In the order in which they must be reserved.
        self.budgets = shared = sorted(found, key=lambda each: each.number)
        self.needs_price |= any(each.limits.cost is not None for each in shared)
        #: The model of the run, by whose prices it is charged.
        self.model = self.metered(model)

    def metered(self, model: Model) -> RunModel:
        """Return *model* for requests of this run, as the meter will charge them."""
        # Not this meter: they would be a cycle.
        charges, shared = self._charges, self.budgets
        return model.for_run(
            lambda usage, cost: _charge_elsewhere(charges, shared, model, usage, cost)
        )

    def renew(self) -> None:
        """Let the limits count from here on; the sums stay."""
        usage, cost = self._count()
        self._before = (self.turns, self.tool_calls, usage.total_tokens, cost or 0.0)
        self.limit, self._has_warned = None, False

    def spend(self, usage: Usage, model: RunModel | None = None) -> None:
        """Charge a response.

        :param model: that it is from, if not that of the run.
        """
        model = model or self.model
        cost = model.cost(usage)
        self._charges.append((usage, cost))
        if not self.budgets:
            return
        if not self._reservations:  # the caller had no need to wait for it
            for budget in self.budgets:
                budget.charge(model.full_name, usage, cost)
        for reservation in self._reservations:
            reservation.settle(usage, cost)
        self._reservations = ()

    def reserve(
        self,
        bound: Usage | None,
        token: CancelToken,
        on_wait: Callable[[], object],
        model: RunModel | None = None,
    ) -> bool:
        """Reserve the next request in all budgets, and wait until it fits there.

        Cancellation: ends at once; nothing is reserved then.

        :param bound: the most that it may use, if that is known.
        :param model: that is asked, if not that of the run.
        :return: false if one of them is used up: the run ends.
        """
        try:
            for budget in self.budgets:
                reservation = budget.reservation(model or self.model, bound)
                # Before it is made: a signal handler may raise at any moment.
                self._reservations += (reservation,)
                reservation.wait(token, on_wait)
                if reservation.refusal is not None:
                    self.limit = reservation.refusal
                    self.release()
                    return False
        except BaseException:
            self.release()
            raise
        return True

    def release(self) -> None:
        """Give back what is still reserved: nothing was sent. Safe to repeat."""
        for reservation in self._reservations:
            reservation.release()
        self._reservations = ()

    def add(self, usage: Usage, cost: float | None) -> None:
        """Charge what a sub-agent has used."""
        self._charges.append((usage, cost))

    @property
    def usage(self) -> Usage:
        """The usage so far."""
        return self._count()[0]

    @property
    def cost(self) -> float | None:
        """The cost so far in US dollars, as far as prices are known."""
        return self._count()[1]

    def _count(self) -> tuple[Usage, float | None]:
        counted, usage, cost = self._counted
        charges = self._charges[counted:]
        for more_usage, more_cost in charges:
            usage += more_usage
            if more_cost is not None:
                cost = more_cost + (cost or 0.0)
        self._counted = (counted + len(charges), usage, cost)
        return usage, cost

    @property
    def calls_left(self) -> int | None:
        """How many tools may still be called; ``None`` without a limit."""
        limit = self._limits.tool_calls
        return None if limit is None else limit - self.tool_calls + self._before[1]

    def reached(self) -> LimitName | None:
        """Return the limit that forbids another turn, or None."""
        if self.limit is None:
            for name, (used, limit) in self._used().items():
                if used >= limit:
                    self.limit = name
                    break
        for budget in self.budgets:
            self.limit = self.limit or budget.reached
        return self.limit

    def warning(self) -> str:
        """Return what to tell the model, once, when a limit is near; else nothing."""
        limits = self._limits
        is_first = self.turns == self._before[0]
        if limits.warn_at is None or self._has_warned or is_first:
            return ""
        used = self._used()
        if limits.tool_calls is not None:
            calls = self.tool_calls - self._before[1]
            used["tool_calls"] = (calls, limits.tool_calls)
        for name, (amount, limit) in used.items():
            if amount >= limit * limits.warn_at:
                self._has_warned = True
                return (
                    f"<system>You have used {amount:g} of {limit:g} "
                    f"{name.replace('_', ' ')}. Finish with what you have.</system>"
                )
        return ""

    def _used(self) -> dict[LimitName, tuple[float, float]]:
        """Return the used amount and the limit, for each limit that is set."""
        limits = self._limits
        turns, _, tokens, cost = self._before
        used: dict[LimitName, tuple[float, float]] = {}
        if limits.turns is not None:
            used["turns"] = (self.turns - turns, limits.turns)
        if limits.tokens is not None:
            used["tokens"] = (self.usage.total_tokens - tokens, limits.tokens)
        if limits.cost is not None:
            used["cost"] = ((self.cost or 0.0) - cost, limits.cost)
        return used


def _charge_elsewhere(
    charges: list[tuple[Usage, float | None]],
    budgets: Sequence[Budget],
    model: Model,
    usage: Usage,
    cost: float | None,
) -> None:
    """Charge a request that another model was asked, and could not respond to."""
    charges.append((usage, cost))
    for budget in budgets:
        budget.charge(model.full_name, usage, cost, calls=0)
