"""Ctrl+C at every line of a driver's next(): the agent is of use after it."""

import pytest
from support.every_line import (
    ASKING,
    STORY,
    Raiser,
    line_numbers,
    problem_with,
    some_lines,
)
from support.threads import until

from syncagent import Agent, ToolContext, tool
from syncagent.driver import Finished
from syncagent.interrupts import ApprovalRequest, AuthRequest, AwaitingInput
from syncagent.testing import ScriptedModel, call, say

pytestmark = pytest.mark.slow

PLACES = (*STORY, *ASKING)


@tool(requires_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


@tool(requires_auth="bank")
def look() -> str:
    """Look."""
    return "seen"


@tool
def curious(ctx: ToolContext) -> str:
    """Ask."""
    return ctx.ask("Who?")


def make_agent():
    script = [say("x", call("pay"), call("look"), call("curious")), "ok", "ok"]
    return Agent(ScriptedModel(script, piece=50), tools=[pay, look, curious])


def answer(step):
    if isinstance(step, ApprovalRequest):
        step.approve()
    elif isinstance(step, AuthRequest):
        step.provide("sesame")
    elif isinstance(step, AwaitingInput):
        step.submit("Me.")


def pull(driver):
    while not isinstance(step := driver.next(), Finished):
        answer(step)


def pull_and_close(agent):
    with agent.drive("Do it.") as driver:
        pull(driver)


def pull_and_drop(agent):
    pull(agent.drive("Do it."))


def submit(agent):
    driver = agent.drive()
    driver.next().submit("Do it.")
    driver.send_input("And that.")
    pull(driver)


def look_and_pull(agent):
    driver = agent.drive("Do it.")
    while not isinstance(step := driver.next(), Finished):
        driver.snapshot()
        answer(step)


USES = [pull_and_close, pull_and_drop, submit, look_and_pull]


@some_lines(11)
@pytest.mark.parametrize("use", USES)
def test_ctrl_c_at_every_line_of_a_driver(use, step):
    """Promises 4 and 8: settled, or let go of; the next run works."""
    problems = []
    for number in line_numbers(step):
        agent, raiser = make_agent(), Raiser(number, PLACES)
        went_up = raiser.call(lambda agent=agent: use(agent))
        if raiser.where is None:
            break
        problem = problem_with(agent) if went_up else "it did not go up"
        if problem is not None:
            problems.append(f"{raiser.where}: {problem}")
    assert problems == []
    until(lambda: not agent.is_running)


@some_lines(11)
def test_ctrl_c_at_every_line_of_next_leaves_the_driver_usable(step):
    """A driver that was interrupted goes on with the next run."""
    problems = []
    for number in line_numbers(step):
        agent, raiser = make_agent(), Raiser(number, PLACES)
        driver = agent.drive("Do it.")
        raiser.call(lambda driver=driver: pull(driver))
        if raiser.where is None:
            break
        agent.model._script[:] = ["ok"] * 3
        driver.close()
        agent.cancel()
        driver.send_input("Go on.")
        step = driver.next()
        while not isinstance(step, Finished):
            answer(step)
            step = driver.next()
        if step.result.stop_reason != "end_turn":
            problems.append(f"{raiser.where}: {step.result.stop_reason}")
    assert problems == []
