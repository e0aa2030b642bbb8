"""Cancels that let a run go on for a while, and those that wait for nothing."""

import pytest
from support.threads import together
from support.two_rounds import AGAIN, LAST

from syncagent import Agent, ToolContext, tool
from syncagent.testing import Gate, ScriptedModel, call, complaints, say


def rounds(*names):
    """Return a script: one round with all the tools, and then the end."""
    return [say("Let me see.", *map(call, names)), LAST, LAST]


def tools(gate):
    """Return two tools; the first of them waits at the gate, and ignores all else."""
    ran = []

    @tool
    def first(ctx: ToolContext) -> str:
        """Wait at the gate."""
        ran.append("first")
        gate.stop_here()
        ctx.checkpoint()
        return "one"

    @tool
    def second() -> str:
        """Come second."""
        ran.append("second")
        return "two"

    return [first, second], ran


def run_and(agent, act):
    """Run *agent*, do something meanwhile, and return the result."""
    results = []
    together(lambda: results.append(agent.run("Do it.")), act)
    assert complaints(agent.messages) == {}
    return results[0]


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("mode", ["after_tools", "after_turn"])
def test_tools_that_run_may_end_first(mode, width):
    """The whole round is made, and the model is not asked again."""
    gate = Gate()
    given, ran = tools(gate)
    model = ScriptedModel(rounds("first", "second"))
    agent = Agent(model, tools=given, parallel_tools=width)

    def act():
        gate.wait_reached()
        assert agent.cancel("soon", mode=mode).first
        gate.open()

    result = run_and(agent, act)
    assert result.cancelled
    assert result.cancellation.reason == "soon"
    assert sorted(ran) == ["first", "second"]
    assert [each.outcome for each in result.tool_outcomes] == ["done", "done"]
    assert len(model.requests) == 1
    assert agent.run(AGAIN).text == LAST


def test_after_tools_ends_an_answer_at_once():
    """No tool runs, so there is nothing to wait for."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, LAST, LAST]))

    def act():
        gate.wait_reached()
        assert agent.cancel("now then", mode="after_tools")

    result = run_and(agent, act)
    assert result.cancellation.reason == "now then"
    assert result.text == ""


def test_after_turn_lets_an_answer_end():
    """The answer is whole, its tools are called, and that was it."""
    gate, opened = Gate(), Gate()
    opened.open()
    given, ran = tools(opened)
    model = ScriptedModel([gate, *rounds("first")])
    agent = Agent(model, tools=given)

    def act():
        gate.wait_reached()
        assert agent.cancel("after this", mode="after_turn")
        gate.open()

    result = run_and(agent, act)
    assert (result.cancelled, result.text, ran) == (True, "Let me see.", ["first"])
    assert len(model.requests) == 1


def test_after_turn_of_the_last_turn_is_a_cancel_too():
    """Promise 3: who was told that the run is cancelled is told so by the result."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, LAST]))

    def act():
        gate.wait_reached()
        assert agent.cancel(mode="after_turn")
        gate.open()

    result = run_and(agent, act)
    assert (result.cancelled, result.text) == (True, LAST)


@pytest.mark.parametrize("first", ["after_turn", "after_tools"])
def test_a_stronger_cancel_may_follow(first):
    """What was to wait ends now; the first reason stays."""
    gate = Gate()

    @tool
    def wait(ctx: ToolContext) -> str:
        """Wait for the end."""
        gate.stop_here(token=ctx.token)
        return "never"

    agent = Agent(ScriptedModel(rounds("wait")), tools=[wait])

    def act():
        gate.wait_reached()
        assert agent.cancel("first", mode=first)
        assert agent.cancel("second")

    result = run_and(agent, act)
    assert result.tool_outcomes[0].outcome == "interrupted"
    assert result.cancellation.reason == "second"


def test_after_tools_is_stronger_than_after_turn():
    """An answer that was to be whole ends at once."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, LAST]))

    def act():
        gate.wait_reached()
        assert agent.cancel("later", mode="after_turn")
        assert agent.cancel("sooner", mode="after_tools")

    assert run_and(agent, act).text == ""


def test_a_mode_that_is_none_on_an_idle_agent():
    """A mistake shows before it matters."""
    with pytest.raises(ValueError, match="after_tools"):
        Agent(ScriptedModel([LAST])).cancel(mode="soon")


def test_a_mode_that_is_none():
    """It is said at once, and nothing is cancelled."""
    agent = Agent(ScriptedModel([LAST]))
    with agent.stream("Do it.") as stream:
        with pytest.raises(ValueError, match="after_tools"):
            agent.cancel(mode="tomorrow")
        list(stream)
    assert stream.result.stop_reason == "end_turn"


def test_force_waits_for_no_thread():
    """A tool that would be waited for, or has grace left, is left behind at once."""
    gate = Gate()

    @tool(isolation="thread")
    def deaf() -> str:
        """Hear nothing."""
        gate.stop_here()
        return "late"

    agent = Agent(ScriptedModel(rounds("deaf")), tools=[deaf])

    def act():
        gate.wait_reached()
        assert agent.cancel("please")
        receipt = agent.cancel("at once", force=True)
        assert receipt
        assert receipt.wait(10)

    result = run_and(agent, act)
    gate.open()
    assert [each.outcome for each in result.abandoned] == ["abandoned"]
    assert result.cancellation.reason == "please"
    assert agent.run(AGAIN).text == LAST
