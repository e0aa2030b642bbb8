"""Messages are values: to JSON and back, and never half a value."""

from typing import get_args

import msgspec
import pytest

from syncagent.events import (
    Event,
    MessageFinished,
    MessageStarted,
    ModelChanged,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
    UsageUpdated,
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
    decode_messages,
    encode_messages,
)
from syncagent.usage import Usage

EVERYTHING = [
    UserMessage.of(["hi", Image(b"\x00\xff"), File(url="https://x.example/a.pdf")]),
    AssistantMessage(
        (
            Thinking("hm", "sig"),
            RedactedThinking("c2VjcmV0"),
            Text("yes", (Citation("quoted", "title", "https://x", {"n": 1}),), "sig"),
            ToolCall("c1", "f", '{"a": 1}', "sig"),
            Refusal("no"),
            ProviderBlock("anthropic", {"type": "server_tool_use", "id": "1"}),
        ),
        "tool_calls",
        "tool_use",
        "anthropic",
        "claude",
        is_cut=True,
    ),
    ToolMessage(
        (ToolResult("c1", (Text("a"), Json([1, None]), Image(b"x")), True, "f"),)
    ),
]


def test_there_and_back():
    """Nothing is lost, bytes included."""
    assert decode_messages(encode_messages(EVERYTHING)) == EVERYTHING


@pytest.mark.parametrize("text", [b"", b"{}", b'[{"role": "x"}]', b"[" * 10_000])
def test_what_is_no_message(text):
    """It is said so."""
    with pytest.raises(ConfigurationError, match="the messages cannot be decoded"):
        decode_messages(text)


def test_parts_of_an_answer():
    """Each can be asked for."""
    answer = EVERYTHING[1]
    assert (answer.text, answer.thinking, answer.refusal) == ("yes", "hm", "no")
    assert [call.parse() for call in answer.tool_calls] == [{"a": 1}]


@pytest.mark.parametrize("arguments", ["not json", "[1]", "7", '{"a": ', "[" * 10_000])
def test_arguments_that_are_no_object(arguments):
    """The error is made for the model to read."""
    with pytest.raises(ValueError, match="the arguments of f are not a JSON object"):
        ToolCall("1", "f", arguments).parse()
    assert ToolCall("1", "f", "").parse() == {}


@pytest.mark.parametrize("kind", [Image, File])
def test_where_something_is(kind):
    """Its bytes or its address, one of them."""
    for wrong in ({}, {"data": b"x", "url": "https://x"}):
        with pytest.raises(ConfigurationError, match="data= and url="):
            kind(**wrong)


def test_values_do_not_change():
    """They are frozen."""
    with pytest.raises(AttributeError):
        Text("a").text = "b"


def test_words_may_be_a_string():
    """And a list will do for a tuple."""
    assert UserMessage("hi") == UserMessage.of("hi")
    assert ToolResult("1", "done") == ToolResult("1", (Text("done"),))
    assert AssistantMessage([Text("a")]) == AssistantMessage((Text("a"),))


@pytest.mark.parametrize(
    "make",
    [
        lambda: UserMessage(7),
        lambda: UserMessage(("hi",)),
        lambda: UserMessage((ToolCall("1", "f"),)),
        lambda: ToolMessage((Text("a"),)),
        lambda: ToolResult("1", (Refusal("a"),)),
    ],
)
def test_blocks_where_they_do_not_belong(make):
    """It is said at once, and what does belong there."""
    with pytest.raises(ConfigurationError, match=r"may contain|must be a tuple of"):
        make()


EVENTS = [
    MessageStarted("claude", "msg_1"),
    ModelChanged("openai:a", "anthropic:b", "overloaded"),
    TextDelta("a"),
    ThinkingDelta("b"),
    ToolCallStarted("c1", "f"),
    ToolCallDelta("c1", '{"a"'),
    ToolCallReady(ToolCall("c1", "f", '{"a": 1}', "sig")),
    UsageUpdated(Usage(1, 2, 3, 4, 5, estimated=True)),
    MessageFinished(EVERYTHING[1], Usage(1, 2)),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_there_and_back(event):
    """With the usage and the message that they carry."""
    text = msgspec.json.encode(event)
    assert msgspec.json.decode(text, type=Event) == event


def test_every_event_is_there():
    """None is forgotten above."""
    assert {type(event) for event in EVENTS} == set(get_args(Event))
