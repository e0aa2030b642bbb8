"""The request for thinking, in the words of each family of Google's models."""

from __future__ import annotations

from typing import Any, Final, get_args

from ...exceptions import ConfigurationError
from ...options import BUDGETS, Effort, Options
from .family import Family, family_of

_EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)


def thinking_config(model: str, options: Options) -> dict[str, Any] | None:
    """Return the ``thinkingConfig``, or None if nothing is requested.

    :raises ConfigurationError: the model does not have what is requested.
    """
    family, budget = family_of(model), options.thinking_tokens
    if budget is not None:
        if family.budgets is None:
            raise ConfigurationError(
                f"{model} does not count thinking tokens; leave thinking_tokens out"
                + (", and use effort=" if family.levels else "")
            )
    elif options.effort is None:
        return None
    elif family.levels:
        level = _nearest_level(model, options.effort, family.levels)
        config: dict[str, Any] = {"thinkingLevel": level.upper()}
        if level != "minimal":
            config["includeThoughts"] = True
        return config
    else:
        budget = _budget(model, options.effort, family)
        if budget is None:
            return None
    if not budget:  # the provider rejects includeThoughts without thoughts to include
        return {"thinkingBudget": 0}
    return {"thinkingBudget": budget, "includeThoughts": True}


def _nearest_level(model: str, effort: Effort, levels: tuple[Effort, ...]) -> Effort:
    """Return the level next to *effort*, and the higher one of two."""
    if effort == "none":
        raise _cannot_stop(model, levels[0])
    wanted = _EFFORTS.index(effort)

    def distance(level: Effort) -> tuple[int, int]:
        number = _EFFORTS.index(level)
        return abs(number - wanted), -number

    return min(levels, key=distance)


def _budget(model: str, effort: Effort, family: Family) -> int | None:
    """Return the number of tokens for *effort*, or None if the model never thinks."""
    if family.budgets is None:
        if effort == "none":
            return None
        raise ConfigurationError(f"{model} does not think; leave effort out")
    least, most = family.budgets
    if effort == "none" and least:
        raise _cannot_stop(model, "minimal")
    return min(max(BUDGETS[effort], least), most)


def _cannot_stop(model: str, least: Effort) -> ConfigurationError:
    return ConfigurationError(
        f"{model} cannot turn thinking off, so effort='none' is not possible; the "
        f"least is effort={least!r}"
    )
