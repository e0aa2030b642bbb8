"""Quotas: how much a provider still allows, by the headers of its responses.

Providers agree on the words and on nothing else:

========================  ==============================================================
OpenAI, Azure, xAI, Groq  ``x-ratelimit-{limit,remaining,reset}-{requests,tokens}``
Cerebras, Mistral         the same, with ``-minute`` or ``-day`` at the end
Anthropic                 ``anthropic-ratelimit-{tokens,...}-{limit,remaining,reset}``
OpenRouter, IETF draft    ``x-ratelimit-{limit,remaining,reset}``, ``ratelimit-...``
========================  ==============================================================

A reset is a number of seconds, a duration such as ``6m0s``, a time in seconds or
milliseconds since 1970, or a date. Numbers that make no sense are ignored: a header
never makes a request fail.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Final, Literal

import msgspec

from ..transport.retries import parse_date

__all__ = ["Kind", "Quota", "read_quotas"]

#: The things that quotas count. ``input`` and ``output`` are tokens of one side.
Kind = Literal["requests", "tokens", "input", "output"]

_HEADER: Final = re.compile(r"(?:x-|anthropic-)?ratelimit-([a-z-]+)")
_FIELDS: Final = frozenset({"limit", "remaining", "reset"})
#: The rest of a header's name, without the field and the period.
_KINDS: Final[Mapping[str, Kind]] = {
    "": "requests",
    "requests": "requests",
    "tokens": "tokens",
    "input-tokens": "input",
    "output-tokens": "output",
}
#: Seconds of the periods that a name may end with.
_PERIODS: Final = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}
_UNITS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d))+", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)", re.ASCII)
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
#: A longer wait is not believed: two days.
_LONGEST: Final = 2 * 86400.0
#: Numbers above these are times since 1970 in seconds and in milliseconds.
_EPOCH: Final = 1e8
_EPOCH_MS: Final = 1e11
#: A larger number of requests or tokens is not believed.
_MOST: Final = 1e12
#: So much is not used up by a few requests.
_AMPLE_REQUESTS: Final = 200.0
_AMPLE_TOKENS: Final = 2e6
#: No header is longer, nor has a provider more of them.
_MAX_TEXT: Final = 64


class Quota(msgspec.Struct, frozen=True):
    """How much a provider allows, as of one of its responses."""

    kind: Kind
    #: How much was left, once the request of that response was counted.
    remaining: float
    #: When the response arrived, and when all is available again; monotonic.
    at: float
    reset_at: float
    #: How much that is; None if it is not known.
    limit: float | None = None

    @property
    def is_ample(self) -> bool:
        """True if a few requests cannot use it up, whatever they are."""
        ample = _AMPLE_REQUESTS if self.kind == "requests" else _AMPLE_TOKENS
        return self.remaining >= max(ample, (self.limit or 0.0) / 2)

    def when(self, need: float, others: float) -> float:
        """Return the monotonic time at which *need* is available.

        :param others: how much is needed for requests that the provider had perhaps not
            counted yet.
        """
        missing = need + others - self.remaining
        if missing <= 0:
            return -math.inf
        if self.limit is None or self.remaining >= self.limit:
            return self.reset_at
        # Refilled all the time: a token bucket. One that is full lets all pass.
        seconds = self.reset_at - self.at
        share = missing / (self.limit - self.remaining)
        return self.at + seconds * min(1.0, share)


def read_quotas(
    headers: Mapping[str, str], now: float, wall: Callable[[], float] = time.time
) -> dict[str, Quota]:
    """Return the quotas in the headers of a response, by the provider's names.

    :param now: the monotonic time.
    :param wall: returns the time since 1970.
    """
    found: dict[str, dict[str, str]] = {}
    for header, value in headers.items():
        header = header.lower()
        if "ratelimit" not in header:  # most of them
            continue
        match = _HEADER.fullmatch(header)
        if match is None or len(value) > _MAX_TEXT:
            continue
        words = match[1].split("-")
        fields = [word for word in words if word in _FIELDS]
        if len(fields) == 1:
            (field,) = fields
            words.remove(field)
            found.setdefault("-".join(words), {})[field] = value.strip()
    quotas = {}
    for name, values in found.items():
        quota = _quota(name, values, headers, now, wall)
        if quota is not None:
            quotas[name] = quota
    return quotas


def _quota(
    name: str,
    values: Mapping[str, str],
    headers: Mapping[str, str],
    now: float,
    wall: Callable[[], float],
) -> Quota | None:
    start, _, last = name.rpartition("-")
    period = _PERIODS.get(last)
    kind = _KINDS.get(name if period is None else start)
    remaining = _number(values.get("remaining"))
    limit = _number(values.get("limit")) or None
    if kind is None or remaining is None:
        return None
    reset = _seconds(values.get("reset", ""), headers, wall)
    if reset is None and period is not None and limit is not None:
        reset = period * max(0.0, 1 - remaining / limit)
    if reset is None or (reset == 0 and remaining == 0):
        return None  # Azure: zeros and -1 for numbers that it does not know
    return Quota(kind, remaining, now, now + reset, limit)


def _number(text: str | None) -> float | None:
    """Return a number of requests or tokens, or None if it makes no sense."""
    if text is None or not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return number if number <= _MOST else None


def _seconds(
    text: str, headers: Mapping[str, str], wall: Callable[[], float]
) -> float | None:
    """Return the seconds to a reset, or None if it makes no sense."""
    seconds: float | None = None
    if _NUMBER.fullmatch(text):
        seconds = float(text)
        if seconds > _EPOCH:
            since_1970 = seconds / 1000 if seconds > _EPOCH_MS else seconds
            seconds = since_1970 - _time_there(headers, wall)
    elif _DURATION.fullmatch(text):
        seconds = sum(float(size) * _UNITS[unit] for size, unit in _PART.findall(text))
    elif text:
        date = _iso_date(text)
        if date is None:
            date = parse_date(text)
        if date is not None:
            seconds = date - _time_there(headers, wall)
    if seconds is None or not seconds <= _LONGEST:
        return None
    return max(0.0, seconds)


def _time_there(headers: Mapping[str, str], wall: Callable[[], float]) -> float:
    """Return the time since 1970 by the server's own clock, if it sends its time."""
    date = parse_date(headers.get("date", ""))
    return wall() if date is None else date


def _iso_date(text: str) -> float | None:
    if text[-1] in "zZ":  # Python 3.10 does not know it
        text = text[:-1] + "+00:00"
    try:
        date = datetime.fromisoformat(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=timezone.utc)
        return date.timestamp()
    except (ValueError, OverflowError):
        return None
