"""The meter of a run: what it has used, and what its limits leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..models.budget import Budget, BudgetedModel, Spent
from ..models.model import Model, RunModel
from ..policies import LimitName, Limits
from ..usage import Usage

__all__ = ["Meter"]


class Meter:
    """Count what a run uses. A resumed run keeps its meter.

    A run that goes on after an error, a limit or a cancel keeps its sums, and its
    limits count anew: :meth:`renew`.

    :param needs_price: True if a limit of an outer run counts the cost of this one.
    :param budgets: shared with other runs.
    """

    def __init__(
        self,
        limits: Limits,
        model: Model,
        *,
        needs_price: bool = False,
        budgets: Sequence[Budget] = (),
    ) -> None:
        self._limits = limits
        #: True if a limit counts the cost: every price must be known.
        self.needs_price = needs_price or limits.cost is not None
        self.needs_price |= any(budget.counts_cost for budget in budgets)
        self.budgets: Final = tuple(dict.fromkeys(budgets))
        self.turns = 0
        self.tool_calls = 0
        #: The limit that was reached, if one was.
        self.limit: LimitName | None = None
        #: Usage and cost of each response: sub-agents append from their own threads.
        self._charges = list[tuple[Usage, float | None]]()
        #: The model of the run, by whose prices it is charged.
        self.model: Final[RunModel] = self.for_run(model)
        #: How many of them were added up, and their sums. Replaced as a whole: any
        #: thread may ask for the usage in the middle of a run.
        self._counted: tuple[int, Usage, float | None] = (0, Usage(), None)
        self._has_warned = False
        #: Turns, tool calls, tokens and cost that the limits do not count any more.
        self._before: tuple[int, int, int, float] = (0, 0, 0, 0.0)

    def for_run(self, model: Model) -> RunModel:
        """Return *model* for this run, paid from the budgets of the run.

        It must not refer to this meter: they would be a cycle.
        """
        charges, budgets = self._charges, self.budgets
        if not budgets:
            return model.for_run(lambda *charge: charges.append(charge))

        def charge(usage: Usage, cost: float | None) -> None:
            charges.append((usage, cost))
            for budget in budgets:
                budget.add(Spent(cost or 0.0, usage.total_tokens, 1))

        return BudgetedModel(model.for_run(charge), budgets)

    def renew(self) -> None:
        """Let the limits count from here on; the sums stay."""
        usage, cost = self._count()
        self._before = (self.turns, self.tool_calls, usage.total_tokens, cost or 0.0)
        self.limit, self._has_warned = None, False

    def spend(self, usage: Usage) -> None:
        """Charge a response of the model."""
        self._charges.append((usage, self.model.cost(usage)))

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
