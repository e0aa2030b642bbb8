"""A budget for many runs: reserved, settled, exceeded by one request at most."""

import threading

import pytest

from syncagent import (
    Agent,
    Budget,
    ConfigurationError,
    Fallback,
    Summarize,
    run_many,
    tool,
)
from syncagent.cancel import CancelToken
from syncagent.exceptions import LimitReached, ProviderUnavailable
from syncagent.models import Price
from syncagent.models.budget import OverBudget, Reservation, Spent
from syncagent.testing import (
    FakeClock,
    Gate,
    ScriptedModel,
    call,
    cancel_everywhere,
    complaints,
    say,
)
from syncagent.usage import Usage

LONG = 30.0
#: A dollar for each token.
DOLLAR = Price(1e6, 1e6)


@tool
def look() -> str:
    """Look."""
    return "seen"


def model(size=10, price=DOLLAR, text="Hello.", seconds=0.0):
    """Return a model whose requests use *size* tokens each."""
    usage = Usage(size - size // 2, size // 2)

    def respond(messages):
        if seconds:  # as long as other threads need to send their requests, too
            threading.Event().wait(seconds)
        return say(text, usage=usage)

    return ScriptedModel(respond, price=price, piece=50)


def storm(agent, threads=200):
    """Run the agent on many threads at the same moment; return the results."""
    results, barrier = [], threading.Barrier(threads)

    def work():
        own = agent.fork()
        barrier.wait(LONG)
        results.append(own.run("go"))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(LONG)
    assert len(results) == threads
    return results


def done(results):
    return sum(result.stop_reason == "end_turn" for result in results)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "most"),
    [({"calls": 37}, 37), ({"tokens": 1000}, 100), ({"cost": 555.0}, 56)],
)
def test_two_hundred_threads_exceed_it_by_one_request(limits, most):
    """As many requests as fit, one more at most, and the rest end by the limit."""
    budget = Budget(**limits)
    results = storm(Agent(model(10, seconds=0.02), budget=budget))
    assert most - 1 <= done(results) <= most
    refused = [result for result in results if result.stop_reason == "limit"]
    assert len(refused) == 200 - done(results)
    assert {result.limit for result in refused} == {"budget"}
    assert all(result.turns == 0 for result in refused)
    name, limit = next(iter(limits.items()))
    assert limit <= getattr(budget.spent, name) < limit + 10
    assert budget.is_used_up


@pytest.mark.slow
def test_requests_larger_than_expected():
    """Without max_tokens: the largest request so far is reserved for the next ones."""
    budget = Budget(tokens=20_000)
    storm(Agent(model(3000, seconds=0.02), budget=budget))
    assert 20_000 <= budget.spent.tokens < 20_000 + 3000


def test_a_run_that_meets_the_end():
    """It ends between two turns, valid, and goes on when there is more money."""
    budget = Budget(calls=2)
    script = [say(call("look")), say("a word", call("look", call_id="2")), "Done."]
    agent = Agent(ScriptedModel(script), tools=[look], budget=budget)
    result = agent.run("go")
    assert (result.stop_reason, result.limit) == ("limit", "budget")
    assert (result.turns, result.text) == (2, "a word")
    assert [outcome.outcome for outcome in result.tool_outcomes] == ["done", "done"]
    assert complaints(agent.messages) == {}
    with pytest.raises(LimitReached, match="budget"):
        result.raise_for_status()
    assert agent.resume().limit == "budget"
    budget.extend(calls=1)
    again = agent.resume()
    assert (again.stop_reason, again.text, again.turns) == ("end_turn", "Done.", 3)
    assert again.run_id == result.run_id


def test_sub_agents_are_paid_from_it():
    """Each request counts once, whoever makes it."""
    budget = Budget(calls=100)
    inner = Agent(model(10), name="inner")
    script = [say(call("inner", {"prompt": "go"})), "Done."]
    outer = Agent(ScriptedModel(script, price=DOLLAR), tools=[inner], budget=budget)
    outer.run("go")
    assert budget.spent.calls == 3
    shared = Agent(
        ScriptedModel([say(call("inner", {"prompt": "go"})), "Done."]),
        tools=[Agent(model(10), name="inner", budget=budget)],
        budget=budget,
    )
    shared.run("go")
    assert budget.spent.calls == 6


def test_a_sub_agent_that_meets_the_end():
    """Its result says so, and then the outer run ends as well."""
    budget = Budget(calls=1)
    inner = Agent(model(10), name="inner")
    script = [say(call("inner", {"prompt": "go"})), "Done."]
    outer = Agent(ScriptedModel(script), tools=[inner], budget=budget)
    result = outer.run("go")
    assert result.limit == "budget"
    assert budget.spent.calls == 1


def test_records_and_fallbacks_are_paid_from_it():
    """Requests beside the turns count, too."""
    budget = Budget(calls=100)
    down = ScriptedModel(lambda messages: ProviderUnavailable("down", status=500))
    agent = Agent(Fallback(down, model(10)), budget=budget)
    assert agent.run("go").text == "Hello."
    assert budget.spent.calls == 1

    def script(messages):
        if len(messages) > 30 or "record" in str(messages[0]):
            return say("Done.", usage=Usage(900, 1))
        return say(call("look"), usage=Usage(40 * len(messages), 1))

    long = ScriptedModel(script, context_window=600)
    record = ScriptedModel(lambda messages: "A record.")
    agent = Agent(
        long, tools=[look], compaction=Summarize(record, keep=1), budget=budget
    )
    result = agent.run("go")
    assert result.compactions
    assert budget.spent.calls == 1 + result.turns


def test_a_request_waits_for_those_that_are_out():
    """Near the end it is not known yet what is left; a cancel ends the wait."""
    gate = Gate()
    budget = Budget(calls=2)
    slow = Agent(ScriptedModel([gate, "Hello."]), budget=budget)
    first = slow.start("go")
    gate.wait_reached()
    assert Agent(model(), budget=budget).run("go").text == "Hello."
    waiting = Agent(model(), budget=budget)
    handle = waiting.start("go")
    while waiting._conversation.slot.live.phase != "budget":
        threading.Event().wait(0.001)
    receipt = waiting.cancel("enough")
    assert receipt.wait(LONG)
    result = handle.result(LONG)
    assert result.cancellation.phase == "budget"
    assert result.usage.total_tokens == 0
    gate.open()
    assert first.result(LONG).text == "Hello."
    assert budget.spent.calls == 2


def test_a_waiting_request_goes_on_when_another_was_cancelled():
    """What was reserved and not used is free again."""
    gate = Gate()
    budget = Budget(calls=1)
    slow = Agent(ScriptedModel([gate, "never"]), budget=budget)
    first = slow.start("go")
    gate.wait_reached()
    waiting = Agent(model(), budget=budget)
    second = waiting.start("go")
    while waiting._conversation.slot.live.phase != "budget":
        threading.Event().wait(0.001)
    slow.cancel()
    assert first.result(LONG).cancelled
    assert second.result(LONG).text == "Hello."


def test_a_run_in_the_middle_of_a_response():
    """A hook that makes a run of its own does not wait for the response it is in."""

    class Asks:
        def on_event(self, event):
            if type(event).__name__ == "TextDelta" and not texts:
                texts.append("")
                texts[0] = Agent(model(), budget=budget).run("inner").text

    texts = []
    budget = Budget(tokens=5000)
    agent = Agent(model(), hooks=[Asks()], budget=budget)
    assert agent.run("outer").text == "Hello."
    assert texts == ["Hello."]
    assert budget.spent.calls == 2


def test_a_cancelled_response_is_charged():
    """With the estimate, as in the result of its run."""
    budget = Budget(tokens=1000)
    agent = Agent(ScriptedModel(["word " * 100]), budget=budget)
    with agent.stream("go") as stream:
        for event in stream:
            if type(event).__name__ == "TextDelta":
                agent.cancel()
    assert budget.spent.calls == 1
    assert budget.spent.tokens == stream.result.usage.total_tokens > 0


def test_a_new_period():
    """After so many seconds everything is allowed again."""
    with FakeClock() as now:
        budget = Budget(calls=1, per=60)
        agent = Agent(model(), budget=budget)
        assert agent.run("go").stop_reason == "end_turn"
        assert agent.run("go").limit == "budget"
        now.advance(61)
        assert agent.run("go").stop_reason == "end_turn"
        budget.reset()
        assert budget.spent == Spent()


def test_a_batch_shares_it():
    """run_many() forks the agent, and the forks share its budget."""
    budget = Budget(calls=20)
    batch = run_many(Agent(model(), budget=budget), ["go"] * 100, width=16)
    assert done(batch.results()) == 20


def test_a_request_larger_than_the_budget():
    """It may go as long as nothing was spent: one request is the overshoot."""
    budget = Budget(tokens=1)
    agent = Agent(model(5000), budget=budget)
    assert agent.run("go").stop_reason == "end_turn"
    assert agent.run("go").limit == "budget"


def test_nothing_is_left_reserved_after_an_interrupted_wait():
    """A reservation that is settled without use is free, twice does no harm."""
    budget = Budget(calls=1)
    held = Reservation(budget)
    budget.reserve(held, Spent(calls=1), CancelToken())
    held.settle(None)
    held.settle(Spent(calls=1))
    assert budget.spent == Spent()
    other = Reservation(budget)
    budget.reserve(other, Spent(calls=1), CancelToken())
    other.settle(Spent(calls=1))
    with pytest.raises(OverBudget):
        budget.reserve(Reservation(budget), Spent(calls=1), CancelToken())


@pytest.mark.slow
@pytest.mark.parametrize("way", ["inside", "thread", "meanwhile"])
def test_every_point_of_a_run_with_a_budget(way):
    """The sweep: nothing stays reserved, wherever the cancel comes."""
    budget = Budget(tokens=10_000_000, calls=1_000_000)

    def script(messages):
        is_first = len(messages) == 1
        return say(call("look")) if is_first else "Done."

    def make():
        return Agent(ScriptedModel(script, piece=9), tools=[look], budget=budget)

    swept = cancel_everywhere(make, "Do it.", way=way)
    assert len(swept.points) > 20
    assert budget._held == {}


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Budget(), "needs a limit"),
        (lambda: Budget(cost=0), "cost"),
        (lambda: Budget(calls=1.5), "calls"),
        (lambda: Budget(tokens=5, per=0), "per"),
        (lambda: Budget(tokens=5).extend(cost=1.0), "no limit on cost"),
        (lambda: Agent(model(), budget=5), "budget takes a Budget"),
        (lambda: Agent(model(price=None), budget=Budget(cost=1.0)), "no price"),
    ],
)
def test_settings_that_cannot_work(make, match):
    """The message says what is wrong."""
    with pytest.raises(ConfigurationError, match=match):
        make()


def test_what_it_shows():
    """Its text has what was spent and the limits."""
    budget = Budget(cost=5.0, calls=7)
    budget.add(Spent(1.25, 10, 1))
    assert repr(budget) == "<Budget: 1.25 of 5 cost, 1 of 7 calls>"
