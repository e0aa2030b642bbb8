"""What comes of an answer of the Responses API, whatever is sent."""

import json

import pytest
from recorded import cut
from responses_talk import (
    CALL,
    DIALECT,
    ITEM,
    NAME,
    REASONING,
    call_item,
    completed,
    created,
    event,
    message_item,
    stream,
)

from syncagent.events import (
    MessageFinished,
    MessageStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
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
from syncagent.messages import (
    AssistantMessage,
    Citation,
    ProviderBlock,
    RedactedThinking,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from syncagent.sse import EventDecoder, ServerSentEvent
from syncagent.testing.providers.openai_responses import speech
from syncagent.usage import Usage

USAGE = Usage(9, 5, cached_tokens=3, reasoning_tokens=2)
SAID = [
    AssistantMessage((Text("Hello, you there! ünïcödé 🎈"),), "end_turn", "completed"),
    AssistantMessage((Text("Hel"),), "max_tokens", "incomplete"),
    AssistantMessage((Refusal("I will not."),), "refusal", "incomplete"),
    AssistantMessage(
        (Text("a", signature="commentary"), CALL, ToolCall("c2", "now")),
        "tool_calls",
        "completed",
    ),
    AssistantMessage(
        (
            Thinking("First this.\n\nThen that."),
            ProviderBlock(
                NAME,
                {
                    **ITEM,
                    "summary": [
                        {"type": "summary_text", "text": "First this."},
                        {"type": "summary_text", "text": "Then that."},
                    ],
                },
            ),
            CALL,
            REASONING,
            ProviderBlock(NAME, {"type": "web_search_call", "id": "ws_1"}),
            Text("One", (Citation("", "T", "u", {"title": "T", "url": "u"}),)),
            Text("two"),
        ),
        "tool_calls",
        "completed",
    ),
]


def decoded(*said):
    """Return the events, and the message, that come of a stream."""
    events = list(DIALECT.decode(stream(*said)))
    assert isinstance(events[-1], MessageFinished)
    deltas = "".join(e.text for e in events if isinstance(e, TextDelta))
    assert deltas == events[-1].message.text
    return events, events[-1].message


@pytest.mark.parametrize("size", [1, 3, 64, 1 << 20])
@pytest.mark.parametrize("said", SAID)
def test_an_answer_comes_out_as_it_was_said(said, size):
    """However the bytes are cut, and with every delta on the way."""
    bytes_ = "".join(speech.frames(said, USAGE, model="gpt-x")).encode()
    decoder = EventDecoder()
    pieces = (e for piece in cut(bytes_, size) for e in decoder.feed(piece))
    events = list(DIALECT.decode(pieces))
    message = events[-1].message
    assert (message.content, message.stop_reason) == (said.content, said.stop_reason)
    assert message.raw_stop_reason == said.raw_stop_reason
    assert (message.provider, message.model) == (NAME, "gpt-x")
    assert events[-1].usage == USAGE
    assert events[0] == MessageStarted("gpt-x", "resp_fake")
    thinking = "".join(e.text for e in events if isinstance(e, ThinkingDelta))
    assert thinking == said.thinking
    assert [e.call for e in events if isinstance(e, ToolCallReady)] == list(
        said.tool_calls
    )


@pytest.mark.parametrize("said", SAID)
def test_a_reply_comes_out_as_a_stream_does(said):
    """The same message without a stream."""
    body = json.dumps(speech.body(said, USAGE)).encode()
    events = list(DIALECT.decode_body(body))
    assert events[-1].message.content == said.content
    assert events[-1].usage == USAGE
    assert UsageUpdated(USAGE) in events


def test_shown_thinking_is_kept_to_be_sent_back():
    """Thinking that is said becomes a block to read, and one for the provider."""
    said = AssistantMessage((Thinking("Hm."), RedactedThinking("xyz"), Text("Yes")))
    *_, finished = DIALECT.decode(
        e for e in EventDecoder().feed("".join(speech.frames(said, USAGE)).encode())
    )
    shown, first, second, text = finished.message.content
    assert (shown, text) == (Thinking("Hm."), Text("Yes"))
    assert [first.data["encrypted_content"], second.data["encrypted_content"]] == [
        "gAAAAfake",
        "gAAAAxyz",
    ]


def test_the_last_event_brings_what_no_other_has():
    """Text, calls and reasoning, each in its place."""
    _, message = decoded(
        created(),
        event("output_text.delta", output_index=1, content_index=0, delta="He"),
        completed(ITEM, message_item("Hello"), call_item()),
    )
    assert message.content == (REASONING, Text("Hello"), CALL)


def test_a_message_that_no_event_brought_comes_first_if_it_was():
    """One that was streamed is not taken for another."""
    events = DIALECT.decode(
        stream(
            created(),
            event("output_item.done", output_index=1, item=message_item("Two")),
            completed(message_item("One"), message_item("Two")),
        )
    )
    message = list(events)[-1].message
    assert [block.text for block in message.content] == ["One", "Two"]


@pytest.mark.parametrize("index", [0, 1, 7, None])
def test_nothing_comes_twice_if_a_host_counts_in_its_own_way(index):
    """Deltas and the last event may disagree about indexes and ids."""
    _, message = decoded(
        created(),
        event("output_item.added", output_index=index, item=message_item("")),
        event("output_text.delta", output_index=index, item_id="m9", delta="Hello"),
        event("output_item.done", output_index=index, item=message_item("Hello")),
        completed(message_item("Hello")),
    )
    assert message.content == (Text("Hello"),)


@pytest.mark.parametrize("indexes", [(0, 1), (0, 0), (None, None)])
@pytest.mark.parametrize("with_done", [True, False])
def test_calls_in_a_row_are_kept_apart(indexes, with_done):
    """By their index, even if that is always the same or missing."""
    said = [created()]
    for number, index in enumerate(indexes):
        whole = call_item(f"c{number}", f'{{"a":{number}}}')
        begun = {**whole, "arguments": ""}
        kind = "function_call_arguments.delta"
        said.append(event("output_item.added", output_index=index, item=begun))
        said.append(event(kind, output_index=index, delta=whole["arguments"]))
        if with_done:
            said.append(event("output_item.done", output_index=index, item=whole))
    events, message = decoded(*said, completed())
    assert [call.arguments for call in message.tool_calls] == ['{"a":0}', '{"a":1}']
    assert [e.call for e in events if isinstance(e, ToolCallReady)] == list(
        message.tool_calls
    )


def test_messages_in_a_row_are_kept_apart():
    """Even if a host gives all of them the same index."""
    said = [created()]
    for text in ("One", "Two"):
        begun = message_item("")
        said.append(event("output_item.added", output_index=0, item=begun))
        said.append(event("output_text.delta", output_index=0, delta=text))
        item = message_item(text)
        said.append(event("output_item.done", output_index=0, item=item))
    _, message = decoded(*said, completed())
    assert message.content == (Text("One"), Text("Two"))


def test_a_refusal_is_no_text():
    """Though it comes in the same part."""
    _, message = decoded(
        created(),
        event("output_text.delta", output_index=0, content_index=0, delta="Hm"),
        event("refusal.delta", output_index=0, content_index=0, delta="No"),
        completed(),
    )
    assert message.content == (Text("Hm"), Refusal("No"))


@pytest.mark.parametrize("last", ["item", "arguments", "response"])
def test_final_arguments_win_over_deltas(last):
    """Whichever event brings them."""
    done = {
        "item": event("output_item.done", output_index=0, item=call_item()),
        "arguments": event(
            "function_call_arguments.done", output_index=0, arguments='{"a":1}'
        ),
        "response": event("in_progress"),
    }[last]
    _, message = decoded(
        created(),
        event("output_item.added", output_index=0, item=call_item(arguments="")),
        event("function_call_arguments.delta", output_index=0, delta='{"b'),
        done,
        completed(*[call_item()] * (last == "response")),
    )
    assert message.content == (CALL,)
    assert message.stop_reason == "tool_calls"


@pytest.mark.parametrize("arguments", ["", None])
def test_a_call_without_arguments(arguments):
    """Nothing at all is an empty object."""
    _, message = decoded(created(), completed(call_item(arguments=arguments)))
    assert message.tool_calls[0].parse() == {}


def test_raw_reasoning_is_thinking():
    """Open models show it as it is."""
    item = {"type": "reasoning", "id": "r", "summary": []}
    item["content"] = [{"type": "reasoning_text", "text": "Hmm"}]
    _, message = decoded(
        created(),
        event("reasoning_text.delta", output_index=0, content_index=0, delta="Hm"),
        event("output_item.done", output_index=0, item=item),
        completed(item),
    )
    assert message.content == (Thinking("Hmm"), ProviderBlock(NAME, item))


def test_citations_come_with_the_text():
    """Those of an event of their own, too."""
    cited = {"type": "url_citation", "url": "https://x", "title": "X"}
    _, message = decoded(
        created(),
        event("output_text.delta", output_index=0, content_index=0, delta="Hi"),
        event("output_text.annotation.added", output_index=0, annotation=cited),
        completed(message_item("Hi")),
    )
    citation = Citation(title="X", url="https://x", data=cited)
    assert message.content == (Text("Hi", (citation,)),)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("max_output_tokens", "max_tokens"), ("content_filter", "refusal"), (3, "other")],
)
def test_incomplete_answers_say_why(reason, stop):
    """With the provider's word beside ours."""
    response = {"output": [], "incomplete_details": {"reason": reason}}
    _, message = decoded(created(), event("incomplete", response=response))
    assert (message.stop_reason, message.raw_stop_reason) == (stop, "incomplete")


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        ({"type": "error", "code": "server_error", "message": "x"}, "unavailable"),
        ({"type": "error", "error": {"code": "rate_limit_exceeded"}}, "limited"),
        ({"error": {"message": "x", "type": "server_error"}}, "unavailable"),
        (event("failed", response={"error": {"code": "server_error"}}), "unavailable"),
        (event("failed", response={"error": None}), "unavailable"),
        (event("failed"), "unavailable"),
        (
            event("failed", response={"error": {"code": "context_length_exceeded"}}),
            "long",
        ),
    ],
)
def test_an_error_in_the_stream_is_raised(last, kind):
    """As what it means, after what came before it."""
    kinds = {"unavailable": ProviderUnavailable, "limited": RateLimited}
    with pytest.raises(kinds.get(kind, ContextTooLong)):
        decoded(created(), event("output_text.delta", delta="Hi"), last)


def test_the_error_that_the_fake_server_sends():
    """It can be tried again."""
    frames = "".join(speech.error_frames("Overloaded")).encode()
    with pytest.raises(ProviderUnavailable, match="Overloaded") as caught:
        list(DIALECT.decode(EventDecoder().feed(frames)))
    assert caught.value.retryable


@pytest.mark.parametrize("said", SAID)
def test_a_cut_stream_is_never_an_answer(said):
    """Wherever it ends before its end."""
    frames = list(speech.frames(said, USAGE))
    for length in range(len(frames)):
        events = EventDecoder().feed("".join(frames[:length]).encode())
        with pytest.raises(StreamBroken):
            list(DIALECT.decode(events))


def test_done_is_not_the_end():
    """What some hosts say last says nothing about the answer."""
    with pytest.raises(StreamBroken):
        list(DIALECT.decode([*stream(created()), ServerSentEvent("[DONE]")]))


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"status":"in_progress","output":[]}', b'{"output":{}}'],
)
def test_a_reply_that_is_no_answer(body):
    """It is not taken for one."""
    with pytest.raises(StreamBroken):
        list(DIALECT.decode_body(body))


@pytest.mark.parametrize("status", [401, 429, 500])
def test_a_reply_that_is_an_error(status):
    """An error body with status 200 is an error all the same."""
    body = json.dumps(speech.error(status, "No.")).encode()
    with pytest.raises(ProviderError, match=r"No\."):
        list(DIALECT.decode_body(body))


@pytest.mark.parametrize("data", ["", "nonsense", "null", "[]", '"x"', "{", "[" * 9999])
def test_nonsense_is_a_typed_error(data):
    """Whatever is sent, nothing of ours breaks."""
    with pytest.raises(ProtocolError):
        list(DIALECT.decode([ServerSentEvent(data)]))
    with pytest.raises(ProtocolError):
        list(DIALECT.decode_body(data.encode()))


ODD = [None, 0, -1, 1.5, True, "x", "", [], [1], {}, {"type": []}, {"type": "message"}]
KINDS = [
    *("created", "output_item.added", "output_item.done", "output_text.delta"),
    *("output_text.annotation.added", "refusal.delta", "reasoning_text.delta"),
    *("function_call_arguments.delta", "function_call_arguments.done", "unheard_of"),
]
FIELDS = ["output_index", "content_index", "delta", "item", "arguments", "annotation"]


@pytest.mark.parametrize("kind", KINDS)
def test_odd_fields_break_nothing(kind):
    """A field of another type is ignored, or a typed error."""
    for field in FIELDS:
        for value in ODD:
            odd = {**event(kind, output_index=0, delta="x"), field: value}
            events = DIALECT.decode(stream(created(), odd, odd, completed(value)))
            assert isinstance(list(events)[-1], MessageFinished)


@pytest.mark.parametrize("field", ["content", "summary", "call_id", "arguments", "id"])
@pytest.mark.parametrize("kind", ["message", "reasoning", "function_call", "other", 3])
def test_odd_items_break_nothing(kind, field):
    """The same for what is inside of them, and of a response."""
    for value in [*ODD, [{"type": "output_text", "text": 3}], [{"type": "refusal"}]]:
        item = {"type": kind, field: value}
        said = (created(), event("output_item.done", item=item))
        more = {"usage": value, "model": value, "incomplete_details": value}
        events = DIALECT.decode(stream(*said, completed(item, **more)))
        assert isinstance(list(events)[-1], MessageFinished)


@pytest.mark.parametrize("end", ["completed", "incomplete", "failed"])
@pytest.mark.parametrize("has_name", [True, False])
def test_the_end_is_seen_with_and_without_a_name(end, has_name):
    """Both forms, and no other event."""
    name = f"response.{end}" if has_name else "message"
    data = "{}" if has_name else json.dumps(event(end))
    assert DIALECT.is_end(ServerSentEvent(data, name))
    quoted = event("output_text.delta", delta=json.dumps(event(end)))
    assert not DIALECT.is_end(ServerSentEvent(json.dumps(quoted)))
