"""Answers of Chat Completions, and what imitators make of them."""

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
    ContextTooLong,
    ProtocolError,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    StreamBroken,
)
from syncagent.messages import AssistantMessage, Refusal, Text, Thinking, ToolCall
from syncagent.providers.openai_chat.request import OpenAIChatDialect
from syncagent.sse import EventDecoder, ServerSentEvent
from syncagent.testing.providers.openai_chat import speech
from syncagent.usage import Usage

DIALECT = OpenAIChatDialect()


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
    whole = list(DIALECT.decode_body(body))[-1]
    for found in (streamed, whole):
        assert found.message.content == (block,)
        assert found.message.stop_reason == stop
        assert found.usage == usage


def calls(*wanted):
    made = [
        {"index": index, "id": call_id, "function": {"name": name, "arguments": text}}
        for index, call_id, name, text in wanted
    ]
    return chunk({"tool_calls": made})


def call(index=0, call_id=None, name=None, arguments=None):
    return calls((index, call_id, name, arguments))


def reply(message, finish="stop", **more):
    choice = {"message": message, "finish_reason": finish, **more}
    body = json.dumps({"id": "1", "model": "m", "choices": [choice]}).encode()
    return list(DIALECT.decode_body(body))[-1].message


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
        (
            [
                call(0, "a", "f", '{"x"'),
                call(0, "b", "f", '{"y"'),
                call(0, None, None, ":2}"),
                call(0, "a", None, ":1}"),
            ],
            [("a", '{"x":1}'), ("b", '{"y":2}')],
        ),
        (
            [calls((0, "a", "f", "{}"), (0, "b", "f", "{}"))],
            [("a", "{}"), ("b", "{}")],
        ),
        ([call(0, "a", "f", '{"x"'), call(0, "b", "", ":1}")], [("a", '{"x":1}')]),
        (
            [call(0, "a"), call(0, None, None, '{"x"'), call(0, None, "f", ":1}")],
            [("a", '{"x":1}')],
        ),
        (
            [
                call(0, None, "f", "{"),
                call(0, "a", "", '"x"'),
                call(0, "a", "f", ":1}"),
            ],
            [("?", '{"x":1}')],
        ),
        ([call(0, "a", "f", "{}"), call(1, "b", None, "")], [("a", "{}")]),
        ([call("0", 7, "f", "{"), call("0", 7, None, "}")], [("7", "{}")]),
        ([call(None, 7, "f", "{"), call(None, 7, None, "}")], [("7", "{}")]),
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
        "one index for all",
        "one index for all, in one chunk",
        "another id without a name",
        "the name comes late",
        "the id comes late",
        "neither name nor arguments",
        "an index that is text and an id that is a number",
        "an id that is a number",
    ],
)
def test_tool_calls_of_all_kinds(chunks, expected):
    """No name is garbled, and no call is lost or doubled."""
    events = decode(*chunks, chunk(finish="tool_calls"))
    ready = [event.call for event in events if isinstance(event, ToolCallReady)]
    found = [(each.call_id, each.arguments) for each in ready]
    assert [(("?" if i.startswith("call_") else i), a) for i, a in found] == expected
    assert {each.name for each in ready} == {"f"}
    assert sum(isinstance(event, ToolCallStarted) for event in events) == len(expected)


def test_a_call_that_never_gets_a_name_has_one_of_ours():
    """Its arguments are not lost, and the model is told what is wrong."""
    (found,) = message(call(0, "a", None, '{"x":1}'), STOP).tool_calls
    assert found == ToolCall("a", "unnamed", '{"x":1}')


def test_calls_that_are_complete_are_told_apart_by_their_place():
    """Whatever index and id they have."""
    wanted = [(0, "a", "f", "{}"), (0, "a", "g", '{"x":1}'), (0, None, "h", {})]
    said = calls(*wanted)["choices"][0]["delta"]
    found = reply(said).tool_calls
    assert [(each.name, each.arguments) for each in found] == [
        ("f", "{}"),
        ("g", '{"x":1}'),
        ("h", "{}"),
    ]
    assert len({each.call_id for each in found}) == 3


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
        {"choices": [{"index": "1", "delta": {"content": "another"}}]},
        {"choices": [None]},
        {"choices": [{"delta": 7}, 7]},
        {"choices": [], "usage": 7},
        {"id": 7, "model": 7, "choices": []},
        chunk({"tool_calls": [None], "refusal": 7, "function_call": 7}),
        "",
        " ",
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
@pytest.mark.parametrize(
    "thinking", ["hm", ["h", "m"], {"text": "hm"}, [{"text": "hm"}, 7]]
)
def test_thinking_by_any_name(field, thinking):
    """It is not text."""
    found = message(chunk({field: thinking}), chunk({"content": "yes"}), STOP)
    assert (found.thinking, found.text) == ("hm", "yes")


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"type": "text", "text": "a"}, (Text("a"),)),
        ([THOUGHT, {"type": "text", "text": "a"}], (Thinking("hm"), Text("a"))),
        ([{"type": "thinking", "thinking": "hm"}, "a"], (Thinking("hm"), Text("a"))),
    ],
)
def test_content_of_other_forms(content, expected):
    """The same comes out, in a stream and as a whole."""
    assert message(chunk({"content": content}), STOP).content == expected
    assert reply({"content": content}).content == expected


WHOLE = {"content": "Hello", "reasoning": "hm", "refusal": "no"}


@pytest.mark.parametrize(
    "before",
    [
        [],
        [chunk({"content": "Hel", "reasoning": "hm"}), chunk({"content": "lo"})],
        [chunk({"content": "Hel", "refusal": "no"})],
    ],
    ids=["nothing", "all", "some"],
)
def test_a_stream_that_ends_with_the_whole_message(before):
    """What has come before is not said twice, and the rest is not lost."""
    function = {"name": "f", "arguments": "{}"}
    whole = {**WHOLE, "tool_calls": [{"id": "a", "function": function}]}
    said = [*before, *([call(0, "a", "f", "{}")] if before else [])]
    last = {"index": 0, "message": whole, "finish_reason": "stop"}
    found = message(*said, {"choices": [last]})
    assert (found.text, found.thinking, found.refusal) == ("Hello", "hm", "no")
    assert found.tool_calls == (ToolCall("a", "f"),)


def test_a_message_that_is_another_than_the_deltas_counts_for_nothing():
    """What was delivered cannot be taken back."""
    last = {"index": 0, "message": {"content": "Bye"}, "finish_reason": "stop"}
    assert message(chunk({"content": "Hello "}), {"choices": [last]}).text == "Hello "


def test_half_a_character():
    """The event is not lost, nor what is around it."""
    said = [chunk({"content": "a\ud83d"}), chunk({"content": "\ude42b"})]
    assert message(*said, STOP).text == "a\ufffd\ufffdb"
    found = reply({"content": "\ud83d!", "tool_calls": [], "refusal": None})
    assert found.text == "\ufffd!"


def test_a_refusal_is_no_end_as_any_other():
    """Though it says "stop"."""
    assert message(chunk({"refusal": "no"}), STOP).stop_reason == "refusal"
    assert reply({"refusal": "no"}).stop_reason == "refusal"


ERROR = {"code": 429, "message": "slow down"}


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"finish_reason": "error"}, ProviderUnavailable),
        ({"finish_reason": "error", "error": ERROR}, RateLimited),
        ({"finish_reason": "stop", "error": ERROR}, RateLimited),
        ({"error": ERROR}, RateLimited),
    ],
)
def test_an_error_in_a_choice_is_never_an_answer(wrong, expected):
    """Neither in a stream nor in a whole."""
    said = {"index": 0, "delta": {"content": "a"}, **wrong}
    for before in ([], [chunk({"content": "a"})]):
        with pytest.raises(expected):
            decode(*before, {"choices": [said]}, STOP)
    with pytest.raises(ProviderError):
        reply({"content": "a"}, **{"finish": "stop", **wrong})


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
        ("eos_token", "end_turn"),
        ("unheard_of", "other"),
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
def test_an_invalid_response(data):
    """An invalid response is a ProtocolError."""
    with pytest.raises(ProtocolError, match="invalid response"):
        decode(data)
