"""Options in the words of each family of Claude."""

from __future__ import annotations

from typing import Any, Final

from ...exceptions import ConfigurationError
from ...options import BUDGETS, Options
from ..dialect import without_none
from ..families import cannot_stop, nearest_effort
from ..strict_schemas import closed
from .families import ClaudeFamily, find_family
from .response import NAME

#: Default for max_tokens, which the provider requires; a thinking budget comes on top.
MAX_TOKENS: Final = 8192
#: The same for models that decide themselves how long to think, and for their highest
#: efforts.
_ROOM: Final = 32768
_MUCH_ROOM: Final = 65536
#: The smallest thinking budget that the provider takes.
_MIN_BUDGET: Final = 1024
#: The only values that models without sampling take.
_SAMPLING: Final = {"temperature": 1, "top_p": 0.99}


def thinking_of(model: str, options: Options) -> dict[str, Any] | None:
    """Return how the model thinks, or None if it decides that itself.

    :raises ConfigurationError: the model cannot think like that.
    """
    family, effort = find_family(model), options.effort
    if options.thinking_tokens is not None:
        if family.has_budgets:
            return _budget(options.thinking_tokens, options.max_tokens)
        raise ConfigurationError(
            f"{model} decides itself how many tokens to think with; pass effort= in "
            "place of thinking_tokens="
        )
    if effort is None:
        return None
    is_off = effort == "none" or (effort == "minimal" and not family.words)
    if is_off and family.off == "never":
        raise cannot_stop(model, family.words[0])
    if is_off:
        return {"type": family.off}
    if family.words:
        display = "summarized" if family.hides_thinking else None
        return without_none(type="adaptive", display=display)
    budget, limit = BUDGETS[effort], options.max_tokens
    if limit is not None:  # an effort is no exact number: leave half for the text
        budget = max(_MIN_BUDGET, min(budget, limit // 2))
    return _budget(budget, limit)


def _budget(budget: int, limit: int | None) -> dict[str, Any]:
    if budget < _MIN_BUDGET:
        raise ConfigurationError(
            f"{NAME} models think with at least {_MIN_BUDGET} tokens; got {budget}"
        )
    if limit is not None and limit <= budget:
        raise ConfigurationError(
            f"max_tokens={limit} leaves no room for text after {budget} tokens of "
            "thinking; raise max_tokens or lower the thinking"
        )
    return {"type": "enabled", "budget_tokens": budget}


def max_tokens_of(model: str, options: Options, thinking: dict[str, Any] | None) -> int:
    """Return a limit that leaves room for thinking and text."""
    budget: int = (thinking or {}).get("budget_tokens", 0)
    if budget or not find_family(model).words:
        return budget + MAX_TOKENS
    return _MUCH_ROOM if options.effort in ("xhigh", "max") else _ROOM


def output_config_of(model: str, options: Options) -> dict[str, Any]:
    """Return the field for the effort and the form of the response; may be empty."""
    family, effort = find_family(model), options.effort
    config: dict[str, Any] = {}
    takes_effort = bool(family.words) and options.thinking_tokens is None
    if takes_effort and effort is not None and effort != "none":
        config["effort"] = nearest_effort(effort, family.words)
    if options.output is not None:
        schema = closed(options.output.schema)
        config["format"] = {"type": "json_schema", "schema": schema}
    return config


def check_options(
    model: str, options: Options, thinking: dict[str, Any], *, has_tools: bool
) -> None:
    """Raise ConfigurationError for options that the model would reject."""
    family = find_family(model)
    is_forced = has_tools and options.forces_call
    _check_model(model, family, options, is_forced=is_forced)
    is_thinking = thinking.get("type") in ("adaptive", "enabled")
    for name, is_wrong in (
        ("a temperature other than 1", options.temperature not in (None, 1)),
        ("a top_p below 0.95", options.top_p is not None and options.top_p < 0.95),
        ("a tool_choice that forces a call", is_forced and "budget_tokens" in thinking),
        ("prefill", options.prefill != ""),
    ):
        if is_thinking and is_wrong:
            raise ConfigurationError(
                f"{NAME} models cannot think with {name}; leave out one of the two"
            )
    if options.temperature is not None and options.top_p is not None:
        raise ConfigurationError(
            f"{NAME} models cannot have temperature and top_p together; leave out one "
            "of the two"
        )
    if options.prefill != options.prefill.rstrip():
        raise ConfigurationError(
            f"prefill must not end with white space for {NAME} models; the response "
            "can begin with it instead"
        )


def _check_model(
    model: str, family: ClaudeFamily, options: Options, *, is_forced: bool
) -> None:
    """Raise ConfigurationError for options that this family does not have."""
    for name, default in _SAMPLING.items():
        is_default = getattr(options, name) in (None, default)
        if not is_default and not family.has_sampling:
            raise ConfigurationError(
                f"{model} has no {name}: the provider has removed it; leave it out"
            )
    if options.prefill and not family.has_prefill:
        raise ConfigurationError(
            f"{model} does not continue a prefill; ask for the form of the response "
            "with output= or in the instructions"
        )
    if is_forced and not family.has_forced_tools:
        raise ConfigurationError(
            f"{model} cannot be forced to call a tool; leave out tool_choice, and say "
            "in the instructions when to call it"
        )


def tool_choice_of(options: Options) -> dict[str, Any] | None:
    """Return the field ``tool_choice``, or None for the provider's default."""
    is_single = options.parallel_tool_calls is False
    name = options.tool_choice or ("auto" if is_single else None)
    if name is None:
        return None
    if name == "none":
        return {"type": "none"}
    choice: dict[str, Any] = {"type": {"required": "any"}.get(name, name)}
    if name not in ("auto", "required"):
        choice = {"type": "tool", "name": name}
    if is_single:
        choice["disable_parallel_tool_use"] = True
    return choice
