"""Several models as one: when a request falls over, and to which model."""

import pytest
from support.threads import together, until
from support.two_rounds import AGAIN, make_agent, reply

from syncagent import Agent, CancelToken, Fallback, Limits, tool
from syncagent.events import ModelChanged, TextDelta, decode_event, encode_event
from syncagent.exceptions import (
    AuthenticationFailed,
    Cancelled,
    ConfigurationError,
    ConnectionFailed,
    ContextTooLong,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
    StreamBroken,
)
from syncagent.models import Anthropic, OpenAIChat, Price
from syncagent.models.fallback import Circuit
from syncagent.testing import (
    Broken,
    Drop,
    FakeClock,
    FakeServer,
    Gate,
    ScriptedModel,
    Send,
    Stall,
    Status,
    call,
    cancel_everywhere,
    say,
)
from syncagent.usage import Usage


def fails(status=503, message="a scripted error", **headers):
    return say("never", acts=[Status(status, message, headers)])


def model(server, kind=OpenAIChat, name="fake", **settings):
    settings = {"retries": 0, **settings}
    return kind(name, base_url=server.base_url, api_key="any", **settings)


def two(first, second, **settings):
    """Return a Fallback over an Anthropic server and one of Chat Completions."""
    return Fallback(
        model(first, Anthropic, "one"), model(second, OpenAIChat, "two"), **settings
    )


def changes(events):
    return [event for event in events if isinstance(event, ModelChanged)]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529, 402])
def test_falls_over_if_the_provider_cannot_respond(status):
    """The event says why, the result which model answered; 1 request to each."""
    with FakeServer([fails(status)]) as first, FakeServer(["Hello."]) as second:
        with Agent(two(first, second)).stream("Hi.") as stream:
            events = list(stream)
    (change,) = changes(events)
    assert (change.from_model, change.to_model) == ("anthropic:one", "openai-chat:two")
    assert str(status) in change.error
    assert decode_event(encode_event(change)) == change
    assert stream.result.text == "Hello."
    assert stream.result.model == "openai-chat:two"
    assert [len(first.requests), len(second.requests)] == [1, 1]


def test_falls_over_if_there_is_no_connection():
    """Nothing listens at the first address."""
    with FakeServer() as gone:
        pass
    with FakeServer(["Hello."]) as second:
        assert Agent(two(gone, second)).run("Hi.").text == "Hello."


@pytest.mark.parametrize("act", [Broken(), Drop()])
def test_falls_over_after_a_beginning_without_words(act):
    """The first event names the model only; what it used is charged."""
    with (
        FakeServer([say("never", acts=[Send(1), act])]) as first,
        FakeServer(["Hello."]) as second,
    ):
        with Agent(two(first, second)).stream("Hi.") as stream:
            events = list(stream)
    assert len(changes(events)) == 1
    assert stream.result.text == "Hello."
    assert stream.result.usage.input_tokens > 10  # 10 are those of the second model


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, RequestRejected),
        (401, AuthenticationFailed),
        (403, AuthenticationFailed),
        (404, RequestRejected),
    ],
)
def test_does_not_fall_over_if_the_request_is_wrong(status, error):
    """The second model is not asked."""
    with FakeServer([fails(status)]) as first, FakeServer(["Hello."]) as second:
        with pytest.raises(error) as raised:
            Agent(two(first, second)).run("Hi.")
    assert raised.value.earlier_errors == ()
    assert not second.requests


def test_falls_over_for_more_errors_if_asked():
    """A key may be dead."""
    with FakeServer([fails(401)]) as first, FakeServer(["Hello."]) as second:
        both = two(first, second, also=[AuthenticationFailed])
        assert Agent(both).run("Hi.").text == "Hello."


def test_never_falls_over_after_the_first_word():
    """The words that were shown stay the only ones."""
    cut = say("One two three four", acts=[Send(4), Drop()])
    with FakeServer([cut]) as first, FakeServer(["Hello."]) as second:
        agent, seen = Agent(two(first, second)), []
        with pytest.raises(StreamBroken), agent.stream("Hi.") as stream:
            seen.extend(stream)
    assert any(isinstance(event, TextDelta) for event in seen)
    assert not second.requests


def test_never_falls_over_after_a_cancel():
    """A cancel while the first model is silent asks no other one."""
    token = CancelToken()
    silent = say("never", acts=[Stall(before_headers=True)])
    with FakeServer([silent]) as first, FakeServer(["Hello."]) as second:
        agent = Agent(two(first, second))
        results = []

        def cancel():
            until(lambda: first.requests)
            token.cancel()

        together(lambda: results.append(agent.run("Hi.", cancel=token)), cancel)
    assert results[0].cancelled
    assert not second.requests


def test_a_cancel_between_two_models_asks_no_other_one():
    """The error of the first one came before the cancel was seen."""
    token = CancelToken()

    def fail(messages):
        token.cancel("enough")
        return ProviderUnavailable("overloaded")

    second = ScriptedModel("Hello.")
    with pytest.raises(Cancelled):
        list(Fallback(ScriptedModel(fail), second).ask("Hi.", token=token))
    assert not second.requests


@pytest.mark.parametrize(("window", "asks"), [(200_000, 1), (1_000, 0), (None, 0)])
def test_a_long_conversation_goes_to_a_larger_window_only(window, asks):
    """An unknown window is not larger."""
    first = ScriptedModel([ContextTooLong("too long")], context_window=10_000)
    second = ScriptedModel("Hello.", context_window=window)
    agent = Agent(Fallback(first, second))
    if asks:
        assert agent.run("Hi.").text == "Hello."
    else:
        with pytest.raises(ContextTooLong):
            agent.run("Hi.")
    assert len(second.requests) == asks


def test_sticks_for_the_rest_of_the_run():
    """The first model is not asked again after it failed once."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    first = ScriptedModel([ProviderUnavailable("down"), "never"])
    second = ScriptedModel([say(call("look")), say(call("look")), "Done."])
    both = Fallback(first, second, pause=0.0)
    with Agent(both, tools=[look]).stream("Hi.") as stream:
        events = list(stream)
    assert [len(first.requests), len(second.requests)] == [1, 3]
    assert len(changes(events)) == 1


def test_a_new_run_tries_the_first_again_after_a_pause():
    """30 seconds; until then it starts with the second, and says so."""
    script = [ProviderUnavailable("down"), "First.", "First."]
    first, second = ScriptedModel(script), ScriptedModel(["Second.", "Second."])
    both = Fallback(first, second)
    with FakeClock() as clock:
        assert Agent(both).run("Hi.").text == "Second."
        clock.advance(29.0)
        with Agent(both).stream("Hi.") as stream:
            events = list(stream)
        assert stream.result.text == "Second."
        assert [change.error for change in changes(events)] == ["down"]
        clock.advance(2.0)
        assert Agent(both).run("Hi.").text == "First."
        assert Agent(both).run("Hi.").text == "First."


def test_one_request_tries_a_model_after_its_pause():
    """Of 20 threads; the others keep to the second model until it responds."""
    gate = Gate()
    first = ScriptedModel([ProviderUnavailable("down"), gate, "First.", "First."])
    second = ScriptedModel(lambda messages: "Second.")
    both, texts = Fallback(first, second, pause=30.0), []
    with FakeClock() as clock:
        Agent(both).run("Hi.")
        clock.advance(31.0)

        def run():
            texts.append(Agent(both).run("Hi.").text)
            if len(texts) == 19:
                gate.open()

        together(*[run] * 20)
    assert sorted(texts) == ["First."] + ["Second."] * 19
    assert Agent(both).run("Hi.").text == "First."


def test_of_two_that_see_the_end_of_a_pause_one_tries():
    """The other saw the same pause, and was slower: it is refused."""
    with FakeClock() as clock:
        circuit = Circuit(30.0)
        circuit.open(ProviderUnavailable("down"))
        clock.advance(31.0)
        seen = circuit._pause
        assert circuit.admits()
        circuit._pause = seen  # as the slower thread has read it
        assert not circuit.admits()
        clock.advance(31.0)  # nothing was heard from the first: another may try
        assert circuit.admits()


def test_retry_after_makes_the_pause_longer():
    """A provider that asks for 90 seconds gets them."""
    limited = RateLimited("slow down", retry_after=90.0)
    first = ScriptedModel([limited, "First."])
    both = Fallback(first, ScriptedModel(lambda messages: "Second."), pause=5.0)
    with FakeClock() as clock:
        for seconds, text in [(0.0, "Second."), (60.0, "Second."), (31.0, "First.")]:
            clock.advance(seconds)
            assert Agent(both).run("Hi.").text == text


def test_all_fail_with_the_last_error():
    """It names the others, also where Python has no notes."""
    models = [ScriptedModel([ConnectionFailed(f"no {n}")]) for n in range(3)]
    with pytest.raises(ConnectionFailed, match="no 2") as raised:
        Agent(Fallback(*models)).run("Hi.")
    assert [str(error) for error in raised.value.earlier_errors] == ["no 0", "no 1"]
    assert "no 0" in raised.value.__notes__[0]


def test_models_that_all_failed_are_asked_again():
    """A model in its pause is better than none."""
    first = ScriptedModel([ConnectionFailed("no"), "First."])
    both = Fallback(first, ScriptedModel([ConnectionFailed("no")]))
    with pytest.raises(ConnectionFailed):
        Agent(both).run("Hi.")
    assert Agent(both).run("Hi.").text == "First."


def test_the_cost_is_that_of_the_model_that_answered():
    """And a limit on the cost needs the prices of all."""
    used, cheap, dear = Usage(1_000_000, 0), Price(1.0, 1.0), Price(7.0, 7.0)
    first = ScriptedModel([ConnectionFailed("no")], price=cheap)
    second = ScriptedModel([say("Hello.", usage=used)], price=dear)
    assert Agent(Fallback(first, second)).run("Hi.").cost == 7.0
    assert Fallback(first, second).cost(used) == 7.0
    unknown = Fallback(first, ScriptedModel("x"))
    with pytest.raises(ConfigurationError, match="price"):
        Agent(unknown, limits=Limits(cost=1.0))


def test_each_model_keeps_its_own_options():
    """Those of the agent are added to both requests."""
    with FakeServer([fails()]) as one, FakeServer(["Hello."]) as other:
        first = model(one, temperature=0.1, max_tokens=11)
        both = Fallback(first, model(other, temperature=0.9))
        Agent(both, system="Be brief.").run("Hi.")
    bodies = [one.requests[0].payload, other.requests[0].payload]
    assert [body["temperature"] for body in bodies] == [0.1, 0.9]
    assert [body["messages"][0]["content"] for body in bodies] == ["Be brief."] * 2
    assert "11" in str(bodies[0])
    assert "11" not in str(bodies[1])


def test_the_window_is_the_smallest():
    """So that a conversation fits every model."""
    small = ScriptedModel(context_window=5)
    assert Fallback(ScriptedModel(context_window=9), small).context_window == 5
    assert Fallback(ScriptedModel(), small).context_window == 5


def test_wrong_use():
    """The message says what is wrong."""
    with pytest.raises(ConfigurationError, match="two models"):
        Fallback(ScriptedModel())
    with pytest.raises(ConfigurationError, match="also takes"):
        Fallback(ScriptedModel(), ScriptedModel(), also=[KeyError])
    with pytest.raises(ConfigurationError, match="pause"):
        Fallback(ScriptedModel(), ScriptedModel(), pause=-1)


def test_a_fallback_in_a_fallback_is_one():
    """Its models stand in their order."""
    a, b, c = (ScriptedModel() for _ in range(3))
    assert Fallback(Fallback(a, b), c).models == (a, b, c)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["inside", "thread", "meanwhile"])
def test_every_point_of_a_switch(way):
    """The sweep: a cancel anywhere leaves a valid conversation, and nothing runs."""

    def make():
        down = ScriptedModel(lambda messages: ProviderUnavailable("down"))
        return make_agent(Fallback(down, ScriptedModel(reply, piece=12)))

    swept = cancel_everywhere(make, "Do it.", way=way, again=AGAIN)
    assert len(swept.points) > 50
