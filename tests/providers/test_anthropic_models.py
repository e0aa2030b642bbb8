"""What each generation of Claude is asked for, and what it is not."""

import json

import pytest
from anthropic_talk import DIALECT, HELLO, MODEL, OLD, payload

from syncagent.exceptions import ConfigurationError
from syncagent.models import find_model
from syncagent.options import Options, OutputFormat, ToolSpec
from syncagent.providers.anthropic.families import find_family
from syncagent.providers.anthropic.request import AnthropicDialect
from syncagent.providers.quirks import Quirks
from syncagent.testing import FakeServer
from syncagent.testing.providers.anthropic.rules import complaint
from syncagent.transport import close_idle

ADD = ToolSpec("add")
SCHEMA = {"type": "object", "additionalProperties": False}
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
NOT_SHOWN = {"type": "adaptive"}
DISABLED = {"type": "disabled"}

#: Names as they are sold, and a name of the same family.
NAMES = [
    ("claude-instant-1.2", "claude-2.1"),
    ("claude-3-5-sonnet-20241022", "claude-2.1"),
    ("claude-3-opus-latest", "claude-2.1"),
    ("claude-sonnet-4-20250514", "claude-2.1"),
    ("claude-opus-4-1", OLD),
    ("claude-haiku-4-5-20251001", OLD),
    ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", OLD),
    ("claude-opus-4-5@20251101", OLD),
    ("anthropic/claude-sonnet-4.5", OLD),
    ("anthropic.claude-opus-4-6-v1", "claude-sonnet-4-6"),
    ("anthropic/claude-4.6-opus", "claude-sonnet-4-6"),
    ("claude-opus-4-7", "claude-opus-4-8"),
    ("publishers/anthropic/models/claude-sonnet-5", "claude-opus-5"),
    ("claude-haiku-5-5", "claude-opus-5"),
    ("CLAUDE-HAIKU-6", "claude-opus-5"),
    ("claude-sonnet-6-latest", MODEL),
    ("eu.anthropic.claude-sonnet-5-5", MODEL),
    ("claude-mythos-5", "claude-fable-5"),
    ("claude-fable-5-2", "claude-opus-5-5"),
    ("claude-opus-6", "claude-opus-5-5"),
    ("claude-saga-1234567890", "claude-opus-5-5"),
    ("claude", "claude-opus-5-5"),
    ("deepseek-v4-pro", "m"),
]


@pytest.mark.parametrize(("name", "same"), NAMES)
def test_names_of_models(name, same):
    """Prefixes, suffixes and dates do not count; what is unknown is the newest."""
    assert find_family(name) == find_family(same)


def test_families_differ():
    """No two of these take the same options."""
    names = ["claude-2.1", OLD, "claude-opus-4-6", "claude-opus-5", MODEL]
    names += ["claude-fable-5", "claude-opus-5-5", "m"]
    assert len({find_family(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "word"),
    [
        ("claude-opus-4-6", "minimal", NOT_SHOWN, "low"),
        ("claude-opus-4-6", "high", NOT_SHOWN, "high"),
        ("claude-opus-4-6", "xhigh", NOT_SHOWN, "max"),
        ("claude-opus-4-6", "max", NOT_SHOWN, "max"),
        ("claude-opus-4-6", "none", DISABLED, None),
        ("claude-opus-4-7", "none", DISABLED, None),
        ("claude-opus-4-8", "xhigh", ADAPTIVE, "xhigh"),
        ("claude-sonnet-5", "none", DISABLED, None),
        ("claude-opus-5", "none", DISABLED, None),
        ("claude-haiku-5-5", "none", DISABLED, None),
        ("claude-sonnet-5-5", "none", {"type": "between_tools"}, None),
        ("claude-sonnet-5-5", "minimal", ADAPTIVE, "low"),
        ("claude-opus-5-5", "low", ADAPTIVE, "low"),
        ("claude-fable-5-2", "max", ADAPTIVE, "max"),
        ("claude", "medium", ADAPTIVE, "medium"),
        ("m", "high", NOT_SHOWN, "high"),
        ("m", "none", DISABLED, None),
    ],
)
def test_efforts(model, effort, thinking, word):
    """Models since 4.6 decide how much to think, and are told how hard.

    Those that hide their thinking are asked to show it.
    """
    sent = payload(effort=effort, model=model)
    assert sent["thinking"] == thinking
    assert sent.get("output_config") == (word and {"effort": word})


@pytest.mark.parametrize(
    ("model", "options", "limit"),
    [
        (MODEL, {}, 32768),
        (MODEL, {"effort": "high"}, 32768),
        (MODEL, {"effort": "xhigh"}, 65536),
        (MODEL, {"effort": "max", "max_tokens": 9}, 9),
        (OLD, {}, 8192),
        (OLD, {"effort": "none"}, 8192),
        ("claude-opus-4-6", {"thinking_tokens": 2000}, 2000 + 8192),
    ],
)
def test_room(model, options, limit):
    """Thinking counts toward the limit, so a model that thinks has more room."""
    assert payload(model=model, **options)["max_tokens"] == limit


@pytest.mark.parametrize(
    ("options", "budget", "limit"),
    [
        ({"effort": "low"}, 1024, 1024 + 8192),
        ({"effort": "medium"}, 8192, 8192 + 8192),
        ({"effort": "high"}, 24576, 24576 + 8192),
        ({"effort": "high", "max_tokens": 8192}, 4096, 8192),
        ({"effort": "low", "max_tokens": 1025}, 1024, 1025),
        ({"thinking_tokens": 2000}, 2000, 2000 + 8192),
        ({"thinking_tokens": 2000, "effort": "low", "temperature": 1}, 2000, 10192),
        ({"thinking_tokens": 2000, "max_tokens": 2001}, 2000, 2001),
    ],
)
def test_thinking_with_a_budget(options, budget, limit):
    """It has a budget, and a response has room beside it."""
    sent = payload(model=OLD, **options)
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert sent["max_tokens"] == limit
    assert "output_config" not in sent


@pytest.mark.parametrize("effort", ["none", "minimal"])
def test_no_thinking_with_a_budget(effort):
    """There is no budget so small."""
    sent = payload(model=OLD, effort=effort)
    assert sent["thinking"] == DISABLED
    assert "output_config" not in sent


@pytest.mark.parametrize("model", [OLD, "claude-opus-4-6"])
def test_sampling(model):
    """Models before 4.7 have it."""
    assert payload(model=model, temperature=0.5)["temperature"] == 0.5
    assert payload(model=model, top_p=0.5)["top_p"] == 0.5


def test_the_default_temperature_is_left_out_where_no_other_is_allowed():
    """It is what the model does anyway."""
    assert payload(temperature=1) == payload(top_p=0.99) == payload()


def test_a_form_and_an_effort():
    """Both are in one object."""
    config = payload(effort="low", output=OutputFormat(SCHEMA))["output_config"]
    form = {"type": "json_schema", "schema": SCHEMA}
    assert config == {"effort": "low", "format": form}


def test_a_form_for_an_old_model():
    """It is told in words."""
    sent = payload(model="claude-sonnet-4-0", output=OutputFormat(SCHEMA))
    assert "output_config" not in sent
    assert "additionalProperties" in sent["system"]


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-opus-5", "m"])
def test_a_model_that_decides_itself_can_be_forced_while_it_thinks(model):
    """Only a budget and a forced call exclude each other."""
    options = Options(effort="low", tool_choice="required")
    sent = json.loads(DIALECT.build_payload(model, [HELLO], [ADD], options))
    assert sent["thinking"]["type"] == "adaptive"
    assert sent["tool_choice"] == {"type": "any"}
    assert complaint(sent) is None


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (OLD, {"thinking_tokens": 1023}, "at least 1024"),
        (OLD, {"thinking_tokens": 2000, "max_tokens": 2000}, "leaves no room"),
        (OLD, {"effort": "low", "max_tokens": 1024}, "leaves no room"),
        (OLD, {"effort": "low", "temperature": 0.5}, "cannot think with a temp"),
        (OLD, {"effort": "low", "top_p": 0.5}, "cannot think with a top_p"),
        (OLD, {"effort": "low", "tool_choice": "required"}, "forces a call"),
        (OLD, {"effort": "low", "prefill": "A"}, "cannot think with prefill"),
        (OLD, {"temperature": 1, "top_p": 0.95}, "temperature and top_p"),
        (OLD, {"prefill": "A "}, "white space"),
        (OLD, {"prefill": "A", "output": OutputFormat({})}, "prefill and output"),
        ("claude-opus-4-6", {"effort": "low", "temperature": 0.5}, "cannot think"),
        ("claude-opus-4-6", {"prefill": "A"}, "does not continue a prefill"),
        (MODEL, {"thinking_tokens": 2000}, "pass effort="),
        (MODEL, {"temperature": 0.5}, "no temperature"),
        (MODEL, {"top_p": 1}, "no top_p"),
        (MODEL, {"prefill": "A"}, "does not continue a prefill"),
        (MODEL, {"tool_choice": "required"}, "cannot be forced"),
        (MODEL, {"tool_choice": "add"}, "cannot be forced"),
        ("claude-fable-5-1", {"tool_choice": "add"}, "cannot be forced"),
        ("claude-opus-5-5", {"effort": "none"}, "cannot stop thinking"),
        ("claude-fable-5", {"effort": "none"}, "cannot stop thinking"),
        ("claude", {"effort": "none"}, "cannot stop thinking"),
    ],
)
def test_options_that_the_model_would_reject(model, options, words):
    """They are an error that says what to do, before anything is sent."""
    with pytest.raises(ConfigurationError, match=words):
        DIALECT.build_payload(model, [HELLO], [ADD], Options(**options))


@pytest.mark.parametrize("stream", [True, False])
def test_a_version_in_the_body(stream):
    """Then the name of the model is in the address, and nowhere else."""
    quirks = Quirks(anthropic_version="vertex-2023-10-16")
    dialect = AnthropicDialect("vertex", quirks)
    sent = json.loads(dialect.build_payload(MODEL, [HELLO], stream=stream))
    expected = payload() | {"anthropic_version": "vertex-2023-10-16", "stream": stream}
    del expected["model"]
    assert sent == expected
    path = f"/v1/projects/p/locations/l/publishers/anthropic/models/{MODEL}:rawPredict"
    assert complaint(sent, path) is None
    assert "model: Extra" in complaint({**sent, "model": MODEL}, path)
    assert "deprecated" in complaint({**sent, "temperature": 0}, path)


@pytest.mark.parametrize("stream", [True, False])
def test_a_model_on_vertex(stream):
    """Its name is in the address, and the fake server knows what it takes."""
    with FakeServer(["Hi."]) as server:
        url = server.url_of("vertex-anthropic")
        name = f"vertex-anthropic:{MODEL}"
        model = find_model(name, base_url=url, api_key="token", stream=stream)
        assert model.respond([HELLO]).message.text == "Hi."
        (request,) = server.requests
        close_idle()
    assert MODEL in request.path
    assert request.payload["anthropic_version"] == "vertex-2023-10-16"
    assert "model" not in request.payload


def test_thinking_that_the_provider_may_drop():
    """The field of extra= is merged with ours."""
    binding = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    sent = payload(effort="low", extra={"thinking": binding})
    assert sent["thinking"] == ADAPTIVE | binding
