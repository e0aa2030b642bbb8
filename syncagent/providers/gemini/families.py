"""Families of Google's models, by the names of models: the abilities of each."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from ...options import BUDGETS, Effort
from ..families import UP_TO_HIGH

_VERSION: Final = re.compile(r"(?:gemini|gemma)-(\d+)(?:\.(\d+))?")
#: The version of a name that has none, such as ``gemini-flash-latest``.
_NEWEST: Final = (3, 8)
#: Google's enumeration has ``XHIGH``, too, but documents no model that takes it.
_ALL_LEVELS: Final[tuple[Effort, ...]] = ("minimal", *UP_TO_HIGH)
#: Levels that differ from those of the newest models; the first match counts.
_LEVELS: Final[dict[str, tuple[Effort, ...]]] = {
    r"flash.*-image": ("minimal", "high"),
    r"gemini-3-pro": ("low", "high"),
    r"flash-lite|gemini-3(\.[0-6])?-flash": _ALL_LEVELS,
}


class GeminiFamily(msgspec.Struct, frozen=True):
    """The abilities of one family of models."""

    #: True for Gemini 3 and later: the first call of a step needs a signature, results
    #: hold images, and tools work together with server tools and response schemas.
    is_current: bool
    #: The levels of thinking, from the least; empty for models that count tokens.
    levels: tuple[Effort, ...] = ()
    #: The least and the most thinking tokens; ``None`` for models that count none.
    budgets: tuple[int, int] | None = None
    #: True if it continues the beginning of a response.
    takes_prefill: bool = True

    def budget_of(self, effort: Effort) -> int:
        """Return the number of thinking tokens for *effort*."""
        least, most = self.budgets or (0, 0)
        return min(max(BUDGETS[effort], least), most)


@lru_cache(maxsize=256)
def find_family(model: str) -> GeminiFamily:
    """Return the family of a model; an unknown name counts as the newest Gemini."""
    name = model.lower().rpartition("/")[2]
    found = _VERSION.search(name)
    version = (int(found[1]), int(found[2] or 0)) if found else _NEWEST
    if "gemma" in name:
        return GeminiFamily(
            False, () if found and version < (4, 0) else ("minimal", "high")
        )
    if version < (3, 0):
        return GeminiFamily(
            False, budgets=(128, 32768) if "pro" in name else (0, 24576)
        )
    documented = (levels for form, levels in _LEVELS.items() if re.search(form, name))
    return GeminiFamily(
        True,
        next(documented, UP_TO_HIGH),
        # Documented as accepted by Gemini 3 "for backwards compatibility".
        budgets=(1, 32768),
        # Removed with 3.6, and 3.5 is forwarded to it.
        takes_prefill=version < (3, 5),
    )
