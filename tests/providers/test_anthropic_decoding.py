"""What is made of what Anthropic's Messages send."""

import json

import pytest
from anthropic_talk import (
    DIALECT,
    OWN,
    SEARCH,
    ours,
)
from recorded import cut

from syncagent.events import (
    MessageFinished,
    MessageStarted,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    UsageUpdated,
)
from syncagent.exceptions import (
    ContextTooLong,
    ProtocolError,
    ProviderUnavailable,
    RateLimited,
    StreamBroken,
)
from syncagent.messages import Citation, ProviderBlock, Text, Thinking, ToolCall
from syncagent.providers.draft import Draft
from syncagent.sse import ServerSentEvent, decode_events
from syncagent.testing.providers.anthropic import speech
from syncagent.usage import Usage

SUMMARY = {"type": "compaction", "content": "So far: hello.", "encrypted_content": "e"}
USAGE = Usage(100, 20, 30, 10, 5)
ANSWERS = [
    ours(Text("Hello, wörld \U0001f600"), raw_stop_reason="end_turn"),
    ours(Text("a"), Text("b"), stop_reason="max_tokens", raw_stop_reason="max_tokens"),
    ours(*OWN, stop_reason="tool_calls", raw_stop_reason="tool_use"),
    ours(Text("no"), stop_reason="refusal", raw_stop_reason="refusal"),
    ours(stop_reason="refusal", raw_stop_reason="refusal", stop_detail="It may harm."),
    ours(
        ProviderBlock("anthropic", {**SUMMARY, "signature": "s"}),
        stop_reason="pause",
        raw_stop_reason="compaction",
    ),
    ours(Text("a"), stop_reason="stop_sequence", raw_stop_reason="stop_sequence"),
    ours(
        ProviderBlock("anthropic", SEARCH),
        stop_reason="pause",
        raw_stop_reason="pause_turn",
    ),
    ours(
        ToolCall("1", "add", '{"a":[1,2]}'),
        ToolCall("2", "sub"),
        stop_reason="tool_calls",
        raw_stop_reason="tool_use",
    ),
    ours(Thinking("", "sig"), stop_reason="other", raw_stop_reason="new"),
]


def read(frames, size=1 << 20):
    body = "".join(frames).encode()
    return list(DIALECT.decode(decode_events(cut(body, size))))


def frame(kind, name=True, **more):
    data = json.dumps({"type": kind, **more})
    return (f"event: {kind}\n" if name else "") + f"data: {data}\n\n"


def stream(*middle, stop="end_turn"):
    """Return a stream with *middle* in its middle."""
    start = frame("message_start", message={"id": "m", "model": "x"})
    end = frame("message_delta", delta={"stop_reason": stop})
    return [start, *middle, end, frame("message_stop")]


def block(index=0, deltas=(), **start):
    yield frame("content_block_start", index=index, content_block=start)
    for delta in deltas:
        yield frame("content_block_delta", index=index, delta=delta)
    yield frame("content_block_stop", index=index)


@pytest.mark.parametrize("piece", [1, 5, 1000])
@pytest.mark.parametrize("message", ANSWERS, ids=str)
def test_what_is_said_is_what_is_heard(message, piece):
    """A message comes out as it went in, in a stream and as a document."""
    heard = read(speech.frames(message, USAGE, model="", piece=piece))
    assert heard[0] == MessageStarted("", "msg_fake")
    assert heard[-1] == MessageFinished(message, USAGE)
    document = json.dumps(speech.body(message, USAGE, model="")).encode()
    assert list(DIALECT.decode_body(document))[-1] == heard[-1]


def test_every_split():
    """However a stream is cut, the events are the same."""
    frames = list(speech.frames(ANSWERS[2], USAGE))
    whole = read(frames)
    assert all(read(frames, size) == whole for size in range(1, 200))


def test_a_stream_cut_anywhere_is_no_answer():
    """Without its last event it is broken, and what came was delivered."""
    frames = list(speech.frames(ANSWERS[0], USAGE))
    for end in range(len(frames)):
        with pytest.raises(StreamBroken):
            read(frames[:end])
    with pytest.raises(StreamBroken):
        read(frames[-1:])


@pytest.mark.parametrize("has_names", [True, False])
def test_only_the_last_event_is_the_end(has_names):
    """By its name, or by its type where it has none; words in an answer are not it."""
    frames = speech.frames(ours(Text("message_stop")), USAGE, piece=99)
    lines = [f if has_names else f.split("\n", 1)[1] for f in frames]
    ends = [DIALECT.is_end(event) for event in decode_events(["".join(lines).encode()])]
    assert ends == [False] * (len(lines) - 1) + [True]


def test_a_stream_without_names():
    """The type in the data is enough; so is the name, where that is missing."""
    frames = list(speech.frames(ANSWERS[2], USAGE))
    assert read(f.split("\n", 1)[1] for f in frames) == read(frames)
    assert read([*frames[:-1], "event: message_stop\ndata: {}\n\n"]) == read(frames)


def calls(*frames):
    return read(stream(*frames))[-1].message.tool_calls


@pytest.mark.parametrize(
    ("start", "pieces", "arguments"),
    [
        ({}, [], "{}"),
        ({"input": {}}, [""], "{}"),
        ({"input": None}, ['{"a":', "1}"], '{"a":1}'),
        ({"input": {"a": 1}}, [], '{"a":1}'),
        ({"input": {"a": 1}}, ["", '{"b":2}'], '{"b":2}'),
        ({"input": '{"a":1}'}, [], '{"a":1}'),
        ({"input": {}}, ['{"a'], '{"a'),
    ],
)
@pytest.mark.parametrize("has_stop", [True, False])
def test_arguments(start, pieces, arguments, has_stop):
    """They come in pieces, at once, or not at all."""
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    frames = list(block(0, deltas, type="tool_use", id="1", name="add", **start))
    call = ToolCall("1", "add", arguments)
    assert calls(*(frames if has_stop else frames[:-1])) == (call,)


def test_blocks_may_come_mixed():
    """Deltas go by the number of their block, and calls with the same one are two."""
    a = list(block(0, [{"type": "text_delta", "text": "a"}], type="text"))
    b = list(block(1, [{"type": "text_delta", "text": "b"}], type="text"))
    mixed = read(stream(a[0], b[0], b[1], a[1], a[2], b[2]))[-1].message
    assert mixed.content == (Text("a"), Text("b"))
    one = list(block(0, type="tool_use", id="1", name="x", input={"n": 1}))
    two = list(block(0, type="tool_use", id="1", name="y", input={"n": 2}))
    assert [call.name for call in calls(one[0], *two)] == ["x", "y"]
    two = list(block(1, type="tool_use", id="2", name="y", input={"n": 2}))
    both = calls(one[0], two[0], two[1], one[1])
    assert [call.arguments for call in both] == ['{"n":1}', '{"n":2}']


def test_blocks_without_numbers():
    """What has none goes on with the last."""

    def more(kind, **said):
        return frame("content_block_delta", delta={"type": kind, **said})

    message = read(
        stream(
            frame("content_block_start", content_block={"type": "thinking"}),
            more("thinking_delta", thinking="t"),
            more("signature_delta", signature="s"),
            frame("content_block_start", index=3, content_block={"type": "tool_use"}),
            more("input_json_delta", partial_json="{"),
            frame("content_block_start", content_block={"type": "tool_use"}),
            more("input_json_delta", partial_json="["),
        )
    )[-1].message
    assert message.content[0] == Thinking("t", "s")
    assert [call.arguments for call in message.tool_calls] == ["{", "["]


def test_who_answers():
    """Model and id are told at the start, once."""
    again = frame("message_start", message={"id": "n", "model": "y"})
    events = read(stream(again))
    assert [e for e in events if isinstance(e, MessageStarted)] == [
        MessageStarted("x", "m")
    ]
    assert events[-1].message.model == "x"
    document = json.dumps(speech.body(ANSWERS[0], USAGE, model="z")).encode()
    events = list(DIALECT.decode_body(document))
    assert (events[0].model, events[-1].message.model) == ("z", "z")


@pytest.mark.parametrize(
    ("title", "url"), [("title", "url"), ("document_title", "source")]
)
def test_citations(title, url):
    """Words, title and address, and all else that the provider says."""
    data = {"cited_text": "q", title: "t", url: "u", "n": 1}
    deltas = [
        {"type": "text_delta", "text": "a"},
        {"type": "citations_delta", "citation": data},
    ]
    message = read(stream(*block(0, deltas, type="text")))[-1].message
    assert message.content == (Text("a", (Citation("q", "t", "u", data),)),)


def test_a_call_is_ready_when_its_block_ends():
    """Nobody waits for the rest of the answer."""
    frames = block(0, type="tool_use", id="1", name="add")
    after = block(1, [{"type": "text_delta", "text": "a"}], type="text")
    kinds = [type(event) for event in read(stream(*frames, *after))]
    assert kinds[1:4] == [ToolCallStarted, ToolCallReady, TextDelta]


def test_words_at_the_start_of_a_block_or_without_one():
    """They are words all the same."""
    begun = block(0, [{"type": "text_delta", "text": "b"}], type="text", text="a")
    lost = frame("content_block_delta", delta={"type": "text_delta", "text": "c"})
    finished = read(stream(*begun, lost))[-1]
    assert finished.message.text == "abc"


def test_what_is_unknown_is_ignored():
    """Events, deltas and fields of any form; comments; a sentinel from elsewhere."""
    words = list(block(0, [{"type": "text_delta", "text": "a", "x": []}], type="text"))
    odd = [
        ": comment\n\n",
        "event: ping\ndata:\n\n",
        frame("ping"),
        frame("new", delta="x", index="y"),
        frame("content_block_delta", index=0, delta={"type": "new", "text": {}}),
        frame("content_block_delta", index=0, delta={"type": "newer"}),
        frame("content_block_start", index=7),
        frame("content_block_stop", index=9),
        "data: [DONE]\n\n",
    ]
    assert read(stream(words[0], *odd, words[1], *odd))[-1].message.content == (
        Text("a"),
    )


@pytest.mark.parametrize("pieces", [['{"q":', "1}"], ['{"q":'], []])
def test_tools_of_the_provider_are_no_calls(pieces):
    """They are kept as they are, with the input that came in pieces."""
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    events = read(stream(*block(0, deltas, **{**SEARCH, "input": {}})))
    data = {**SEARCH, "input": {"q": 1} if len(pieces) == 2 else {}}
    assert events[-1].message.content == (ProviderBlock("anthropic", data),)
    assert not [event for event in events if isinstance(event, ToolCallReady)]


@pytest.mark.parametrize(
    ("raw", "stop"),
    [
        ("end_turn", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("tool_use", "tool_calls"),
        ("pause_turn", "pause"),
        ("compaction", "pause"),
        ("refusal", "refusal"),
        ("new", "other"),
        (None, "end_turn"),
    ],
)
def test_stop_reasons(raw, stop):
    """Ours, and the provider's own word beside it."""
    message = read(stream(stop=raw))[-1].message
    assert (message.stop_reason, message.raw_stop_reason) == (stop, raw or "")


def test_calls_count_more_than_an_end():
    """Who calls a tool has not ended, whatever it says."""
    frames = block(0, type="tool_use", id="1", name="add")
    assert read(stream(*frames))[-1].message.stop_reason == "tool_calls"


def test_usage_is_told_twice():
    """The end leaves out what the start has said, or says it anew; caches count."""
    told = {"input_tokens": 5, "cache_read_input_tokens": 3, "output_tokens": 1}
    start = frame("message_start", message={"usage": told})
    more = {"output_tokens": 9, "input_tokens": None, "cache_creation": {}}
    end = frame("message_delta", delta={}, usage=more)
    events = read([start, end, frame("message_stop")])
    usages = [event.usage for event in events if isinstance(event, UsageUpdated)]
    assert usages == [Usage(8, 1, 3), Usage(8, 9, 3)]
    assert events[-1].usage == Usage(8, 9, 3)


def usages(start, *more):
    """Return the usages of a stream that tells these."""
    begun = frame("message_start", message={"usage": start})
    deltas = [frame("message_delta", delta={}, usage=each) for each in more]
    events = read([begun, *deltas, frame("message_stop")])
    return [event.usage for event in events if isinstance(event, UsageUpdated)]


def test_totals_at_the_end_replace_those_of_the_start():
    """Also by 0: the start counts what a summary has replaced since."""
    start = {"input_tokens": 100, "cache_read_input_tokens": 55096, "output_tokens": 1}
    end = {"input_tokens": 181, "cache_read_input_tokens": 0, "output_tokens": 40}
    assert usages(start, end)[-1] == Usage(181, 40)


def test_all_iterations_are_billed():
    """The totals lack those that have summarized the conversation."""
    summary = {"type": "compaction", "input_tokens": 180000, "output_tokens": 3500}
    message = {"type": "message", "input_tokens": 23000, "output_tokens": 1000}
    message["cache_read_input_tokens"] = 500
    end = {"input_tokens": 23000, "cache_read_input_tokens": 500, "output_tokens": 1000}
    told = {**end, "iterations": [summary, message, None]}
    assert usages({"input_tokens": 9}, told)[-1] == Usage(203500, 4500, 500)
    body = {"content": [], "stop_reason": "end_turn", "usage": told}
    events = list(DIALECT.decode_body(json.dumps(body).encode()))
    assert events[-1].usage == Usage(203500, 4500, 500)


def test_thinking_is_a_part_of_the_output():
    """It is told at the end."""
    details = {"output_tokens_details": {"thinking_tokens": 30}}
    assert usages({"output_tokens": 1}, {"output_tokens": 40, **details})[-1] == Usage(
        0, 40, reasoning_tokens=30
    )


@pytest.mark.parametrize("wrong", [-5, None, True, "7", 1.5, 1 << 60, [], {}])
def test_counts_that_nobody_believes(wrong):
    """What was told before is not replaced by them."""
    end = dict.fromkeys(("input_tokens", "cache_read_input_tokens"), wrong)
    start = {"input_tokens": 5, "cache_read_input_tokens": 3, "output_tokens": 1}
    more = {"output_tokens_details": wrong, "iterations": wrong, "output_tokens": 2}
    assert usages(start, {**end, **more})[-1].output_tokens == 2
    if not isinstance(wrong, dict):
        assert usages(start, {**end, **more})[-1] == Usage(8, 2, 3)


@pytest.mark.parametrize("has_total", [True, False])
def test_what_is_written_to_the_cache_is_counted_once(has_total):
    """The total includes both lifetimes; without one they are added."""
    lifetimes = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 12}
    told = {"input_tokens": 1, "cache_creation": lifetimes}
    if has_total:
        told["cache_creation_input_tokens"] = 42
    assert usages(told)[-1] == Usage(43, 0, 0, 42)


def test_why_a_model_refuses():
    """The category, and the explanation if there is one."""
    details = {"type": "refusal", "category": "cyber", "explanation": "It may harm."}
    delta = {"stop_reason": "refusal", "stop_details": details}
    start = frame("message_start", message={})
    end = frame("message_stop")
    message = read([start, frame("message_delta", delta=delta), end])[-1].message
    assert (message.stop_reason, message.stop_detail) == (
        "refusal",
        "cyber: It may harm.",
    )
    body = json.dumps({"content": [], **delta}).encode()
    assert list(DIALECT.decode_body(body))[-1].message == message
    for wrong in (None, 7, {"category": None}, {"explanation": []}):
        delta = {"stop_reason": "refusal", "stop_details": wrong}
        events = read([start, frame("message_delta", delta=delta), end])
        assert events[-1].message.stop_detail == ""


@pytest.mark.parametrize("size", [4, 99])
@pytest.mark.parametrize("is_signed", [True, False])
def test_a_summary_of_the_conversation(size, is_signed):
    """It is kept with all that belongs to it, however it comes."""
    words = [
        SUMMARY["content"][begin : begin + size]
        for begin in range(0, len(SUMMARY["content"]), size)
    ]
    deltas = [{"type": "compaction_delta", "content": word} for word in words]
    deltas[-1]["encrypted_content"] = "e"
    if is_signed:
        deltas.append({"type": "signature_delta", "signature": "s"})
    start = {"type": "compaction", "content": None, "encrypted_content": None}
    frames = block(0, deltas, **start)
    message = read(stream(*frames, stop="compaction"))[-1].message
    whole = {**SUMMARY, "signature": "s"} if is_signed else SUMMARY
    assert message.content == (ProviderBlock("anthropic", whole),)
    assert message.stop_reason == "pause"


def test_a_summary_that_is_cut_off_is_none():
    """A part of it would replace the whole conversation."""
    delta = {"type": "compaction_delta", "content": "So far"}
    start, more, _ = block(0, [delta], type="compaction", content="")
    draft = Draft("anthropic")
    body = "".join([*stream()[:1], start, more]).encode()
    with pytest.raises(StreamBroken):
        list(DIALECT.decode(decode_events([body]), draft))
    (cut_off,) = draft.blocks
    assert cut_off.data["content"] == ""


@pytest.mark.parametrize("content", [None, 7, [], {"a": 1}])
def test_a_summary_of_any_other_form_is_no_error(content):
    """A failed one is null."""
    delta = {"type": "compaction_delta", "content": content}
    frames = block(0, [delta], type="compaction")
    assert isinstance(read(stream(*frames))[-1], MessageFinished)


@pytest.mark.parametrize(
    ("kind", "words", "error"),
    [
        ("overloaded_error", "Overloaded", ProviderUnavailable),
        ("rate_limit_error", "slow down", RateLimited),
        ("invalid_request_error", "prompt is too long: 9 > 8", ContextTooLong),
        ("new_error", "", ProviderUnavailable),
    ],
)
@pytest.mark.parametrize("has_name", [True, False])
def test_errors_in_the_stream(kind, words, error, has_name):
    """They come after some of the answer; so does a document of that form."""
    wrong = {"type": kind, "message": words}
    frames = list(speech.frames(ANSWERS[0], USAGE))
    with pytest.raises(error, match=words or kind):
        read([*frames[:5], frame("error", has_name, error=wrong)])
    with pytest.raises(error):
        list(
            DIALECT.decode_body(json.dumps({"type": "error", "error": wrong}).encode())
        )


def test_an_overload_as_the_kit_says_it():
    """Its frames and bodies are errors of the right kind."""
    with pytest.raises(ProviderUnavailable, match="Overloaded") as caught:
        read(speech.error_frames("Overloaded"))
    assert caught.value.retryable
    with pytest.raises(RateLimited):
        list(DIALECT.decode_body(json.dumps(speech.error(429, "x")).encode()))
    with pytest.raises(RateLimited):
        read(['data: {"error":{"type":"rate_limit_error"}}\n\n'])
    with pytest.raises(ProviderUnavailable):
        read([frame("error")])
    with pytest.raises(ProviderUnavailable, match="busy"):
        read(["event: error\ndata: busy\n\n"])


@pytest.mark.parametrize(
    "data",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        '"a"',
        "[" * 100_000,
        '{"type":"content_block_delta","index":0,"delta":7}',
        '{"type":"content_block_delta","index":[],"delta":{}}',
        '{"type":"content_block_start","index":0,"content_block":[]}',
        '{"type":"message_start","message":[]}',
        '{"type":"message_delta","delta":{"stop_reason":7}}',
        '{"type":"message_delta","usage":7}',
        '{"type":{}}',
    ],
)
def test_nonsense_is_a_typed_error(data):
    """Whatever a server sends, no other exception comes out."""
    event = ServerSentEvent(data)
    with pytest.raises(ProtocolError):
        list(DIALECT.decode([event]))
    assert not DIALECT.is_end(event)
    with pytest.raises((ProtocolError, StreamBroken)):
        list(DIALECT.decode_body(data.encode()))


@pytest.mark.parametrize("wrong", [None, 7, "x", [], {}, [7], {"type": 7}])
@pytest.mark.parametrize("kind", ["text", "thinking", "tool_use", "x", None, 7])
def test_fields_of_a_block_may_be_anything(kind, wrong):
    """What makes no sense is left out."""
    names = (
        "text",
        "thinking",
        "id",
        "name",
        "input",
        "citations",
        "signature",
        "data",
    )
    start = {"type": kind, **dict.fromkeys(names, wrong)}
    events = read(stream(frame("content_block_start", index=0, content_block=start)))
    assert isinstance(events[-1], MessageFinished)


def test_numbers_of_blocks_that_are_strings():
    """Some imitators write them so; blocks are kept apart by them."""
    deltas = [
        frame("content_block_delta", index=index, delta=delta)
        for index, delta in (
            ("0", {"type": "text_delta", "text": "Hi"}),
            ("1", {"type": "input_json_delta", "partial_json": '{"a":1}'}),
        )
    ]
    call = {"type": "tool_use", "id": "c", "name": "add"}
    begun = [
        frame("content_block_start", index="0", content_block={"type": "text"}),
        frame("content_block_start", index="1", content_block=call),
    ]
    message = read(stream(*begun, *deltas))[-1].message
    assert message.content == (Text("Hi"), ToolCall("c", "add", '{"a":1}'))
