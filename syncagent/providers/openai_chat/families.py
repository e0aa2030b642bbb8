"""Families of models behind Chat Completions: their efforts, and their limits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from ...exceptions import ConfigurationError
from ...options import Effort, Options
from ..families import UP_TO_HIGH, UP_TO_XHIGH, bare_name, cannot_stop, nearest_effort
from ..quirks import ModelFamily

#: Families of OpenAI's own models. An unknown ``gpt-`` counts as one of the newest; a
#: model of another vendor gets its effort as it is. Chat Completions have no ``max``.
OPENAI_FAMILIES: Final = (
    ModelFamily(names="gpt-oss", efforts=UP_TO_HIGH),
    ModelFamily(
        names="chatgpt-4|gpt-[34]|gpt-5-chat|gpt-audio",
        efforts=(),
        off={},
        think=False,
    ),
    ModelFamily(names=r"o\d", efforts=UP_TO_HIGH, sampling="never"),
    ModelFamily(
        names=r"gpt-5(?![.\d])", efforts=("minimal", *UP_TO_HIGH), sampling="never"
    ),
    ModelFamily(
        names=r"gpt-5\.1(?!\d)",
        efforts=("none", *UP_TO_HIGH),
        think=False,
        sampling="idle",
    ),
    ModelFamily(
        names=r"gpt-5\.[23](?!\d)",
        efforts=("none", *UP_TO_XHIGH),
        think=False,
        sampling="idle",
    ),
    ModelFamily(
        names=r"gpt-5\.4(?!\d)",
        efforts=("none", *UP_TO_XHIGH),
        think=False,
        sampling="idle",
        rejects_tools="any",
    ),
    ModelFamily(
        names=r"gpt-[\d.]+-astra|gpt-6\.1-sol",
        efforts=UP_TO_XHIGH,
        sampling="never",
        rejects_tools="any",
    ),
    ModelFamily(
        names=r"gpt-\d",
        efforts=("none", *UP_TO_XHIGH),
        sampling="idle",
        rejects_tools="any",
    ),
    ModelFamily(efforts=("none", "minimal", *UP_TO_XHIGH)),
)


def find_family(model: str, families: Sequence[ModelFamily]) -> ModelFamily:
    """Return the family of a model; one of no family takes every effort."""
    name = bare_name(model)
    found = (family for family in families if re.match(family.names, name))
    return next(found, ModelFamily())


def possible_effort(
    model: str, family: ModelFamily, options: Options, *, has_tools: bool
) -> Effort | None:
    """Return the effort to ask for.

    Thinking is turned off if the model rejects the tools while it thinks, unless the
    options have an effort.

    :raises ConfigurationError: the model rejects the tools with that effort.
    """
    effort, rejects = options.effort, family.rejects_tools
    is_rejected = rejects == "any" or (rejects == "forced" and options.forces_call)
    if not has_tools or not is_rejected:
        return effort
    if effort in (None, "none") and family.can_stop:
        return "none" if family.think else effort
    if rejects == "any":
        use = "call tools here"
        advice = f"use openai:{model}, on Azure azure:{model}, for the Responses API"
        advice += ", or effort='none'" if family.can_stop else ""
    else:
        use = "be forced to call a tool"
        advice = "leave out effort=" if family.can_stop else "leave out tool_choice="
    raise ConfigurationError(f"{model} cannot {use} while it thinks; {advice}")


def effort_fields(model: str, family: ModelFamily, effort: Effort) -> dict[str, Any]:
    """Return the fields that ask *model* for *effort*, or for the nearest it has.

    :raises ConfigurationError: it does not think, or cannot stop thinking.
    """
    if effort == "none" and family.off is not None:
        return dict(family.off)
    if effort == "none" and "none" in family.efforts:
        return {"reasoning_effort": "none"}
    words = [word for word in family.efforts if word != "none"]
    if effort == "none":
        raise cannot_stop(model, *words[:1])
    if words:
        return {"reasoning_effort": nearest_effort(effort, words)}
    if family.on is None:
        raise ConfigurationError(f"{model} does not think; leave out effort=")
    return dict(family.on)
