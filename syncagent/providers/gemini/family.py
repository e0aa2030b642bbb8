"""The abilities of Google's models, by the families that their names tell."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from ...options import Effort

_VERSION: Final = re.compile(r"(?:gemini|gemma)-(\d+)(?:\.(\d+))?")
#: The version of a name that has none, such as ``gemini-flash-latest``.
_NEWEST: Final = (3, 8)
#: Google's enumeration has ``XHIGH``, too, but documents no model that takes it.
_ALL_LEVELS: Final[tuple[Effort, ...]] = ("minimal", "low", "medium", "high")


class Family(msgspec.Struct, frozen=True):
    """The abilities of one family of models."""

    #: True for Gemini 3 and later: the first call of a step needs a signature, results
    #: hold images, and tools go together with server tools and response schemas.
    is_current: bool
    #: The levels of thinking, from the least; empty for models that count tokens.
    levels: tuple[Effort, ...] = ()
    #: The least and the most thinking tokens; ``None`` for models that count none.
    budgets: tuple[int, int] | None = None
    #: True if it continues a response whose beginning is given.
    takes_prefill: bool = True


@lru_cache(maxsize=256)
def family_of(model: str) -> Family:
    """Return the abilities of a model; an unknown name counts as the newest Gemini."""
    name = model.lower().rpartition("/")[2]
    found = _VERSION.search(name)
    version = (int(found[1]), int(found[2] or 0)) if found else _NEWEST
    if "gemma" in name:
        return Family(False, () if found and version < (4, 0) else ("minimal", "high"))
    if version < (3, 0):
        return Family(False, budgets=(128, 32768) if "pro" in name else (0, 24576))
    return Family(
        True,
        _levels(name, version),
        # Documented as accepted by Gemini 3 "for backwards compatibility".
        budgets=(1, 32768),
        # Removed with 3.6, and 3.5 is forwarded to it.
        takes_prefill=version < (3, 5),
    )


def _levels(name: str, version: tuple[int, int]) -> tuple[Effort, ...]:
    """Return the levels that Google documents for a family of Gemini 3 or later."""
    if "flash" in name and "image" in name:
        return "minimal", "high"
    if "pro" in name and version == (3, 0):
        return "low", "high"
    if "lite" in name or ("flash" in name and version < (3, 7)):
        return _ALL_LEVELS
    return _ALL_LEVELS[1:]
