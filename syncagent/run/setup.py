"""The setup of an agent: its model, tools, limits and hooks, checked once.

All runs and forks of the agent share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import msgspec

from .._checks import check_number
from ..compaction.steps import Compaction
from ..exceptions import ConfigurationError
from ..hooks import HookSet
from ..models.budget import Budget
from ..models.model import Model
from ..models.names import find_model
from ..options import Options, merge_options
from ..policies import CancelPolicy, Limits
from ..tools.settings import NeedsApproval, ToolDefaults, ToolSettings
from ..transport.timeouts import Timeouts
from ..usage import Usage
from .toolbox import Toolbox

__all__ = ["Setup", "check_price"]


class Setup:
    """The settings that every run of an agent starts from, as the agent gets them.

    :raises ConfigurationError: one of them cannot work; the message says which.
    """

    def __init__(
        self,
        model: Model,
        tools: Iterable[Any],
        *,
        system: str | None,
        limits: Limits,
        cancel_policy: CancelPolicy,
        hooks: Sequence[object],
        parallel_tools: int,
        tool_defaults: ToolDefaults,
        requires_approval: NeedsApproval,
        deps: Any = None,
        sub_agent_events: bool = False,
        compaction: Any = None,
        budget: Budget | None = None,
    ) -> None:
        _check(model, system, limits, cancel_policy, parallel_tools, tool_defaults)
        if not isinstance(sub_agent_events, bool):
            raise ConfigurationError(
                f"sub_agent_events must be True or False; got {sub_agent_events!r:.80}"
            )
        ToolSettings(requires_approval=requires_approval)  # checks it, as for a tool
        self.model = model
        self.toolbox = Toolbox(tools, tool_defaults)
        self.options = model.options
        if system is not None:
            self.options = msgspec.structs.replace(model.options, system=system)
        self._cached_options: Options | None = None
        self.limits = limits
        self.policy = cancel_policy
        self.hooks = HookSet(hooks)
        self.width = parallel_tools
        self.requires_approval = requires_approval
        self.sub_agent_events = sub_agent_events
        self.timeouts = _timeouts(model, limits)
        #: For runs that are given none of their own.
        self.deps = deps
        if budget is not None and not isinstance(budget, Budget):
            raise ConfigurationError(f"budget takes a Budget; got {budget!r:.80}")
        #: Shared with other agents.
        self.budgets: tuple[Budget, ...] = () if budget is None else (budget,)
        if budget is not None and budget.counts_cost:
            check_price(model)
        self.compaction = Compaction.of(compaction)
        if self.compaction is not None:
            needs_price = limits.cost is not None
            needs_price |= any(each.counts_cost for each in self.budgets)
            _check_steps(self.compaction, needs_price=needs_price)

    @property
    def cached_options(self) -> Options:
        """The options for requests that another one will repeat and continue.

        They ask for a cache, unless the caller said something about it. They are made
        when they are needed: an agent that has one short run never does.
        """
        options = self._cached_options
        if options is None:
            options = self.options
            if options.cache is None:
                # Not replace(), which checks all of them again: 4 us for each agent.
                options = copy(options)
                msgspec.structs.force_setattr(options, "cache", True)
            self._cached_options = options
        return options

    def for_run(self, options: Any, tools: tuple[Any, ...]) -> Setup:
        """Return a copy with other options, and with more tools.

        :raises ConfigurationError: an option is wrong, or a name is taken.
        """
        other = copy(self)
        if options is not None:
            other.options = merge_options(self.options, options)
            other._cached_options = None
        if tools:
            other.toolbox = self.toolbox.extended(tools)
        return other


def _check_steps(compaction: Compaction, *, needs_price: bool) -> None:
    """Check the models that write summaries, before a run needs them."""
    for step in compaction.steps:
        name = getattr(step, "model", None)
        if name is None:
            continue
        model = find_model(name)
        if not isinstance(model, Model):
            raise ConfigurationError(
                f"{type(step).__name__} takes a model or its name; got {name!r:.80}"
            )
        if needs_price:
            check_price(model)


def check_price(model: Model) -> None:
    """Check that the price of *model*, whose cost is limited, is known.

    :raises ConfigurationError: it is not.
    """
    if model.cost(Usage()) is None:
        raise ConfigurationError(
            f"no price is known for {model.name} of {model.endpoint.name}, so "
            "a limit on the cost would never end a run; pass the model its price in US "
            "dollars for a million tokens, such as price=Price(input=1.0, output=4.0) "
            "with Price from syncagent.models, or update syncagent"
        )


def _timeouts(model: Model, limits: Limits) -> Timeouts | None:
    """Return the model's timeouts with what the limits change; None for no change."""
    changed: dict[str, float] = {}
    if limits.first_token_seconds is not None:
        changed["headers"] = changed["first_event"] = limits.first_token_seconds
    if limits.stall_seconds is not None:
        changed["stall"] = limits.stall_seconds
    return msgspec.structs.replace(model.timeouts, **changed) if changed else None


def _check(
    model: Any,
    system: Any,
    limits: Any,
    cancel_policy: Any,
    parallel_tools: Any,
    tool_defaults: Any,
) -> None:
    if not isinstance(model, Model):
        raise ConfigurationError(
            "model must be the name of a model, such as 'openai:gpt-6-luna', or an "
            f"object of syncagent.models; got {model!r:.80}"
        )
    if system is not None and not isinstance(system, str):
        raise ConfigurationError(f"system must be a string; got {system!r:.80}")
    if not isinstance(limits, Limits):
        raise ConfigurationError(f"limits takes Limits(...); got {limits!r:.80}")
    if not isinstance(cancel_policy, CancelPolicy):
        raise ConfigurationError(
            f"cancel_policy takes CancelPolicy(...); got {cancel_policy!r:.80}"
        )
    if not isinstance(tool_defaults, ToolDefaults):
        raise ConfigurationError(
            f"tool_defaults takes ToolDefaults(...); got {tool_defaults!r:.80}"
        )
    check_number("parallel_tools", parallel_tools, minimum=1, is_integer=True)
    if limits.cost is not None:
        check_price(model)
