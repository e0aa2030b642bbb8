"""Each family of Google's models is asked to think in the words that it has."""

import pytest
from gemini_talk import payload

from syncagent.exceptions import ConfigurationError

EFFORTS = ["minimal", "low", "medium", "high", "xhigh", "max"]


def thinking(name, **options):
    """Return what is requested; the rules for that model accept it."""
    config = payload(name=name, **options).get("generationConfig", {})
    return config.get("thinkingConfig")


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("gemini-3.8-flash", "LOW LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-3.7-flash", "LOW LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-3.6-flash", "MINIMAL LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-3-flash-preview", "MINIMAL LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-3.5-flash-lite", "MINIMAL LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-3.1-flash-image-preview", "MINIMAL MINIMAL HIGH HIGH HIGH HIGH"),
        ("gemini-3.1-pro-preview", "LOW LOW MEDIUM HIGH HIGH HIGH"),
        ("models/gemini-3-pro-preview", "LOW LOW HIGH HIGH HIGH HIGH"),
        ("publishers/google/models/Gemini-4-Pro", "LOW LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-flash-latest", "LOW LOW MEDIUM HIGH HIGH HIGH"),
        ("something-new", "LOW LOW MEDIUM HIGH HIGH HIGH"),
        ("gemma-4-31b-it", "MINIMAL MINIMAL HIGH HIGH HIGH HIGH"),
    ],
)
def test_newer_models_have_levels(name, levels):
    """The nearest level that the model has, and never a budget."""
    asked = [thinking(name, effort=effort) for effort in EFFORTS]
    assert [config["thinkingLevel"] for config in asked] == levels.split()
    for config in asked:
        is_shown = config["thinkingLevel"] != "MINIMAL"
        assert config.get("includeThoughts", False) is is_shown
        assert "thinkingBudget" not in config


@pytest.mark.parametrize(
    ("name", "budgets"),
    [
        ("gemini-2.5-pro", [128, 1024, 8192, 24576, 32768, 32768]),
        ("gemini-2.5-flash", [0, 1024, 8192, 24576, 24576, 24576]),
        ("models/gemini-2.5-flash-lite", [0, 1024, 8192, 24576, 24576, 24576]),
    ],
)
def test_older_models_count_tokens(name, budgets):
    """Within the limits of the model; no thoughts are shown if there are none."""
    for effort, budget in zip(EFFORTS, budgets, strict=True):
        shown = {"includeThoughts": True} if budget else {}
        expected = {"thinkingBudget": budget, **shown}
        assert thinking(name, effort=effort) == expected


def test_thinking_can_be_turned_off_where_the_model_allows_it():
    """The others say what the least is."""
    assert thinking("gemini-2.5-flash", effort="none") == {"thinkingBudget": 0}
    assert thinking("gemma-3-27b-it", effort="none") is None


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("gemini-2.5-pro", "minimal"),
        ("gemini-3.1-pro-preview", "low"),
        ("gemini-3.8-flash", "low"),
        ("gemini-3-flash-preview", "minimal"),
        ("gemma-4-31b-it", "minimal"),
        ("m", "low"),
    ],
)
def test_thinking_that_cannot_be_turned_off_is_an_error(name, least):
    """It is no silent request for a little."""
    with pytest.raises(ConfigurationError, match=f"its least effort is '{least}'"):
        thinking(name, effort="none")
    assert thinking(name, effort=least)


@pytest.mark.parametrize("name", ["gemini-2.5-flash", "gemini-3.8-flash", "m"])
def test_a_number_of_tokens_takes_precedence(name):
    """Gemini 3 still takes it, but never with a level."""
    asked = thinking(name, effort="high", thinking_tokens=99)
    assert asked == {"thinkingBudget": 99, "includeThoughts": True}


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("gemma-4-31b-it", {"thinking_tokens": 9}, "pass effort="),
        ("gemma-3-27b-it", {"thinking_tokens": 9}, "leave out thinking_tokens"),
        ("gemma-3-27b-it", {"effort": "low"}, "does not think"),
    ],
)
def test_what_gemma_does_not_have(name, options, match):
    """It rejects a budget, and before version 4 everything about thinking."""
    with pytest.raises(ConfigurationError, match=match):
        thinking(name, **options)


def test_nothing_is_asked_for_unless_it_is_given():
    """The provider decides."""
    assert thinking("gemini-3.8-flash") is None
