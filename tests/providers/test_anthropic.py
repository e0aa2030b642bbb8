"""What is sent to Anthropic's Messages."""

import pytest
from anthropic_talk import (
    DIALECT,
    FOUND,
    HELLO,
    MARK,
    MODEL,
    OLD,
    OWN,
    SEARCH,
    back,
    ours,
    payload,
    said,
    text,
)

from syncagent.exceptions import ConfigurationError
from syncagent.messages import (
    AssistantMessage,
    Citation,
    File,
    Image,
    Json,
    ProviderBlock,
    RedactedThinking,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.options import Options, OutputFormat, ToolSpec
from syncagent.transcript import Transcript

ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {}}})
SUB = ToolSpec("sub")
CLOSED = {"type": "object", "additionalProperties": False}


def test_the_least_that_is_sent():
    """max_tokens is there, though nobody asked for it."""
    assert payload() == {
        "model": MODEL,
        "max_tokens": 32768,
        "stream": True,
        "messages": [{"role": "user", "content": [text("Hello")]}],
    }


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"system": "Be brief."}, {"system": "Be brief."}),
        ({"system": " "}, {}),
        ({"max_tokens": 7}, {"max_tokens": 7}),
        ({"stop": ("a", "b")}, {"stop_sequences": ["a", "b"]}),
        ({"seed": 1}, {}),
        ({"metadata": {"user_id": "u", "x": "y"}}, {"metadata": {"user_id": "u"}}),
        ({"metadata": {"x": "y"}}, {}),
        ({"tool_choice": "auto", "parallel_tool_calls": False}, {}),
        (
            {"output": OutputFormat(CLOSED)},
            {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}},
        ),
        (
            {"extra": {"speed": "fast", "max_tokens": 9}},
            {"speed": "fast", "max_tokens": 9},
        ),
    ],
)
def test_options(options, fields):
    """Each is said in the provider's words, or left out if it is a hint."""
    assert payload(**options) == {**payload(), **fields}


def test_an_effort_that_nobody_knows():
    """It is an error that says so, and no other."""
    with pytest.raises(ConfigurationError, match="effort"):
        payload(effort="enormous")


def test_tools():
    """Name, schema, and a description if there is one."""
    assert payload(tools=[ADD, SUB])["tools"] == [
        {"name": "add", "description": "Add.", "input_schema": ADD.parameters},
        {"name": "sub", "input_schema": SUB.parameters},
    ]


ONE = {"disable_parallel_tool_use": True}


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", **ONE}),
        ("auto", None, {"type": "auto"}),
        ("none", False, {"type": "none"}),
        ("required", True, {"type": "any"}),
        ("required", False, {"type": "any", **ONE}),
        ("sub", False, {"type": "tool", "name": "sub", **ONE}),
    ],
)
def test_tool_choice(choice, parallel, sent):
    """Which tools it may call, and whether several."""
    options = {"tool_choice": choice, "parallel_tool_calls": parallel}
    sent_options = payload(tools=[ADD, SUB], model="claude-haiku-5-5", **options)
    assert sent_options.get("tool_choice") == sent


def test_marks_for_the_cache():
    """They are on the last tool, on the system, and at the end of the last turn."""
    messages = [HELLO, ours(Text("Hi")), UserMessage.of(["a", "b"])]
    sent = payload(*messages, tools=[ADD, SUB], system="s", cache=True)
    assert sent["tools"][1].pop("cache_control") == MARK
    assert sent["system"] == [{**text("s"), "cache_control": MARK}]
    assert sent["messages"][-1]["content"][-1].pop("cache_control") == MARK
    sent["system"] = "s"
    assert sent == payload(*messages, tools=[ADD, SUB], system="s")


def test_marks_move_with_the_conversation():
    """A transcript that goes on has one, at its end, whatever was sent before."""
    transcript, cached = Transcript([HELLO]), Options(cache=True)
    for more in (ours(Text("Hi")), UserMessage.of("b"), ours(Text("c")), HELLO):
        DIALECT.build_payload(MODEL, transcript, (), cached)
        transcript.append(more)
    for options in (cached, Options(), cached):
        sent = DIALECT.build_payload(MODEL, transcript, (), options)
        fresh = DIALECT.build_payload(MODEL, list(transcript), (), options)
        assert sent == fresh
        assert sent.count(b"cache_control") == bool(options.cache)


def test_prefill():
    """It is what the assistant has said last."""
    said_last = said(HELLO, prefill="A:", model=OLD)[-1]
    assert said_last == ("assistant", [text("A:")])


@pytest.mark.parametrize(
    ("block", "sent"),
    [
        (Text("a"), text("a")),
        (
            Image(b"x", "image/jpg"),
            {
                "type": "image",
                "source": {
                    "type": "base64",
                    "media_type": "image/jpeg",
                    "data": "eA==",
                },
            },
        ),
        (
            Image(url="https://x/y"),
            {"type": "image", "source": {"type": "url", "url": "https://x/y"}},
        ),
        (
            File(b"x", name=""),
            {
                "type": "document",
                "source": {
                    "type": "base64",
                    "media_type": "application/pdf",
                    "data": "eA==",
                },
            },
        ),
        (
            File("é".encode(), "text/csv", name="t"),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "é"},
                "title": "t",
            },
        ),
        (
            File(url="https://x/y", name="t"),
            {
                "type": "document",
                "source": {"type": "url", "url": "https://x/y"},
                "title": "t",
            },
        ),
    ],
)
def test_what_a_user_shows(block, sent):
    """Words, pictures and documents; in results of tools as well."""
    assert said(UserMessage((Text(" "), block))) == [("user", [sent])]
    call, result = ours(ToolCall("1", "add")), ToolResult("1", (block,))
    assert said(HELLO, call, ToolMessage((result,)))[2][1][0]["content"] == [sent]


@pytest.mark.parametrize("block", [Image(b"x", "image/bmp"), File(b"x", "x/y")])
def test_what_cannot_be_shown(block):
    """From a user it is an error; of a tool's result it is said that it is there."""
    with pytest.raises(ConfigurationError, match=block.media_type):
        payload(UserMessage((block,)))
    result = ToolMessage((ToolResult("1", (block,)),))
    sent = said(HELLO, ours(ToolCall("1", "add")), result)[2][1][0]
    assert block.media_type in sent["content"][0]["text"]


def test_results_come_first():
    """Words of the user follow them, and what a failed call has to show."""
    results = (
        ToolResult("1", (Json({"a": 1}), Text(" "))),
        ToolResult("2", (Text("no"), Image(url="https://x/y")), is_error=True),
        ToolResult("3"),
    )
    calls = ours(*(ToolCall(number, "add") for number in "123"))
    first, second, third, *rest = said(HELLO, calls, HELLO, ToolMessage(results))[2][1]
    assert first["content"] == [text('{"a":1}')]
    assert second["is_error"] is True
    assert second["content"] == [text("no"), text("(see the attachment)")]
    assert third["content"] == [text("(no output)")]
    assert [part["type"] for part in rest] == ["image", "text"]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": 1.50}', {"a": 1.5}),
        ("", {}),
        ("[1]", {}),
        ("null", {}),
        ('{"a": ', {}),
        ('{"a":"\\ud800"}', {}),
        ('{"a":123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
    ],
)
def test_arguments_are_an_object(arguments, sent):
    """What is none becomes an empty one."""
    (call,) = back(ours(ToolCall("1", "add", arguments)))
    assert call == {"type": "tool_use", "id": "1", "name": "add", "input": sent}


def test_calls_from_elsewhere_have_names_that_the_provider_takes():
    """Ids stay different, and fit those of their results."""
    calls = [ToolCall("a.b", "x.add"), ToolCall("a:b", "é" * 200), ToolCall("", "")]
    sent = back(AssistantMessage(tuple(calls), provider="openai-chat"))
    assert [call["name"] for call in sent] == ["x_add", "_" * 128, "unknown"]
    assert len({call["id"] for call in sent}) == 3


def test_what_is_the_providers_own_goes_back_unchanged():
    """Thinking with its signature, citations, blocks of its own tools, in order."""
    assert back(ours(*OWN)) == [
        {"type": "thinking", "thinking": "t", "signature": "sig"},
        {"type": "redacted_thinking", "data": "r"},
        {**text("w"), "citations": [{"cited_text": "q"}]},
        SEARCH,
        FOUND,
        {"type": "tool_use", "id": "1", "name": "add", "input": {}},
    ]


@pytest.mark.parametrize(
    "blocks",
    [
        (Thinking("t", "sig"), RedactedThinking("r"), Text("a", (Citation(),))),
        (Text("a"), ProviderBlock("openai-responses", {"type": "x"})),
        (Text(" \n"), Refusal("a"), Image(url="https://x/y")),
    ],
)
def test_what_is_another_providers_does_not_go_here(blocks):
    """Nor what has no words, nor pictures by a model."""
    assert back(AssistantMessage(blocks, provider="gemini")) == [text("a")]


@pytest.mark.parametrize(
    "message",
    [
        ours(),
        ours(Text("")),
        ours(Thinking("not signed"), RedactedThinking("")),
        ours(Thinking("t", "sig"), stop_reason="max_tokens"),
        ours(ProviderBlock("anthropic", SEARCH), is_cut=True),
    ],
)
def test_an_assistant_who_has_said_nothing_that_can_go_back(message):
    """Something stands for it, since no message may be empty or end with thinking."""
    assert back(message) == [text("(nothing)")]


def test_after_a_pause_nobody_says_continue():
    """A provider that is at its own tools gets back what it has said, as the last."""
    paused = ours(ProviderBlock("anthropic", SEARCH), stop_reason="pause")
    assert said(HELLO, paused, cache=True)[1:] == [("assistant", [SEARCH])]
    followed = [HELLO, paused, ours(ProviderBlock("anthropic", FOUND)), HELLO]
    assert said(*followed)[1] == ("assistant", [SEARCH, FOUND])


@pytest.mark.parametrize(
    "message",
    [
        ours(stop_reason="pause"),
        ours(Text("wait "), stop_reason="pause"),
        ours(Text("a "), ProviderBlock("gemini", SEARCH), stop_reason="pause"),
        ours(Text("a "), ProviderBlock("anthropic", SEARCH)),
        ours(ProviderBlock("anthropic", SEARCH), stop_reason="pause", is_cut=True),
    ],
)
def test_after_anything_else_somebody_does(message):
    """The last word is never a model's own, unless the provider is at its tools."""
    assert said(HELLO, message)[-1] == ("user", [text("(continue)")])
