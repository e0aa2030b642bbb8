"""Rate limits that providers report in the headers of their responses.

======================  ==============================================================
OpenAI and many others  ``x-ratelimit-{limit,remaining,reset}-{requests,tokens}``
Cerebras                the same with ``-minute`` at the end
Anthropic               ``anthropic-ratelimit-{requests,tokens,...}-{limit,...}``
OpenRouter              ``x-ratelimit-{limit,remaining,reset}``, reset in milliseconds
======================  ==============================================================

The time of a reset is a number of seconds, a duration such as ``6m0s`` or ``12ms``, a
date, or a time since 1970. A header that makes no sense is ignored.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple

__all__ = ["Allowance", "parse_reset", "read_allowances"]

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|h|m|s|d)")
_UNITS: Final = {
    "d": 86_400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
}
#: Larger numbers are times since 1970, in seconds and in milliseconds.
_SECONDS_SINCE: Final = 1e9
_MILLISECONDS_SINCE: Final = 1e12
#: The names of the headers, with a place for "limit", "remaining" and "reset", and
#: whether they count requests; else they count tokens.
_NAMES: Final = (
    ("x-ratelimit-{}-requests", True),
    ("x-ratelimit-{}-tokens", False),
    ("x-ratelimit-{}-requests-minute", True),
    ("x-ratelimit-{}-tokens-minute", False),
    ("anthropic-ratelimit-requests-{}", True),
    ("anthropic-ratelimit-tokens-{}", False),
    ("anthropic-ratelimit-input-tokens-{}", False),
    ("x-ratelimit-{}", True),
)
_PREFIXES: Final = ("x-ratelimit-", "anthropic-ratelimit-")


class Allowance(NamedTuple):
    """The requests or tokens that a provider still allows, until its reset."""

    is_requests: bool
    remaining: int
    #: Seconds from now.
    reset: float


def read_allowances(
    headers: Mapping[str, str], now: Callable[[], float] = time.time
) -> list[Allowance]:
    """Return the allowances in the headers of a response.

    :param now: returns the time since 1970, in seconds.
    """
    if not any(name.lower().startswith(_PREFIXES) for name in headers):
        return []  # nearly all local servers
    return list(_allowances(headers, now))


def _allowances(
    headers: Mapping[str, str], now: Callable[[], float]
) -> Iterator[Allowance]:
    for name, is_requests in _NAMES:
        remaining = _number(headers.get(name.format("remaining")))
        reset = parse_reset(headers.get(name.format("reset")), now)
        if remaining is None or reset is None:
            continue
        limit = _number(headers.get(name.format("limit")))
        if limit is not None and limit <= 0:
            continue  # Azure's way to say that it does not know
        yield Allowance(is_requests, int(remaining), reset)


def parse_reset(text: str | None, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds until a reset, or None if *text* does not say."""
    text = (text or "").strip()
    seconds = _number(text)
    if seconds is not None:
        if seconds >= _MILLISECONDS_SINCE:
            return max(0.0, seconds / 1000 - now())
        return max(0.0, seconds - now()) if seconds >= _SECONDS_SINCE else seconds
    parts = _PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    try:
        date = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return None if date.tzinfo is None else max(0.0, date.timestamp() - now())
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    """Return a number that is not negative, or None."""
    try:
        number = float(text) if text else math.nan
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None
