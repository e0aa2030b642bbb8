"""Families of Claude, by the names of models: the options that each takes.

Source: the provider's pages on thinking, effort and migration, as of November 2026.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

import msgspec

from ...options import Effort
from ..families import UP_TO_HIGH, UP_TO_MAX

__all__ = ["ClaudeFamily", "find_family"]

#: Letters with digits after them (``v1``), or a number.
_PARTS: Final = re.compile(r"[a-z]+\d*|\d+")
#: A longer number is a date.
_NUMBER: Final = re.compile(r"[0-9]{1,2}")
_NEWEST: Final = (99, 0)

#: How thinking is turned off; ``never`` if that is not possible.
Off = Literal["disabled", "between_tools", "never"]


class ClaudeFamily(msgspec.Struct, frozen=True, kw_only=True):
    """Models that take the same options; the defaults are those of the newest."""

    #: True if it takes a number of thinking tokens.
    has_budgets: bool = False
    #: The efforts that it takes; empty if it thinks with budgets only.
    words: tuple[Effort, ...] = UP_TO_MAX
    off: Off = "never"
    #: True if it shows its thinking on request only.
    hides_thinking: bool = True
    #: True if it takes a temperature and the like.
    has_sampling: bool = False
    #: True if it continues the beginning of a response.
    has_prefill: bool = False
    #: True if it can be forced to call a tool.
    has_forced_tools: bool = False
    #: True if it can be held to a schema.
    has_formats: bool = True


#: Models of other vendors behind the same interface. Nothing is checked for them.
_FOREIGN: Final = ClaudeFamily(
    has_budgets=True,
    off="disabled",
    hides_thinking=False,
    has_sampling=True,
    has_prefill=True,
    has_forced_tools=True,
)


@lru_cache(maxsize=256)
def find_family(model: str) -> ClaudeFamily:
    """Return the family of a model; an unknown name counts as the newest one.

    Clouds put prefixes and suffixes around names, such as
    ``us.anthropic.claude-opus-4-5-20251101-v1:0`` and ``claude-opus-4-5@20251101``.
    """
    _, claude, rest = model.lower().rpartition("claude")
    if not claude:
        return _FOREIGN
    parts = _PARTS.findall(rest)
    version = _version(parts)
    line = next((part for part in parts if part.isalpha()), "")
    if version < (4, 6):
        return ClaudeFamily(
            has_budgets=True,
            words=(),
            off="disabled",
            hides_thinking=False,
            has_sampling=True,
            has_prefill=True,
            has_forced_tools=True,
            has_formats=version >= (4, 1),
        )
    if version < (4, 7):
        return ClaudeFamily(
            has_budgets=True,
            words=(*UP_TO_HIGH, "max"),
            off="disabled",
            hides_thinking=False,
            has_sampling=True,
            has_forced_tools=True,
        )
    if line == "haiku" or (line in ("opus", "sonnet") and version < (5, 5)):
        return ClaudeFamily(off="disabled", has_forced_tools=True)
    if line == "sonnet":
        return ClaudeFamily(off="between_tools")
    return ClaudeFamily(has_forced_tools=version == (5, 0))


def _version(parts: list[str]) -> tuple[int, int]:
    """Return the first number with the one after it, or the highest without.

    The line may come before the version or after it: ``claude-3-5-sonnet``,
    ``claude-sonnet-4-5``.
    """
    numbers = [int(part) if _NUMBER.fullmatch(part) else None for part in parts]
    for number, after in pairwise([*numbers, None]):
        if number is not None:
            return number, after or 0
    return _NEWEST
