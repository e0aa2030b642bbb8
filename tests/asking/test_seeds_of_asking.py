"""What was found wrong elsewhere where somebody is asked: it is not so here."""

import pytest
from support.questions import (
    DO,
    OPEN,
    WONDER,
    asking,
    check_usable,
    do,
    doing,
    meanwhile,
    model,
    outcomes,
    said_to_model,
    the_one,
    wonder,
)
from support.threads import LONG, together, until

from syncagent import Agent, Approval, ConfigurationError, Image, ToolContext, tool
from syncagent.exceptions import InterruptPending
from syncagent.messages import ToolMessage, UserMessage
from syncagent.testing import Gate, call, complaints, say

PICTURE = Image(data=b"\x89PNG")


def heard(agent):
    """Return what the user has said, in order."""
    return [
        block.text
        for message in agent.messages
        if isinstance(message, UserMessage)
        for block in message.content
    ]


# -- PiCrust ---------------------------------------------------------------------------


def test_picrust_1_an_interrupt_while_idle_ends_nothing():
    """There, a late or second interrupt killed the agent; here it does nothing."""
    agent = asking(DO)
    with agent.start("Go.", keep_alive=True) as handle:
        until(lambda: handle.interrupts)
        assert handle.interrupt()
        handle.wait(LONG)
        for _ in range(3):
            assert not handle.interrupt()
            assert not agent.cancel()
        assert not handle.done()
        handle.send_input("Still there?")
        assert handle.result(LONG).text == "ok"
    driver = agent.drive()
    assert not driver.cancel()
    driver.next().submit("And you?")
    assert driver.next().result.text == "ok"


@pytest.mark.parametrize("face", ["run", "drive"])
def test_picrust_2_an_interrupt_after_the_last_tool_is_heard(face):
    """There, it was swallowed, and the model was asked again."""
    agent = None

    @tool(name="do")
    def last(what: str) -> str:
        """Cancel when it is done."""
        agent.cancel("enough")
        return "done"

    agent = asking(DO, tools=[last])
    result = agent.run("Go.") if face == "run" else agent.drive("Go.").next().result
    assert (result.stop_reason, outcomes(result)) == ("cancelled", ["done"])
    assert len(agent.model.requests) == 1
    check_usable(agent)


@pytest.mark.parametrize("answered", [0, 1])
def test_picrust_3_an_interrupt_while_asked_stops_the_whole_round(answered):
    """There, the other tools of the round still ran, or asked."""
    ran = []

    @tool
    def plain() -> None:
        """Run without asking."""
        ran.append("plain")

    script = say(call("plain"), *doing("a", "b").message.tool_calls)
    agent = asking(script, tools=[plain, do])
    driver = agent.drive("Go.")
    driver.next()
    for number in range(answered):
        driver.answer(f"c{number}", True)
    driver.cancel()
    assert outcomes(driver.next().result) == ["not_started"] * 3
    assert (ran, len(agent.model.requests)) == ([], 1)
    check_usable(agent)


def test_picrust_4_an_interrupt_swallows_no_input():
    """There, whatever else was queued was consumed with it."""
    gate = Gate()
    agent = Agent(model(gate, "never said"))
    with agent.start("one") as handle:
        gate.wait_reached()
        handle.send_input("two")
        handle.interrupt()
        handle.send_input("three")
        assert handle.result(LONG).stop_reason == "end_turn"
    assert heard(agent) == ["one", "two", "three"]
    agent = asking(DO)
    with agent.start("one") as handle:
        until(lambda: handle.interrupts)
        handle.send_input("two")
        assert handle.interrupts  # words are no answer
        handle.answer("call_do", True)
        handle.result(LONG)
    assert heard(agent) == ["one", "two"]


def test_picrust_5_an_interrupted_round_keeps_pictures():
    """There, results with pictures were dropped, and their calls had none."""
    agent = None

    @tool
    def draw() -> list:
        """Draw a picture, and end the run."""
        return ["a picture", PICTURE]

    script = say(call("draw"), call("wonder"))
    agent = asking(script, tools=[draw, wonder])
    agent.run("Go.")
    agent.cancel()
    [results] = [m.content for m in agent.messages if isinstance(m, ToolMessage)]
    assert PICTURE in results[0].content
    assert [each.is_error for each in results] == [False, True]
    check_usable(agent)


@pytest.mark.parametrize("face", ["handler", "handle", "drive", "paused"])
def test_picrust_6_an_interrupted_question_ends_the_turn(face):
    """There, the text of it was taken for an answer, and the model was asked again."""
    gate = Gate()
    ask = (lambda question: gate.stop_here() or "so") if face == "handler" else None
    agent = asking(WONDER, ask=ask)
    if face == "handler":
        with meanwhile(lambda: (gate.wait_reached(), agent.cancel())):
            agent.run("Go.")
        gate.open()
    elif face == "handle":
        with agent.start("Go.") as handle:
            until(lambda: handle.interrupts)
            handle.cancel()
            handle.result(LONG)
    elif face == "drive":
        driver = agent.drive("Go.")
        driver.next()
        driver.cancel()
        driver.next()
    else:
        agent.run("Go.")
        agent.cancel()
    assert len(agent.model.requests) == 1
    assert said_to_model(agent.messages)[0].startswith("Interrupted")
    check_usable(agent)


def test_picrust_7_the_same_call_again_and_again():
    """There, a repeated call left a message without results; here each has its own."""
    agent = asking(*[DO] * 3, approve=lambda request: True)
    result = agent.run("Go.")
    assert outcomes(result) == ["done"] * 3
    assert said_to_model(agent.messages) == ["did it"] * 3
    assert complaints(agent.messages) == {}


def test_picrust_8_the_ends_can_be_told_apart():
    """There, finished and interrupted were both "done"."""
    ends = {}
    agent = asking(DO, "ok", DO, "ok", DO)
    ends["paused"] = agent.run("Go.")
    ends["denied"] = agent.resume({the_one(agent).id: False})
    agent.run("Go.")
    ends["late"] = agent.resume({the_one(agent).id: Approval(False, timed_out=True)})
    driver = agent.drive("Go.")
    driver.next()
    driver.cancel()
    ends["cancelled"] = driver.next().result
    told = {
        name: (each.stop_reason, each.tool_outcomes[0].outcome, each.cancelled)
        for name, each in ends.items()
    }
    assert told == {
        "paused": ("interrupt", "not_started", False),
        "denied": ("end_turn", "denied", False),
        "late": ("end_turn", "not_started", False),
        "cancelled": ("cancelled", "not_started", True),
    }


@pytest.mark.parametrize("face", ["drive", "start"])
def test_picrust_9_a_cancel_reaches_a_sub_agent_that_waits(face):
    """There, sub-agents ran on; here its question ends with the run above it."""
    gate = Gate()
    ran = []

    @tool(name="do", requires_approval=True)
    def below(what: str) -> None:
        """Do it."""
        ran.append(what)

    under = asking(DO, tools=[below], approve=lambda asked: gate.stop_here() or True)

    @tool
    def delegate(ctx: ToolContext) -> str:
        """Have another agent do it."""
        return ctx.agent(under, "Do it.").text

    agent = asking(say(call("delegate")), tools=[delegate])
    results = []
    if face == "drive":
        driver = agent.drive("Go.")
        together(
            lambda: results.append(driver.next().result),
            lambda: (gate.wait_reached(), driver.cancel()),
        )
    else:
        with agent.start("Go.") as handle:
            gate.wait_reached()
            handle.cancel()
            results.append(handle.result(LONG))
    gate.open()
    assert (results[0].stop_reason, outcomes(results[0])) == (
        "cancelled",
        ["interrupted"],
    )
    assert (ran, under.is_running) == ([], False)
    check_usable(agent)
    check_usable(under)


# -- agentkit --------------------------------------------------------------------------


def test_agentkit_next_on_what_is_pending():
    """There, the docs said error and the code gave it again; here it is an error."""
    driver = asking(doing("a", "b")).drive("Go.")
    asked = driver.next()
    with pytest.raises(InterruptPending, match="must be answered"):
        driver.next()
    driver.answer("c1", True)  # answered out of turn: the first is still open
    with pytest.raises(InterruptPending, match=asked.id):
        driver.next()
    asked.approve()
    assert not driver.next().is_blocking


def test_agentkit_a_decision_does_not_outrun_a_cancel():
    """There, a tool that was approved still ran after a cancel."""
    agent = asking(DO)
    driver = agent.drive("Go.")
    driver.next().approve()
    driver.cancel()
    assert outcomes(driver.next().result) == ["not_started"]


# -- Strands ---------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, "", 0, [], {}])
def test_strands_4470_an_approval_that_is_no_answer(answer):
    """There, None repeated the interrupt without a word; here it is an error."""
    agent = asking(DO)
    agent.run("Go.")
    before = agent.interrupts
    with pytest.raises(ConfigurationError, match="True, False or Approval"):
        agent.resume({the_one(agent).id: answer})
    assert agent.interrupts == before
    assert outcomes(agent.resume({the_one(agent).id: False})) == ["denied"]


@pytest.mark.parametrize(
    ("script", "answer", "told"),
    [
        (OPEN, None, "Denied: there are no credentials for door"),
        (OPEN, "", "opened with 0 characters"),
        (WONDER, None, "the user did not answer"),
        (WONDER, "", ", "),
    ],
    ids=["no credentials", "empty ones", "no words", "empty words"],
)
def test_strands_4470_an_answer_that_is_false_is_one(script, answer, told):
    """The run goes on with it, and nobody is asked the same again."""
    agent = asking(script)
    agent.run("Go.")
    seen = []
    while agent.is_paused:
        assert the_one(agent).id not in seen
        seen.append(the_one(agent).id)
        agent.resume({the_one(agent).id: answer})
    assert said_to_model(agent.messages) == [told]
    check_usable(agent)


def test_strands_a_prompt_and_a_restart_while_it_waits():
    """There, sessions were broken after that; here both ways out work."""
    agent = asking(DO)
    agent.run("Go.")
    with pytest.raises(InterruptPending, match=r"resume\(\).*cancel\(\)"):
        agent.run("Something else.")
    again = Agent.load(agent.save(), model(), tools=[do])
    with pytest.raises(InterruptPending):
        again.run("Something else.")
    again.cancel()
    check_usable(again)
    assert outcomes(agent.resume({the_one(agent).id: True})) == ["done"]
