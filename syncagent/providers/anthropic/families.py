"""Generations of Claude, by the names of models: how each thinks, and what it refuses.

From the provider's pages on thinking, effort and migration, as of November 2026.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

import msgspec

from ...options import Effort
from ..families import UP_TO_HIGH, UP_TO_MAX, nearest_effort

__all__ = ["Family", "family_of"]

#: Letters with digits after them (``v1``), or a number.
_PARTS: Final = re.compile(r"[a-z]+\d*|\d+")
#: A longer number is a date.
_NUMBER: Final = re.compile(r"[0-9]{1,2}")
_NEWEST: Final = (99, 0)

#: How thinking is turned off; ``never`` if that is not possible.
Off = Literal["disabled", "between_tools", "never"]


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """Models that take the same options; the defaults are those of the newest."""

    #: True if a request may say how many tokens to think with.
    has_budgets: bool = False
    #: The words for efforts; empty if the model thinks with budgets only.
    words: tuple[Effort, ...] = UP_TO_MAX
    off: Off = "never"
    #: True if the text of its thinking has to be asked for.
    hides_thinking: bool = True
    #: True if it takes a temperature and the like.
    has_sampling: bool = False
    #: True if it continues what it is given as the beginning of the response.
    has_prefill: bool = False
    #: True if it can be forced to call a tool.
    has_forced_tools: bool = False
    #: True if it can be held to a schema.
    has_formats: bool = True

    def word_for(self, effort: Effort) -> Effort:
        """Return the nearest word that the model has."""
        return nearest_effort(effort, self.words)


#: Models of other providers that have the same interface: the provider decides.
_FOREIGN: Final = Family(
    has_budgets=True,
    off="disabled",
    hides_thinking=False,
    has_sampling=True,
    has_prefill=True,
    has_forced_tools=True,
)


@lru_cache(maxsize=256)
def family_of(model: str) -> Family:
    """Return the family of a model; a name that is unknown counts as the newest one.

    Names have prefixes and suffixes of those that sell them, such as
    ``us.anthropic.claude-opus-4-5-20251101-v1:0`` and ``claude-opus-4-5@20251101``.
    """
    _, claude, rest = model.lower().rpartition("claude")
    if not claude:
        return _FOREIGN
    parts = _PARTS.findall(rest)
    version = _version(parts)
    line = next((part for part in parts if part.isalpha()), "")
    if version < (4, 6):
        return Family(
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
        return Family(
            has_budgets=True,
            words=(*UP_TO_HIGH, "max"),
            off="disabled",
            hides_thinking=False,
            has_sampling=True,
            has_forced_tools=True,
        )
    if line == "haiku":
        return Family(off="disabled", has_forced_tools=True)
    if line in ("opus", "sonnet") and version < (5, 5):
        return Family(off="disabled", has_forced_tools=True)
    if line == "sonnet":
        return Family(off="between_tools")
    return Family(has_forced_tools=version == (5, 0))


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
