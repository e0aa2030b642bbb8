"""Those who answer for a run: on a thread of their own, and able to hear of its end."""

import contextvars
import threading

import pytest
from support.threads import together
from support.two_rounds import AGAIN, LAST, make_agent

from syncagent import Agent, AgentBusy, ToolContext, abandoned, tool
from syncagent.messages import ToolMessage
from syncagent.testing import Gate, ScriptedModel, call, complaints, say

NAME = contextvars.ContextVar("name", default="nobody")


def test_a_handler_that_hears_is_not_left_behind():
    """Promise 7: given the token, it ends by itself, and is waited for."""
    seen = []

    def approve(request, token):
        agent.cancel("while it waits")
        seen.append(token.wait(20))
        return True

    agent = make_agent(approve=approve)
    assert agent.run("Do it.").cancelled
    assert seen == [True]
    assert abandoned() == ()


def test_a_handler_that_does_not_hear_is_listed_until_it_ends():
    """Promises 2 and 7: nobody waits for it, and nobody hides it."""
    gate = Gate()
    agent = make_agent(approve=lambda request: gate.stop_here())
    together(
        lambda: agent.run("Do it."),
        lambda: (gate.wait_reached(), agent.cancel("enough")),
    )
    assert [each.name for each in abandoned()] == ["approve"]
    gate.open()


def test_a_handler_has_the_callers_context_variables():
    """What was set for a request is seen where it is answered."""
    seen = []

    def approve(request):
        seen.append((NAME.get(), threading.current_thread().name))
        return True

    NAME.set("somebody")
    make_agent(approve=approve).run("Do it.")
    assert seen == [("somebody", "syncagent-approve")]


def test_questions_are_answered_in_the_tool():
    """``ctx.ask()`` blocks the tool until somebody answers."""

    @tool
    def greet(ctx: ToolContext) -> str:
        """Greet somebody."""
        return f"Hello, {ctx.ask('Who are you?')}"

    agent = Agent(
        ScriptedModel([say(call("greet")), LAST]),
        tools=[greet],
        ask=lambda question, token: question.upper(),
    )
    agent.run("Do it.")
    assert agent.messages[2].content[0].content[0].text == "Hello, WHO ARE YOU?"


def test_where_a_question_was_cancelled():
    """Promise 5: receipt and result tell the same phase."""
    gate, receipts = Gate(), []

    @tool
    def wonder(ctx: ToolContext) -> str:
        """Ask."""
        return ctx.ask("Why?")

    agent = Agent(
        ScriptedModel([say(call("wonder")), LAST]),
        tools=[wonder],
        ask=lambda question: gate.stop_here(),
    )
    results = []
    together(
        lambda: results.append(agent.run("Do it.")),
        lambda: (gate.wait_reached(), receipts.append(agent.cancel())),
    )
    gate.open()
    assert (receipts[0].phase, results[0].cancellation.phase) == ("input", "input")
    assert results[0].tool_outcomes[0].outcome == "interrupted"
    assert agent.run(AGAIN).text == LAST


@pytest.mark.parametrize("isolation", [None, "thread"])
@pytest.mark.parametrize("on_busy", ["queue", "interrupt", "raise"])
def test_a_tool_cannot_wait_for_its_own_run(isolation, on_busy):
    """It is told so at once, wherever it runs."""
    seen = []

    @tool(isolation=isolation)
    def recurse() -> str:
        """Ask the agent that asks."""
        try:
            agent.run("again", on_busy=on_busy)
        except AgentBusy as error:
            seen.append(error)
        return "no"

    agent = Agent(ScriptedModel([say(call("recurse")), LAST]), tools=[recurse])
    assert agent.run("Do it.").text == LAST
    assert len(seen) == 1


def test_a_stream_may_be_closed_from_another_thread():
    """The step that is being made ends, as by a cancel."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, LAST, LAST]))
    stream = agent.stream("Do it.")
    together(lambda: list(stream), lambda: (gate.wait_reached(), stream.close()))
    assert stream.result.cancellation.origin == "closed"
    assert agent.run(AGAIN).text == LAST


def test_a_tool_that_was_interrupted_by_a_signal_says_so():
    """Promise 5: a Ctrl+C is no mistake of the tool's."""

    @tool
    def stopped() -> str:
        """Be stopped."""
        raise KeyboardInterrupt

    agent = Agent(ScriptedModel([say(call("stopped")), LAST]), tools=[stopped])
    with pytest.raises(KeyboardInterrupt):
        agent.run("Do it.")
    assert isinstance(agent.messages[-1], ToolMessage)
    told = agent.messages[-1].content[0].content[0].text
    assert told.startswith("Interrupted")
    assert complaints(agent.messages) == {}


def test_memory_error_goes_up_even_after_a_cancel():
    """What is wrong with the machine is not hidden by what somebody wanted."""

    class Hungry:
        def after_model(self, event):
            agent.cancel()
            raise MemoryError

    agent = Agent(ScriptedModel([LAST, LAST]), hooks=[Hungry()])
    with pytest.raises(MemoryError):
        agent.run("Do it.")
    assert not agent.is_running


def test_a_sub_agent_that_does_not_come_to_its_end_is_a_failed_tool():
    """The model above is told, and does not take half an answer for one."""

    @tool(requires_approval=True)
    def dangerous() -> str:
        """Do something."""
        return "x"

    inner = Agent(
        ScriptedModel(lambda messages: say("May I?", call("dangerous"))),
        tools=[dangerous],
        name="inner",
    )
    outer = Agent(
        ScriptedModel([say(call("inner", {"prompt": "go"})), LAST]), tools=[inner]
    )
    result = outer.run("Do it.")
    assert result.tool_outcomes[0].outcome == "failed"
    assert "needs an answer" in result.tool_outcomes[0].error


def test_a_key_is_never_used_twice():
    """Some models use the id of a call again; those are two calls all the same."""
    keys = []

    @tool
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        keys.append(ctx.idempotency_key)
        return "paid"

    script = [say(call("pay", call_id="x")), say(call("pay", call_id="x")), LAST]
    Agent(ScriptedModel(script), tools=[pay]).run("Do it.")
    assert len(set(keys)) == 2


def test_states_while_tools_wait():
    """Each is an event, and what several wait for is not mixed up."""
    first, second = Gate(), Gate()
    gates = {"first?": first, "second?": second}
    seen = []

    @tool
    def inquire(question: str, ctx: ToolContext) -> str:
        """Ask."""
        return ctx.ask(question)

    asked = [call("inquire", {"question": q}, q[:-1]) for q in gates]
    agent = Agent(
        ScriptedModel([say(*asked), LAST]),
        tools=[inquire],
        parallel_tools=2,
        ask=lambda question: gates[question].stop_here() or question,
    )

    def act():
        first.wait_reached()
        second.wait_reached()
        first.open()
        while len(agent._conversation.run.services._waits) == 2:
            pass
        seen.append(agent.state)
        second.open()

    together(lambda: seen.append([type(e).__name__ for e in agent.stream("Go.")]), act)
    assert seen[0] == "waiting_for_input"
    assert seen[1].count("StateChanged") >= 4


def test_hooks_see_errors():
    """A hook is told how a run ends that has no result; it cannot hide that."""
    seen = []

    class Watch:
        def on_error(self, error):
            seen.append(error)
            raise ValueError("mine")

    agent = Agent(ScriptedModel([TimeoutError("slow"), LAST]), hooks=[Watch()])
    with pytest.raises(TimeoutError):
        agent.run("Do it.")
    assert [str(error) for error in seen] == ["slow"]
    assert agent.state == "failed"
    assert agent.run(AGAIN).text == LAST
    assert agent.state == "idle"


def test_a_class_is_no_hook():
    """It is said what to write."""

    class Watch:
        def on_event(self, event):
            pass

    with pytest.raises(ValueError, match=r"write Watch\(\)"):
        Agent(ScriptedModel(), hooks=[Watch])


def test_a_stream_that_is_dropped_is_no_failure():
    """Nothing has gone wrong, and the agent says so."""
    agent = Agent(ScriptedModel([LAST]))
    agent.stream("Do it.")
    assert agent.state == "idle"
    assert not agent.is_running
