"""The table of known models: their prices and context windows, from ``known.json``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import msgspec

from ..usage import Usage

__all__ = ["KnownModel", "Price", "PriceChange", "Tier", "known_date", "known_models"]

_FILE: Final = Path(__file__).with_name("known.json")


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """The prices for long prompts, in place of those of its ``Price``."""

    #: The tier applies to prompts of more tokens than this.
    above: int
    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens."""

    input: float
    output: float
    #: For input that is read from a cache; by default the price of other input.
    cached: float | None = None
    #: For input that is written to a cache; by default the price of other input.
    cache_write: float | None = None
    #: Prices for long prompts, in ascending order. A tier is for the whole request.
    tiers: tuple[Tier, ...] = ()

    def of(self, usage: Usage) -> float:
        """Return the cost of *usage* in US dollars.

        :param usage: of one request: the tier depends on the length of its prompt.
        """
        rates: Price | Tier = self
        for tier in self.tiers:
            if usage.input_tokens > tier.above:
                rates = tier
        cached, written = usage.cached_tokens, usage.cache_write_tokens
        plain = max(0, usage.input_tokens - cached - written)
        of_cached = rates.input if rates.cached is None else rates.cached
        of_written = rates.input if rates.cache_write is None else rates.cache_write
        parts = (
            plain * rates.input,
            cached * of_cached,
            written * of_written,
            usage.output_tokens * rates.output,
        )
        return sum(parts) / 1_000_000


class PriceChange(msgspec.Struct, frozen=True):
    """A price that a provider has announced."""

    #: The first day of the new price.
    since: date
    price: Price


class KnownModel(msgspec.Struct, frozen=True):
    """The facts about a model of one provider."""

    price: Price
    #: Its context window in tokens, if known.
    window: int | None = None
    #: Its other names.
    also: tuple[str, ...] = ()
    later: tuple[PriceChange, ...] = ()

    def price_on(self, day: date) -> Price:
        """Return the price on that day."""
        price = self.price
        for change in self.later:
            if day >= change.since:
                price = change.price
        return price


class _Table(msgspec.Struct, frozen=True):
    date: date
    source: str
    license: tuple[str, ...]
    models: Mapping[str, Mapping[str, KnownModel]]


# Made here and not when first needed: msgspec collects the fields of a type at first
# use, and crashes if another thread uses the type at that moment.
_DECODER: Final = msgspec.json.Decoder(_Table)


@cache
def _table() -> _Table:
    """Read the file, once."""
    return _DECODER.decode(_FILE.read_bytes())


def known_date() -> date:
    """Return the day on which the table was made."""
    return _table().date


@lru_cache(64)
def known_models(provider: str) -> Mapping[str, KnownModel]:
    """Return the known models of *provider*, by each of their names."""
    models = _table().models.get(provider, {})
    others = {name: model for model in models.values() for name in model.also}
    return {**others, **models}
