"""How models behind Chat Completions think: the efforts they take, and their limits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, get_args

from ...exceptions import ConfigurationError
from ...options import Effort, Options
from ..quirks import Family

#: All efforts, from the least to the most.
_EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
#: The part of a name before that of the model: the vendor, or the mark of a tuned one.
_VENDOR: Final = re.compile(r"ft:|.*/|openai\.")

#: OpenAI's own. A newer model is taken for one of the newest; a name of another vendor
#: is left alone. Chat Completions have no ``max``.
OPENAI_FAMILIES: Final = (
    Family(names=r"gpt-oss", efforts=("low", "medium", "high")),
    Family(names=r"gpt-[34]|gpt-5-chat", efforts=(), off={}, think=False),
    Family(names=r"o\d", efforts=("low", "medium", "high")),
    Family(names=r"gpt-5(?![.\d])", efforts=("minimal", "low", "medium", "high")),
    Family(
        names=r"gpt-5\.1(?!\d)", efforts=("none", "low", "medium", "high"), think=False
    ),
    Family(
        names=r"gpt-5\.[23](?!\d)",
        efforts=("none", "low", "medium", "high", "xhigh"),
        think=False,
    ),
    Family(
        names=r"gpt-5\.4(?!\d)",
        efforts=("none", "low", "medium", "high", "xhigh"),
        think=False,
        rejects_tools="any",
    ),
    Family(
        names=r"gpt-6-astra|gpt-6\.1-sol",
        efforts=("low", "medium", "high", "xhigh"),
        rejects_tools="any",
    ),
    Family(
        names=r"gpt-",
        efforts=("none", "low", "medium", "high", "xhigh"),
        rejects_tools="any",
    ),
    Family(),
)


def find_family(model: str, families: Sequence[Family]) -> Family:
    """Return the family of a model; the last one has every name."""
    return families[_find(model, tuple(family.names for family in families))]


@lru_cache
def _find(model: str, patterns: tuple[str, ...]) -> int:
    """Return the number of the first pattern that has the name of *model*."""
    name = _VENDOR.sub("", model.lower())
    matches = (bool(re.match(pattern, name)) for pattern in patterns)
    return next(number for number, is_match in enumerate(matches) if is_match)


def thinking_fields(
    model: str, family: Family, options: Options, *, has_tools: bool
) -> dict[str, Any]:
    """Return the fields that ask *model* to think as *options* say.

    Thinking is turned off for tools that the model would reject otherwise, unless an
    effort is requested.

    :raises ConfigurationError: the model cannot do that.
    """
    effort = options.effort
    is_forced = options.tool_choice not in (None, "auto", "none")
    rejects = family.rejects_tools
    if has_tools and (rejects == "any" or (rejects == "forced" and is_forced)):
        use = "be forced to call a tool" if rejects == "forced" else "call tools here"
        if effort not in (None, "none") or not _can_stop(family):
            raise ConfigurationError(
                f"{model} cannot {use} while it thinks; "
                + _advice(model, family, rejects)
            )
        effort = "none" if family.think else effort
    return {} if effort is None else _effort_fields(model, family, effort)


def _can_stop(family: Family) -> bool:
    return family.off is not None or "none" in family.efforts


def _advice(model: str, family: Family, rejects: str) -> str:
    if rejects == "any":
        other = f"use openai:{model}, which speaks the Responses API"
        return f"{other}, or effort='none'" if _can_stop(family) else other
    return "leave out effort=" if _can_stop(family) else "leave out tool_choice="


def _effort_fields(model: str, family: Family, effort: Effort) -> dict[str, Any]:
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
