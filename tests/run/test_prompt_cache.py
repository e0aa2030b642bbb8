"""Agents use the prompt caches of providers where it pays."""

import json

import pytest

from syncagent import Agent, Fallback, tool
from syncagent.exceptions import ConfigurationError
from syncagent.messages import AssistantMessage, Text, UserMessage
from syncagent.models import Anthropic
from syncagent.options import Options
from syncagent.providers.anthropic.request import AnthropicDialect
from syncagent.providers.openai_chat.request import OpenAIChatDialect
from syncagent.providers.openai_responses.request import OpenAIResponsesDialect
from syncagent.testing import FakeServer, call, say
from syncagent.transcript.transcript import Transcript
from syncagent.usage import Usage

MARK = {"type": "ephemeral"}
HELLO = UserMessage.of("hello")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def marks(value):
    """Return all marks for a cache in a payload."""
    if isinstance(value, list):
        return [mark for item in value for mark in marks(item)]
    if not isinstance(value, dict):
        return []
    own = [value["cache_control"]] if "cache_control" in value else []
    return own + [mark for item in value.values() for mark in marks(item)]


def sent_by(agent, server, *prompts):
    """Run *prompts*, and return the payloads that the server got."""
    for prompt in prompts:
        agent.run(prompt)
    return [json.loads(request.body) for request in server.requests]


def claude(server, **options):
    address = server.url_of("anthropic")
    return Anthropic("claude-sonnet-5-5", base_url=address, api_key="k", **options)


def test_a_tool_loop_is_marked_by_default():
    """Every turn marks its tools, its system prompt and its last message."""
    script = [say(call("add", {"a": 1, "b": 2})), "3"]
    with FakeServer(script) as server:
        agent = Agent(claude(server), tools=[add], system="Count.")
        first, second = sent_by(agent, server, "1 + 2?")
    assert marks(first) == marks(second) == [MARK] * 3
    assert marks(second["messages"][-1]) == [MARK]


def test_a_single_question_is_not_marked():
    """Writing to a cache costs more, and nobody would read it."""
    with FakeServer(["Hi.", "Fine."]) as server:
        first, second = sent_by(Agent(claude(server)), server, "Hello", "How are you?")
    assert marks(first) == []
    assert marks(second) == [MARK]


@pytest.mark.parametrize(
    ("cache", "mark"), [(True, MARK), ("5m", MARK), ("1h", {**MARK, "ttl": "1h"})]
)
def test_the_caller_chooses_how_long(cache, mark):
    """An hour has to be asked for: writing costs twice as much."""
    with FakeServer(["Hi."]) as server:
        (sent,) = sent_by(Agent(claude(server, cache=cache)), server, "Hello")
    assert marks(sent) == [mark]


def test_the_caller_can_turn_it_off():
    """cache=False marks nothing, tools or not."""
    with FakeServer([say(call("add", {"a": 1, "b": 2})), "3"]) as server:
        agent = Agent(claude(server, cache=False), tools=[add])
        payloads = sent_by(agent, server, "1 + 2?")
    assert [marks(payload) for payload in payloads] == [[], []]


def test_a_run_has_options_of_its_own():
    """The options of a run count with tools, too."""
    with FakeServer(["3", "4"]) as server:
        agent = Agent(claude(server), tools=[add])
        agent.run("1 + 2?", options={"max_tokens": 7, "cache": False})
        agent.run("1 + 3?", options={"max_tokens": 8})
        first, second = (json.loads(request.body) for request in server.requests)
    assert (first["max_tokens"], second["max_tokens"]) == (7, 8)
    assert (len(marks(first)), len(marks(second))) == (0, 2)


@pytest.mark.parametrize("cache", ["2h", "", "5"])
def test_other_times_are_refused(cache):
    """The message names what is possible."""
    with pytest.raises(ConfigurationError, match='True, False, "5m" or "1h"'):
        Options(cache=cache)


def test_a_turn_begins_with_the_bytes_of_the_turn_before():
    """Only then does a provider find it in its cache; also after a cut response."""
    transcript, options = Transcript([HELLO]), Options(cache=True)
    cut = AssistantMessage((Text("Hi"),), "other", is_cut=True)
    before = None
    for message in (AssistantMessage((Text("Hi."),)), HELLO, cut, HELLO):
        transcript.append(message)
        if message is not HELLO:
            continue
        payload = AnthropicDialect().build_payload("claude-x", transcript, (), options)
        text = payload.replace(b',"cache_control":{"type":"ephemeral"}', b"")
        # Without the brackets that end the content, the message and the list.
        assert before is None or text.startswith(before.removesuffix(b"]}]}"))
        before = text


@pytest.mark.parametrize("dialect", [OpenAIResponsesDialect, OpenAIChatDialect])
class TestKeys:
    """OpenAI finds the cache of a conversation by a key."""

    def key(self, dialect, transcript, issuer="openai", **options):
        made = dialect(issuer)
        payload = made.build_payload("gpt-6-luna", transcript, (), Options(**options))
        return json.loads(payload).get("prompt_cache_key")

    def test_all_turns_of_a_conversation_share_a_key(self, dialect):
        """Another conversation, or another system prompt, has another key."""
        longer = [HELLO, AssistantMessage((Text("Hi."),)), UserMessage.of("more")]
        key = self.key(dialect, [HELLO], cache=True)
        assert key
        assert self.key(dialect, longer, cache=True) == key
        assert self.key(dialect, [UserMessage.of("Hi")], cache=True) != key
        assert self.key(dialect, [HELLO], cache=True, system="Be brief.") != key

    def test_the_callers_key_goes_everywhere(self, dialect):
        """The caller knows what its server takes."""
        assert self.key(dialect, [HELLO], "vllm", cache_key="mine") == "mine"

    @pytest.mark.parametrize("cache", [None, False])
    def test_no_key_without_a_cache(self, dialect, cache):
        """A request of its own needs none."""
        assert self.key(dialect, [HELLO], cache=cache) is None

    @pytest.mark.parametrize("issuer", ["groq", "openai@12345678", "xai"])
    def test_compatible_servers_get_none_by_default(self, dialect, issuer):
        """They may reject a field that they do not know."""
        assert self.key(dialect, [HELLO], issuer, cache=True) is None


def test_the_hit_rate():
    """The share of the input that came from a cache."""
    assert Usage().cache_hit_rate == 0.0
    assert Usage(1_000, 10, cached_tokens=900).cache_hit_rate == 0.9


@pytest.mark.parametrize("cache", ["1h", False])
def test_a_model_in_a_fallback_keeps_its_cache(cache):
    """What an agent does by default gives way to what the model was told."""
    with FakeServer([say(call("add", {"a": 1, "b": 2})), "3"]) as server:
        models = Fallback(claude(server, cache=cache), claude(server))
        sent = sent_by(Agent(models, tools=[add]), server, "1 + 2?")[1]
    assert marks(sent) == ([{**MARK, "ttl": "1h"}] * 2 if cache else [])
