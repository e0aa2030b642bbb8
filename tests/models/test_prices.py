"""What tokens cost, as far as it is known."""

from datetime import date

import pytest

from syncagent import ConfigurationError
from syncagent.models import OpenAIChat, Price, Tier, cost, find_model
from syncagent.models.known import KnownModel, PriceChange, known_models
from syncagent.models.prices import find_known, find_price
from syncagent.testing import ScriptedModel
from syncagent.usage import Usage

MILLION = Usage(1_000_000, 0)
#: A small prompt, so that no tier counts.
SMALL = Usage(1_000, 1_000, cached_tokens=400, cache_write_tokens=600)


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        # The endpoints of one provider have one table.
        ("gpt-6-luna", "openai-chat", "gpt-6-luna"),
        # A model may have several names.
        ("gpt-5-6-luna", "openai", "gpt-5.6-luna"),
        ("gemini-flash-latest", "gemini", "gemini-3.8-flash"),
        # Dated versions cost as much as the others.
        ("gpt-6-luna-2026-09-22", "openai", "gpt-6-luna"),
        ("claude-haiku-5-5-20261001", "anthropic", "claude-haiku-5-5"),
        ("claude-opus-5-latest", "anthropic", "claude-opus-5"),
        ("gemini-3.5-flash-001", "gemini", "gemini-3.5-flash"),
        # Names with the maker before a slash.
        ("openai/gpt-oss-120b", "groq", "openai/gpt-oss-120b"),
        ("openai/gpt-6-luna", "openai", "gpt-6-luna"),
        ("accounts/fireworks/models/deepseek-v4-pro", "fireworks", "deepseek-v4-pro"),
        ("MiniMaxAI/MiniMax-M3", "together", "minimaxai/minimax-m3"),
        # Bedrock's regions and versions; a global profile has its own price.
        ("us.anthropic.claude-sonnet-5-5", "bedrock", "anthropic.claude-sonnet-5-5"),
        (
            "eu.anthropic.claude-haiku-4-5-20251001-v1:0",
            "bedrock",
            "anthropic.claude-haiku-4-5-20251001",
        ),
        (
            "global.anthropic.claude-opus-5-5-v1:0",
            "bedrock",
            "global.anthropic.claude-opus-5-5",
        ),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.openai.gpt-6-luna",
            "bedrock",
            "openai.gpt-6-luna",
        ),
        ("openai.gpt-oss-120b-1:0", "bedrock", "openai.gpt-oss-120b-1"),
        # The company that runs a model of HuggingFace stands after a colon.
        (
            "MiniMaxAI/MiniMax-M3:together",
            "huggingface",
            "minimaxai/minimax-m3:together",
        ),
    ],
)
def test_a_model_is_found_by_its_endpoint_and_name(model, provider, name):
    """Whatever stands around the name, it is the entry of that provider's table."""
    table = known_models(provider.partition("-")[0])
    assert find_known(model, provider) is table[name]


@pytest.mark.parametrize(
    ("model", "provider", "maker", "name"),
    [
        ("my/gpt-6-luna", "azure", "openai", "gpt-6-luna"),
        ("claude-sonnet-5@20260901", "vertex", "anthropic", "claude-sonnet-5"),
        (
            "publishers/google/models/gemini-3.8-flash",
            "vertex",
            "gemini",
            "gemini-3.8-flash",
        ),
        (
            "anthropic/claude-sonnet-5-5",
            "openrouter",
            "anthropic",
            "claude-sonnet-5-5",
        ),
        ("x-ai/grok-4.5", None, "xai", "grok-4.5"),
        ("claude-opus-5-5", None, "anthropic", "claude-opus-5-5"),
    ],
)
def test_a_model_of_another_maker_costs_what_the_maker_asks(
    model, provider, maker, name
):
    """Clouds and gateways pass prices on; a name without a provider is its maker's."""
    assert find_known(model, provider) is known_models(maker)[name]


@pytest.mark.parametrize(
    "model",
    [
        "gpt-6-luna-tuned",
        "gemini:gemini-3.8-flash-lite",
        "mistral:mistral-large-2699",
        "nobody",
        "",
        "openai:",
        "openai:claude-sonnet-5-5",
        "ollama:gpt-oss-120b",
        "ollama:qwen3:latest",
        "azure:my-deployment",
        "huggingface:MiniMaxAI/MiniMax-M3",
        "huggingface:MiniMaxAI/MiniMax-M3:fastest",
        "openrouter:openai/gpt-6-luna:nitro",
        "bedrock:global.amazon.nova-lite-v1:0",
    ],
)
def test_an_unknown_model_has_no_price(model):
    """A name that only begins like a known one may cost anything."""
    assert find_price(model) is None
    assert cost(Usage(1, 1), model) is None


@pytest.mark.parametrize("part", [":1", "a/", "-v1", "us."])
def test_an_endless_name_takes_no_time(part):
    """Looking for its other forms would take minutes."""
    name = part * 50_000 + "x"
    assert find_price(name, "bedrock") is None
    assert find_price(name) is None
    assert cost(Usage(1, 1), name, {name: Price(1e6, 0)}) == 1


@pytest.mark.parametrize(
    "model", ["openai:gpt-6-luna", "openai:gpt-6-luna-2026-09-22", "gpt-6-luna"]
)
def test_cached_tokens_are_a_part_of_the_input(model):
    """Tokens that were read from a cache or written to it have their own price."""
    price = find_price("gpt-6-luna", "openai")
    of_input = 400 * price.cached + 600 * price.cache_write
    expected = (of_input + 1000 * price.output) / 1e6
    assert cost(SMALL, model) == pytest.approx(expected)


def test_a_long_prompt_has_its_own_price():
    """The tier counts for the whole request, and only above its border."""
    longer = Tier(above=200, input=2e6, output=20e6, cached=1e6)
    longest = Tier(above=300, input=4e6, output=40e6)
    price = Price(1e6, 10e6, tiers=(longer, longest))
    assert price.of(Usage(200, 1)) == 210.0
    assert price.of(Usage(201, 1, cached_tokens=200)) == 2 + 200 + 20
    assert price.of(Usage(301, 1)) == 4 * 301 + 40


def test_a_known_price_has_tiers():
    """They come from the table."""
    price = find_price("gpt-6-luna", "openai")
    (tier,) = price.tiers
    assert price.of(MILLION) == tier.input > price.input


def test_an_announced_price_counts_from_its_day():
    """Providers announce new prices long before; the table need not be newer."""
    old, new = Price(1.0, 2.0), Price(3.0, 4.0)
    known = KnownModel(old, later=(PriceChange(date(2027, 1, 1), new),))
    assert known.price_on(date(2026, 12, 31)) is old
    assert known.price_on(date(2027, 1, 1)) is new


def test_prices_of_ones_own():
    """They count more than the table."""
    mine = {"mine": Price(1.0, 2.0), "gpt-6-luna": Price(0.0, 0.0)}
    assert cost(Usage(1_000_000, 1_000_000), "mine", mine) == 3.0
    assert cost(Usage(1_000_000, 0, cached_tokens=1_000_000), "mine", mine) == 1.0
    assert cost(MILLION, "openai:gpt-6-luna-2026-09-22", mine) == 0.0
    assert cost(SMALL, "claude-sonnet-5-5", mine) == cost(SMALL, "claude-sonnet-5-5")


def test_a_model_knows_its_price_and_window():
    """Its endpoint counts: the same name may cost something else elsewhere."""
    groq = find_model("groq:openai/gpt-oss-120b", api_key="none")
    known = known_models("groq")["openai/gpt-oss-120b"]
    assert groq.cost(MILLION) == known.price.of(MILLION)
    assert groq.context_window == known.window
    elsewhere = find_model("vllm:openai/gpt-oss-120b")
    assert (elsewhere.cost(MILLION), elsewhere.context_window) == (None, None)


def test_an_argument_counts_more_than_the_table():
    """A discount, or a server that was started with a smaller window."""
    settings = {"api_key": "none", "price": Price(7.0, 7.0), "context_window": 4096}
    model = OpenAIChat("gpt-6-luna", **settings)
    assert (model.cost(MILLION), model.context_window) == (7.0, 4096)
    scripted = ScriptedModel(price=Price(7.0, 7.0), context_window=4096)
    assert (scripted.cost(MILLION), scripted.context_window) == (7.0, 4096)


@pytest.mark.parametrize("window", [0, -1, 1.5, True, "8k"])
def test_a_window_is_a_positive_number(window):
    """Anything else is refused by its name."""
    with pytest.raises(ConfigurationError, match="context_window"):
        OpenAIChat("gpt-6-luna", api_key="none", context_window=window)


def test_usage_adds_up():
    """A sum with a guess in it is a guess."""
    told = Usage(1, 2, 3, 4, 5)
    assert told + told == Usage(2, 4, 6, 8, 10)
    assert (told + Usage.estimate(400, 9)) == Usage(101, 5, 3, 4, 5, estimated=True)
