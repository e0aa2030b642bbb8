"""Find the price and the context window of a model by its provider and name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Final

from ..usage import Usage
from .endpoints import ENDPOINTS
from .known import KnownModel, Price, Tier, known_models

__all__ = ["Price", "Tier", "cost", "find_known", "find_price"]

#: Tables for a provider that sells models of other makers at the makers' prices.
_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "azure": ("azure", "openai", "anthropic", "deepseek", "xai", "moonshot"),
    "vertex": ("vertex", "gemini", "anthropic"),
}
#: Tables for the makers of models, by their names at gateways.
_MAKERS: Final[Mapping[str, str]] = {
    **{name: name for name in ("openai", "anthropic", "gemini", "mistral", "deepseek")},
    **{name: name for name in ("xai", "moonshot", "zai", "meta")},
    "google": "gemini",
    "meta-llama": "meta",
    "mistralai": "mistral",
    "moonshotai": "moonshot",
    "x-ai": "xai",
    "z-ai": "zai",
}
#: The end of a name that marks a version; all versions have the same price.
_VERSION: Final = re.compile(
    r"[-@](?:\d{4}-?\d\d-?\d\d|\d\d-\d{4}|00\d|latest|default)\Z"
)
#: Bedrock's region before a name, and the versions after it.
_REGION: Final = re.compile(r"\A(?:us-gov|[a-z]{2}|apac)\.(?=[a-z0-9]+\.)")
_REVISION: Final = re.compile(r"(?::\d+k?)+\Z")
_MODEL_VERSION: Final = re.compile(r"-v\d+\Z")
#: Longer names have no other forms, because finding these takes quadratic time.
_LONGEST: Final = 300


def cost(
    usage: Usage, model: str, prices: Mapping[str, Price] | None = None
) -> float | None:
    """Return the cost of *usage* in US dollars, or None for an unknown model.

    :param usage: of one request.
    :param model: its name, with or without a provider before a colon. Without one, the
        price is that of the model's maker.
    :param prices: take precedence over the known ones.
    """
    if prices:
        provider, name = _split(model)
        for form in (model, *_forms(name, provider or "")):
            if form in prices:
                return prices[form].of(usage)
    price = find_price(model)
    return None if price is None else price.of(usage)


def find_price(model: str, provider: str | None = None) -> Price | None:
    """Return today's price of *model*, of any date and version, or None.

    Parameters are those of :func:`find_known`.
    """
    known = find_known(model, provider)
    return None if known is None else known.price_on(datetime.now(timezone.utc).date())


def find_known(model: str, provider: str | None = None) -> KnownModel | None:
    """Return the known facts about *model*, or None.

    :param provider: the name of its endpoint; by default the part of *model* before a
        colon, and without that the maker of the model.
    """
    name = model
    if provider is None:
        provider, name = _split(model)
    for table in _tables(provider, name):
        models = known_models(table)
        for form in _forms(name.lower(), table):
            if form in models:
                return models[form]
    return None


def _split(model: str) -> tuple[str | None, str]:
    """Return the provider of ``provider:name``, or None, and the name."""
    provider, colon, name = model.partition(":")
    is_provider = colon and (provider in ENDPOINTS or known_models(provider))
    return (provider, name) if is_provider else (None, model)


def _tables(provider: str | None, name: str) -> tuple[str, ...]:
    """Return the tables to look in, the best one first."""
    maker, slash, _ = name.lower().partition("/")
    makers = (_MAKERS.get(maker, maker),) if slash else ()
    if provider is None:
        return makers or tuple(dict.fromkeys(_MAKERS.values()))
    if provider == "openrouter":
        return (provider, *makers)
    # "openai-chat" and the like are other dialects of the same provider.
    known = provider if known_models(provider) else provider.partition("-")[0]
    return _TABLES.get(known, (known,))


def _forms(name: str, provider: str) -> Iterator[str]:
    """Yield the names that *name* may stand for, the most precise one first."""
    parts = name.split("/") if len(name) <= _LONGEST else ()
    for start in range(len(parts)):
        form = "/".join(parts[start:])
        if provider == "bedrock":
            form = _REGION.sub("", form)
        yield form
        if provider == "bedrock":
            form = _REVISION.sub("", form)
            yield form
            form = _MODEL_VERSION.sub("", form)
            yield form
        yield _VERSION.sub("", form)
