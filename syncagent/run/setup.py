"""The setup of an agent, shared by its runs and forks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .._checks import check_number, check_timeout
from ..exceptions import ConfigurationError
from ..hooks import HookSet
from ..models.model import Model
from ..options import Options, ToolSpec
from ..policies import CancelPolicy, Limits
from ..tools.settings import NeedsApproval, ToolSettings
from ..tools.tool import AnyTool, Tool, as_tool
from ..transport.timeouts import Timeouts
from ..usage import Usage

__all__ = [
    "Setup",
    "check_answering",
    "check_settings",
    "check_words",
    "tools_by_name",
]


class Setup:
    """What an agent is made of; any number of its runs and forks share it."""

    def __init__(
        self,
        model: Model,
        tools: Mapping[str, AnyTool],
        options: Options,
        limits: Limits,
        policy: CancelPolicy,
        hooks: HookSet,
        width: int,
        requires_approval: NeedsApproval = False,
    ) -> None:
        self.model = model
        self.tools = tools
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in tools.values())
        self.options = options
        self.limits = limits
        self.policy = policy
        self.hooks = hooks
        self.width = width
        self.requires_approval = requires_approval
        self.timeouts = _timeouts(model, limits)


def _timeouts(model: Model, limits: Limits) -> Timeouts | None:
    """Return the model's own timeouts, as far as limits do not say otherwise."""
    changed: dict[str, float] = {}
    if limits.first_token_seconds is not None:
        changed["headers"] = changed["first_event"] = limits.first_token_seconds
    if limits.stall_seconds is not None:
        changed["stall"] = limits.stall_seconds
    return msgspec.structs.replace(model.timeouts, **changed) if changed else None


def tools_by_name(tools: Iterable[Any]) -> dict[str, AnyTool]:
    is_one = callable(tools) or isinstance(tools, (str, Tool))
    if is_one or not isinstance(tools, Iterable):
        raise ConfigurationError(f"tools is a list, as in tools=[f]; got {tools!r:.80}")
    found: dict[str, AnyTool] = {}
    for given in tools:
        made = as_tool(given)
        if found.setdefault(made.name, made) is not made:
            raise ConfigurationError(
                f"two tools are called {made.name!r}; give one another name with "
                "@tool(name=...)"
            )
    return found


def check_settings(model: Any, limits: Any, policy: Any, parallel_tools: Any) -> None:
    if not isinstance(model, Model):
        raise ConfigurationError(
            "model is the name of a model, such as 'openai:gpt-5', or an object of "
            f"syncagent.models; got {model!r:.80}"
        )
    if not isinstance(limits, Limits):
        raise ConfigurationError(f"limits takes Limits(...); got {limits!r:.80}")
    if not isinstance(policy, CancelPolicy):
        raise ConfigurationError(
            f"cancel_policy takes CancelPolicy(...); got {policy!r:.80}"
        )
    check_number("parallel_tools", parallel_tools, minimum=1, is_integer=True)
    _check_price(model, limits)


def check_words(system: Any, name: Any, messages: Any, **handlers: Any) -> None:
    """Refuse what could only be misunderstood later."""
    for word, given in (("system", system), ("name", name)):
        if given is not None and not isinstance(given, str):
            raise ConfigurationError(f"{word} is a string; got {given!r:.80}")
    if not isinstance(messages, Iterable):
        raise ConfigurationError(f"messages is a list; got {messages!r:.80}")
    for word, given in handlers.items():
        if given is not None and not callable(given):
            raise ConfigurationError(f"{word} is a function; got {given!r:.80}")


def check_answering(answer_timeout: Any, requires_approval: Any) -> None:
    """Refuse what says nothing about who is asked, and how long that may take."""
    check_timeout(answer_timeout, "answer_timeout")
    # A tool's setting, and checked as that.
    ToolSettings(requires_approval=requires_approval)


def _check_price(model: Model, limits: Limits) -> None:
    if limits.cost is not None and model.cost(Usage()) is None:
        raise ConfigurationError(
            f"nobody knows what {model.name} costs, so Limits(cost=...) would never "
            "end a run; give the model a price="
        )
