"""Chat Completions, and what imitators make of it."""

import json

import pytest

from syncagent.events import (
    MessageFinished,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    UsageUpdated,
)
from syncagent.exceptions import (
    ConfigurationError,
    ContextTooLong,
    ProtocolError,
    ProviderUnavailable,
    RateLimited,
    StreamBroken,
)
from syncagent.messages import (
    AssistantMessage,
    Image,
    Json,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.options import Options, OutputFormat, ToolSpec
from syncagent.providers.openai_chat import OpenAIChatDialect
from syncagent.sse import EventDecoder, ServerSentEvent
from syncagent.testing.rules.openai_chat import complaint
from syncagent.testing.speech import openai_chat as speech
from syncagent.usage import Usage

DIALECT = OpenAIChatDialect()
TOOL = ToolSpec("weather", "Tell it.")
SCHEMA = {
    "type": "object",
    "properties": {},
    "required": [],
    "additionalProperties": False,
}
PICTURE = Image(b"x", "image/png")
DATA_URL = "data:image/png;base64,eA=="


def payload(*messages, tools=(), stream=True, **options):
    built = DIALECT.build_payload(
        "m",
        messages or [UserMessage.of("hi")],
        tools,
        Options(**options),
        stream=stream,
    )
    found = json.loads(built)
    assert complaint(found) is None
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"temperature": 0.5}, {"temperature": 0.5}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"max_tokens": 5}, {"max_completion_tokens": 5}),
        ({"stop": ("a", "b")}, {"stop": ["a", "b"]}),
        ({"seed": 7}, {"seed": 7}),
        ({"effort": "low"}, {"reasoning_effort": "low"}),
        ({"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        (
            {"tool_choice": "weather"},
            {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
        ),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        (
            {"output": OutputFormat(SCHEMA, "form")},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "form", "schema": SCHEMA, "strict": True},
                }
            },
        ),
        ({"extra": {"logprobs": True, "seed": 1}, "seed": 2}, {"seed": 1}),
        (
            {"extra": {"stream_options": {"x": 1}}},
            {"stream_options": {"include_usage": True, "x": 1}},
        ),
    ],
)
def test_options(options, expected):
    """Each in the provider's words; what is extra counts most."""
    found = payload(tools=[TOOL], **options)
    assert {name: found[name] for name in expected} == expected


def test_what_it_has_no_word_for_is_an_error():
    """And is not left out in silence."""
    with pytest.raises(ConfigurationError, match="thinking_tokens"):
        payload(thinking_tokens=1024)


def test_nothing_is_said_that_was_not_asked_for():
    """The rest is the provider's to choose."""
    assert payload(stream=False) == {
        "model": "m",
        "stream": False,
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert payload()["stream_options"] == {"include_usage": True}


def test_a_conversation():
    """System, words, pictures, calls, results and a beginning of the answer."""
    found = payload(
        UserMessage.of(["what is this?", PICTURE]),
        AssistantMessage(
            (Thinking("hm", "sig"), Text("Let me see."), ToolCall("c1", "look")),
        ),
        ToolMessage((ToolResult("c1", (Json({"a": 1}), PICTURE)),)),
        system="Be brief.",
        prefill="It is",
    )
    picture = {"type": "image_url", "image_url": {"url": DATA_URL}}
    function = {"name": "look", "arguments": "{}"}
    assert found["messages"] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "what is this?"}, picture],
        },
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": '{"a":1}\n(see the attachment)',
        },
        {"role": "user", "content": [picture]},
        {"role": "assistant", "content": "It is"},
    ]


def test_failed_and_empty_results():
    """Both are said in words, as there is no other way."""
    found = payload(
        UserMessage.of("hi"),
        AssistantMessage((ToolCall("1", "a"), ToolCall("2", "b"))),
        ToolMessage(
            (ToolResult("1", (Text("no disk"),), is_error=True), ToolResult("2")),
        ),
    )
    said = [m["content"] for m in found["messages"] if m["role"] == "tool"]
    assert said == ["Error: no disk", "(no output)"]


# -- from the provider -----------------------------------------------------------------


def chunk(delta=None, finish=None, **more):
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {"id": "1", "model": "m", "choices": [choice], **more}


def decode(*said):
    stream = [
        ServerSentEvent(each if isinstance(each, str) else json.dumps(each))
        for each in said
    ]
    return list(DIALECT.decode(stream))


def message(*said):
    last = decode(*said)[-1]
    assert isinstance(last, MessageFinished)
    return last.message


STOP = chunk(finish="stop")


@pytest.mark.parametrize(
    ("block", "stop"),
    [
        (Text("Hello there"), "end_turn"),
        (Thinking("let me see"), "end_turn"),
        (Refusal("I would rather not"), "refusal"),
        (ToolCall("c1", "weather", '{"city": "Oslo"}'), "tool_calls"),
        (Text("cut"), "max_tokens"),
    ],
)
@pytest.mark.parametrize("piece", [1, 4, 100])
def test_what_is_said_comes_out(block, stop, piece):
    """In a stream, and as a whole."""
    said, usage = AssistantMessage((block,), stop), Usage(3, 4, 1, reasoning_tokens=2)
    frames = "".join(speech.frames(said, usage, piece=piece)).encode()
    streamed = list(DIALECT.decode(EventDecoder().feed(frames)))[-1]
    body = json.dumps(speech.body(said, usage)).encode()
    whole = list(DIALECT.decode_reply(body))[-1]
    for found in (streamed, whole):
        assert found.message.content == (block,)
        assert found.message.stop_reason == stop
        assert found.usage == usage


def call(index=0, call_id=None, name=None, arguments=None):
    function = {"name": name, "arguments": arguments}
    return chunk(
        {"tool_calls": [{"index": index, "id": call_id, "function": function}]}
    )


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([call(0, "a", "f", ""), call(0, None, None, '{"x":1}')], [("a", '{"x":1}')]),
        ([call(0, "a", "f", '{"x"'), call(0, "a", "f", ":1}")], [("a", '{"x":1}')]),
        ([call(0, "a", "f", '{"x"'), call(0, "", None, ":1}")], [("a", '{"x":1}')]),
        (
            [call(None, "a", "f", '{"x"'), call(None, None, None, ":1}")],
            [("a", '{"x":1}')],
        ),
        (
            [call(None, "a", "f", "{}"), call(None, "b", "f", "{}")],
            [("a", "{}"), ("b", "{}")],
        ),
        ([call(0, "a", "f")], [("a", "{}")]),
        ([call(0, "a", "f", {"x": 1})], [("a", '{"x":1}')]),
        ([call(0, "a", "f", "not json")], [("a", "not json")]),
        (
            [
                call(0, "a", "f", '{"x"'),
                call(1, "b", "f", '{"y"'),
                call(0, None, None, ":1}"),
                call(1, None, None, ":2}"),
            ],
            [("a", '{"x":1}'), ("b", '{"y":2}')],
        ),
    ],
    ids=[
        "as it should be",
        "id and name repeated",
        "an empty id",
        "no index",
        "no index, two calls",
        "no arguments",
        "arguments that are no text",
        "arguments that are no JSON",
        "interleaved",
    ],
)
def test_tool_calls_of_all_kinds(chunks, expected):
    """No name is garbled, and no call is lost or doubled."""
    events = decode(*chunks, chunk(finish="tool_calls"))
    ready = [event.call for event in events if isinstance(event, ToolCallReady)]
    assert [(each.call_id, each.arguments) for each in ready] == expected
    assert {each.name for each in ready} == {"f"}
    assert sum(isinstance(event, ToolCallStarted) for event in events) == len(expected)


def test_calls_without_an_id_get_one():
    """Each its own, in every answer."""
    first, second = (message(call(0, None, "f", "{}"), STOP) for _ in range(2))
    assert first.tool_calls[0].call_id != second.tool_calls[0].call_id != ""
    assert first.stop_reason == "tool_calls"


@pytest.mark.parametrize(
    "quirk",
    [
        {"id": "", "model": "", "choices": [], "prompt_filter_results": [{}]},
        {"choices": [], "usage": None},
        chunk({"content": None, "role": "assistant"}, timings={}, x=1),
        chunk({"content": []}),
        {"choices": None},
        {"choices": [{"index": 1, "delta": {"content": "another"}}]},
    ],
)
def test_chunks_that_say_nothing(quirk):
    """They are passed over."""
    assert message(quirk, chunk({"content": "yes"}), quirk, STOP).text == "yes"


def test_content_in_parts():
    """As some imitators send it."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"x": 1}]
    assert message(chunk({"content": parts}), STOP).text == "ab"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_by_any_name(field):
    """It is not text."""
    found = message(chunk({field: "hm"}), chunk({"content": "yes"}), STOP)
    assert (found.thinking, found.text) == ("hm", "yes")


def test_usage_that_is_repeated():
    """The last counts."""
    events = decode(
        chunk({"content": "a"}, usage={"prompt_tokens": 1}),
        chunk(finish="stop", usage={"prompt_tokens": 1, "completion_tokens": 2}),
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    )
    assert sum(isinstance(event, UsageUpdated) for event in events) == 3
    assert events[-1].usage == Usage(1, 2)


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("eos_token", "other"),
    ],
)
def test_reasons_to_stop(finish, expected):
    """In our words, with the provider's beside them."""
    found = message(chunk({"content": "a"}), chunk(finish=finish))
    assert (found.stop_reason, found.raw_stop_reason) == (expected, finish)


@pytest.mark.parametrize(
    "said",
    [
        [],
        ["[DONE]"],
        [chunk({"content": "a"})],
        [chunk({"content": "a"}), "[DONE]"],
        [call(0, "a", "f", '{"x"')],
    ],
)
def test_a_stream_without_an_end_is_broken(said):
    """ "[DONE]" alone is none."""
    with pytest.raises(StreamBroken):
        decode(*said)


def test_done_after_usage_is_an_end():
    """Some never give a reason to stop."""
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    found = message(call(0, "a", "f", "{}"), chunk(usage=usage), "[DONE]")
    assert found.stop_reason == "tool_calls"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "overloaded", "code": 502}, ProviderUnavailable),
        ({"message": "slow down", "code": 429}, RateLimited),
        ({"message": "x", "type": "rate_limit_error"}, RateLimited),
        ({"message": "x", "code": "context_length_exceeded"}, ContextTooLong),
        ("just words", ProviderUnavailable),
    ],
)
def test_an_error_in_the_stream(error, expected):
    """It is raised, with what was said before delivered."""
    seen = []
    with pytest.raises(expected):
        for event in DIALECT.decode(
            ServerSentEvent(json.dumps(each))
            for each in (chunk({"content": "a"}), {"error": error}, STOP)
        ):
            seen.append(event)
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["a"]


@pytest.mark.parametrize("data", ["{", "[]", "7", "\ud800", '{"choices": 7}'])
def test_what_makes_no_sense(data):
    """It is said so."""
    with pytest.raises(ProtocolError, match="makes no sense"):
        decode(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('{"choices":[{"finish_reason":"stop"}]}', True),
        ('{"choices": [{"finish_reason": "stop"}]}', True),
        ('{"choices":[{"finish_reason":null}]}', False),
        (json.dumps({"content": 'finish_reason":"stop'}), False),
        ("[DONE]", True),
    ],
)
def test_what_is_the_end(data, expected):
    """Not what only looks like it, inside of a text."""
    assert DIALECT.is_end(ServerSentEvent(data)) is expected
