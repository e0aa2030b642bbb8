"""A hundred handles on one runtime, and everything done to them at random."""

import random

import pytest
from support.handles import switching_often
from support.threads import LONG, together

from syncagent import Agent, CancelToken, ConfigurationError, Runtime, ToolContext, tool
from syncagent.messages import ToolMessage
from syncagent.testing import ScriptedModel, call, complaints, say

pytestmark = pytest.mark.slow


@tool(requires_approval=True)
def risky(ctx: ToolContext) -> str:
    """Do something, after a moment."""
    ctx.sleep(random.random() * 0.001)
    return "did"


def reply(messages):
    """Call a tool, fail, or say something."""
    if not isinstance(messages[-1], ToolMessage) and random.random() < 0.5:
        return say("Wait.", call("risky", call_id=f"c{random.random()}"))
    return ValueError("no") if random.random() < 0.1 else "Some words."


def disturb(crew, chance, is_over):
    """Do whatever can be done to whatever is there."""
    while not is_over.cancelled:
        for handle in crew.list():
            one_call(crew, handle, chance)
        is_over.wait(0.0005)


def one_call(crew, handle, chance):
    kind = chance.randrange(9)
    if kind == 0:
        handle.interrupt("storm")
    elif kind == 1 and chance.random() < 0.1:
        assert crew.cancel(handle.run_id, "storm").wait(LONG)
    elif kind == 2 and chance.random() < 0.1:
        handle.shutdown("storm")
    elif kind in (3, 4):
        for asked in handle.interrupts:
            handle.answer(asked.id, chance.random() < 0.8)
    elif kind == 5:
        events = handle.subscribe(replay=chance.random() < 0.5)
        events.get(chance.random() * 0.001)
    elif kind == 6:
        handle.wait(chance.random() * 0.001)
    elif kind == 7:
        assert repr(handle)
    else:
        try:
            handle.send_input("More.")
        except ConfigurationError:
            # One that is not kept may refuse it, and then hear somebody else.
            assert not handle.thread.keep_alive or handle.ended.wait(LONG)


def storm(seconds, number):
    """Have so many handles for so long; return how many there were in all."""
    crew, agents = Runtime(), []
    is_over = CancelToken(timeout=seconds)

    def keep_up(crew):
        while not is_over.wait(0.001):
            while len(crew.list()) < number:
                agents.append(Agent(ScriptedModel(reply), tools=[risky]))
                is_kept = random.random() < 0.5
                crew.start(agents[-1], "Do it.", keep_alive=is_kept, buffer=50)

    work = [
        lambda seed=seed: disturb(crew, random.Random(seed), is_over)
        for seed in range(4)
    ]
    with switching_often():
        together(lambda: keep_up(crew), *work, timeout=seconds + LONG)
    report = crew.shutdown(0, grace=LONG)
    assert report.running == ()
    assert crew.list() == []
    for agent in agents:
        assert not agent.is_running
        assert complaints(agent.messages) == {}
    return len(agents)


def test_a_hundred_handles_in_a_storm():
    """Nothing hangs, nothing is left, and all conversations are valid."""
    assert storm(1.0, 100) >= 100


@pytest.mark.stress
def test_a_hundred_handles_in_a_long_storm():
    """The same, for a minute."""
    assert storm(60.0, 100) >= 100
