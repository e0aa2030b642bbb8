"""The request for thinking, in the words of each family of Google's models."""

from __future__ import annotations

from typing import Any

from ...exceptions import ConfigurationError
from ...options import Options
from .families import family_of


def thinking_config(model: str, options: Options) -> dict[str, Any] | None:
    """Return the ``thinkingConfig``, or None if nothing is requested.

    :raises ConfigurationError: the model does not have what is requested.
    """
    family, budget, effort = family_of(model), options.thinking_tokens, options.effort
    if budget is not None:
        if family.budgets is None:
            raise ConfigurationError(
                f"{model} does not count thinking tokens; leave thinking_tokens out"
                + (", and use effort=" if family.levels else "")
            )
        return {"thinkingBudget": budget, "includeThoughts": True}
    never_thinks = not family.levels and family.budgets is None
    if effort is None or (effort == "none" and never_thinks):
        return None
    if never_thinks:
        raise ConfigurationError(f"{model} does not think; leave effort out")
    # The provider rejects includeThoughts where there are no thoughts to include.
    if not family.levels and family.budget_of(effort) == 0:
        return {"thinkingBudget": 0}
    if effort == "none":
        least = family.levels[0] if family.levels else "minimal"
        raise ConfigurationError(
            f"{model} cannot turn thinking off, so effort='none' is not possible; the "
            f"least is effort={least!r}"
        )
    if not family.levels:
        return {"thinkingBudget": family.budget_of(effort), "includeThoughts": True}
    level = family.level_of(effort)
    if level == "minimal":
        return {"thinkingLevel": "MINIMAL"}
    return {"thinkingLevel": level.upper(), "includeThoughts": True}
