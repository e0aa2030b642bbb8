"""Agents as tools of agents: cancelled with them, counted with them."""

import threading

import pytest
from support.tools import AGAIN, LAST, Background, check, model, outcomes, told

from syncagent import Agent, ToolContext, tool
from syncagent.exceptions import ProviderUnavailable
from syncagent.testing import Gate, ScriptedModel, call, complaints, say
from syncagent.usage import Usage

ONE = Usage(10, 5)
ASK = {"prompt": "What?"}


def times(number):
    """Return what so many answers of the scripted model use."""
    return Usage(10 * number, 5 * number)


def chain(innermost, *names):
    """Return an agent that asks another one, which asks another one, and so on."""
    agent = innermost
    for name in names:
        agent.name = name
        agent = Agent(model(call(name, ASK)), tools=[agent])
    return agent


def waiting(gate):
    """Return an agent whose model does not answer."""
    return Agent(ScriptedModel([gate, "never"]), name="inner")


def test_an_agent_in_tools():
    """It is asked what the model says, and its answer is the result."""
    inner_model = ScriptedModel(["The answer."])
    inner = Agent(inner_model, name="expert", system="You know.")
    agent = Agent(model(call("expert", ASK)), tools=[inner])
    result = agent.run("Do it.")
    check(agent, result, ["done"])
    assert told(result) == ["The answer."]
    assert inner_model.requests[0][0].content[0].text == "What?"
    assert result.usage == times(3)
    assert agent.tools[0].spec.description == "You know."
    assert inner.messages == (), "each call goes its own way"


@pytest.mark.parametrize("depth", [1, 3])
def test_a_cancel_reaches_the_innermost(depth):
    """Promise 2: an answer that does not come, however deep, holds nobody up."""
    gate, seen = Gate(), []

    class Look:
        def on_finish(self, result):
            seen.append(result)

    inner = Agent(ScriptedModel([gate, "never"]), hooks=[Look()])
    agent = chain(inner, *"abc"[:depth])
    background = Background(agent)
    gate.wait_reached()
    agent.cancel("enough")
    check(agent, background.result(), ["interrupted"])
    [result] = seen
    assert (result.cancellation.origin, result.cancellation.reason) == (
        *("parent", "enough"),
    )


def test_usage_of_three_deep():
    """Promise 5: what every one of them has used is in the result."""
    result = chain(Agent(ScriptedModel(["Yes."])), *"abc").run("Do it.")
    assert result.usage == times(7)
    assert outcomes(result) == ["done"]


def test_usage_of_a_cancelled_one():
    """Promise 5: what it had used until then is counted."""
    gate = Gate()
    script = [say(call("noop")), gate, "never"]

    @tool
    def noop() -> str:
        """Do nothing."""

    agent = chain(Agent(ScriptedModel(script), tools=[noop]), "inner")
    background = Background(agent)
    gate.wait_reached()
    agent.cancel()
    usage = background.result().usage
    assert usage.input_tokens >= times(2).input_tokens
    assert usage.output_tokens >= times(2).output_tokens


def test_usage_of_one_that_fails():
    """Promise 5: its error is a failed result, and what it had used is counted."""
    script = [say(call("noop")), ProviderUnavailable("down")]

    @tool
    def noop() -> str:
        """Do nothing."""

    agent = chain(Agent(ScriptedModel(script), tools=[noop]), "inner")
    result = agent.run("Do it.")
    check(agent, result, ["failed"])
    assert "down" in told(result)[0]
    assert result.usage.input_tokens >= times(3).input_tokens


def test_one_agent_twice_at_once():
    """Promise 9: each call has a conversation of its own."""
    barrier = threading.Barrier(2)

    def reply(messages):
        barrier.wait(10)
        return f"You said {messages[-1].content[0].text}"

    inner = Agent(ScriptedModel(reply), name="echo")
    calls = [call("echo", {"prompt": word}, word) for word in ("one", "two")]
    agent = Agent(model(*calls), tools=[inner], parallel_tools=2)
    result = agent.run("Do it.")
    assert told(result) == ["You said one", "You said two"]
    assert result.usage == times(4)


def test_both_of_two_are_cancelled():
    """Promise 2: those on other threads too."""
    gates = [Gate(), Gate()]
    tools = [Agent(ScriptedModel([gate]), name=f"n{n}") for n, gate in enumerate(gates)]
    calls = [call(each.name, ASK) for each in tools]
    agent = Agent(model(*calls), tools=tools, parallel_tools=2)
    background = Background(agent)
    for gate in gates:
        gate.wait_reached()
    agent.cancel()
    check(agent, background.result(), ["interrupted", "interrupted"])


def test_an_agent_that_a_tool_runs():
    """ctx.agent() gives the whole result, and counts it."""
    seen = []

    @tool
    def delegate(ctx: ToolContext) -> str:
        """Ask another one."""
        assert parent.state == "executing_tool"
        result = ctx.agent(Agent(ScriptedModel(["A detail."])), "What?")
        seen.append(result)
        return result.text.upper()

    parent = Agent(model(call("delegate")), tools=[delegate])
    result = parent.run("Do it.")
    assert told(result) == ["A DETAIL."]
    assert seen[0].stop_reason == "end_turn"
    assert result.usage == times(3)


def test_a_cancel_of_the_inner_one_is_no_cancel_of_the_outer():
    """Promise 9: a child never cancels its parent."""
    gate = Gate()
    inner = waiting(gate)
    seen = []

    @tool(isolation="thread")
    def delegate(ctx: ToolContext) -> str:
        """Ask another one."""
        seen.append(ctx.agent(inner, "What?"))
        return "went on"

    agent = Agent(model(call("delegate")), tools=[delegate])
    background = Background(agent)
    gate.wait_reached()
    assert agent.state == "waiting_for_agent"
    assert inner.cancel("only this one")
    result = background.result()
    assert (result.stop_reason, told(result)) == ("end_turn", ["went on"])
    assert seen[0].cancelled


def test_nothing_of_an_inner_one_begins_after_the_cancel():
    """Promise 6: its model is not asked."""
    inner = ScriptedModel(["never"])

    @tool
    def delegate(ctx: ToolContext) -> str:
        """Ask another one, too late."""
        agent.cancel()
        return ctx.agent(Agent(inner), "What?").text

    agent = Agent(model(call("delegate")), tools=[delegate])
    check(agent, agent.run("Do it."), ["interrupted"])
    assert inner.requests == []


def test_a_timeout_of_a_tool_ends_the_agent_in_it():
    """Promise 2: the run of the outer one goes on."""
    gate = Gate()
    inner = waiting(gate)
    slow = inner.as_tool("slow")

    @tool(timeout=0.05)
    def delegate(ctx: ToolContext) -> str:
        """Ask another one."""
        return ctx.agent(inner, "What?").text

    agent = Agent(model(call("delegate")), tools=[delegate, slow])
    result = agent.run("Do it.")
    check(agent, result, ["interrupted"])
    assert result.tool_outcomes[0].timed_out
    assert not inner.is_running


def test_an_agent_cannot_run_itself():
    """It is busy, which is told; and the conversation is valid."""

    @tool
    def recurse(ctx: ToolContext) -> str:
        """Ask oneself."""
        return ctx.agent(agent, "What?").text

    agent = Agent(model(call("recurse")), tools=[recurse])
    result = agent.run("Do it.")
    check(agent, result, ["failed"])
    assert "AgentBusy" in told(result)[0]


def test_ctrl_c_in_an_inner_one_goes_all_the_way_up():
    """Promise 4: both conversations are valid afterwards."""

    @tool
    def broken() -> str:
        """Raise."""
        raise KeyboardInterrupt

    inner = Agent(model(call("broken")), tools=[broken])

    @tool
    def delegate(ctx: ToolContext) -> str:
        """Ask another one."""
        return ctx.agent(inner, "What?").text

    agent = Agent(model(call("delegate")), tools=[delegate])
    with pytest.raises(KeyboardInterrupt):
        agent.run("Do it.")
    for each in (agent, inner):
        assert complaints(each.messages) == {}
        assert each.run(AGAIN).text == LAST
