"""Requests to Gemini are valid by the types of Google's own package."""

import json
import warnings

import pytest

from syncagent.exceptions import ProviderUnavailable
from syncagent.messages import (
    AssistantMessage,
    File,
    Image,
    Json,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.options import (
    CodeExecution,
    FileSearch,
    Options,
    OutputFormat,
    ToolSpec,
    WebSearch,
)
from syncagent.providers.draft import Draft
from syncagent.providers.gemini.request import GeminiDialect
from syncagent.providers.gemini.response import decode_body
from syncagent.providers.quirks import Quirks

types = pytest.importorskip("google.genai.types")

GEMINI = GeminiDialect()
HI = UserMessage.of("hi")
CALL = ToolCall("c1", "look", '{"a": 1}', "c2lnbmVk")
SIGNATURE = "c2lnbmF0dXJl"
LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {"a": {}}})
NAMES = ["gemini-2.5-flash", "gemini-3-pro-preview", "gemini-3.8-flash"]


def model(*blocks, provider="gemini", **fields):
    return AssistantMessage(tuple(blocks), provider=provider, **fields)


RESULTS = ToolMessage(
    (
        ToolResult("c1", (Text("seen"), Image(b"px"), File(b"%PDF-1.4"))),
        ToolResult("c2", (Json({"a": [1]}),)),
        ToolResult("c3", (Text("oh"),), is_error=True),
    )
)
SEARCHED = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {}, "id": "s"}}
CONVERSATIONS = {
    "plain": [HI],
    "images": [UserMessage.of([Image(b"px"), Image(url="https://x.example/a.png")])],
    "tools": [
        HI,
        model(
            Thinking("t", SIGNATURE),
            CALL,
            ToolCall("c2", "look"),
            ToolCall("c3", "look"),
        ),
        RESULTS,
    ],
    "cancelled": [
        HI,
        model(CALL, ToolCall("c2", "look", '{"a": ')),
        UserMessage.of("Go on."),
        model(Text("It", (), SIGNATURE), is_cut=True),
        UserMessage.of("Go on."),
    ],
    "foreign": [HI, model(ToolCall("c1", "a b"), provider="anthropic"), RESULTS],
    "server": [HI, model(ProviderBlock("gemini", SEARCHED), Text("So.")), HI],
}
EFFORTS = ["minimal", "low", "medium", "high", "xhigh", "max"]


def check(sent):
    """Validate a request; these types forbid unknown fields."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a word that an enumeration does not have
        for content in sent.pop("contents"):
            types.Content.model_validate(content)
        config = sent.pop("generationConfig", {})
        types.GenerationConfig.model_validate(config)
        for each in sent.pop("tools", []):
            types.Tool.model_validate(each)
        types.ToolConfig.model_validate(sent.pop("toolConfig", {}))
        types.Content.model_validate(sent.pop("systemInstruction", {}))
    assert not sent


def payload(name, messages=(HI,), tools=(), dialect=GEMINI, **options):
    return json.loads(dialect.build_payload(name, messages, tools, Options(**options)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("messages", CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_conversations(name, messages):
    """Plain, with tools and images, after a cancel, and of other providers."""
    check(payload(name, messages, [LOOK], system="Be brief."))


@pytest.mark.parametrize("name", [*NAMES, "gemma-4-31b-it"])
@pytest.mark.parametrize("effort", EFFORTS)
def test_efforts(name, effort):
    """Every word for it."""
    check(payload(name, effort=effort))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.5, "top_p": 0.5, "max_tokens": 9, "stop": ("a",), "seed": 1},
        {"thinking_tokens": 1000},
        {"output": OutputFormat({"type": "object", "properties": {"a": {}}})},
        {"tool_choice": "required"},
        {"tool_choice": "look"},
        {"tool_choice": "none"},
    ],
)
def test_options(name, options):
    """Each has its field."""
    check(payload(name, tools=[LOOK], **options))


SERVER_TOOLS = [WebSearch(), CodeExecution(), FileSearch(("fileSearchStores/a",), 3)]


@pytest.mark.parametrize("tool", SERVER_TOOLS)
def test_server_tools(tool):
    """Alone, and beside tools of the agent."""
    for name in NAMES:
        check(payload(name, server_tools=(tool,)))
    for choice in ("auto", "required"):
        options = {"server_tools": (tool,), "tool_choice": choice}
        check(payload(NAMES[-1], tools=[LOOK], **options))


def test_a_search_on_vertex():
    """With domains that are blocked."""
    vertex = GeminiDialect("vertex", Quirks(is_vertex=True))
    search = WebSearch(blocked_domains=("a.example",))
    check(payload(NAMES[-1], dialect=vertex, server_tools=(search,)))


IRREGULAR = {
    *("OTHER", "IMAGE_OTHER", "NO_IMAGE", "TOO_MANY_TOOL_CALLS"),
    "MISSING_THOUGHT_SIGNATURE",
}
MISTAKES = {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"}


def test_every_word_for_an_end_is_known():
    """A new one shows up here."""
    for word in {each.value for each in types.FinishReason} - {
        "FINISH_REASON_UNSPECIFIED"
    }:
        body = json.dumps({"candidates": [{"finishReason": word}]}).encode()
        if word in MISTAKES:
            with pytest.raises(ProviderUnavailable):
                list(decode_body(body, Draft("gemini")))
            continue
        *_, finished = decode_body(body, Draft("gemini"))
        is_irregular = finished.message.stop_reason == "other"
        assert is_irregular is (word in IRREGULAR), word


def test_every_word_for_a_blocked_prompt_is_a_refusal():
    """Except the one that says nothing."""
    for word in {each.value for each in types.BlockedReason}:
        if word.endswith("UNSPECIFIED"):
            continue
        body = json.dumps({"promptFeedback": {"blockReason": word}}).encode()
        *_, finished = decode_body(body, Draft("gemini"))
        assert finished.message.stop_reason == "refusal"
