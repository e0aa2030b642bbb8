"""A budget over many runs: exceeded by one request at most, whatever the threads."""

import os
import random
import signal
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.agents import SUM, add, check_usable, outcomes
from support.processes import in_child
from support.threads import LONG, meanwhile, together, until

from syncagent import (
    Agent,
    Budget,
    CancelToken,
    Fallback,
    Limiter,
    LimitReached,
    Limits,
    ToolContext,
    run_many,
    tool,
)
from syncagent.events import UsageUpdated
from syncagent.exceptions import ConfigurationError, ProtocolError
from syncagent.models import OpenAIChat, Price
from syncagent.run.budget import Amounts, largest_usage
from syncagent.testing import (
    FakeServer,
    Gate,
    ScriptedModel,
    Stall,
    call,
    cancel_everywhere,
    complaints,
    no_leaks,
    say,
)
from syncagent.transport import close_idle
from syncagent.usage import Usage

#: A dollar for each token; the scripted responses use 15.
PRICE = Price(1e6, 1e6)


@pytest.fixture(autouse=True)
def nothing_idle():
    """No connection outlives its test."""
    yield
    close_idle()


def echo(messages):
    return "ok"


BUDGETS = {
    "budget_cost": lambda: Budget(cost=45.0),
    "budget_tokens": lambda: Budget(tokens=45),
    "budget_calls": lambda: Budget(calls=3),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_a_used_up_budget_ends_the_run(name):
    """The result names it; promises 4 and 8 hold after it."""
    budget = BUDGETS[name]()
    made = ScriptedModel([SUM] * 9, price=PRICE)
    agent = Agent(made, tools=[add], budget=budget)
    result = agent.run("Add.")
    assert (result.stop_reason, result.limit, result.turns) == ("limit", name, 3)
    assert outcomes(result) == ["done"] * 3
    assert complaints(agent.messages) == {}
    with pytest.raises(LimitReached, match=f"{name[7:]} of the budget"):
        result.raise_for_status()
    assert len(made.requests) == 3
    assert budget.reached == name
    made._script[:] = ["ok"] * 3
    assert agent.run("again").limit == name
    assert agent.resume(deps=1).limit == name
    assert len(made.requests) == 3
    check_usable(Agent(made, messages=agent.messages))


def test_a_run_is_resumed_under_another_budget():
    """The new budget pays from there on, with the model and the price of the run."""
    small, large = Budget(calls=1), Budget(calls=10)
    agent = Agent(ScriptedModel([say(call("add", SUM)), "Five."]), tools=[add])
    assert agent.run("Add.", budget=small).limit == "budget_calls"

    result = agent.resume(budget=large)
    assert (result.stop_reason, result.text) == ("end_turn", "Five.")
    assert (small.spent.calls, large.spent.calls) == (1, 1)
    assert large.in_flight == 0


def test_a_run_is_resumed_with_a_limiter():
    """Requests after the pause pass the limiter that resume() is given."""
    limiter = Limiter(requests_per_minute=1)
    model = ScriptedModel([say(call("add", SUM)), "Hi.", "Five."])
    agent = Agent(model, tools=[add])
    agent.run("Add.", budget=Budget(calls=1))
    Agent(model).run("Hello.", limiter=limiter)  # the only request of the minute

    result = agent.resume(limiter=limiter, budget=Budget(calls=9), timeout=0.2)
    assert result.cancelled
    assert result.cancellation.phase == "limiter"
    assert agent.resume(limiter=Limiter()).text == "Five."


def test_its_state_can_be_read():
    """What was spent, what is left, and what is in flight."""
    budget = Budget(cost=100.0, tokens=1000)
    agent = Agent(ScriptedModel(echo, price=PRICE), budget=budget)
    assert budget.spent == Amounts(0.0, 0, 0)
    agent.run("one")
    agent.run("two")
    assert budget.spent == Amounts(30.0, 30, 2)
    assert budget.remaining == Amounts(70.0, 970, None)
    assert (budget.in_flight, budget.reached) == (0, None)
    assert repr(budget) == "<Budget: cost 70, tokens 970 left>"


@pytest.mark.parametrize("name", BUDGETS)
def test_two_hundred_threads_exceed_it_by_one_request_at_most(name):
    """All start at once, on requests of the same size."""
    budget = {
        "budget_cost": lambda: Budget(cost=1000.0),
        "budget_tokens": lambda: Budget(tokens=1000),
        "budget_calls": lambda: Budget(calls=60),
    }[name]()
    results = []
    made = ScriptedModel(echo, price=PRICE)

    def work():
        for _ in range(3):
            results.append(Agent(made, budget=budget).run("hi"))

    with no_leaks():
        together(*[work] * 200, timeout=60)
    assert len(results) == 600
    ends = [result.limit for result in results]
    assert set(ends) == {None, name}
    spent = budget.spent
    assert spent.tokens == sum(result.usage.total_tokens for result in results)
    assert spent.calls == ends.count(None) == len(made.requests)
    if name == "budget_calls":
        assert spent.calls == 60
    else:
        assert 1000 <= spent.tokens < 1000 + 15
    assert budget.in_flight == 0


@pytest.mark.parametrize("seed", range(3))
def test_two_hundred_threads_with_requests_of_any_size(seed):
    """With ``max_tokens`` the most that a request may use is known from the start."""
    randomly, limit, lock = random.Random(seed), 60_000, threading.Lock()

    def respond(request):
        with lock:
            usage = Usage(randomly.randint(1, 500), randomly.randint(1, 1000))
        return say("ok", usage=usage)

    budget, results = Budget(tokens=limit), []
    with FakeServer(respond) as server:
        made = OpenAIChat(
            "fake", base_url=server.base_url, api_key="k", max_tokens=1000
        )

        def work():
            while (result := Agent(made, budget=budget).run("hi")).limit is None:
                results.append(result)

        together(*[work] * 200, timeout=120)
    assert sum(result.usage.total_tokens for result in results) == budget.spent.tokens
    assert limit <= budget.spent.tokens < limit + 1500


def test_requests_in_flight_count():
    """A second request that fits beside the first goes, and a third one waits."""
    budget, gates = Budget(calls=3), [Gate(), Gate()]
    agents = [Agent(ScriptedModel([gate, "ok"]), budget=budget) for gate in gates]
    agents.append(Agent(ScriptedModel([Gate(), "ok"]), budget=budget))
    agents.append(Agent(ScriptedModel(["ok"]), budget=budget))
    results = {}

    def run(number):
        results[number] = agents[number].run("hi")

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for number, thread in enumerate(threads[:3]):
        thread.start()
        until(lambda n=number: budget.in_flight == n + 1)
    threads[3].start()
    until(lambda: budget._ledger.places)
    agents[2].cancel()  # it was sent: it counts, with an estimate
    for gate in gates:
        gate.wait_reached()
        gate.open()
    for thread in threads:
        thread.join(LONG)
    assert results[2].cancelled
    assert results[3].limit == "budget_calls" or results[3].text == "ok"
    assert budget.in_flight == 0
    assert budget.spent.calls == 3


def test_a_cancelled_request_counts_with_its_estimate():
    """It was sent: the provider will bill it."""
    budget = Budget(tokens=10_000)
    with FakeServer([say("never", acts=[Stall()])]) as server:
        made = OpenAIChat("fake", base_url=server.base_url, api_key="k")
        agent = Agent(made, budget=budget)

        def stop():
            until(lambda: server.requests)
            until(lambda: agent._conversation.slot.live.phase == "first event")
            agent.cancel()

        with meanwhile(stop):
            result = agent.run("hi " * 100)
    assert result.usage.estimated
    assert budget.spent.tokens == result.usage.total_tokens > 50
    assert (budget.in_flight, budget.spent.calls) == (0, 1)


def test_a_request_that_was_never_sent_costs_nothing():
    """Nothing listens there."""
    budget = Budget(tokens=10_000, calls=5)
    made = OpenAIChat("fake", base_url="http://127.0.0.1:9/v1", api_key="k", retries=0)
    with pytest.raises(Exception, match="connect"):
        Agent(made, budget=budget).run("hi")
    assert budget.spent == Amounts(0.0, 0, 0)
    assert budget.in_flight == 0


def test_sub_agents_count():
    """Those of the outer run's budget and of their own; nothing counts twice."""
    outer, inner = Budget(calls=10), Budget(calls=1)
    helper = Agent(ScriptedModel(echo), budget=inner, name="helper")

    @tool
    def ask(question: str, ctx: ToolContext) -> str:
        """Ask the helper."""
        return str(ctx.agent(helper.fork(), question).stop_reason)

    lead = ScriptedModel([say(call("ask", {"question": "?"}))] * 2 + ["ok"])
    result = Agent(lead, tools=[ask], budget=outer).run("go")
    assert [tool.outcome for tool in result.tool_outcomes] == ["done"] * 2
    assert (outer.spent.calls, inner.spent.calls) == (4, 1)
    assert outer.spent.tokens == result.usage.total_tokens


def test_a_call_of_a_sub_agent_takes_a_limiter_and_a_budget():
    """``ctx.agent()`` takes both, as ``run()`` does."""
    outer, inner, limiter = Budget(calls=10), Budget(calls=1), Limiter()
    helper = Agent(ScriptedModel(echo), name="helper")

    @tool
    def ask(question: str, ctx: ToolContext) -> str:
        """Ask the helper."""
        result = ctx.agent(helper.fork(), question, limiter=limiter, budget=inner)
        limits.append(result.limit)
        return "done"

    limits = []
    lead = ScriptedModel([say(call("ask", {"question": "?"}))] * 2 + ["ok"])
    Agent(lead, tools=[ask], budget=outer).run("go")
    assert limits == [None, "budget_calls"]
    assert (outer.spent.calls, inner.spent.calls) == (4, 1)
    assert len(limiter._lanes) == 1


def test_a_model_without_a_price_is_refused():
    """As ``Limits(cost=)`` refuses it: such a budget would never be used up."""
    budget = Budget(cost=1.0)
    with pytest.raises(ConfigurationError, match="no price is known"):
        Agent(ScriptedModel(echo), budget=budget)
    agent = Agent(ScriptedModel(echo))
    with pytest.raises(ConfigurationError, match="no price is known"):
        agent.run("hi", budget=budget)
    helper = Agent(ScriptedModel(echo))
    lead = ScriptedModel([say(call("helper", {"prompt": "?"})), "ok"], price=PRICE)
    tools = [helper.as_tool("helper", "Help.")]
    result = Agent(lead, tools=tools, budget=budget).run("go")
    assert result.tool_outcomes[0].outcome == "failed"
    assert "no price is known" in result.tool_outcomes[0].error


def test_models_of_a_fallback_count():
    """The one that failed is charged for what it has used."""
    error = ProtocolError("no sense")  # it has been generated all the same
    budget = Budget(tokens=1000)

    class Billed(ScriptedModel):
        def _respond(self, response, *others):
            yield UsageUpdated(Usage(100, 7))
            yield from super()._respond(response, *others)

    made = Fallback(Billed([error]), ScriptedModel(["ok"]))
    result = Agent(made, budget=budget).run("hi")
    assert (result.text, budget.spent.calls) == ("ok", 1)
    assert budget.spent.tokens == result.usage.total_tokens == 107 + 15


def test_it_is_given_to_an_agent_a_run_or_a_batch():
    """The narrower one counts."""
    own, other = Budget(calls=5), Budget(calls=2)
    agent = Agent(ScriptedModel(echo), budget=own)
    agent.run("one")
    agent.run("two", budget=other)
    assert (own.spent.calls, other.spent.calls) == (1, 1)
    outcomes = list(run_many(agent, ["a", "b", "c"], width=3, budget=other))
    ends = [outcome.result().limit for outcome in outcomes]
    assert sorted(ends, key=str) == [None, "budget_calls", "budget_calls"]
    assert (own.spent.calls, other.spent.calls) == (1, 2)


def test_two_budgets_in_any_order_do_not_wait_for_each_other():
    """Agents within agents, with the budgets the other way round."""
    one, two = Budget(calls=40), Budget(calls=40)

    def work(outer, inner):
        helper = Agent(ScriptedModel(echo), budget=inner)
        tools = [helper.as_tool("helper", "Help.")]
        script = [say(call("helper", {"prompt": "?"}))] * 30
        Agent(ScriptedModel(script), tools=tools, budget=outer).run("go")

    works = [lambda: work(one, two), lambda: work(two, one)] * 10
    together(*works, timeout=60)
    assert one.spent.calls == two.spent.calls == 40


def test_a_request_inside_of_a_stream_does_not_wait_for_it():
    """The thread would wait for itself."""
    budget = Budget(tokens=10_000)
    made = ScriptedModel(lambda messages: "some words")
    for event in Agent(made, budget=budget).stream("hi"):
        if type(event).__name__ == "TextDelta":
            assert Agent(made, budget=budget).run("inside").text == "some words"
            break


# -- stopping --------------------------------------------------------------------------


class Held:
    """A request that holds all that is left of a budget."""

    def __init__(self, budget):
        self.gate = Gate()
        agent = Agent(ScriptedModel([self.gate, "held"]), budget=budget)
        self._thread = threading.Thread(target=agent.run, args=("hold",))

    def __enter__(self):
        self._thread.start()
        self.gate.wait_reached()
        return self

    def __exit__(self, *_):
        self.gate.open()
        self._thread.join(LONG)


def test_a_cancel_ends_the_wait():
    """Promises 2, 3 and 8: with the phase, and nothing was sent or charged."""
    budget = Budget(tokens=100)
    made = ScriptedModel(echo)
    agent, receipts = Agent(made, budget=budget), []
    with Held(budget):

        def stop():
            until(lambda: budget._ledger.places)
            receipts.append(agent.cancel())

        with meanwhile(stop):
            result = agent.run("hi")
        assert (result.cancellation.phase, made.requests) == ("budget", [])
        assert receipts[0].phase == "budget"
        assert result.usage == Usage()
    check_usable(agent)
    assert budget.spent.calls == 2


def test_a_deadline_counts_the_wait():
    """``seconds`` are those of the run, whatever it waits for."""
    budget = Budget(tokens=100)
    with Held(budget):
        agent = Agent(ScriptedModel(echo), budget=budget, limits=Limits(seconds=0.02))
        cancellation = agent.run("hi").cancellation
    assert (cancellation.origin, cancellation.phase) == ("deadline", "budget")


@pytest.mark.parametrize("is_raising", [False, True])
def test_a_signal_handler_ends_the_wait(is_raising):
    """Promise 1: on the very thread that waits; nothing stays reserved."""
    budget = Budget(tokens=100)
    agent = Agent(ScriptedModel(echo), budget=budget)

    def handler(*_):
        if is_raising:
            raise TimeoutError("watchdog")
        agent.cancel()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with Held(budget):

            def send():
                until(lambda: budget._ledger.places)
                os.kill(os.getpid(), signal.SIGUSR1)

            with meanwhile(send):
                if is_raising:
                    with pytest.raises(TimeoutError, match="watchdog"):
                        agent.run("hi")
                else:
                    assert agent.run("hi").cancelled
            assert (budget.in_flight, len(budget._ledger.places)) == (1, 0)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert budget.in_flight == 0


def test_two_hundred_waiting_threads_are_cancelled_at_once():
    """One token ends them all; the budget has what the held one used."""
    budget, token, results = Budget(tokens=100), CancelToken(), []
    made = ScriptedModel(echo)
    with no_leaks(), Held(budget):

        def run():
            results.append(Agent(made, budget=budget).run("hi", cancel=token))

        threads = [threading.Thread(target=run) for _ in range(200)]
        for thread in threads:
            thread.start()
        until(lambda: len(budget._ledger.places) == 200)
        token.cancel("all")
        for thread in threads:
            thread.join(LONG)
        assert {result.cancellation.phase for result in results} == {"budget"}
        assert made.requests == []
    assert budget.spent.calls == 1


@pytest.mark.parametrize("way", ["inside", "thread", "meanwhile"])
def test_cancel_everywhere_on_the_way_through_a_budget(way):
    """Promises 1 to 8 at each point, the wait among them; nothing stays reserved."""
    budgets = []

    def make():
        budget = Budget(tokens=10**6)
        budgets.append(budget)
        door = Held(budget)
        door.__enter__()

        def respond(messages):
            door.__exit__()
            last = type(messages[-1]).__name__
            return "done" if last == "ToolMessage" else SUM

        threading.Thread(target=open_soon, args=(budget, door), daemon=True).start()
        return Agent(ScriptedModel(respond), tools=[add], budget=budget)

    def open_soon(budget, door):
        until(lambda: budget._ledger.places)
        door.gate.open()

    swept = cancel_everywhere(make, "Add.", way=way, allow_abandoned=True)
    if way != "meanwhile":
        assert "budget" in swept.phases
    for budget in budgets:
        until(lambda budget=budget: budget.in_flight == 0)


def test_a_forked_child_goes_on_with_a_copy():
    """What was spent is spent; what is in flight is the parent's."""
    budget = Budget(calls=3)
    Agent(ScriptedModel(echo), budget=budget).run("one")
    with Held(budget):

        def child():
            agent = Agent(ScriptedModel(echo), budget=budget)
            ends = [agent.run("hi").limit for _ in range(3)]
            return [budget.in_flight, ends]

        assert in_child(child) == [0, [None, None, "budget_calls"]]
    assert budget.spent.calls == 2


# -- accounting ------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    limit=st.integers(1, 400),
    usages=st.lists(st.integers(1, 60), min_size=1, max_size=40),
    width=st.integers(1, 12),
)
def test_sums_are_exact_and_the_excess_is_one_request(limit, usages, width):
    """For requests whose most is known, of any size, on any number of threads."""
    budget, left, lock = Budget(tokens=limit), list(usages), threading.Lock()
    used, made = [], ScriptedModel(echo)
    bound = Usage(30, 30)

    def work():
        while True:
            reservation = budget.reservation(made, bound)
            reservation.wait(CancelToken(), lambda: None)
            with lock:
                tokens = left.pop() if left else None
            if reservation.refusal is not None or tokens is None:
                reservation.release()
                return
            with lock:
                used.append(tokens)
            reservation.settle(Usage(tokens, 0), None)

    together(*[work] * width)
    assert budget.spent.tokens == sum(used)
    assert sum(used) < limit + 60
    if left:
        assert sum(used) >= limit
    assert budget.in_flight == 0


def test_an_exception_at_any_step_charges_once():
    """A signal handler raises at the n-th step of an end, and it is repeated."""

    class Watchdog(Exception):
        pass

    for number in range(1, 400):
        budget = Budget(tokens=1000)
        reservation = budget.reservation(ScriptedModel(echo), None)
        reservation.wait(CancelToken(), lambda: None)
        count = [number]

        def trace(frame, event, arg, count=count):
            name = frame.f_code.co_filename
            if "cancel/line" not in name and "run/budget" not in name:
                return None
            count[0] -= 1
            if count[0] == 0:
                raise Watchdog
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            reservation.settle(Usage(5, 5), None)
        except Watchdog:
            pass
        finally:
            sys.settrace(before)
        budget.charge("other", Usage(1, 0), None)
        reservation.settle(Usage(5, 5), None)
        assert (budget.spent.tokens, budget.in_flight) == (11, 0), number
        if count[0] > 0:
            assert number > 20
            return
    raise AssertionError("an end has more than 400 steps")


@pytest.mark.parametrize(
    "wrong",
    [{}, {"cost": 0}, {"cost": float("nan")}, {"tokens": 1.5}, {"calls": -1}],
)
def test_wrong_settings_are_refused(wrong):
    """A budget without a limit is a mistake."""
    with pytest.raises(ConfigurationError, match="Budget"):
        Budget(**wrong)


def test_only_a_budget_is_a_budget():
    """The usual mistake is a number."""
    with pytest.raises(ConfigurationError, match="takes a Budget"):
        Agent(ScriptedModel(echo), budget=5)
    with pytest.raises(ConfigurationError, match="takes a Budget"):
        Agent(ScriptedModel(echo)).run("hi", budget=5)


def test_the_most_that_a_request_may_use():
    """Known only with a payload and ``max_tokens``."""
    assert largest_usage(0, 100) is None
    assert largest_usage(100, None) is None
    assert largest_usage(100, 100).total_tokens == 50 + 1000 + 100
