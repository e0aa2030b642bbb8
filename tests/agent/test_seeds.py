"""The behaviours that other systems are known for, and what was found wrong there."""

import threading

import pytest
from support.threads import together
from support.two_rounds import AGAIN, LAST, make_agent, told, words

from syncagent import Agent, Cancelled, ToolContext, tool
from syncagent.messages import ToolMessage
from syncagent.testing import Gate, ScriptedModel, call, complaints, say

MARKER = "<system>User interrupted this message</system>"


@tool
def work(number: int) -> int:
    """Do a piece of work."""
    return number


# -- Strands ---------------------------------------------------------------------------


def test_strands_checkpoint_in_the_stream():
    """A cancel in the middle of a stream ends it, and the history stays usable."""
    agent = Agent(ScriptedModel(["one two three four", LAST]))
    with agent.stream("Do it.") as stream:
        for event in stream:
            if getattr(event, "text", ""):
                agent.cancel()
    assert stream.result.stop_reason == "cancelled"
    assert agent.run(AGAIN).text == LAST


def test_strands_checkpoint_before_tools():
    """A cancel before the tools gives every pending call a result, and runs none."""
    model = ScriptedModel(
        [say(call("work", {"number": 1}, "a"), call("work", {"number": 2}, "b")), LAST]
    )
    agent = Agent(model, tools=[work])
    with agent.stream("Do it.") as stream:
        for event in stream:
            if type(event).__name__ == "TurnFinished":
                agent.cancel()
    assert [type(m).__name__ for m in agent.messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
    ]
    assert [result.call_id for result in agent.messages[-1].content] == ["a", "b"]
    assert all(result.is_error for result in agent.messages[-1].content)
    assert agent.run(AGAIN).text == LAST


def test_strands_finding_1_sequential_tools_are_checked_between_each():
    """There, both tools ran; here the second one never starts."""
    ran = []

    @tool
    def step(number: int) -> int:
        """Do one step."""
        ran.append(number)
        agent.cancel("after the first")
        return number

    asked = say(*(call("step", {"number": n}, f"c{n}") for n in (1, 2, 3)))
    agent = Agent(ScriptedModel([asked, LAST]), tools=[step])
    result = agent.run("Do it.")
    assert ran == [1]
    outcomes = [each.outcome for each in result.tool_outcomes]
    assert outcomes == ["done", "not_started", "not_started"]


def test_strands_finding_2_a_cancel_while_paused_clears_the_pause():
    """There, the next prompt raised; here it works."""
    agent = make_agent(approve=None)
    assert agent.run("Do it.").stop_reason == "interrupt"
    agent.cancel()
    assert agent.run(AGAIN).text == LAST


def test_strands_fifty_threads_cancel_one_agent():
    """Exactly one of them is first, all are told the truth, and none blocks."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, LAST]))
    receipts, results = [], []

    def cancel():
        gate.wait_reached()
        receipts.append(agent.cancel("one of many"))

    together(lambda: results.append(agent.run("Do it.")), *[cancel] * 60)
    assert results[0].cancelled
    assert sum(receipt.first for receipt in receipts) == 1
    assert any(receipts)
    for receipt in receipts:  # those that came after the end hit nothing
        assert receipt.wait(10)
        assert bool(receipt) or not receipt.first
    assert agent.run(AGAIN).text == LAST


def test_strands_the_signal_clears_itself():
    """Promise 8: the signal is a threading.Event, set while it ends, clear after."""
    gate, seen = Gate(), []
    agent = Agent(ScriptedModel([gate, LAST]))

    def watch():
        gate.wait_reached()
        signal = agent.cancel_signal
        agent.cancel()
        seen.append((isinstance(signal, threading.Event), signal.is_set()))

    together(lambda: agent.run("Do it."), watch)
    assert seen == [(True, True)]
    assert not agent.cancel_signal.is_set()


def test_strands_setting_the_signal_cancels():
    """Who has only the event can stop the run with it."""
    gate = Gate()
    agent, results = Agent(ScriptedModel([gate, LAST])), []
    together(
        lambda: results.append(agent.run("Do it.")),
        lambda: (gate.wait_reached(), agent.cancel_signal.set()),
    )
    assert results[0].cancelled


# -- PiCrust ---------------------------------------------------------------------------


def test_picrust_scenario_1_streaming():
    """Partial text stays, all tool calls go, the marker is added."""
    reply = say("a beginning of it", call("work", {"number": 1}), "and an end")
    agent = Agent(ScriptedModel([reply], piece=100), tools=[work])
    with agent.stream("Do it.") as stream:
        for event in stream:
            if type(event).__name__ == "ToolCallReady":  # complete, and yet it goes
                agent.cancel()
    assert words(agent.messages[-1]) == ["a beginning of it", MARKER]
    assert agent.messages[-1].tool_calls == ()


def test_picrust_scenario_2_permission():
    """The pending tool gets an error result, a marker follows, the turn ends."""
    gate = Gate()
    agent = make_agent(approve=lambda request: gate.stop_here())
    results = []
    together(
        lambda: results.append(agent.run("Do it.")),
        lambda: (gate.wait_reached(), agent.cancel(), gate.open()),
    )
    tools, marker = agent.messages[-2:]
    assert all(text.startswith("Interrupted") for text in told(tools))
    assert (words(marker), results[0].turns) == ([MARKER], 2)


def test_picrust_scenario_3_tools():
    """The current tool completes with its result; the rest says that it did not run."""

    @tool
    def write(number: int) -> str:
        """Write half a file, and then the rest of it."""
        agent.cancel()
        return f"written {number}"

    asked = say(*(call("write", {"number": n}, f"w{n}") for n in (1, 2)))
    agent = Agent(ScriptedModel([asked, LAST]), tools=[write])
    agent.run("Do it.")
    first, second = told(agent.messages[-1])
    assert first == "written 1"
    assert second.startswith("Interrupted")


def test_picrust_an_interrupt_while_idle_does_nothing():
    """There it ended the agent; here it is a no-op that says so."""
    agent = Agent(ScriptedModel([LAST, LAST]))
    assert not agent.cancel()
    assert agent.run("Do it.").text == LAST
    assert not agent.cancel()
    assert agent.run(AGAIN).text == LAST


def test_picrust_a_second_interrupt_does_nothing():
    """It hits the same run, is not the first, and leaves the next one alone."""
    gate = Gate()
    agent, receipts = Agent(ScriptedModel([gate, LAST])), []

    def twice():
        gate.wait_reached()
        receipts.extend([agent.cancel("one"), agent.cancel("two")])

    together(lambda: agent.run("Do it."), twice)
    assert [receipt.first for receipt in receipts] == [True, False]
    assert receipts[0].reason == "one"
    assert agent.run(AGAIN).text == LAST


# -- agentkit --------------------------------------------------------------------------


def test_agentkit_an_interrupt_reaches_only_what_began_before_it():
    """Promise 3: a cancel of one run never touches the next one."""
    agent = Agent(ScriptedModel(lambda messages: LAST))
    for _ in range(20):
        agent.run("Do it.")
        agent.cancel("too late")
    assert agent.run(AGAIN).stop_reason == "end_turn"


def test_agentkit_a_decision_after_a_cancel_runs_nothing():
    """There, the decided tool still ran; here a late yes starts nothing."""
    ran = []

    @tool(requires_approval=True)
    def dangerous() -> None:
        """Do something."""
        ran.append(1)

    def approve(request):
        agent.cancel("while deciding")
        return True

    agent = Agent(
        ScriptedModel([say(call("dangerous")), LAST]),
        tools=[dangerous],
        approve=approve,
    )
    assert agent.run("Do it.").cancelled
    assert ran == []


# -- opendev ---------------------------------------------------------------------------


def test_opendev_a_child_token_never_cancels_its_parent():
    """A tool that cancels its own token ends itself, and not the run."""

    @tool
    def give_up(ctx: ToolContext) -> str:
        """Stop yourself."""
        ctx.token.cancel("not worth it")
        ctx.checkpoint()
        return "never"

    agent = Agent(ScriptedModel([say(call("give_up")), LAST]), tools=[give_up])
    result = agent.run("Do it.")
    assert result.stop_reason == "end_turn"
    assert result.tool_outcomes[0].outcome == "interrupted"


def test_opendev_a_finished_parallel_tool_keeps_its_result():
    """There, a whole batch was overwritten; here what is done is done."""
    gate = Gate()

    @tool
    def quick() -> str:
        """Be done."""
        return "real"

    @tool
    def slow(ctx: ToolContext) -> str:
        """Wait for the end."""
        gate.stop_here(token=ctx.token)
        return "never"

    agent = Agent(
        ScriptedModel([say(call("quick"), call("slow")), LAST]),
        tools=[quick, slow],
        parallel_tools=2,
    )
    results = []

    def cancel():
        gate.wait_reached()
        agent.cancel()

    together(lambda: results.append(agent.run("Do it.")), cancel)
    outcomes = [each.outcome for each in results[0].tool_outcomes]
    assert outcomes == ["done", "interrupted"]
    assert told(agent.messages[-1])[0] == "real"


# -- SimpleLLMFunc ---------------------------------------------------------------------


@pytest.mark.parametrize("stop_at", range(0, 24, 3))
def test_simplellmfunc_the_guarantee(stop_at):
    """An abort always leaves a valid state: no dangling call, no half message."""
    agent = make_agent()
    with agent.stream("Do it.") as stream:
        for number, _ in enumerate(stream):
            if number == stop_at:
                stream.cancel("enough")
    assert stream.result.cancelled
    assert complaints(agent.messages) == {}
    calls = [c.call_id for m in agent.messages for c in getattr(m, "tool_calls", ())]
    answered = [
        result.call_id
        for message in agent.messages
        if isinstance(message, ToolMessage)
        for result in message.content
    ]
    assert calls == answered


def test_simplellmfunc_an_aborted_answer_is_not_asked_for_again():
    """There, an empty answer was tried again, also after an abort."""
    gate = Gate()
    model = ScriptedModel([gate, LAST, LAST])
    agent = Agent(model)
    together(
        lambda: agent.run("Do it.", output=int),
        lambda: (gate.wait_reached(), agent.cancel()),
    )
    assert len(model.requests) == 1


def test_cancelled_never_escapes_a_public_call():
    """A cancel is a result; who wants an exception asks for one."""
    gate = Gate()
    agent, results = Agent(ScriptedModel([gate, LAST])), []
    together(
        lambda: results.append(agent.run("Do it.")),
        lambda: (gate.wait_reached(), agent.cancel("enough")),
    )
    with pytest.raises(Exception, match="enough") as caught:
        results[0].raise_for_status()
    assert not isinstance(caught.value, Cancelled)
    assert caught.value.result is results[0]
