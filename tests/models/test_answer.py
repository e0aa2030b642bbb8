"""What is passed on of an answer: all of it, and what it has cost."""

import pickle
import threading

import pytest
from support.threads import together

from syncagent import Cancelled, CancelToken
from syncagent.events import TextDelta
from syncagent.exceptions import ConfigurationError, StreamBroken
from syncagent.messages import UserMessage
from syncagent.models import Anthropic, OpenAIChat, find_model
from syncagent.options import Options
from syncagent.testing import Drop, FakeServer, Send, Stall, say
from syncagent.usage import Usage

HELLO = [UserMessage.of("hello")]
NOTHING = Usage(0, 0)


def ask(*script, kind=Anthropic, name="fake", **settings):
    with FakeServer(script) as server:
        model = kind(name, base_url=server.base_url, api_key="k", retries=0)
        return list(model.ask(HELLO, options=Options(**settings)))


def test_a_prefill_is_a_part_of_the_answer():
    """No provider repeats it, and the conversation needs it."""
    events = ask(" two three", name="claude-sonnet-4-5", prefill="one")
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert events[-1].message.text == "".join(deltas) == "one two three"


def test_usage_that_nobody_tells_is_a_guess():
    """And is marked as one."""
    guess = ask(say("x" * 40, usage=NOTHING), kind=OpenAIChat)[-1].usage
    assert guess.estimated
    assert guess.output_tokens == 10
    assert guess.input_tokens > 10
    assert not ask("x")[-1].usage.estimated


def test_a_stream_that_is_cut_says_what_it_has_cost():
    """As far as it came."""
    with pytest.raises(StreamBroken) as error:
        ask(say("x" * 400, acts=[Send(20), Drop()]), kind=OpenAIChat)
    assert error.value.usage.estimated
    assert 0 < error.value.usage.output_tokens < 100


def test_a_cancelled_one_does_too():
    """With what the provider has said of it, where it has."""
    token, begun, stops = CancelToken(), threading.Event(), []
    script = [say("Hello there", acts=[Send(5), Stall()], usage=Usage(77, 9))]
    with FakeServer(script) as server:
        model = Anthropic("fake", base_url=server.base_url, api_key="k")

        def read():
            with pytest.raises(Cancelled) as stop:
                for _ in model.ask(HELLO, token=token):
                    begun.set()
            stops.append(stop.value)

        together(read, lambda: (begun.wait(20), token.cancel()))
    assert stops[0].usage.input_tokens == 77
    assert stops[0].usage.estimated


@pytest.mark.parametrize("said", ["hello", HELLO])
def test_a_string_is_what_the_user_says(said):
    """It is the first thing that anybody tries."""
    with FakeServer(["ok"]) as server:
        model = Anthropic("fake", base_url=server.base_url, api_key="k")
        assert model.respond(said).message.text == "ok"
        [request] = server.requests
    assert "hello" in str(request.payload["messages"])


@pytest.mark.parametrize("wrong", [[{"role": "user", "content": "hi"}], ["hi"], [None]])
def test_what_is_no_message_is_refused(wrong):
    """And never left out in silence."""
    model = Anthropic("fake", base_url="http://127.0.0.1:1", api_key="k")
    with pytest.raises(ConfigurationError, match="is not a message"):
        model.ask(wrong)


def test_a_conversation_cannot_be_given_twice():
    """extra= is for everything else."""
    model = OpenAIChat("x", api_key="k", extra={"messages": []})
    with pytest.raises(ConfigurationError, match="extra="):
        model.ask(HELLO)


def test_a_tool_that_must_be_called_must_be_there():
    """It is said before anything is sent."""
    model = OpenAIChat("x", api_key="k", tool_choice="required")
    with pytest.raises(ConfigurationError, match="no tools"):
        model.ask(HELLO)


def test_a_key_does_not_travel():
    """Not in a pickle, and not with space around it."""
    model = OpenAIChat("x", api_key=" k\n")
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(model)
    assert model._auth._key == "k"


def test_an_answer_to_the_right_address(monkeypatch):
    """Some say the version of the API in it, and some do not."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    url = find_model("anthropic:x", api_key="k")._url()
    assert url == "https://api.anthropic.com/v1/messages"
    model = find_model("gemini:models/a b", api_key="k")
    assert "/models/a%20b:stream" in model._url()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpt-6-luna", "openai:gpt-6-luna"),
        ("claude-sonnet-5-5", "anthropic:claude"),
        ("google:gemini-3.8-flash", "gemini"),
        ("local:x", "name is local"),
        ("openai: ", "a model needs a name"),
    ],
)
def test_hints(name, hint):
    """What somebody may have meant."""
    with pytest.raises(ConfigurationError, match=hint):
        find_model(name, api_key="k")
