"""A tool asks where somebody can answer: it waits in place, and is called once."""

import pytest
from support.questions import (
    WONDER,
    asked_in_process,
    asking,
    check_usable,
    meanwhile,
    outcomes,
    said_to_model,
    the_one,
    wonder,
)
from support.threads import LONG, until

from syncagent import Agent, ToolContext, tool
from syncagent.testing import Gate


def test_a_paused_question_goes_on_in_a_handle():
    """What was answered is not asked again there; the next question waits in place."""
    agent = asking(WONDER)
    agent.run("Go.")
    asked = []
    with agent.start() as handle:
        while not handle.done():
            open_now = until(lambda: handle.interrupts or handle.done())
            for each in open_now if open_now is not True else ():
                asked.append((each.id, each.question))
                assert handle.answer(each.id, each.question)
        result = handle.result(LONG)
    assert [question for _, question in asked] == ["What?", "Why?"]
    assert len(dict(asked)) == 2
    assert (outcomes(result), said_to_model(agent.messages)) == (
        ["done"],
        ["What?, Why?"],
    )


def test_a_paused_question_goes_on_with_a_handler():
    """One that is there after a restart answers what is open, and what follows."""
    agent = asking(WONDER)
    agent.run("Go.")
    asked = []
    other = Agent.load(
        agent.save(),
        agent.model,
        tools=[wonder],
        ask=lambda question: asked.append(question) or question.lower(),
    )
    other.resume({the_one(other).id: "first"})
    assert asked == ["Why?"]
    assert said_to_model(other.messages) == ["first, why?"]
    last = Agent.load(
        agent.save(), agent.model, tools=[wonder], ask=lambda question: "by handler"
    )
    with last.drive() as driver:
        driver.next()
    assert said_to_model(last.messages) == ["by handler, by handler"]


@pytest.mark.parametrize("isolation", [None, "thread", "process"])
def test_a_tool_in_a_handle_waits_in_place(isolation):
    """It is called once, and a cancel ends its wait at once."""
    function = asked_in_process if isolation == "process" else wonder.function
    made = tool(name="wonder", isolation=isolation)(function)
    agent = asking(WONDER, "ok", WONDER, tools=[made])
    for ends in ("answer", "cancel"):
        with agent.start("Go.") as handle:
            for _ in range(2 if ends == "answer" else 1):
                [asked] = until(lambda: handle.interrupts)
                if ends == "answer":
                    asked.submit("so")
                    until(lambda asked=asked: asked not in handle.interrupts)
            if ends == "cancel":
                assert handle.cancel()
            result = handle.result(LONG)
        word = {"answer": "done", "cancel": "interrupted"}[ends]
        assert outcomes(result) == [word]
    check_usable(agent)


def test_a_yes_to_a_question_after_a_cancel_starts_nothing():
    """Promise 6: an answer that comes with the cancel does not go on with the tool."""
    gate = Gate()
    reached = []

    @tool(name="wonder")
    def curious(ctx: ToolContext) -> str:
        """Ask."""
        ctx.ask("Sure?")
        reached.append(1)
        return "went on"

    agent = asking(
        WONDER, tools=[curious], ask=lambda question: gate.stop_here() or "yes"
    )
    with meanwhile(lambda: (gate.wait_reached(), agent.cancel())):
        result = agent.run("Go.")
    gate.open()
    assert (outcomes(result), reached) == (["interrupted"], [])
    check_usable(agent)
