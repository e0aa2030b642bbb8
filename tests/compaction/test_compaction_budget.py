"""Summaries are requests of the run: budgets count them, and may refuse them."""

from support.contents import json_of

from syncagent import Agent, Budget, Summarize, tool
from syncagent.compaction.sizes import estimate
from syncagent.exceptions import ProviderError
from syncagent.messages import UserMessage
from syncagent.testing import Gate, ScriptedModel, call, say
from syncagent.usage import Usage

BEGIN = "<record of earlier work>"


@tool
def look() -> str:
    """Look."""
    return "seen " * 500


def is_record(messages):
    return getattr(messages[-1].content[-1], "text", "").startswith("<conversation>")


def respond(messages):
    """Look until there is a record of that."""
    size = Usage(estimate(messages), 5)
    if is_record(messages):
        return say("The record.", usage=size)
    if BEGIN in json_of(messages[0]):
        return say("Done.", usage=size)
    return say(call("look"), usage=size)


def make(budget, summary_model=None):
    model = ScriptedModel(respond, context_window=4000)
    steps = [Summarize(model=summary_model, keep=1)]
    return Agent(model, tools=[look], compaction=steps, budget=budget)


def test_a_summary_is_charged_to_the_budget():
    """All requests of a run count, those for summaries, too."""
    budget = Budget(calls=100)
    result = make(budget).run("Do it.")
    assert result.text == "Done."
    requests = result.turns
    assert budget.spent.calls == requests
    assert budget.spent.tokens == result.usage.total_tokens
    assert budget.in_flight == 0


def test_a_summary_by_another_model_is_charged_by_its_price():
    """The budget counts the requests of every model that the run asks."""
    budget = Budget(tokens=10**6)
    other = ScriptedModel(lambda messages: say("The record.", usage=Usage(70_000, 7)))
    result = make(budget, summary_model=other).run("Do it.")
    assert result.text == "Done."
    assert budget.spent.tokens == result.usage.total_tokens > 70_000


def test_a_budget_that_refuses_the_summary_ends_the_run():
    """The run ends at its limit, with the old conversation, valid and whole."""
    counted = make(budget := Budget(calls=100))
    counted.run("Do it.")
    rounds = budget.spent.calls - 2  # without the summary, and the turn after it

    agent = make(budget := Budget(calls=rounds))
    result = agent.run("Do it.")
    assert (result.stop_reason, result.limit) == ("limit", "budget_calls")
    assert BEGIN not in json_of(agent.messages)
    assert budget.spent.calls == rounds
    assert budget.in_flight == 0

    agent.run("Go on.", budget=Budget(calls=100))
    assert BEGIN in json_of(agent.messages)


def test_a_cancelled_summary_gives_its_place_back():
    """A cancel in the summary leaves nothing reserved."""
    gate, budget = Gate(), Budget(calls=100)
    agent = make(budget, summary_model=ScriptedModel([gate, "never said"]))
    with agent.start("Do it.") as handle:
        gate.wait_reached()
        assert budget.in_flight == 1
        receipt = agent.cancel()
        assert handle.result(5).cancelled
        assert receipt.phase == "compaction"
    assert budget.in_flight == 0
    assert isinstance(agent.messages[0], UserMessage)
    assert BEGIN not in json_of(agent.messages)


def test_a_summary_that_failed_is_not_charged():
    """A step may do without it: the next response is charged once, for itself only."""

    class Careful:
        failures = 0

        def compact(self, messages, room):
            try:
                room.ask("Sum up.", model=ScriptedModel([ProviderError("no")]))
            except ProviderError:
                self.failures += 1
            return messages[-3:]

    def look_on(messages):
        looked.append(messages)
        reply = call("look") if len(looked) < 9 else "Done."
        return say(reply, usage=Usage(estimate(messages), 5))

    looked, careful, budget = [], Careful(), Budget(calls=100)
    model = ScriptedModel(look_on, context_window=4000)
    agent = Agent(model, tools=[look], compaction=[careful], budget=budget)
    result = agent.run("Do it.")
    assert result.text == "Done."
    assert careful.failures
    assert budget.spent.calls == len(looked)
    assert budget.spent.tokens == result.usage.total_tokens
    assert budget.in_flight == 0
