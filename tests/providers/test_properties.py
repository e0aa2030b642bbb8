"""What holds for every dialect, whatever goes in."""

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple
from support.messages import MESSAGES, WORDS

from syncagent.events import MessageFinished
from syncagent.exceptions import ProviderError, StreamBroken
from syncagent.messages import (
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.options import Options, ToolSpec
from syncagent.providers.anthropic.request import AnthropicDialect
from syncagent.providers.gemini.request import GeminiDialect
from syncagent.providers.openai_chat.request import OpenAIChatDialect
from syncagent.providers.openai_responses.request import OpenAIResponsesDialect
from syncagent.sse import EventDecoder, ServerSentEvent
from syncagent.testing.providers.anthropic import rules as anthropic
from syncagent.testing.providers.anthropic import speech as say_anthropic
from syncagent.testing.providers.gemini import rules as gemini
from syncagent.testing.providers.gemini import speech as say_gemini
from syncagent.testing.providers.openai_chat import rules as openai_chat
from syncagent.testing.providers.openai_chat import speech as say_openai_chat
from syncagent.testing.providers.openai_responses import rules as openai_responses
from syncagent.testing.providers.openai_responses import speech as say_openai_responses
from syncagent.usage import Usage

CASES = [
    pytest.param(OpenAIChatDialect(), openai_chat, say_openai_chat, id="openai-chat"),
    pytest.param(
        OpenAIResponsesDialect(),
        openai_responses,
        say_openai_responses,
        id="openai-responses",
    ),
    pytest.param(AnthropicDialect(), anthropic, say_anthropic, id="anthropic"),
    pytest.param(GeminiDialect(), gemini, say_gemini, id="gemini"),
]
every = pytest.mark.parametrize(("dialect", "rules", "speech"), CASES)
patient = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=150
)

TOOLS = [ToolSpec("weather", "Tell it."), ToolSpec("look")]


@every
@patient
@given(messages=st.lists(MESSAGES, max_size=8), system=WORDS)
@pytest.mark.slow
def test_any_transcript_makes_a_payload_that_is_accepted(
    dialect, rules, speech, messages, system
):
    """Promise 4: whatever was left behind, it can be sent to any provider."""
    payload = json.loads(
        dialect.build_payload("m", messages, TOOLS, Options(system=system))
    )
    assert rules.complaint(payload) is None


def outcome(dialect, stream):
    """Return what comes of a stream: the last event, or the kind of its error."""
    try:
        *_, last = dialect.decode(stream)
    except (ProviderError, StreamBroken) as error:
        return type(error)
    assert isinstance(last, MessageFinished)
    return last.message


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner)
    ),
    max_leaves=5,
)


@every
@patient
@given(
    data=st.lists(st.one_of(st.text(max_size=20), VALUES.map(json.dumps)), max_size=3)
)
def test_any_stream_ends_in_events_or_an_error(dialect, rules, speech, data):
    """Never another exception."""
    outcome(dialect, [ServerSentEvent(each) for each in data])


@every
@patient
@given(body=st.one_of(st.binary(max_size=30), VALUES.map(json.dumps).map(str.encode)))
def test_any_body_ends_in_events_or_an_error(dialect, rules, speech, body):
    """The same for an answer that is no stream."""
    try:
        list(dialect.decode_body(body))
    except ProviderError:
        pass
    except StreamBroken:
        pass


MESSAGE = AssistantMessage(
    (
        Thinking("hm"),
        Text("Hello there"),
        ToolCall("c1", "weather", '{"city": "Oslo"}'),
    ),
    "tool_calls",
)


def mutate(value, path, put):
    """Return *value* with what is at *path* replaced."""
    if not path:
        return put
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = mutate(value[key], rest, put)
    return copy


def paths(value, before=()):
    """Yield where everything is in a document."""
    yield before
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from paths(inner, (*before, key))


@every
@pytest.mark.parametrize("put", [None, 7, "x", [], {}, True], ids=repr)
def test_one_thing_that_is_not_as_it_should_be(dialect, rules, speech, put):
    """Every field of every event, one after the other, is of another type."""
    decoder = EventDecoder()
    body = "".join(speech.frames(MESSAGE, Usage(1, 2))).encode()
    events = list(decoder.feed(body))
    for number, event in enumerate(events):
        if event.data == "[DONE]":
            continue
        said = json.loads(event.data)
        for path in paths(said):
            changed = json.dumps(mutate(said, path, put))
            stream = list(events)
            stream[number] = ServerSentEvent(changed, event.event)
            outcome(dialect, stream)


#: Values that a provider might put anywhere, and fields that only some parts have.
ODD_VALUES = [
    *(None, 7, -3, 1.5, True, "", "x", "é", [], {}, ["x"], {"a": 1}, 10**30, -(10**30)),
    {"mimeType": "image/png", "data": "!!"},
    {"mimeType": "image/png", "data": "aGk="},
    {"name": "f", "response": {}},
    {"code": "1", "language": "PYTHON"},
    {"fileUri": "x"},
]
ODD_FIELDS = [
    *("thoughtSignature", "inlineData", "fileData", "executableCode", "thought"),
    *("codeExecutionResult", "functionResponse", "functionCall", "unknown", "text"),
    *("signature", "type", "id", "encrypted_content", "data", "name", "summary"),
]
SIGNED = AssistantMessage(
    (
        Thinking("hm", "c2ln"),
        Text("Hello", signature="c2ln"),
        ToolCall("c1", "weather", "{}", "c2ln"),
    ),
    "tool_calls",
)


def disturb(document, dice):
    """Put up to three odd values somewhere into a document."""
    for _ in range(dice.randint(1, 3)):
        *before, last = dice.choice(list(paths(document))[1:])
        place = document
        for key in before:
            place = place[key]
        odd = json.loads(json.dumps(dice.choice(ODD_VALUES)))
        if isinstance(place[last], dict) and dice.random() < 0.6:
            place[last][dice.choice(ODD_FIELDS)] = odd
        else:
            place[last] = odd


def disturbed(dialect, speech, dice):
    """Return the end of a response with odd values in one of its events, or None."""
    body = "".join(speech.frames(dice.choice([MESSAGE, SIGNED]), Usage(1, 2)))
    events = list(EventDecoder().feed(body.encode()))
    number = dice.randrange(len(events))
    if events[number].data == "[DONE]":
        return None
    said = json.loads(events[number].data)
    disturb(said, dice)
    events[number] = ServerSentEvent(json.dumps(said), events[number].event)
    try:
        *_, last = dialect.decode(events)
    except (ProviderError, StreamBroken):
        return None
    return last


@every
@pytest.mark.parametrize("seed", range(4))
def test_no_response_makes_a_conversation_that_is_rejected(
    dialect, rules, speech, seed
):
    """L11: whatever came is sent back only as the provider takes it."""
    dice, count = random.Random(seed), 0
    for _ in range(250):
        finished = disturbed(dialect, speech, dice)
        if finished is None:
            continue
        calls = finished.message.tool_calls
        results = tuple(ToolResult(each.call_id, (Text("ok"),)) for each in calls)
        messages = [UserMessage.of("hi"), finished.message]
        messages += [ToolMessage(results)] if results else [UserMessage.of("go on")]
        payload = json.loads(dialect.build_payload("m", messages, TOOLS))
        assert rules.complaint(payload) is None, finished.message
        assert all(value >= 0 for value in astuple(finished.usage))
        count += 1
    assert count > 50


COUNTS = [-1, -(10**30), 10**30, 1 << 60, True, "7", 1.5, None]


@every
@pytest.mark.parametrize("count", COUNTS)
def test_counts_that_cannot_be_are_not_believed(dialect, rules, speech, count):
    """L11: a negative number of tokens would lower what a limit has counted."""
    body = "".join(speech.frames(MESSAGE, Usage(123456, 234567))).encode()
    events = [
        ServerSentEvent(
            event.data.replace("123456", json.dumps(count)).replace(
                "234567", json.dumps(count)
            ),
            event.event,
        )
        for event in EventDecoder().feed(body)
    ]
    assert json.dumps(count) in "".join(event.data for event in events)
    finished = [each.usage for each in dialect.decode(events) if hasattr(each, "usage")]
    for usage in finished:
        assert usage.input_tokens == 0
        assert usage.output_tokens in (0, 1)  # one in the first event of Anthropic's


@every
def test_a_stream_that_ends_too_early_is_never_an_answer(dialect, rules, speech):
    """Cut after any event before the one that says: this was all."""
    decoder = EventDecoder()
    body = "".join(speech.frames(MESSAGE, Usage(1, 2))).encode()
    events = list(decoder.feed(body))
    assert outcome(dialect, events).text == "Hello there"
    last = next(n for n, event in enumerate(events) if dialect.is_end(event))
    for number in range(last):
        assert outcome(dialect, events[:number]) is StreamBroken


@every
def test_an_error_in_a_stream_is_never_an_answer(dialect, rules, speech):
    """Wherever it comes."""
    begun = list(EventDecoder().feed("".join(speech.frames(MESSAGE, Usage())).encode()))
    error = list(EventDecoder().feed("".join(speech.error_frames("busy")).encode()))
    last = next(n for n, event in enumerate(begun) if dialect.is_end(event))
    for number in range(last):
        found = outcome(dialect, [*begun[:number], *error])
        assert isinstance(found, type)
        assert issubclass(found, ProviderError)
