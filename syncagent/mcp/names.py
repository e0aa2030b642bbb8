"""Names of tools: those of servers, as every provider accepts them."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from ..exceptions import ConfigurationError

__all__ = ["check_prefix", "is_chosen", "provider_names"]

#: Providers accept at most this many characters.
_LENGTH: Final = 64
#: Digits of the hash in a name, if no other name has the same.
_MARK: Final = 6
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
_PREFIX: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,31}\Z|\Z")


def provider_names(names: Iterable[str], prefix: str = "") -> dict[str, str]:
    """Return a name that every provider accepts for each name of a server.

    A name that fits stays as it is. Others have their odd characters replaced, and a
    few digits of a hash added where they are too long or would meet another name. No
    two are equal, and the result does not depend on the order.
    """
    names = list(dict.fromkeys(names))
    whole = {name: prefix + name for name in names}
    fitting = {
        name: wanted
        for name, wanted in whole.items()
        if 0 < len(wanted) <= _LENGTH and _replaced(wanted) == wanted
    }
    taken = set(fitting.values())
    chosen = dict(fitting)
    plain = {name: _replaced(whole[name]) for name in names if name not in fitting}
    wanted = Counter(plain.values())
    kept = {
        name: candidate
        for name, candidate in plain.items()
        if wanted[candidate] == 1
        and candidate not in taken
        and len(candidate) <= _LENGTH
    }
    chosen.update(kept)
    taken.update(kept.values())
    for name in sorted(plain.keys() - kept.keys()):
        chosen[name] = _marked(name, plain[name], taken)
        taken.add(chosen[name])
    return {name: chosen[name] for name in names}


def _marked(name: str, candidate: str, taken: set[str]) -> str:
    """Return *candidate* with a part of the hash of *name* that makes it unique."""
    digits = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
    sizes = range(_MARK, len(digits) // 2)  # a server may aim at a few digits
    marks = (digits[:size] for size in sizes)
    made = (f"{candidate[: _LENGTH - 1 - len(mark)]}_{mark}" for mark in marks)
    return next(one for one in made if one not in taken)


def _replaced(name: str) -> str:
    name = _ODD.sub("_", name)
    return name if re.match(r"[A-Za-z_]", name) else f"_{name}"


def is_chosen(
    name: str, only: Sequence[str] | None, without: Sequence[str] | None
) -> bool:
    """True if the patterns *only* and *without* choose a tool; ``*`` means any text."""
    if only is not None and not _matches(name, only):
        return False
    return without is None or not _matches(name, without)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def check_prefix(prefix: str) -> str:
    """Return *prefix* if tool names can begin with it.

    :raises ConfigurationError: they cannot.
    """
    value: object = prefix
    if not isinstance(value, str) or not _PREFIX.match(value):
        raise ConfigurationError(
            "prefix must be at most 32 letters, digits, _ and -, as in prefix='fs_'; "
            f"got {value!r:.80}"
        )
    return prefix
