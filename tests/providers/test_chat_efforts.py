"""The effort that each provider is asked for, and the tools that go with it."""

import pytest
from support.chat import TOOL, payload_of

from syncagent.exceptions import ConfigurationError
from syncagent.models.compatible import COMPATIBLE_ENDPOINTS
from syncagent.options import WebSearch

OFF = {"thinking": {"type": "disabled"}}
ON = {"thinking": {"type": "enabled"}}


def thinking_of(endpoint, model, **settings):
    """Return the fields of a payload that are about thinking."""
    found = payload_of(endpoint, model=model, **settings)
    names = ("reasoning_effort", "thinking", "enable_thinking")
    return {name: found[name] for name in names if name in found}


def effort(word):
    return {"reasoning_effort": word}


@pytest.mark.parametrize(
    ("endpoint", "model", "wanted", "expected"),
    [
        ("openai-chat", "gpt-6-luna", "none", effort("none")),
        ("openai-chat", "gpt-6-luna", "minimal", effort("low")),
        ("openai-chat", "gpt-6-luna", "max", effort("xhigh")),
        ("openai-chat", "gpt-7", "xhigh", effort("xhigh")),
        ("openai-chat", "gpt-5-mini", "minimal", effort("minimal")),
        ("openai-chat", "gpt-5-mini", "max", effort("high")),
        ("openai-chat", "gpt-5.1", "none", effort("none")),
        ("openai-chat", "gpt-5.1", "xhigh", effort("high")),
        ("openai-chat", "o4-mini", "minimal", effort("low")),
        ("openai-chat", "ft:gpt-4.1:org", "none", {}),
        ("openai-chat", "my-own-model", "minimal", effort("minimal")),
        ("azure-chat", "my-deployment", "max", effort("xhigh")),
        ("deepseek", "deepseek-v4-pro", "none", OFF),
        ("deepseek", "deepseek-v4-pro", "xhigh", effort("xhigh")),
        ("deepseek", "deepseek-v5", "max", effort("max")),
        ("mistral", "mistral-small-latest", "low", effort("high")),
        ("mistral", "mistral-small-latest", "none", effort("none")),
        ("mistral", "magistral-medium-latest", "high", {}),
        ("moonshot", "kimi-k3", "medium", effort("high")),
        ("moonshot", "kimi-k3", "minimal", effort("low")),
        ("moonshot", "kimi-k2.6", "none", OFF),
        ("moonshot", "kimi-k2.6", "high", ON),
        ("moonshot", "kimi-k2.7-code", "high", {}),
        ("moonshot", "moonshot-v1-8k", "none", {}),
        ("zai", "glm-5.3", "xhigh", effort("max")),
        ("zai", "glm-5.2", "minimal", effort("minimal")),
        ("zai", "glm-5.2", "none", OFF),
        ("zai", "glm-5", "low", ON),
        ("zai", "glm-4.7", "none", OFF),
        ("groq", "openai/gpt-oss-120b", "minimal", effort("low")),
        ("groq", "openai/gpt-oss-120b", "max", effort("high")),
        ("groq", "qwen/qwen3-32b", "low", effort("default")),
        ("groq", "qwen/qwen3-32b", "none", effort("none")),
        ("groq", "qwen/qwen3.8-27b", "xhigh", effort("high")),
        ("openrouter", "openai/gpt-6-luna", "max", effort("xhigh")),
        ("openai-chat", "us.openai.gpt-6-luna", "max", effort("xhigh")),
        ("xai-chat", "grok-4.5", "max", effort("high")),
        ("xai-chat", "grok-4.3", "none", effort("none")),
        ("xai-chat", "grok-4", "high", {}),
        ("alibaba", "qwen-plus", "none", {"enable_thinking": False}),
        ("vllm", "Qwen/Qwen3-8B", "max", effort("high")),
        ("litellm", "any", "max", effort("max")),
    ],
)
def test_the_nearest_word_that_the_model_has(endpoint, model, wanted, expected):
    """B27: no provider is sent a word that it does not know."""
    assert thinking_of(endpoint, model, effort=wanted) == expected


@pytest.mark.parametrize("endpoint", [each.name for each in COMPATIBLE_ENDPOINTS])
def test_nothing_is_said_about_thinking_unasked(endpoint):
    """The provider decides."""
    assert thinking_of(endpoint, "") == {}


@pytest.mark.parametrize(
    ("endpoint", "model"),
    [
        ("openai-chat", "gpt-6-astra"),
        ("openai-chat", "gpt-5-mini"),
        ("openai-chat", "o3"),
        ("moonshot", "kimi-k3"),
        ("moonshot", "kimi-k2.7-code"),
        ("mistral", "magistral-small-latest"),
        ("zai", "glm-5.3"),
        ("groq", "openai/gpt-oss-20b"),
        ("cerebras", "gpt-oss-120b"),
    ],
)
def test_thinking_that_cannot_be_turned_off(endpoint, model):
    """It is said before anything is sent."""
    with pytest.raises(ConfigurationError, match=f"{model} cannot stop thinking"):
        payload_of(endpoint, model=model, effort="none")


@pytest.mark.parametrize(
    ("endpoint", "model"),
    [("openai-chat", "gpt-4.1"), ("moonshot", "moonshot-v1-8k"), ("groq", "llama-5")],
)
def test_a_model_that_does_not_think(endpoint, model):
    """An effort is an error, and not left out in silence."""
    with pytest.raises(ConfigurationError, match=f"{model} does not think"):
        payload_of(endpoint, model=model, effort="high")


@pytest.mark.parametrize(
    ("endpoint", "model", "choice", "expected"),
    [
        ("openai-chat", "gpt-6-luna", None, effort("none")),
        ("openai-chat", "gpt-5.6-sol", "required", effort("none")),
        ("openai-chat", "gpt-5.4", None, {}),
        ("openai-chat", "gpt-5-mini", "required", {}),
        ("deepseek", "deepseek-v4-flash", None, {}),
        ("deepseek", "deepseek-v4-flash", "auto", {}),
        ("deepseek", "deepseek-v4-flash", "required", OFF),
        ("deepseek", "deepseek-v4-flash", "weather", OFF),
        ("moonshot", "kimi-k2.6", "weather", OFF),
        ("moonshot", "kimi-k3", None, {}),
    ],
)
def test_thinking_is_turned_off_for_tools_that_are_rejected_otherwise(
    endpoint, model, choice, expected
):
    """Unless an effort is requested, or nothing is rejected."""
    found = thinking_of(endpoint, model, tools=[TOOL], tool_choice=choice)
    assert found == expected


@pytest.mark.parametrize(
    ("endpoint", "model", "options", "advice"),
    [
        ("openai-chat", "gpt-6-luna", {"effort": "low"}, "use openai:gpt-6-luna, "),
        ("azure-chat", "gpt-6-luna", {"effort": "low"}, ".*azure:gpt-6-luna,"),
        ("openai-chat", "gpt-6-astra", {}, "use openai:gpt-6-astra"),
        (
            "deepseek",
            "deepseek-v4-flash",
            {"effort": "low", "tool_choice": "required"},
            "leave out effort=",
        ),
        ("moonshot", "kimi-k3", {"tool_choice": "weather"}, "leave out tool_choice="),
    ],
)
def test_tools_and_thinking_that_exclude_each_other(endpoint, model, options, advice):
    """The error says what to do."""
    with pytest.raises(ConfigurationError, match=f"while it thinks; {advice}"):
        payload_of(endpoint, model=model, tools=[TOOL], **options)


@pytest.mark.parametrize("choice", ["none", "required", "weather"])
def test_a_choice_that_the_provider_does_not_take(choice):
    """Meta takes "auto" only."""
    with pytest.raises(ConfigurationError, match="do not take tool_choice"):
        payload_of("meta", tools=[TOOL], tool_choice=choice)
    assert "tools" in payload_of("meta", tools=[TOOL], tool_choice="auto")


def test_server_tools_are_beside_the_own_ones():
    """Typed ones in the provider's form, dicts as they are."""
    search = WebSearch(allowed_domains=("a.example",), max_uses=3)
    other = {"type": "openrouter:datetime"}
    found = payload_of("openrouter", tools=[TOOL], server_tools=(search, other))
    parameters = {"allowed_domains": ["a.example"], "max_uses": 3}
    assert [tool["type"] for tool in found["tools"]] == [
        "function",
        "openrouter:web_search",
        "openrouter:datetime",
    ]
    assert found["tools"][1]["parameters"] == parameters
    alone = payload_of("openrouter", server_tools=(WebSearch(),))
    assert alone["tools"] == [{"type": "openrouter:web_search"}]


@pytest.mark.parametrize("endpoint", ["openai-chat", "groq", "deepseek"])
def test_a_server_tool_that_the_provider_does_not_have(endpoint):
    """It is an error, and not left out in silence."""
    with pytest.raises(ConfigurationError, match="no WebSearch"):
        payload_of(endpoint, server_tools=(WebSearch(),))


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gpt-6-luna", {"effort": "low", "temperature": 0.5}),
        ("gpt-6-astra", {"temperature": 0.5}),
        ("gpt-5-mini", {"top_p": 0.5}),
        ("o3", {"effort": "low", "top_p": 0.5}),
    ],
)
def test_a_temperature_that_the_model_rejects(model, options):
    """It is said before anything is sent."""
    with pytest.raises(ConfigurationError, match="while it thinks; leave it out"):
        payload_of("openai-chat", model=model, **options)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gpt-6-luna", {"effort": "none", "temperature": 0.5}),
        ("gpt-6-luna", {"tools": [TOOL], "temperature": 0.5}),
        ("gpt-6-astra", {"temperature": 1}),
        ("gpt-5.4", {"temperature": 0.5}),
        ("gpt-4.1", {"temperature": 0.5}),
        ("my-own-model", {"effort": "low", "temperature": 0.5}),
    ],
)
def test_a_temperature_that_the_model_takes(model, options):
    """It does not think, or it is the usual one."""
    found = payload_of("openai-chat", model=model, **options)
    assert found["temperature"] == options["temperature"]
