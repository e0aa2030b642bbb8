"""How models behind Chat Completions think: the efforts they take, and their limits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, get_args

from ...exceptions import ConfigurationError
from ...options import Effort, Options
from ..quirks import ModelFamily

#: All efforts, from the least to the most.
_EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
#: A vendor before the name, as gateways and clouds have it, or the mark of a tuned
#: model.
_VENDOR: Final = re.compile(r"\A(?:.*/)?(?:ft:|(?:[a-z-]+\.)+)?")
_UP_TO_HIGH: Final[tuple[Effort, ...]] = ("low", "medium", "high")
_UP_TO_XHIGH: Final[tuple[Effort, ...]] = (*_UP_TO_HIGH, "xhigh")

#: OpenAI's own. A newer model is taken for one of the newest; a name of another vendor
#: is left alone. Chat Completions have no ``max``.
OPENAI_FAMILIES: Final = (
    ModelFamily(names="gpt-oss", efforts=_UP_TO_HIGH),
    ModelFamily(
        names="chatgpt-4|gpt-[34]|gpt-5-chat|gpt-audio",
        efforts=(),
        off={},
        think=False,
    ),
    ModelFamily(names=r"o\d", efforts=_UP_TO_HIGH, sampling="never"),
    ModelFamily(
        names=r"gpt-5(?![.\d])", efforts=("minimal", *_UP_TO_HIGH), sampling="never"
    ),
    ModelFamily(
        names=r"gpt-5\.1(?!\d)",
        efforts=("none", *_UP_TO_HIGH),
        think=False,
        sampling="idle",
    ),
    ModelFamily(
        names=r"gpt-5\.[23](?!\d)",
        efforts=("none", *_UP_TO_XHIGH),
        think=False,
        sampling="idle",
    ),
    ModelFamily(
        names=r"gpt-5\.4(?!\d)",
        efforts=("none", *_UP_TO_XHIGH),
        think=False,
        sampling="idle",
        rejects_tools="any",
    ),
    ModelFamily(
        names=r"gpt-[\d.]+-astra|gpt-6\.1-sol",
        efforts=_UP_TO_XHIGH,
        sampling="never",
        rejects_tools="any",
    ),
    ModelFamily(
        names=r"gpt-\d",
        efforts=("none", *_UP_TO_XHIGH),
        sampling="idle",
        rejects_tools="any",
    ),
)


def find_family(model: str, families: Sequence[ModelFamily]) -> ModelFamily:
    """Return the family of a model; without one it takes every effort."""
    name = _VENDOR.sub("", model.lower())
    found = (family for family in families if re.match(family.names, name))
    return next(found, ModelFamily())


def possible_effort(
    model: str, family: ModelFamily, options: Options, *, has_tools: bool
) -> Effort | None:
    """Return the effort to ask for.

    Thinking is turned off for tools that the model would reject otherwise, unless an
    effort is requested.

    :raises ConfigurationError: the model rejects the tools with that effort.
    """
    effort, rejects = options.effort, family.rejects_tools
    is_forced = options.tool_choice not in (None, "auto", "none")
    is_rejected = rejects == "any" or (rejects == "forced" and is_forced)
    if not has_tools or not is_rejected:
        return effort
    can_stop = family.off is not None or "none" in family.efforts
    if effort in (None, "none") and can_stop:
        return "none" if family.think else effort
    if rejects == "any":
        use, advice = "call tools here", f"use openai:{model}, for the Responses API"
        advice += ", or effort='none'" if can_stop else ""
    else:
        use = "be forced to call a tool"
        advice = "leave out effort=" if can_stop else "leave out tool_choice="
    raise ConfigurationError(f"{model} cannot {use} while it thinks; {advice}")


def effort_fields(model: str, family: ModelFamily, effort: Effort) -> dict[str, Any]:
    """Return the fields that ask *model* for *effort*, or for the nearest it has.

    :raises ConfigurationError: it does not think, or cannot stop it.
    """
    if effort == "none" and family.off is not None:
        return dict(family.off)
    if effort == "none" and "none" in family.efforts:
        return {"reasoning_effort": "none"}
    words = [word for word in family.efforts if word != "none"]
    if effort == "none":
        least = f"; its least effort is {words[0]!r}" if words else ""
        raise ConfigurationError(f"{model} cannot stop thinking{least}")
    if words:
        # Of two that are equally near, the one that thinks more.
        wanted = _EFFORTS.index(effort)
        distance = {word: abs(_EFFORTS.index(word) - wanted) for word in words}
        return {"reasoning_effort": min(reversed(words), key=distance.__getitem__)}
    if family.on is None:
        raise ConfigurationError(f"{model} does not think; leave out effort=")
    return dict(family.on)


def check_sampling(
    model: str, family: ModelFamily, options: Options, effort: Effort | None
) -> None:
    """Raise ConfigurationError if the model rejects a temperature or top_p.

    Without an effort some models think and others do not: the provider decides.
    """
    names = [
        n for n in ("temperature", "top_p") if getattr(options, n) not in (None, 1)
    ]
    is_idle = family.sampling == "idle" and effort in (None, "none")
    if names and family.sampling != "always" and not is_idle:
        hint = " set effort='none'," if family.sampling == "idle" else ""
        raise ConfigurationError(
            f"{model} takes no {' or '.join(names)} while it thinks; leave it out,"
            f"{hint} or pass it with extra="
        )
