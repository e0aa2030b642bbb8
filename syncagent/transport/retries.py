"""When a request is sent again, and after how long."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from datetime import timezone
from email.utils import parsedate_to_datetime

import msgspec

from .._checks import check_number
from ..exceptions import ProviderError, TransportError

__all__ = ["Retries", "parse_date", "parse_retry_after"]


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How often to retry, and how long to wait before each attempt.

    Only failures that may pass are retried: see ``retryable`` of the errors. A request
    is never sent again once an event of its response was delivered, or after a cancel.

    :raises ConfigurationError: a number is negative or infinite.
    """

    #: The most attempts after the first.
    limit: int = 2
    #: The wait is random, at most this many seconds at first, twice as many each time.
    first_delay: float = 0.5
    #: The most seconds of a random wait.
    max_delay: float = 8.0
    #: If the server asks for a wait of more seconds than this, there is no retry.
    max_retry_after: float = 120.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            check_number(f"retries: {name}", value, is_integer=name == "limit")

    @classmethod
    def of(cls, retries: int | Retries) -> Retries:
        """Return the value of a ``retries=`` argument: a number, or Retries."""
        return retries if isinstance(retries, Retries) else cls(limit=retries)

    def delay(
        self,
        failures: int,
        failure: TransportError | ProviderError,
        randomly: Callable[[], float] = random.random,
    ) -> float | None:
        """Return the seconds to wait before the next attempt.

        :param failures: how many attempts have failed, the last one included.
        :param failure: how the last one failed.
        :param randomly: returns a random number from 0 to 1.
        :return: ``None`` if there is no next attempt.
        """
        if failures > self.limit or not failure.retryable:
            return None
        # Full jitter: clients that failed together do not come back together.
        ceiling = min(self.max_delay, self.first_delay * 2.0 ** min(failures - 1, 60))
        jitter = randomly() * ceiling
        retry_after: float | None = getattr(failure, "retry_after", None)
        if retry_after is None:
            return jitter
        # Never earlier than the server wants, and not all clients at the same moment.
        return None if retry_after > self.max_retry_after else retry_after + jitter


def parse_retry_after(
    headers: Mapping[str, str], now: Callable[[], float] = time.time
) -> float | None:
    """Return the seconds that a server asks to wait, if it does.

    :param headers: of its response; ``retry-after-ms`` counts before ``Retry-After``,
        which may be seconds or a date.
    :param now: returns the current time, in seconds since the epoch.
    """
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _seconds(value)
    if seconds is not None or value is None:
        return seconds
    until = parse_date(value)
    if until is None:
        return None
    # By the server's own clock, if it sends its time: ours may differ.
    begin = parse_date(headers.get("date", ""))
    return max(0.0, until - (now() if begin is None else begin))


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text) if text else math.nan
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None


def parse_date(text: str) -> float | None:
    """Return a date of HTTP in seconds since 1970, or None if it cannot be read."""
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:  # dates in HTTP are in UTC, even if they do not say so
            date = date.replace(tzinfo=timezone.utc)
        return date.timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
