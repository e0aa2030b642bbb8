"""Models by their strings, and what is said about wrong ones."""

import inspect
import json

import pytest

from syncagent.exceptions import ConfigurationError
from syncagent.messages import (
    AssistantMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.models import (
    Anthropic,
    Gemini,
    Model,
    OpenAIChat,
    OpenAIResponses,
    find_model,
)
from syncagent.models.endpoints import ENDPOINTS
from syncagent.options import Options
from syncagent.testing import FakeServer
from syncagent.transcript import Transcript
from syncagent.transport import Timeouts, close_idle

HELLO = [UserMessage.of("hello")]


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    """A key for everybody."""
    for endpoint in ENDPOINTS.values():
        for name in endpoint.key_variables:
            monkeypatch.setenv(name, f"key of {endpoint.name}")
        for name in endpoint.url_variables:
            monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("string", "kind", "url"),
    [
        ("openai:gpt-6-luna", OpenAIResponses, "https://api.openai.com/v1/responses"),
        (
            "openai-chat:gpt-6-luna",
            OpenAIChat,
            "https://api.openai.com/v1/chat/completions",
        ),
        ("anthropic:claude", Anthropic, "https://api.anthropic.com/v1/messages"),
        (
            "gemini:gemini-3.8-flash",
            Gemini,
            "https://generativelanguage.googleapis.com/v1beta/models/"
            "gemini-3.8-flash:streamGenerateContent?alt=sse",
        ),
        ("ollama:qwen3:8b", OpenAIChat, "http://127.0.0.1:11434/v1/chat/completions"),
        (
            "openrouter:openai/gpt-6-luna",
            OpenAIChat,
            "https://openrouter.ai/api/v1/chat/completions",
        ),
    ],
)
def test_what_a_string_means(string, kind, url):
    """A class, a name and an address."""
    model = find_model(string)
    assert type(model) is kind
    assert model._url() == url
    assert model.name == string.partition(":")[2]
    assert find_model(model) is model


@pytest.mark.parametrize("name", ENDPOINTS)
def test_every_endpoint_makes_a_model(name):
    """And none shows its key."""
    settings = {"base_url": "https://my.example/v1", "api_key": "key of it"}
    model = find_model(f"{name}:{ENDPOINTS[name].example}", temperature=0.5, **settings)
    assert isinstance(model, Model)
    assert model.options.temperature == 0.5
    assert "key of" not in repr(model) + repr(vars(model))


@pytest.mark.parametrize(
    ("string", "hint"),
    [
        ("antropic:claude", "did you mean anthropic"),
        ("opnai:gpt-6-luna", "did you mean openai"),
        ("nobody's", "'syncagent models' lists all"),
        ("openai", f"openai:{ENDPOINTS['openai'].example}"),
        ("openai:", f"openai:{ENDPOINTS['openai'].example}"),
    ],
)
def test_a_string_that_means_nothing(string, hint):
    """The error says what would have."""
    with pytest.raises(ConfigurationError, match=hint):
        find_model(string)


def test_a_key_that_is_missing(monkeypatch):
    """The error names the variables; where none is needed there is none."""
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.delenv("GOOGLE_API_KEY")
    with pytest.raises(ConfigurationError, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        find_model("gemini:gemini-3.8-flash")
    find_model("gemini:gemini-3.8-flash", api_key="mine")
    monkeypatch.delenv("OLLAMA_API_KEY")
    find_model("ollama:qwen3")


def test_addresses(monkeypatch):
    """An argument counts more than the environment, that more than the usual one."""
    monkeypatch.setenv("OPENAI_BASE_URL", "https://proxy.example/v1/")
    assert find_model("openai:x")._url() == "https://proxy.example/v1/responses"
    model = find_model("openai:x", base_url="https://mine.example")
    assert model._url() == "https://mine.example/responses"
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "https://other.example")
    assert find_model("gemini:x").base_url == "https://other.example/v1beta"


ADDRESSES = [
    *[
        ("anthropic:x", given, f"{base}/v1/messages")
        for base in ("https://api.deepseek.com/anthropic", "http://localhost:4000")
        for given in (
            base,
            f"{base}/",
            f"{base}/v1",
            f"{base}/v1/",
            f"{base}/v1/messages",
            f" {base}/v1/messages/\n",
        )
    ],
    ("anthropic:x", "https://h/api/v12", "https://h/api/v12/messages"),
    ("anthropic:x", "https://h/v1/proxy", "https://h/v1/proxy/v1/messages"),
    ("anthropic:x", "https://h/rev1", "https://h/rev1/v1/messages"),
    ("anthropic:x", "https://v1", "https://v1/v1/messages"),
    ("openai-chat:x", "https://h/v1", "https://h/v1/chat/completions"),
    ("openai-chat:x", "https://h", "https://h/chat/completions"),
    ("openai-chat:x", "https://h/a/chat/completions", "https://h/a/chat/completions"),
    ("openai:x", "https://h/v1/responses/", "https://h/v1/responses"),
    ("openai:x", "https://h/a", "https://h/a/responses"),
    ("ollama:x", "http://h:11434", "http://h:11434/v1/chat/completions"),
    ("ollama:x", "http://h/ollama", "http://h/ollama/chat/completions"),
    ("openrouter:x", "https://h", "https://h/api/v1/chat/completions"),
    *[
        ("gemini:x", given, f"https://h/gemini/{version}/models/x:generateContent")
        for given, version in (
            ("https://h/gemini", "v1beta"),
            ("https://h/gemini/v1beta/models/", "v1beta"),
            ("https://h/gemini/v1alpha", "v1alpha"),
            ("https://h/gemini/v1beta1", "v1beta1"),
        )
    ],
]


@pytest.mark.parametrize("where", ["argument", "environment"])
@pytest.mark.parametrize(("name", "given", "url"), ADDRESSES)
def test_addresses_mean_what_they_mean_to_the_providers_own_sdks(
    monkeypatch, where, name, given, url
):
    """S3: Anthropic's and Gemini's have no version, OpenAI's have; both are taken."""
    variable = ENDPOINTS[name.partition(":")[0]].url_variables[0]
    if where == "environment":
        monkeypatch.setenv(variable, given)
        model = find_model(name, stream=False)
    else:
        monkeypatch.setenv(variable, "https://not.this.example")
        model = find_model(name, base_url=given, stream=False)
    assert model._url() == url


@pytest.mark.parametrize("path", ["", "/anthropic", "/anthropic/v1"])
def test_a_gateway_gets_the_request_where_it_expects_it(path):
    """S3: over a real socket."""
    with FakeServer(["ok"]) as server:
        base_url = server.base_url.removesuffix("/v1") + path
        assert Anthropic("x", base_url=base_url).respond("hi").message.text == "ok"
        [request] = server.requests
    close_idle()
    assert request.path == path.removesuffix("/v1") + "/v1/messages"


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature must be a non-negative number"),
        ({"max_tokens": 0}, "max_tokens must be a positive integer"),
        ({"effort": "huge"}, "effort"),
    ],
)
def test_options_that_cannot_be(options, hint):
    """It is said at once."""
    with pytest.raises(ConfigurationError, match=hint):
        find_model("openai:gpt-6-luna", **options)


def test_unknown_options():
    """A class lists those it knows; the parameters of the function are the list."""
    known = r"temprature; known options are cache, .*, temperature"
    with pytest.raises(ConfigurationError, match=known):
        OpenAIChat("x", api_key="k", temprature=1)
    with pytest.raises(TypeError, match="temprature"):
        find_model("openai:gpt-6-luna", temprature=1)


def test_all_settings_are_parameters():
    """``find_model()`` names every option and every setting of a model."""
    named = inspect.signature(find_model).parameters
    of_models = inspect.signature(Model.__init__).parameters
    wanted = {*Options.__struct_fields__, *of_models} - {"self", "endpoint", "options"}
    assert set(named) == wanted
    assert all(each.kind is not each.VAR_KEYWORD for each in named.values())


def test_settings_that_are_given_reach_the_model():
    """Also those that mean "none", such as no timeout."""
    model = find_model("ollama:x", timeout=None, retries=0, stream=False, stop="END")
    assert model.options.stop == ("END",)
    assert not model.stream
    assert model._retries.limit == 0
    assert model._transport.timeouts == Timeouts.of(None)


@pytest.mark.parametrize(
    ("string", "expected"),
    [
        ("openai-chat:x", {"max_completion_tokens": 9, "seed": 7}),
        ("ollama:x", {"max_tokens": 9, "seed": 7}),
        ("mistral:x", {"max_tokens": 9, "random_seed": 7}),
    ],
)
def test_imitators_have_words_of_their_own(string, expected):
    """They are said in those, and nothing is said that they do not know."""
    model = find_model(string, max_tokens=9, seed=7, metadata={"a": "b"})
    built = model.dialect.build_payload("x", HELLO, options=model.options)
    payload = json.loads(built)
    said = {name: payload.get(name) for name in expected}
    assert said == expected
    assert "metadata" not in payload
    assert ("stream_options" in payload) is (string != "mistral:x")


def test_ids_where_they_must_be_short():
    """The same in a call and in its result, whoever has made them."""
    made = ("toolu_0123456789", "abc123XYZ")
    asked = AssistantMessage([ToolCall(each, "f") for each in made])
    given = ToolMessage([ToolResult(each, "done") for each in made])
    transcript = Transcript([*HELLO, asked, given])
    for string, is_short in (("mistral:x", True), ("ollama:x", False)):
        built = find_model(string).dialect.build_payload("x", transcript)
        _, asked, *given = json.loads(built)["messages"]
        ids = [call["id"] for call in asked["tool_calls"]]
        assert ids == [message["tool_call_id"] for message in given]
        assert ids[1] == "abc123XYZ"
        assert (len(ids[0]) == 9) is is_short
