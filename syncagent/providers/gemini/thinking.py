"""The field for thinking, in the words of each family of Google's models."""

from __future__ import annotations

from typing import Any

from ...exceptions import ConfigurationError
from ...options import Options
from ..families import cannot_stop, nearest_effort
from .families import find_family


def thinking_config(model: str, options: Options) -> dict[str, Any] | None:
    """Return the ``thinkingConfig``, or None if nothing is requested.

    :raises ConfigurationError: the model does not have what is requested.
    """
    family, budget, effort = find_family(model), options.thinking_tokens, options.effort
    if budget is not None:
        if family.budgets is None:
            raise ConfigurationError(
                f"{model} does not count thinking tokens; leave out thinking_tokens="
                + (", or pass effort= in its place" if family.levels else "")
            )
        return {"thinkingBudget": budget, "includeThoughts": True}
    never_thinks = not family.levels and family.budgets is None
    if effort is None or (effort == "none" and never_thinks):
        return None
    if never_thinks:
        raise ConfigurationError(f"{model} does not think; leave out effort=")
    # The provider rejects includeThoughts where there are no thoughts to include.
    if not family.levels and family.budget_of(effort) == 0:
        return {"thinkingBudget": 0}
    if effort == "none":
        raise cannot_stop(model, family.levels[0] if family.levels else "minimal")
    if not family.levels:
        return {"thinkingBudget": family.budget_of(effort), "includeThoughts": True}
    level = nearest_effort(effort, family.levels)
    if level == "minimal":
        return {"thinkingLevel": "MINIMAL"}
    return {"thinkingLevel": level.upper(), "includeThoughts": True}
