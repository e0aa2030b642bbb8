"""What comes of an answer of the Gemini API, whatever is sent."""

import json
import time

import pytest
from gemini_talk import CALL, GEMINI, HI, SIGNATURE, model, parts, payload, signed
from msgspec.structs import replace
from recorded import cut

from syncagent.events import (
    MessageStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    UsageUpdated,
)
from syncagent.exceptions import (
    AuthenticationFailed,
    ContextTooLong,
    ProtocolError,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
    StreamBroken,
    SyncAgentError,
)
from syncagent.messages import (
    Citation,
    Image,
    ProviderBlock,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from syncagent.sse import EventDecoder, ServerSentEvent
from syncagent.testing.providers.gemini import speech
from syncagent.usage import Usage

USAGE = Usage(11, 7, 3, reasoning_tokens=2)
UNSAID = "FINISH_REASON_UNSPECIFIED"
ANSWERS = {
    "words": model(Text("Hello, wörld 🌍!")),
    "thinking": model(Thinking("Let me see."), Text("It is so.")),
    "signed": model(Thinking("I see", SIGNATURE), Text("Yes"), Text("", (), SIGNATURE)),
    "signed words": model(Text("Hello"), Text(" world", (), SIGNATURE), Text("!")),
    "calls": model(
        Text("I look."),
        CALL,
        ToolCall("c2", "see", '{"q":"é","n":[1.50]}'),
        stop_reason="tool_calls",
    ),
    "cut short": model(Text("Hel"), stop_reason="max_tokens"),
    "blocked": model(Refusal("I cannot."), stop_reason="refusal"),
    "stopped": model(Text("The"), stop_reason="refusal", raw_stop_reason="RECITATION"),
    "stopped with words": model(Text("T"), Refusal("No."), stop_reason="refusal"),
    "other": model(
        stop_reason="other", raw_stop_reason="NO_IMAGE", stop_detail="There is none."
    ),
    "code": model(
        ProviderBlock("gemini", {"executableCode": {"code": "1"}, "partMetadata": {}}),
        ProviderBlock("gemini", {"codeExecutionResult": {"output": "1"}}),
        Text("One."),
    ),
    "image": model(
        Image(b"px", "image/webp"),
        ProviderBlock("gemini", {"thoughtSignature": SIGNATURE}),
        Image(b"py"),
    ),
    "cited": model(
        Text("So.", (Citation("", "T", "u", {"web": {"uri": "u", "title": "T"}}),))
    ),
}
RAW = {"end_turn": "STOP", "tool_calls": "STOP", "max_tokens": "MAX_TOKENS"}


def event(said):
    data = said if isinstance(said, str) else json.dumps(said)
    return ServerSentEvent(data)


def chunk(*parts, **candidate):
    said = {"parts": list(parts), "role": "model"}
    return {"candidates": [{"content": said, **candidate}]}


def decode(*said):
    return list(GEMINI.decode(map(event, said)))


def message_of(*said):
    return decode(*said)[-1].message


def heard(frames, size):
    """Return the events of a stream that comes in pieces of *size* bytes."""
    decoder, body = EventDecoder(), "".join(frames).encode()
    stream = (event for piece in cut(body, size) for event in decoder.feed(piece))
    return list(GEMINI.decode(stream))


def as_heard(message):
    raw = message.raw_stop_reason or RAW.get(message.stop_reason, "SAFETY")
    return replace(message, raw_stop_reason=raw, provider="gemini", model="fake")


@pytest.mark.parametrize("size", [1, 7, 61, 1 << 20])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_comes_out_as_it_was_said(name, size):
    """Blocks, stop reason and usage, however the stream is cut."""
    message = ANSWERS[name]
    events = heard(speech.frames(message, USAGE), size)
    finished = events[-1]
    assert finished.message == as_heard(message)
    blocked = name == "blocked"
    assert finished.usage == (Usage(11, 0, 3) if blocked else USAGE)
    assert events[0] == MessageStarted("fake", "fake-response")
    deltas = (e.text for e in events if isinstance(e, TextDelta))
    assert "".join(deltas) == message.text
    thoughts = (e.text for e in events if isinstance(e, ThinkingDelta))
    assert "".join(thoughts) == message.thinking
    ready = (e.call for e in events if isinstance(e, ToolCallReady))
    assert tuple(ready) == message.tool_calls


@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_in_one_document(name, is_list):
    """It is the same without a stream, also as a list of answers."""
    said = speech.body(ANSWERS[name], USAGE)
    body = json.dumps([said] if is_list else said, indent=1)
    finished = list(GEMINI.decode_body(b"\n" + body.encode()))[-1]
    expected = as_heard(ANSWERS[name])
    assert (finished.message.text, finished.message.stop_reason) == (
        expected.text,
        expected.stop_reason,
    )
    assert len(finished.message.content) == len(expected.content)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_can_be_sent_back(name):
    """Whatever came is accepted, with the results of its calls."""
    message = heard(speech.frames(ANSWERS[name], USAGE), 61)[-1].message
    payload(HI, message)


def test_a_stream_is_cut_unless_its_end_has_come():
    """Every beginning of a stream is a broken stream, and is_end says so."""
    for message in ANSWERS.values():
        frames = list(speech.frames(message, USAGE))
        for length in range(len(frames)):
            with pytest.raises(StreamBroken):
                heard(frames[:length], 61)
        *before, last = EventDecoder().feed("".join(frames).encode())
        assert GEMINI.is_end(last)
        assert not any(map(GEMINI.is_end, before))


def test_arguments_that_look_like_an_end_are_none():
    """A call may have an argument of that name."""
    call = {"functionCall": {"name": "f", "args": {"finishReason": "STOP"}}}
    assert not GEMINI.is_end(event(chunk(call)))
    with pytest.raises(StreamBroken):
        decode(chunk(call))


def test_calls_without_ids_get_some():
    """Several in one chunk, with words between, arguments absent or no object."""
    calls = [{"name": "a"}, {"name": "b", "args": None}, {"name": "c", "args": [1]}]
    said = [{"functionCall": call} for call in calls]
    message = message_of(chunk(said[0], {"text": "x"}, *said[1:], finishReason="STOP"))
    words = [block.text for block in message.content if isinstance(block, Text)]
    found = [(call.name, call.arguments) for call in message.tool_calls]
    assert (words, found) == (["x"], [("a", "{}"), ("b", "{}"), ("c", "[1]")])
    assert len({call.call_id for call in message.tool_calls} - {""}) == 3
    assert message.stop_reason == "tool_calls"
    assert not any("id" in part.get("functionCall", {}) for part in parts(message))


@pytest.mark.parametrize(
    "last",
    [
        {"candidates": [{"finishReason": "STOP"}]},
        {"candidates": [{"content": {}, "finishReason": "STOP", "new": 1}]},
        {"candidates": [{"content": {"parts": None}, "finishReason": "STOP"}]},
        chunk({"text": ""}, {}, {"thought": True}, finishReason="STOP"),
        chunk({"text": "!!"}, index=1) | {"promptFeedback": {"safetyRatings": []}},
    ],
)
def test_a_chunk_may_have_nothing_to_say(last):
    """No content, no parts, empty parts, another candidate, unknown fields."""
    first = chunk({"text": "a"}, finishReason=UNSAID)
    end = {"candidates": [{"finishReason": "STOP"}]}
    assert not GEMINI.is_end(event(first))
    message = message_of(first, last, end, chunk(finishReason=UNSAID), "[DONE]")
    assert message.content == (Text("a"),)


def test_a_signature_without_words_is_kept():
    """The last chunk of a thinking model may have nothing else."""
    message = message_of(
        chunk({"text": "a"}),
        chunk({"thoughtSignature": SIGNATURE}, finishReason="STOP"),
    )
    assert message.content == (Text("a"), Text("", (), SIGNATURE))


@pytest.mark.parametrize("words", ["", "So."])
def test_a_blocked_prompt_is_a_refusal(words):
    """Without candidates, or in the middle of an answer, whatever follows."""
    blocked = {"promptFeedback": {"blockReason": "OTHER"}}
    said = [chunk({"text": words})] if words else []
    assert GEMINI.is_end(event(blocked))
    message = message_of(*said, blocked, chunk(finishReason="STOP"))
    assert (message.stop_reason, message.raw_stop_reason) == ("refusal", "OTHER")
    assert (message.text, message.refusal) == (words, "The prompt was blocked: OTHER")


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        *[("STOP", "end_turn"), ("MAX_TOKENS", "max_tokens"), ("SAFETY", "refusal")],
        *[("RECITATION", "refusal"), ("BLOCKLIST", "refusal"), ("SPII", "refusal")],
        *[("PROHIBITED_CONTENT", "refusal"), ("LANGUAGE", "refusal")],
        *[("MODEL_ARMOR", "refusal"), ("ESCALATION", "refusal")],
        *[("IMAGE_SAFETY", "refusal"), ("PUP_LIMITED_DISABLED", "refusal")],
        *[("IMAGE_OTHER", "other"), ("NO_IMAGE", "other"), ("OTHER", "other")],
        *[("MISSING_THOUGHT_SIGNATURE", "other"), ("TOO_MANY_TOOL_CALLS", "other")],
        *[("CONTINUATION", "max_tokens"), ("SOMETHING_NEW", "other")],
    ],
)
def test_every_end_has_our_word(finish, expected):
    """The provider's own is kept; its explanation is a refusal if it refuses."""
    message = message_of(chunk(finishReason=finish, finishMessage="Why."))
    assert (message.stop_reason, message.raw_stop_reason) == (expected, finish)
    assert message.refusal == ("Why." if expected == "refusal" else "")
    assert message.stop_detail == ("Why." if expected == "other" else "")


def test_usage_grows_with_the_stream():
    """Input has what tools have read, output has the thoughts; repeats are no news."""
    tokens = {"promptTokenCount": 5, "toolUsePromptTokenCount": 2}
    more = {**tokens, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}
    end = chunk({"text": "a"}, finishReason="STOP")
    said = [{**end, "usageMetadata": usage} for usage in (tokens, tokens, more)]
    found = [e.usage for e in decode(*said) if isinstance(e, UsageUpdated)]
    assert found == [Usage(7), Usage(7, 7, reasoning_tokens=4)]


@pytest.mark.parametrize(
    ("code", "status", "message", "expected"),
    [
        (503, "UNAVAILABLE", "The model is overloaded.", ProviderUnavailable),
        (500, "INTERNAL", "Internal error.", ProviderUnavailable),
        (429, "RESOURCE_EXHAUSTED", "Quota.", RateLimited),
        (400, "INVALID_ARGUMENT", "No.", RequestRejected),
        (
            *(400, "INVALID_ARGUMENT"),
            "The input token count (9) exceeds the maximum number of tokens allowed",
            ContextTooLong,
        ),
    ],
)
@pytest.mark.parametrize("is_list", [False, True])
def test_an_error_in_an_answer(code, status, message, expected, is_list):
    """It is raised as what it means, from a stream and from a document."""
    said = {"error": {"code": code, "message": message, "status": status}}
    body = [said] if is_list else said
    with pytest.raises(expected):
        decode(chunk({"text": "a"}), body)
    with pytest.raises(expected):
        list(GEMINI.decode_body(json.dumps(body).encode()))


def test_an_overload_in_the_speech():
    """It is an error that may pass."""
    with pytest.raises(ProviderUnavailable) as caught:
        heard(speech.error_frames("overloaded"), 61)
    assert caught.value.retryable


def test_a_wrong_key_is_no_bad_request():
    """The provider says 400 and means 401."""
    body = '{"error": {"code": 400, "details": [{"reason": "API_KEY_INVALID"}]}}'
    told = GEMINI.explain(RequestRejected("no", status=400, body=body))
    assert type(told) is AuthenticationFailed
    other = RequestRejected("no", status=400, body="{}")
    assert GEMINI.explain(other) is other


NONSENSE = [
    *("", "null", "1", '"x"', "{", "[", "[1]", "[[]]", "[" * 100_000, "\ud800"),
    *('{"candidates": 1}', '{"candidates": [{"content": {"parts": [{"text": 1}]}}]}'),
    *('{"candidates": [null]}', '{"usageMetadata": []}', '{"promptFeedback": 3}'),
    '{"candidates": [{"content": {"parts": [{"functionCall": 1}]}}]}',
]


@pytest.mark.parametrize("data", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_is_a_typed_error(data):
    """Whatever comes, nothing else is raised, by is_end nothing at all."""
    with pytest.raises(ProtocolError):
        decode(data)
    assert not GEMINI.is_end(event(data + 'finishReason"'))
    with pytest.raises(SyncAgentError):
        list(GEMINI.decode_body(data.encode("utf-8", "surrogatepass")))


@pytest.mark.parametrize(
    "part",
    [
        {"inlineData": {"mimeType": "image/png", "data": "cHg=%"}},
        {"inlineData": {"mimeType": "image/png", "data": ""}},
        {"inlineData": {"mimeType": "image/png"}},
        {"inlineData": {"mimeType": "image/png", "data": 1}},
        {"inlineData": {"mimeType": "audio/wav", "data": "cHg="}},
        {"inlineData": {"mimeType": "image/png", "data": "cHg="}, "thought": True},
        {"inlineData": 1},
        {"somethingNew": {"a": [None, {}]}, "thoughtSignature": SIGNATURE},
    ],
)
def test_a_part_that_nobody_knows_is_kept_verbatim(part):
    """It goes back as it came."""
    message = message_of(chunk(part, finishReason="STOP"))
    assert message.content == (ProviderBlock("gemini", part),)


@pytest.mark.parametrize(
    ("metadata", "urls"),
    [
        *[(1, []), ([], []), ({"groundingChunks": 1}, [])],
        ({"groundingChunks": [1, {"web": 1}, {"web": {}}]}, []),
        ({"groundingChunks": [{"web": {"uri": "u"}}, {"maps": {"uri": "v"}}]}, "uv"),
    ],
)
def test_sources_are_cited_by_the_last_words(metadata, urls):
    """As far as they make sense."""
    last = chunk(signed(""), finishReason="STOP", groundingMetadata=metadata)
    words, signature = message_of(chunk({"text": "a"}), last).content
    assert [cited.url for cited in words.citations] == list(urls)
    assert signature == Text("", (), SIGNATURE)


def test_many_parts_of_an_unknown_kind():
    """Each is kept, in a time that grows with their number and not faster."""
    odd = [{"odd": number} for number in range(20_000)]
    began = time.perf_counter()
    message = message_of(chunk(*odd, finishReason="STOP"))
    assert time.perf_counter() - began < 10
    assert message.content == tuple(ProviderBlock("gemini", part) for part in odd)
