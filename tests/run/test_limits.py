"""A limit ends a run, says which one it was, and leaves a conversation that goes on."""

import pytest
from support.agents import SUM, add, check_usable, model, outcomes
from support.contents import json_of
from support.threads import meanwhile

from syncagent import (
    Agent,
    ConfigurationError,
    LimitReached,
    Limits,
    RunCancelled,
    ToolContext,
)
from syncagent.exceptions import FirstEventTimeout, StallTimeout
from syncagent.hooks import Retry
from syncagent.messages import AssistantMessage, Text, UserMessage
from syncagent.models import OpenAIChat
from syncagent.models.prices import Price
from syncagent.run.meter import Meter
from syncagent.testing import (
    Comment,
    FakeClock,
    FakeServer,
    Gate,
    ScriptedModel,
    Send,
    Stall,
    call,
    complaints,
    say,
)
from syncagent.transport import close_idle
from syncagent.usage import Usage

TOOLS = [add]
#: What the scripted answers use each.
EACH = Usage(10, 5)


@pytest.fixture(autouse=True)
def nothing_idle():
    """No connection outlives its test."""
    yield
    close_idle()


def priced(*script):
    """Return a model that costs a dollar for each token."""
    made = model(*script)
    made.price = Price(1e6, 1e6)
    return made


LIMITS = {
    "turns": Limits(turns=2),
    "tool_calls": Limits(tool_calls=2),
    "tokens": Limits(tokens=2 * EACH.total_tokens),
    "cost": Limits(cost=2.0 * EACH.total_tokens),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_named_and_the_conversation_goes_on(name):
    """Each ends the run with its own name; promises 4 and 8 hold after it."""
    agent = Agent(priced(*[SUM] * 5), tools=TOOLS, limits=LIMITS[name])
    result = agent.run("Add.")
    assert (result.stop_reason, result.limit) == ("limit", name)
    assert outcomes(result)[:2] == ["done", "done"]
    assert result.turns == (3 if name == "tool_calls" else 2)
    assert complaints(agent.messages) == {}
    with pytest.raises(LimitReached, match=name.replace("_", " ")) as caught:
        result.raise_for_status()
    assert caught.value.result is result
    agent.model._script[:] = ["ok"] * 2
    check_usable(agent)


@pytest.mark.parametrize("name", LIMITS)
def test_the_last_turn_that_is_allowed_may_end_by_itself(name):
    """A run that is done has reached its end, and no limit."""
    result = Agent(priced(SUM, "done"), tools=TOOLS, limits=LIMITS[name]).run("Add.")
    assert (result.text, result.stop_reason, result.limit) == ("done", "end_turn", None)
    result.raise_for_status()


def test_calls_beyond_the_limit_are_not_started():
    """Promise 5: of one round, those that are allowed run, and the rest say why not."""
    calls = [call("add", {"a": n, "b": 0}, f"c{n}") for n in range(4)]
    agent = Agent(model(say(*calls)), tools=TOOLS, limits=Limits(tool_calls=2))
    result = agent.run("Add.")
    assert outcomes(result) == ["done", "done", "not_started", "not_started"]
    assert "may not call more tools" in result.tool_outcomes[-1].error
    assert (result.limit, result.turns) == ("tool_calls", 1)
    check_usable(agent)


def test_limits_count_each_run_anew():
    """What one run has used is nothing to the next."""
    agent = Agent(model(*[SUM, "ok"] * 3), tools=TOOLS, limits=Limits(turns=2))
    assert [agent.run("Add.").stop_reason for _ in range(3)] == ["end_turn"] * 3


def test_seconds_end_a_run_as_a_cancel_does():
    """Promise 2: a deadline in the middle of an answer."""
    gate = Gate()
    agent = Agent(model(gate), limits=Limits(seconds=5))
    with FakeClock() as clock:

        def pass_time():
            gate.wait_reached()
            clock.advance(6)

        with meanwhile(pass_time):
            result = agent.run("Wait.")
        assert result.cancelled
        assert (result.cancellation.origin, result.limit) == ("deadline", None)
        with pytest.raises(RunCancelled):
            result.raise_for_status()
        check_usable(agent)


@pytest.mark.parametrize("timeout", [0.02, 60])
def test_the_shorter_of_seconds_and_timeout_counts(timeout):
    """Whichever of the two it is."""
    limits = Limits(seconds=60 if timeout < 1 else 0.02)
    result = Agent(ScriptedModel([Gate(), "ok"]), limits=limits).run(
        "x", timeout=timeout
    )
    assert result.cancellation.origin == "deadline"


def over_a_socket(server, **limits):
    made = OpenAIChat("fake", base_url=server.base_url, api_key="k", retries=0)
    return Agent(made, limits=Limits(**limits))


@pytest.mark.parametrize("acts", [[Stall()], [Comment(times=50), Stall()]])
def test_the_first_word_is_waited_for_so_long(acts):
    """Comments that keep a connection alive are no words."""
    with FakeServer([say("never", acts=acts), "ok"]) as server:
        agent = over_a_socket(server, first_token_seconds=0.1)
        with pytest.raises(FirstEventTimeout) as caught:
            agent.run("Hello?")
        assert caught.value.phase == "first event"
        assert [type(said) for said in agent.messages] == [UserMessage]
        check_usable(agent)


@pytest.mark.parametrize("acts", [[Stall()], [Comment(times=50), Stall()]])
def test_a_stall_is_waited_for_so_long_and_what_came_is_kept(acts):
    """Promise 5: the text up to there stays, marked, and its usage is a guess."""
    reply = say("Hello there, all of you", acts=[Send(3), *acts])
    with FakeServer([reply, "ok"]) as server:
        agent = over_a_socket(server, stall_seconds=0.1, first_token_seconds=10)
        with pytest.raises(StallTimeout) as caught:
            agent.run("Hello?")
        assert caught.value.phase == "stream"
        assert caught.value.usage.estimated
        kept = agent.messages[-1]
        assert kept.is_cut
        assert kept.text.startswith("Hello")
        assert "error" in kept.text
        check_usable(agent)


@pytest.mark.parametrize("name", LIMITS)
def test_the_model_is_warned_once(name):
    """It is told how much is used up, and then never again."""
    limit = getattr(LIMITS[name], name)
    limits = Limits(**{name: limit * 2, "warn_at": 0.5})
    agent = Agent(priced(*[SUM] * 6), tools=TOOLS, limits=limits)
    agent.run("Add.")
    warnings = [
        message.content[0].text
        for message in agent.messages
        if isinstance(message, UserMessage) and "<system>" in message.content[0].text
    ]
    assert len(warnings) == 1
    assert f"{limit:g} of {limit * 2:g} {name.replace('_', ' ')}" in warnings[0]
    assert complaints(agent.messages) == {}


def test_nobody_is_warned_who_is_not_asked_again():
    """A warning after the last turn would be for nobody."""
    agent = Agent(model(SUM), tools=TOOLS, limits=Limits(turns=1, warn_at=0.5))
    agent.run("Add.")
    assert not any("<system>" in json_of(message) for message in agent.messages)


def test_a_model_without_a_price_cannot_be_limited_by_cost():
    """Said when the agent is made, and not when the money is gone."""
    with pytest.raises(ConfigurationError) as caught:
        Agent(model(), limits=Limits(cost=1.0))
    assert "no price is known for scripted" in str(caught.value)
    assert "price=Price(input=1.0, output=4.0)" in str(caught.value)
    Agent(priced(), limits=Limits(cost=1.0))
    Agent(ScriptedModel(price=Price(0.0, 0.0)), limits=Limits(cost=1.0))


@pytest.mark.parametrize("depth", [1, 2])
def test_a_sub_agent_without_a_price_does_not_escape_a_limit_of_cost(depth):
    """It is not asked at all, however far below: its cost would count as nothing."""
    unpriced = model("found")
    below = Agent(unpriced, name="below")
    if depth == 2:
        script = priced(say(call("below", {"prompt": "Look."})), "nothing found")
        below = Agent(script, tools=[below.as_tool()], name="below")
    script = priced(say(call("below", {"prompt": "Look."})), "done")
    agent = Agent(script, tools=[below.as_tool()], limits=Limits(cost=1e6))
    result = agent.run("Delegate.")
    assert unpriced.requests == []
    assert result.cost == 2 * depth * EACH.total_tokens
    innermost = agent.messages if depth == 1 else below.model.requests[-1]
    assert "no price is known for scripted" in str(innermost)


@pytest.mark.parametrize("name", ["turns", "tool_calls", "tokens"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", float("nan")])
def test_limits_on_numbers_of_things_are_whole_and_positive(name, value):
    """Anything else is refused by its name."""
    with pytest.raises(ConfigurationError, match=name):
        Limits(**{name: value})


@pytest.mark.parametrize("name", ["cost", "seconds", "stall_seconds", "warn_at"])
@pytest.mark.parametrize("value", [0, -0.5, float("inf"), True, "3", float("nan")])
def test_limits_on_amounts_are_positive(name, value):
    """Anything else is refused by its name."""
    with pytest.raises(ConfigurationError, match=name):
        Limits(**{name: value})


def test_what_sub_agents_use_counts():
    """Tokens and cost of one below are the run's own."""
    below = Agent(priced(say("found", usage=Usage(1000, 1))), name="below")

    def delegate(ctx: ToolContext) -> str:
        """Ask another agent."""
        return ctx.agent(below, "Look.").text

    limits = Limits(tokens=500)
    agent = Agent(priced(say(call("delegate"))), tools=[delegate], limits=limits)
    result = agent.run("Delegate.")
    assert (result.limit, result.usage.input_tokens) == ("tokens", 1010)
    assert result.cost == pytest.approx(1001 + EACH.total_tokens)


def test_any_thread_may_ask_for_the_usage_of_a_run():
    """Also while the run itself adds it up: nothing is lost, and nothing raises."""
    meter = Meter(Limits(tokens=10), model())

    class Asked(Usage):
        """Another thread asks at the moment at which this is added."""

        def __radd__(self, other):
            if not seen:
                seen.append(0)
                seen[0] = meter.usage.input_tokens
            return other + Usage(self.input_tokens)

    seen = []
    for usage in (Asked(1), Asked(2), Usage(4)):
        meter.add(usage, 1.0)
    assert (meter.usage.input_tokens, meter.cost) == (7, 3.0)
    assert seen == [7]


def test_what_a_failed_sub_agent_used_counts_too():
    """It raises in the tool, and was paid for all the same."""
    limits = Limits(turns=1)
    inner = Agent(model(say(call("nope"), usage=Usage(500, 1)), ValueError("boom")))

    def delegate(ctx: ToolContext) -> str:
        """Ask another agent."""
        return ctx.agent(inner, "Look.", output=int).text

    inner.model._script[1:] = ["no number"] * 3
    agent = Agent(model(say(call("delegate"))), tools=[delegate], limits=limits)
    result = agent.run("Delegate.")
    assert outcomes(result) == ["failed"]
    assert result.usage.input_tokens == 10 + 500 + 30


class Endless:
    """Wants everything once more; gives up in the end, so that a test can fail."""

    def __init__(self, most=20):
        self.left = most

    def _again(self, event):
        self.left -= 1
        if not self.left:
            raise AssertionError("nothing ends this")
        return Retry()


def test_a_turn_that_a_hook_repeats_counts():
    """Retry for ever ends at the limit, with the last answer."""
    hook = Endless()
    hook.after_model = hook._again
    result = Agent(model("one", "two", "three"), hooks=[hook], limits=Limits(turns=3))
    result = result.run("x")
    assert (result.turns, result.text, result.stop_reason) == (3, "three", "end_turn")


@pytest.mark.parametrize("width", [1, 2])
def test_a_call_that_a_hook_repeats_counts(width):
    """Retry for ever ends at the limit, on whatever thread the tool runs."""
    hook = Endless()
    hook.after_tool = hook._again
    both = say(call("add", {"a": 1, "b": 2}, "c1"), call("add", {"a": 1, "b": 2}, "c2"))
    limits = Limits(tool_calls=4)
    agent = Agent(
        model(both), tools=TOOLS, hooks=[hook], limits=limits, parallel_tools=width
    )
    result = agent.run("Add.")
    assert outcomes(result) == ["done", "done"]
    assert 20 - hook.left == 4


def test_a_model_that_pauses_for_ever_ends_at_the_limit():
    """Each pause is a turn."""
    entries = [AssistantMessage((Text("..."),), "pause")] * 10
    result = Agent(model(*entries), limits=Limits(turns=3)).run("x")
    assert (result.turns, result.stop_reason, result.limit) == (3, "limit", "turns")


def test_turns_that_repair_an_output_count():
    """The second attempt would be one turn too many."""
    result = Agent(model("x", "y", "z"), limits=Limits(turns=1)).run("x", output=int)
    assert (result.turns, result.stop_reason, result.limit) == (1, "limit", "turns")
