"""How much a run has used, and how much it may."""

from __future__ import annotations

from collections import deque

from ..models.model import Model
from ..policies import LimitName, Limits
from ..usage import Usage

__all__ = ["Meter"]


class Meter:
    """Count what a run uses; one that is resumed goes on with the same."""

    def __init__(self, limits: Limits, model: Model) -> None:
        self._limits = limits
        self._model = model
        self.turns = 0
        self.tool_calls = 0
        #: The limit that was reached, if one was.
        self.limit: LimitName | None = None
        self._usage = Usage()
        self._cost: float | None = None
        #: What is not counted yet; sub-agents add theirs from their own threads.
        self._spent: deque[tuple[Usage, float | None]] = deque()
        self._has_warned = False

    def spend(self, usage: Usage) -> None:
        """Add what an answer of the model has used."""
        self._spent.append((usage, self._model.cost(usage)))

    def add(self, usage: Usage, cost: float | None) -> None:
        """Add what somebody else has used."""
        self._spent.append((usage, cost))

    @property
    def usage(self) -> Usage:
        """All that was used up to now."""
        self._count()
        return self._usage

    @property
    def cost(self) -> float | None:
        """The same in US dollars, as far as prices are known."""
        self._count()
        return self._cost

    def _count(self) -> None:
        while self._spent:
            usage, cost = self._spent.popleft()
            self._usage += usage
            if cost is not None:
                self._cost = cost + (self._cost or 0.0)

    @property
    def calls_left(self) -> int | None:
        """How many tools may still be called; ``None`` is any number."""
        limit = self._limits.tool_calls
        return None if limit is None else limit - self.tool_calls

    def reached(self) -> LimitName | None:
        """Return the limit that keeps the model from being asked again."""
        if self.limit is None:
            used = self._used().items()
            full = (name for name, (part, limit) in used if part >= limit)
            self.limit = next(full, None)
        return self.limit

    def warning(self) -> str:
        """Return what to tell the model, once, when it is near the end."""
        limits = self._limits
        if limits.warn_at is None or self._has_warned or not self.turns:
            return ""
        used = self._used()
        if limits.tool_calls is not None:
            used["tool_calls"] = (self.tool_calls, limits.tool_calls)
        for name, (part, limit) in used.items():
            if part >= limit * limits.warn_at:
                self._has_warned = True
                return (
                    f"<system>You have used {part:g} of {limit:g} "
                    f"{name.replace('_', ' ')}. Finish with what you have.</system>"
                )
        return ""

    def _used(self) -> dict[LimitName, tuple[float, float]]:
        """Return how much of each limit is used up; not of those that are none."""
        limits = self._limits
        used: dict[LimitName, tuple[float, float]] = {}
        if limits.turns is not None:
            used["turns"] = (self.turns, limits.turns)
        if limits.tokens is not None:
            used["tokens"] = (self.usage.total_tokens, limits.tokens)
        if limits.cost is not None:
            used["cost"] = (self.cost or 0.0, limits.cost)
        return used
