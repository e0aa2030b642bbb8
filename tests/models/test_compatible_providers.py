"""Agents on compatible providers, over real sockets, with the rules of each."""

import pytest

from syncagent import Agent, tool
from syncagent.exceptions import RequestRejected
from syncagent.messages import Thinking, UserMessage
from syncagent.models import find_model
from syncagent.models.endpoints import ENDPOINTS
from syncagent.options import Options
from syncagent.testing import FakeServer, call, cancel_everywhere, say
from syncagent.transport import close_idle

NAMES = ["deepseek", "groq", "mistral", "moonshot", "openrouter"]
each = pytest.mark.parametrize("endpoint", NAMES)


def model_at(server, endpoint, **settings):
    """Return a model of *endpoint* that *server* plays."""
    return find_model(
        f"{endpoint}:{ENDPOINTS[endpoint].example}",
        base_url=server.url_of(endpoint),
        api_key="any",
        retries=0,
        **settings,
    )


def roles(request):
    return [message["role"] for message in request.payload["messages"]]


@each
def test_an_agent_with_a_tool(endpoint):
    """Its second request has the thinking of the first, if the provider wants it."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"Sunny in {city}."

    thinking = Thinking("I need the tool.", "c2ln")
    first = say(thinking, "Let me see.", call("weather", {"city": "Oslo"}, "c1"))
    with FakeServer([first, say("It is sunny."), say("Bye.")]) as server:
        agent = Agent(model_at(server, endpoint), tools=[weather])
        result = agent.run("How is the weather?")
        again = agent.run("Thanks.")
        close_idle()
    assert (result.text, again.text) == ("It is sunny.", "Bye.")
    back = server.requests[1].payload["messages"][1]
    if endpoint in ("deepseek", "moonshot"):
        assert back["reasoning_content"] == "I need the tool."
    elif endpoint == "openrouter":
        (detail,) = back["reasoning_details"]
        assert detail["signature"] == "c2ln"
    else:
        assert "I need the tool." not in str(back)


@each
def test_the_next_prompt_after_a_cancel_in_a_tool(endpoint):
    """B4: the conversation that is left is accepted by its provider."""

    @tool
    def stop() -> str:
        """Stop it."""
        agent.cancel("enough")
        return "stopped"

    first = say(Thinking("hm"), call("stop", {}, "c1"), call("stop", {}, "c2"))
    with FakeServer([first, say("Here I am.")]) as server:
        agent = Agent(model_at(server, endpoint), tools=[stop])
        assert agent.run("Go.").stop_reason == "cancelled"
        assert agent.run("Are you there?").text == "Here I am."
        close_idle()
    between = ["assistant"] if endpoint == "mistral" else []
    expected = ["user", "assistant", "tool", "tool", *between, "user"]
    assert roles(server.requests[-1]) == expected


@pytest.mark.slow
@each
def test_a_cancel_at_every_point(endpoint):
    """Promises 3 to 9, with the rules of the provider."""

    @tool
    def noop() -> str:
        """Do nothing."""
        return "nothing"

    requests = []

    def reply(request):
        requests.append(request)
        if len(requests) == 1:
            return say(Thinking("hm"), "Let me see.", call("noop", {}, "call_1"))
        return "All is done."

    with FakeServer(reply) as server:

        def make():
            requests.clear()
            return Agent(model_at(server, endpoint), tools=[noop])

        swept = cancel_everywhere(make, "Do it.", way="thread")
        close_idle()
    assert {"headers", "stream", "tool"} <= swept.phases


def test_a_complaint_comes_as_the_provider_writes_it():
    """Mistral says 422 for a field that it does not have."""
    with FakeServer(["never"]) as server:
        model = model_at(server, "mistral", extra={"logit_bias": {}})
        with pytest.raises(RequestRejected, match="extra_forbidden") as caught:
            model.respond("hi")
        close_idle()
    assert caught.value.status == 422


def test_a_conversation_that_moves_between_them():
    """Thinking, details and ids of one are accepted by every other."""

    @tool
    def noop() -> str:
        """Do nothing."""
        return "nothing"

    messages = [UserMessage.of("Go.")]
    with FakeServer() as server:
        for number, endpoint in enumerate([*NAMES, *reversed(NAMES)]):
            thinking = Thinking(f"hm {endpoint}", f"sig {endpoint}")
            server.add(say(thinking, call("noop", {}, f"{number}" * 50)), say("Done."))
            agent = Agent(model_at(server, endpoint), tools=[noop], messages=messages)
            assert agent.run("And now?").text == "Done."
            messages = list(agent.messages)
        close_idle()
    assert len(server.requests) == 4 * len(NAMES)


def test_a_response_that_is_not_streamed():
    """The same comes out, and the same goes back."""
    thinking = Thinking("hm", "c2ln")
    with FakeServer([say(thinking, "Hi.")]) as server:
        model = model_at(server, "openrouter", stream=False)
        message = model.respond("hi", options=Options()).message
        close_idle()
    assert (message.thinking, message.text) == ("hm", "Hi.")
