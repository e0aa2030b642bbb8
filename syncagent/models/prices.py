"""Prices of tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from ..usage import Usage

__all__ = ["PRICES", "Price", "cost", "find_price"]


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens."""

    input: float
    output: float
    #: For input that is read from a cache; by default as for other input.
    cached: float | None = None
    #: For input that is written to a cache; by default as for other input.
    cache_write: float | None = None

    def of(self, usage: Usage) -> float:
        """Return the cost of *usage* in US dollars."""
        cached, written = usage.cached_tokens, usage.cache_write_tokens
        plain = max(0, usage.input_tokens - cached - written)
        of_cached = self.input if self.cached is None else self.cached
        of_written = self.input if self.cache_write is None else self.cache_write
        parts = (
            plain * self.input,
            cached * of_cached,
            written * of_written,
            usage.output_tokens * self.output,
        )
        return sum(parts) / 1_000_000


#: List prices of late 2025, for text; a name also stands for its dated versions.
#: Providers change them: pass your own to ``cost()``.
PRICES: Final[Mapping[str, Price]] = {
    "gpt-5": Price(1.25, 10.0, 0.125),
    "gpt-5-mini": Price(0.25, 2.0, 0.025),
    "gpt-5-nano": Price(0.05, 0.4, 0.005),
    "gpt-4.1": Price(2.0, 8.0, 0.5),
    "gpt-4.1-mini": Price(0.4, 1.6, 0.1),
    "gpt-4.1-nano": Price(0.1, 0.4, 0.025),
    "gpt-4o": Price(2.5, 10.0, 1.25),
    "gpt-4o-mini": Price(0.15, 0.6, 0.075),
    "o3": Price(2.0, 8.0, 0.5),
    "o4-mini": Price(1.1, 4.4, 0.275),
    "claude-opus-4-5": Price(5.0, 25.0, 0.5, 6.25),
    "claude-opus-4-1": Price(15.0, 75.0, 1.5, 18.75),
    "claude-sonnet-4": Price(3.0, 15.0, 0.3, 3.75),
    "claude-sonnet-4-5": Price(3.0, 15.0, 0.3, 3.75),
    "claude-haiku-4-5": Price(1.0, 5.0, 0.1, 1.25),
    "claude-3-5-haiku": Price(0.8, 4.0, 0.08, 1.0),
    "gemini-2.5-pro": Price(1.25, 10.0, 0.31),
    "gemini-2.5-flash": Price(0.3, 2.5, 0.075),
    "gemini-2.5-flash-lite": Price(0.1, 0.4, 0.025),
}


#: The end of the name of a dated version of a model.
_DATE: Final = re.compile(r"(?:[-@]\d{4}-?\d\d-?\d\d|-latest)\Z")


def cost(
    usage: Usage, model: str, prices: Mapping[str, Price] | None = None
) -> float | None:
    """Return the cost of *usage* in US dollars, or None for an unknown model.

    :param model: its name, with or without a provider before a colon or slash.
    :param prices: they take precedence over ``PRICES``.
    """
    price = find_price(model, prices)
    return None if price is None else price.of(usage)


def find_price(model: str, prices: Mapping[str, Price] | None = None) -> Price | None:
    """Return the price of *model*, at any provider and of any date, or None."""
    known = {**PRICES, **prices} if prices else PRICES
    name = model.rpartition(":")[2] if ":" in model else model
    for candidate in (model, name, name.rpartition("/")[2]):
        for form in (candidate, _DATE.sub("", candidate)):
            if form in known:
                return known[form]
    return None
