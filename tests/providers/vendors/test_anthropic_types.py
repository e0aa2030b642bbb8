"""What is sent to Claude, against the types of Anthropic's own package."""

import json
from collections.abc import Iterator

import pytest

pytest.importorskip("anthropic")
pydantic = pytest.importorskip("pydantic")

from anthropic.types import MessageCreateParams  # noqa: E402
from anthropic.types.beta import BetaMessageParam  # noqa: E402

from syncagent.messages import (  # noqa: E402
    AssistantMessage,
    Citation,
    File,
    Image,
    Json,
    ProviderBlock,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.options import (  # noqa: E402
    CodeExecution,
    Options,
    OutputFormat,
    ToolSpec,
    WebSearch,
)
from syncagent.providers.anthropic.request import AnthropicDialect  # noqa: E402

STRICT = pydantic.ConfigDict(extra="forbid")
PARAMS = pydantic.TypeAdapter(MessageCreateParams, config=STRICT)
BETA_MESSAGE = pydantic.TypeAdapter(BetaMessageParam, config=STRICT)
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {}}})
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
HELLO = UserMessage.of("Hello")
MODELS = [
    "claude-sonnet-4-5",
    "claude-opus-4-6",
    "claude-opus-4-8",
    "claude-sonnet-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-opus-5-5",
    "claude-fable-5-2",
]
CITED = {
    "type": "web_search_result_location",
    "cited_text": "q",
    "encrypted_index": "i",
    "title": "t",
    "url": "https://a.org",
}
SEARCHED = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "q"},
}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "url": "https://a.org",
            "title": "t",
            "encrypted_content": "e",
        }
    ],
}


def consume(value):
    """Validate what pydantic only validates as it is read."""
    if isinstance(value, dict):
        for each in value.values():
            consume(each)
    elif isinstance(value, (list, tuple, Iterator)) or type(value).__name__ == (
        "ValidatorIterator"
    ):
        for each in value:
            consume(each)


def check(messages, tools=(), model="claude-sonnet-5-5", stream=True, **options):
    """Validate the request that is made of a conversation, and return it."""
    dialect, given = AnthropicDialect(), Options(**options)
    payload = dialect.build_payload(model, messages, tools, given, stream=stream)
    consume(PARAMS.validate_json(payload))
    return json.loads(payload)


def ours(*blocks, **more):
    return AssistantMessage(blocks, provider="anthropic", **more)


LOOP = [
    HELLO,
    ours(
        Thinking("", "sig"),
        RedactedThinking("r"),
        Text("w", (Citation("q", data=CITED),)),
        ProviderBlock("anthropic", SEARCHED),
        ProviderBlock("anthropic", FOUND),
        ToolCall("1", "add", '{"a": 1}'),
        ToolCall("2", "add"),
    ),
    ToolMessage(
        (
            ToolResult("1", (Json({"a": 1}), Image(b"x", "image/png"))),
            ToolResult("2", (Text("no"), File(b"x", name="f")), is_error=True),
        )
    ),
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stream", [True, False])
def test_plain_requests(model, stream):
    """With and without instructions, a limit, and marks for the cache."""
    check([HELLO], model=model, stream=stream)
    more = {"system": "s", "cache": True, "stop": ("a",), "max_tokens": 9}
    check([HELLO], [ADD], model, metadata={"user_id": "u"}, **more)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("effort", ["none", "minimal", "low", "high", "xhigh", "max"])
def test_efforts(model, effort):
    """Every effort, beside a form and amid tool calls."""
    if effort == "none" and ("opus-5-5" in model or "fable" in model):
        pytest.skip("it always thinks")
    check(LOOP, [ADD], model, effort=effort)
    check([HELLO], (), model, effort=effort, output=OutputFormat(SCHEMA))


def test_conversations():
    """Tool calls, pictures, documents, and what the provider made itself."""
    check(LOOP, [ADD])
    shown = (Image(url="https://a.org/b.png"), File(b"a", "text/plain"), File(b"%PDF"))
    check([UserMessage(shown)], parallel_tool_calls=False)


@pytest.mark.parametrize("end", range(1, 4))
@pytest.mark.parametrize("is_cut", [True, False])
def test_conversations_that_were_cancelled(end, is_cut):
    """Wherever a run ended, what is left can be sent."""
    said = LOOP[1].content
    for count in range(len(said) + 1):
        cut = ours(*said[:count], is_cut=is_cut, stop_reason="cancelled")
        check([HELLO, cut, *LOOP[2:end]], [ADD])
        check([HELLO, cut, *LOOP[2:end], HELLO], [ADD], effort="low")


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-haiku-5-5"])
def test_tools(model):
    """Those of the provider, alone and beside the agent's own, and every choice."""
    search = WebSearch(allowed_domains=("a.org",), max_uses=2)
    for tool in (search, WebSearch(blocked_domains=("b",)), CodeExecution()):
        check([HELLO], (), model, server_tools=(tool,))
        check([HELLO], [ADD], model, server_tools=(tool,), cache=True)
    for choice in ("auto", "none", "required", "add"):
        check([HELLO], [ADD], model, tool_choice=choice, parallel_tool_calls=False)


def test_a_summary():
    """The types of it are in the beta."""
    data = {
        "type": "compaction",
        "content": "So far.",
        "encrypted_content": "e",
        "signature": "s",
        "tool_changes": [],
    }
    said = ours(ProviderBlock("anthropic", data), stop_reason="pause")
    payload = json.loads(AnthropicDialect().build_payload("claude-opus-5-5", [said]))
    for message in payload["messages"]:
        consume(BETA_MESSAGE.validate_python(message))


def test_the_types_are_strict():
    """The check can fail: a field that the package does not have is found."""
    with pytest.raises(pydantic.ValidationError):
        check([HELLO], extra={"temperature": 0.5})
    with pytest.raises(pydantic.ValidationError):
        check([HELLO], extra={"thinking": {"type": "adaptive", "budget_tokens": 9}})
