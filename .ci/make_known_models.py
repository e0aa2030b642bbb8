"""Make ``syncagent/models/known.json``, the table of prices and context windows.

It is made from the data of the package genai-prices (MIT license), which needs Python
3.11 or later. Run it from anywhere, and read the diff before you commit it::

    tox -e known

or, in an environment that has genai-prices::

    python .ci/make_known_models.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from genai_prices.data import providers
from genai_prices.types import (
    ClauseContains,
    ClauseEndsWith,
    ClauseEquals,
    ClauseOr,
    ClauseStartsWith,
    ModelInfo,
    ModelPrice,
    StartDateConstraint,
    TieredPrices,
)

TARGET = Path(__file__).parents[1] / "syncagent/models/known.json"
PACKAGE = "genai-prices"
TODAY = date.today()

#: Our names of providers, by theirs. Names of HuggingFace's partners become suffixes.
PROVIDERS = {
    "anthropic": "anthropic",
    "aws": "bedrock",
    "azure": "azure",
    "cerebras": "cerebras",
    "cloudflare": "cloudflare",
    "databricks": "databricks",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "google": "gemini",
    "groq": "groq",
    "meta": "meta",
    "mistral": "mistral",
    "moonshotai": "moonshot",
    "openai": "openai",
    "openrouter": "openrouter",
    "ovhcloud": "ovhcloud",
    "perplexity": "perplexity",
    "together": "together",
    "x-ai": "xai",
    "zai": "zai",
}
HUGGINGFACE = "huggingface_"
#: The prices that we know how to apply, by our names of them.
KINDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
#: A model with one of these prices is not for text alone, or has a fee of another kind:
#: a price without it would be wrong.
OTHER_KINDS = {
    *("output_audio_mtok", "output_image_mtok", "output_video_mtok", "audio_hours"),
    *("output_reasoning_mtok", "output_citation_mtok", "requests_kcount"),
}
#: The end of a dated name. ``syncagent.models.prices`` removes it, too.
DATE = re.compile(r"[-@](?:\d{8}|\d{4}-\d\d-\d\d|latest)\Z")
#: The makers whose models at OpenRouter are kept; it has hundreds more.
MAKERS = re.compile(
    r"(?:openai|anthropic|google|deepseek|mistralai|x-ai|qwen|moonshotai|z-ai|"
    r"meta|meta-llama|minimax|nvidia|amazon|cohere)/"
)
#: The end of a name of Bedrock, its maker, and the region before it.
BEDROCK_VERSION = re.compile(r"(?:-v1)?(?::\d+)?\Z")
WITH_MAKER = re.compile(r"(?:global\.)?[a-z]+\.[a-z]")
BEDROCK_REGION = re.compile(r"\A(?:regional|us-gov|[a-z]{2}|apac)\.(?=[a-z]+\.)")


def main() -> None:
    """Write the table."""
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for provider in providers:
        suffix = ""
        name = PROVIDERS.get(provider.id)
        if provider.id.startswith(HUGGINGFACE):
            name, suffix = "huggingface", ":" + provider.id.removeprefix(HUGGINGFACE)
        if name is None:
            continue
        for model in provider.models:
            entry = describe(model)
            if entry is None or not is_kept(model, name):
                continue
            place = "vertex" if name == "gemini" and "claude" in model.id else name
            key, also = names_of(model, name, suffix)
            table = tables.setdefault(place, {})
            table[key] = {"also": also, **entry} if also else entry
    TARGET.write_text(render(tables), encoding="utf-8")
    count = sum(map(len, tables.values()))
    print(f"{TARGET}: {count} models, {TARGET.stat().st_size:,} bytes")


def is_kept(model: ModelInfo, provider: str) -> bool:
    """Return whether the table has this model: OpenRouter's many are too many."""
    if provider == "openrouter":  # those without a window are old
        is_plain = bool(MAKERS.match(model.id)) and not model.id.endswith(":batch")
        return is_plain and model.context_window is not None
    # Names of tuned models have more parts.
    return not model.id.startswith("ft:") and ".ft" not in model.id


def describe(model: ModelInfo) -> dict[str, Any] | None:
    """Return the window and the prices of a model, or None if a price is missing."""
    now, later = prices_of(model)
    price = price_of(now)
    if price is None:
        return None
    entry: dict[str, Any] = {}
    if model.context_window is not None:
        entry["window"] = model.context_window
    entry["price"] = price
    changes = [
        {"since": since.isoformat(), "price": changed}
        for since, then in later
        if (changed := price_of(then)) is not None
    ]
    if changes:
        entry["later"] = changes
    return entry


def prices_of(model: ModelInfo) -> tuple[ModelPrice, list[tuple[date, ModelPrice]]]:
    """Return today's prices, and those that are announced.

    Prices that depend on the time of the day are the highest: a limit must hold.
    """
    if isinstance(model.prices, ModelPrice):
        return model.prices, []
    now, later, at_times = model.prices[0].prices, [], []
    for each in model.prices:
        if isinstance(each.constraint, StartDateConstraint):
            if each.constraint.start_date > TODAY:
                later.append((each.constraint.start_date, each.prices))
            else:
                now = each.prices
        elif each.constraint is not None:
            at_times.append(each.prices)
        else:
            now = each.prices
    return max([now, *at_times], key=lambda price: number(price.output_mtok)), later


def price_of(price: ModelPrice) -> dict[str, Any] | None:
    """Return prices in our form, or None if they are not for text alone."""
    kinds = {key for key, value in vars(price).items() if value is not None}
    if kinds & OTHER_KINDS or not {"input_mtok", "output_mtok"} <= kinds:
        return None
    found = {ours: getattr(price, theirs) for ours, theirs in KINDS.items()}
    known = {kind: each for kind, each in found.items() if each is not None}
    result: dict[str, Any] = {kind: number(each) for kind, each in known.items()}
    tiered = [each for each in known.values() if isinstance(each, TieredPrices)]
    starts = sorted({tier.start for each in tiered for tier in each.tiers})
    if starts:
        result["tiers"] = [
            {
                "above": above,
                **{kind: number(each, above) for kind, each in known.items()},
            }
            for above in starts
        ]
    return result


def number(price: Any, above: int = -1) -> float | int:
    """Return a price as a number: that for prompts of more than *above* tokens."""
    if isinstance(price, TieredPrices):
        fitting = [tier.price for tier in price.tiers if tier.start <= above]
        price = fitting[-1] if fitting else price.base
    value = float(price or 0)
    return int(value) if value.is_integer() else value


def names_of(model: ModelInfo, provider: str, suffix: str) -> tuple[str, list[str]]:
    """Return the name of a model, and its other names.

    Clauses such as "starts with" and "contains" become exact names: the lookup removes
    dates and versions, and a name that only begins like a known one may cost anything.
    """
    key, *others = (tidy(name, provider) for name in (model.id, *clauses(model.match)))
    if DATE.sub("", key) in others:
        key = DATE.sub("", key)
    short = key.rpartition("/")[2]
    also = {name for name in others if name.rpartition("/")[2] not in (key, short)}
    also = {name for name in also if DATE.sub("", name) not in {key, *also} - {name}}
    if provider == "bedrock":  # without a maker, a name could be another provider's
        also = {name for name in also if WITH_MAKER.match(name)}
    if provider == "huggingface":
        also = {name for name in also if not name.endswith("-fast")}
    return key + suffix, sorted(name + suffix for name in also)


def clauses(clause: Any) -> Iterator[str]:
    """Yield the names in a rule. Regular expressions are there for dates only."""
    if isinstance(clause, ClauseOr):
        for each in clause.or_:
            yield from clauses(each)
    elif isinstance(clause, ClauseEquals):
        yield clause.equals
    elif isinstance(clause, ClauseStartsWith):
        yield clause.starts_with
    elif isinstance(clause, ClauseContains):
        yield clause.contains
    elif isinstance(clause, ClauseEndsWith):
        yield clause.ends_with


def tidy(name: str, provider: str) -> str:
    """Return a name in small letters, without provider, region and version."""
    name = name.lower().strip("/").rstrip("-@")
    if provider == "bedrock":
        name = BEDROCK_REGION.sub("", BEDROCK_VERSION.sub("", name))
    return name.removeprefix(f"{provider}:")


def render(tables: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return the text of the file: one model on each line, sorted."""
    license_text = distribution(PACKAGE).read_text("licenses/LICENSE") or ""
    head = {
        "about": "Made by .ci/make_known_models.py: do not edit. Prices are list "
        "prices in US dollars for a million tokens of text.",
        "date": TODAY.isoformat(),
        "source": f"{PACKAGE} {distribution(PACKAGE).version}, "
        "https://github.com/pydantic/genai-prices",
        "license": license_text.split("\n"),
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    parts = []
    for provider, table in sorted(tables.items()):
        models = ",\n".join(
            f"   {json.dumps(name)}: {json.dumps(entry)}"
            for name, entry in sorted(table.items())
        )
        parts.append(f"  {json.dumps(provider)}: {{\n{models}\n  }}")
    body = ",\n".join(parts)
    return "\n".join(["{", *lines, f' "models": {{\n{body}\n }}\n}}\n'])


if __name__ == "__main__":
    main()
