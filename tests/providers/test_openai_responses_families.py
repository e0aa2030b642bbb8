"""What each family of models is asked for, in its own words."""

import json

import pytest
from responses_talk import DIALECT, HELLO

from syncagent.exceptions import ConfigurationError
from syncagent.options import Options


def build(model, **options):
    return json.loads(DIALECT.build_payload(model, [HELLO], (), Options(**options)))


@pytest.mark.parametrize(
    "model",
    [
        *("gpt-6-luna", "gpt-6-sol", "gpt-6-astra", "gpt-6.1-sol", "gpt-6.1-terra"),
        *("gpt-5.6-luna", "gpt-5.5", "gpt-5.1", "gpt-5", "openai/gpt-5-nano", "gpt-7"),
        *("gpt-5.1-codex", "codex-mini-latest", "o3", "o4-mini", "o9", "gpt-10.2-x"),
        *(
            "gpt-5.2-chat-latest",
            "openai/gpt-5.3-chat",
            "gpt-oss-120b",
            "my-deployment",
        ),
        *("openai.gpt-oss-20b", "grok-4.5", "grok-4.20-0309-reasoning", "grok-9"),
    ],
)
def test_reasoning_travels_with_every_model_that_may_reason(model):
    """B7: the server keeps nothing, so what it does not send is lost."""
    assert build(model)["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize(
    "model",
    [
        *("gpt-4.1-mini", "openai/gpt-4o", "gpt-4-turbo", "gpt-3.5-turbo"),
        *("chatgpt-4o-latest", "gpt-5-chat-latest", "ft:gpt-4o-mini:us::1", "GPT-4o"),
    ],
)
def test_a_model_that_does_not_reason_is_not_asked_for_reasoning(model):
    """It rejects the field."""
    assert not {"include", "reasoning"} & set(build(model, effort="none"))
    with pytest.raises(ConfigurationError, match=r"effort of .* cannot be set"):
        build(model, effort="low")


ALL = ["none", "minimal", "low", "medium", "high", "xhigh", "max"]
WORDS = {
    "gpt-6-luna": "none low low medium high xhigh max",
    "gpt-6-astra": "- low low medium high xhigh max",
    "gpt-6.1-terra": "none low low medium high xhigh max",
    "gpt-8": "none low low medium high xhigh max",
    "gpt-5.6-luna": "none low low medium high xhigh max",
    "openai/gpt-5.5": "none low low medium high xhigh xhigh",
    "gpt-5.2": "none low low medium high xhigh xhigh",
    "gpt-5.4-pro": "- medium medium medium high xhigh xhigh",
    "gpt-5.3-codex": "- low low medium high xhigh xhigh",
    "gpt-5.1-codex-max": "- low low medium high xhigh xhigh",
    "gpt-5.1-codex": "- low low medium high high high",
    "gpt-5.1": "none low low medium high high high",
    "gpt-5.2-chat-latest": "- medium medium medium medium medium medium",
    "gpt-5-mini": "- minimal low medium high high high",
    "gpt-5-pro": "- high high high high high high",
    "o3": "- low low medium high high high",
    "gpt-oss-120b": "- low low medium high high high",
    "grok-4.3": "none low low medium high high high",
    "grok-4.5": "- low low medium high high high",
    "x-ai/grok-4.6": "- low low medium high xhigh xhigh",
    "grok-7": "- low low medium high xhigh xhigh",
    "grok-3-mini": "- low low high high high high",
    "my-deployment": "none minimal low medium high xhigh max",
}


@pytest.mark.parametrize("model", WORDS)
def test_the_nearest_effort_that_the_model_has(model):
    """Only "none" is never exchanged: it is an error where a model always thinks."""
    for effort, word in zip(ALL, WORDS[model].split(), strict=True):
        if word == "-":
            with pytest.raises(ConfigurationError, match=f"{model} cannot stop"):
                build(model, effort=effort)
        else:
            assert build(model, effort=effort)["reasoning"] == {"effort": word}


@pytest.mark.parametrize(
    "model", ["grok-4", "grok-4-1-fast", "grok-4.20-0309-reasoning"]
)
def test_an_effort_that_nobody_can_set(model):
    """It is an error, though the model reasons: it would answer 400."""
    with pytest.raises(ConfigurationError, match="leave out effort="):
        build(model, effort="low")


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("o3", {"temperature": 0.5}),
        ("gpt-5-mini", {"top_p": 0.5}),
        ("gpt-5.3-codex", {"temperature": 0.5}),
        ("gpt-6-astra", {"temperature": 0.5}),
        ("gpt-6-luna", {"temperature": 0.5, "effort": "low"}),
    ],
)
def test_a_temperature_that_is_certain_to_be_rejected(model, options):
    """The error says so before anything is sent."""
    with pytest.raises(ConfigurationError, match="while it thinks"):
        build(model, **options)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gpt-6-luna", {}),
        ("gpt-5.1", {"effort": "none"}),
        ("openai/gpt-5", {}),
        ("gpt-4.1", {}),
        ("grok-4.5", {"effort": "high"}),
        ("anything", {"effort": "high"}),
    ],
)
def test_a_temperature_about_which_the_provider_decides(model, options):
    """It is sent wherever it may be taken."""
    assert build(model, temperature=0.5, **options)["temperature"] == 0.5


def test_extra_has_the_last_word():
    """A family that has changed since can be asked for anything."""
    sent = build("grok-4", extra={"reasoning": {"effort": "low"}, "temperature": 0.5})
    assert (sent["reasoning"], sent["temperature"]) == ({"effort": "low"}, 0.5)
    assert build("a-deployment-of-gpt-4o", extra={"include": None})["include"] is None
