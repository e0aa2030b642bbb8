"""When a request is made again, and after how long."""

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

__all__ = ["Retries", "parse_retry_after"]


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How often to try again, and how long to wait before.

    Only what may succeed later is tried again: see ``retryable`` of the errors. A
    request is never made again once an event of its answer was delivered, or after a
    cancel.

    :raises ConfigurationError: a number is negative.
    """

    #: How many times at most, after the first.
    limit: int = 2
    #: The wait is random, up to this many seconds at first and twice as many each time.
    first_delay: float = 0.5
    #: But never up to more than this.
    max_delay: float = 8.0
    #: A server that asks for a longer wait than this many seconds is not asked again.
    max_retry_after: float = 120.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            check_number(f"retries: {name}", value, is_integer=name == "limit")

    @classmethod
    def of(cls, retries: int | Retries) -> Retries:
        """Return what ``retries=`` means: a number, or all of it."""
        return retries if isinstance(retries, Retries) else cls(limit=retries)

    def delay(
        self,
        failures: int,
        failure: TransportError | ProviderError,
        randomly: Callable[[], float] = random.random,
    ) -> float | None:
        """Return the seconds to wait before the next attempt.

        :param failures: how many attempts have failed, this one included.
        :param failure: how the last one failed.
        :return: ``None`` if there is to be no other.
        """
        if failures > self.limit or not failure.retryable:
            return None
        # Full jitter: clients that failed together do not come back together.
        ceiling = min(self.max_delay, self.first_delay * 2.0 ** min(failures - 1, 60))
        jitter = randomly() * ceiling
        asked: float | None = getattr(failure, "retry_after", None)
        if asked is None:
            return jitter
        # To ask earlier than it wants would be in vain; how late is for us to choose.
        return None if asked > self.max_retry_after else asked + jitter


def parse_retry_after(
    headers: Mapping[str, str], now: Callable[[], float] = time.time
) -> float | None:
    """Return the seconds that a server asks to wait, if it does.

    :param headers: of its answer; ``retry-after-ms`` counts before ``Retry-After``,
        which may be seconds or a date.
    """
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    seconds = _seconds(asked)
    if seconds is not None or asked is None:
        return seconds
    until = _date(asked)
    if until is None:
        return None
    # By the server's own clock, if it says what time it has.
    begin = _date(headers.get("date", ""))
    return max(0.0, until - (now() if begin is None else begin))


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text) if text else math.nan
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None


def _date(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:  # HTTP knows no other zone, even where none is named
            date = date.replace(tzinfo=timezone.utc)
        return date.timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
