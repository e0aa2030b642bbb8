"""What holds for every model, whatever its wire dialect, over a real socket."""

import ssl
import threading

import pytest
import trustme
from support.model_classes import CLASSES
from support.threads import together

from syncagent import Cancelled, CancelToken, exceptions
from syncagent.events import MessageFinished, TextDelta, ToolCallReady
from syncagent.messages import (
    Image,
    Json,
    Text,
    Thinking,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.models import Anthropic
from syncagent.options import Options, OutputFormat, ToolSpec
from syncagent.testing import (
    Broken,
    Comment,
    Drop,
    FakeServer,
    Send,
    Split,
    Stall,
    Status,
    call,
    say,
)
from syncagent.transcript import Transcript
from syncagent.transport import Retries, Transport
from syncagent.usage import Usage

KEY = "key-that-nobody-may-see"
PICTURE = Image(b"\x89PNG\r\n\x1a\n0123", "image/png")
WEATHER = ToolSpec(
    "weather",
    "Tell the weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}},
)
HELLO = [UserMessage.of("hello")]


def make(kind, server, name="fake", **settings):
    settings = {"retries": 0, **settings}
    return kind(name, base_url=server.base_url, api_key=KEY, **settings)


def answers(kind, *script, messages=HELLO, **how):
    """Return what a model makes of a script, one finished message for each."""
    with FakeServer(script) as server:
        model = make(kind, server)
        found = [model.respond(messages, **how) for _ in script]
        return found, server.requests


@pytest.mark.parametrize("stream", [True, False])
def test_words_thinking_and_usage(kind, stream):
    """Whole or bit by bit, the same message comes out."""
    reply = say(Thinking("let me see"), "Hello, wörld! 🙂", usage=Usage(12, 34))
    with FakeServer([reply]) as server:
        events = list(make(kind, server, stream=stream).ask(HELLO))
    finished = events[-1]
    assert isinstance(finished, MessageFinished)
    assert finished.message.text == "Hello, wörld! 🙂"
    assert finished.message.thinking == "let me see"
    assert finished.message.stop_reason == "end_turn"
    assert (finished.usage.input_tokens, finished.usage.output_tokens) == (12, 34)
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(deltas) == finished.message.text
    assert (len(deltas) > 1) is stream


@pytest.mark.parametrize("stream", [True, False])
def test_tool_calls(kind, stream):
    """Several at once, with and without arguments."""
    calls = [call("weather", {"city": "Oslo"}, "c1"), call("weather", "{}", "c2")]
    with FakeServer([say("One moment.", *calls)]) as server:
        events = list(make(kind, server, stream=stream).ask(HELLO, [WEATHER]))
    ready = [event.call for event in events if isinstance(event, ToolCallReady)]
    assert [(each.name, each.parse()) for each in ready] == [
        ("weather", {"city": "Oslo"}),
        ("weather", {}),
    ]
    assert tuple(ready) == events[-1].message.tool_calls
    assert events[-1].message.stop_reason == "tool_calls"


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_events_that_come_in_pieces(kind, size):
    """With comments in between, as keep-alives are."""
    acts = [Split(size), Comment(times=3), Split(size), Comment(), Send()]
    [finished], _ = answers(kind, say("Hello there", acts=acts))
    assert finished.message.text == "Hello there"


OPTIONS = [
    {"system": "Be brief."},
    {"temperature": 0.5, "max_tokens": 100},
    {"top_p": 0.9},
    {"tool_choice": "required"},
    {"tool_choice": "none"},
    {"tool_choice": "weather"},
    {"output": OutputFormat({"type": "object", "properties": {}})},
    {"effort": "low"},
    {"seed": 7, "metadata": {"user_id": "u1"}},
    {"cache": True, "system": "Be brief."},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options))
def test_options_are_said_in_the_providers_own_words(kind, options):
    """A strict server takes them."""
    # The current models of Anthropic have no temperature.
    is_old = kind is Anthropic and options.keys() & {"temperature", "top_p"}
    with FakeServer(["ok"]) as server:
        model = make(kind, server, name="claude-sonnet-4-5" if is_old else "fake")
        *_, finished = model.ask(HELLO, [WEATHER], options=Options(**options))
    assert finished.message.text == "ok"


def test_pictures(kind):
    """In a prompt and in the result of a tool."""
    transcript = Transcript([UserMessage.of(["What is this?", PICTURE])])
    with FakeServer([say(call("look", "{}", "c1")), "A picture."]) as server:
        model = make(kind, server)
        transcript.append(model.respond(transcript).message)
        [asked] = transcript[-1].tool_calls
        result = ToolResult(asked.call_id, (Json({"seen": 1}), PICTURE), name="look")
        transcript.append(ToolMessage((result,)))
        assert model.respond(transcript).message.text == "A picture."


def test_a_conversation_goes_on_with_any_other(kind):
    """Begun with one provider, it is valid for every other, at every step."""
    transcript = Transcript([UserMessage.of("hello")])
    script = [say(Thinking("hm", "sig"), "Let me look.", call("weather", "{}", "0"))]
    for other in CLASSES:
        with FakeServer([*script, "It rains."]) as server:
            model = make(kind, server)
            transcript.append(model.respond(transcript, tools=[WEATHER]).message)
        calls = transcript[-1].tool_calls
        results = (ToolResult(each.call_id, (Text("rain"),)) for each in calls)
        transcript.append(ToolMessage(tuple(results)))
        with FakeServer(["It rains."]) as server:
            model = make(other, server)
            transcript.append(model.respond(transcript, tools=[WEATHER]).message)
        transcript.append(UserMessage.of("and now?"))
    assert len(transcript) == 1 + 4 * len(CLASSES)


def test_a_cancel_ends_it_at_once(kind):
    """What was delivered stays, the server sees us go, and the next call works."""
    token, seen = CancelToken(), []
    script = [say("Hello there, world", acts=[Send(4), Stall()]), "again"]
    with FakeServer(script) as server:
        model, has_begun = make(kind, server), threading.Event()

        def ask():
            with pytest.raises(Cancelled):
                for event in model.ask(HELLO, token=token):
                    seen.append(event)
                    has_begun.set()

        together(ask, lambda: (has_begun.wait(20), token.cancel()))
        server.wait_for_hang_up()
        assert model.respond(HELLO).message.text == "again"
    assert seen


@pytest.mark.parametrize("acts", [[Send(2), Drop()], [Send(3)], [Drop()]])
def test_a_stream_that_is_cut_is_no_answer(kind, acts):
    """Wherever it is cut."""
    with pytest.raises(exceptions.StreamBroken):
        answers(kind, say("Hello there, world", acts=acts))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, exceptions.AuthenticationFailed),
        (403, exceptions.AuthenticationFailed),
        (429, exceptions.RateLimited),
        (400, exceptions.RequestRejected),
        (404, exceptions.RequestRejected),
        (500, exceptions.ProviderUnavailable),
        (529, exceptions.ProviderUnavailable),
    ],
)
def test_errors(kind, status, expected):
    """By their status, with what the provider says, and without the key."""
    with pytest.raises(expected, match="went wrong") as error:
        answers(kind, say("x", acts=[Status(status, f"went wrong with {KEY}")]))
    assert error.value.status == status
    assert KEY not in str(error.value) + error.value.body
    if status == 401:
        assert "API_KEY" in str(error.value)


def test_a_conversation_that_is_too_long(kind):
    """It has an error of its own, with advice."""
    said = "prompt is too long: your input exceeds the context window"
    with pytest.raises(exceptions.ContextTooLong, match="shorten the conversation"):
        answers(kind, say("x", acts=[Status(400, said)]))


def test_a_retry_is_the_transports(kind):
    """Too many requests is asked again, after as long as the server wants."""
    busy = Status(429, "slow down", {"retry-after-ms": "1"})
    with FakeServer([say("x", acts=[busy]), "ok"]) as server:
        model = make(kind, server, retries=1)
        assert model.respond(HELLO).message.text == "ok"
        assert len(server.requests) == 2


def test_with_tls(kind, tmp_path):
    """As in the wild."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    with FakeServer(["secure"], context) as server:
        model = make(kind, server, transport=Transport(verify=str(path), retries=0))
        assert model.respond(HELLO).message.text == "secure"


def test_the_key_is_where_it_belongs(kind):
    """In one header, and in nothing that anybody sees."""
    with FakeServer(["ok"]) as server:
        model = make(kind, server)
        model.respond(HELLO)
        [request] = server.requests
    assert sum(KEY in value for value in request.headers.values()) == 1
    assert KEY not in request.path
    assert KEY not in repr(model) + repr(vars(model))


def test_an_error_from_the_first_word_on_is_tried_again(kind):
    """Providers say with status 200, too, that they have too much to do."""
    busy = say("x", acts=[Broken("overloaded")])
    with FakeServer([busy, busy, "ok"]) as server:
        model = make(kind, server, retries=Retries(limit=2, first_delay=0.001))
        assert model.respond(HELLO).message.text == "ok"
        server.add(busy)
        with pytest.raises(exceptions.ProviderError, match="overloaded"):
            make(kind, server).respond(HELLO)


def test_an_error_in_the_middle_is_not(kind):
    """What was delivered cannot be taken back."""
    seen, acts = [], [Send(4), Broken("overloaded")]
    with FakeServer([say("Hello there, world", acts=acts), "again"]) as server:
        model = make(kind, server, retries=Retries(limit=2, first_delay=0.001))
        with pytest.raises(exceptions.ProviderError, match="overloaded"):
            seen.extend(model.ask(HELLO))
            seen += list(model.ask(HELLO))
        assert len(server.requests) == 1


def test_a_stream_that_is_left_alone_is_closed(kind):
    """Whoever stops before the end closes it, and the server sees that."""
    with FakeServer([say("Hello there", acts=[Send(3), Stall()]), "ok"]) as server:
        model = make(kind, server)
        events = model.ask(HELLO)
        next(events)
        events.close()
        server.wait_for_hang_up()
        assert model.respond(HELLO).message.text == "ok"


def test_many_threads_ask_one_model(kind):
    """Each gets its own answer."""
    script = [f"answer {number}" for number in range(20)]
    found = []
    with FakeServer(script) as server:
        model = make(kind, server)
        together(*[lambda: found.append(model.respond(HELLO).message.text)] * 20)
    assert sorted(found) == sorted(script)
