"""What tokens cost, as far as it is known."""

import pytest

from syncagent.models.prices import Price, cost
from syncagent.usage import Usage


@pytest.mark.parametrize(
    ("model", "usage", "expected"),
    [
        ("gpt-4.1-mini", Usage(1_000_000, 0), 0.4),
        ("openai:gpt-4.1-mini", Usage(0, 1_000_000), 1.6),
        ("gpt-4.1-mini-2025-04-14", Usage(1_000_000, 0, cached_tokens=500_000), 0.25),
        ("claude-haiku-4-5-20251001", Usage(1_000_000, 1_000_000), 6.0),
        ("openrouter:anthropic/claude-sonnet-4-5", Usage(1_000_000, 0), 3.0),
        (
            "claude-sonnet-4-5",
            Usage(1_000_000, 0, cached_tokens=400_000, cache_write_tokens=600_000),
            0.4 * 0.3 + 0.6 * 3.75,
        ),
    ],
)
def test_what_is_known(model, usage, expected):
    """Cached tokens are in the input; whoever offers a model, it is the same."""
    assert cost(usage, model) == pytest.approx(expected)


@pytest.mark.parametrize("model", ["gpt-5-pro", "gpt-4.1-mini-tuned", "nobody", ""])
def test_what_nobody_knows(model):
    """A name that only begins like a known one may cost anything."""
    assert cost(Usage(1, 1), model) is None


def test_prices_of_ones_own():
    """They count more than the table."""
    mine = {"mine": Price(1.0, 2.0), "gpt-5": Price(0.0, 0.0)}
    assert cost(Usage(1_000_000, 1_000_000), "mine", mine) == 3.0
    assert cost(Usage(1_000_000, 0, cached_tokens=1_000_000), "mine", mine) == 1.0
    assert cost(Usage(1_000_000, 0), "gpt-5", mine) == 0.0


def test_usage_adds_up():
    """A sum with a guess in it is a guess."""
    told = Usage(1, 2, 3, 4, 5)
    assert told + told == Usage(2, 4, 6, 8, 10)
    assert (told + Usage.estimate(400, 9)) == Usage(101, 5, 3, 4, 5, estimated=True)
