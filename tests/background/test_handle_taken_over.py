"""A handle that goes on with a run that somebody else has begun."""

import sys
import threading

import pytest
from support.agents import check_usable, model, outcomes
from support.handles import MORE, risky, words_of
from support.threads import LONG, until

from syncagent import Agent, tool
from syncagent.events import StateChanged
from syncagent.testing import Gate, call, say


def released(agent, gate):
    """Run it up to the gate, and have it go on elsewhere; return the handle."""
    results = []
    thread = threading.Thread(target=lambda: results.append(agent.run("Do it.")))
    thread.start()
    gate.wait_reached()
    assert agent.background()
    thread.join(LONG)
    (result,) = results
    assert result.stop_reason == "backgrounded"
    return result.handle


def while_asked():
    gate = Gate()

    def approve(request):
        gate.stop_here()
        return True

    return Agent(model(say(call("risky"))), tools=[risky], approve=approve), gate


def while_at_work():
    gate = Gate()

    @tool(on_cancel="abandon", grace=0.0)
    def work() -> str:
        """Work on another thread."""
        gate.stop_here(LONG)
        return "worked"

    return Agent(model(say(call("work"))), tools=[work]), gate


STATES = {while_asked: "waiting_for_approval", while_at_work: "executing_tool"}


@pytest.mark.parametrize("make", STATES)
def test_its_state_is_what_the_run_was_doing(make):
    """From the first moment; what comes later is shown, and what is sent is heard."""
    agent, gate = make()
    handle = released(agent, gate)
    assert handle.state == STATES[make]
    assert not handle.done()
    events = handle.subscribe()
    handle.send_input(MORE)
    gate.open()
    assert outcomes(handle.result(LONG)) == ["done"]
    assert words_of(agent) == ["Do it.", MORE]
    states = [each.state for each in events if isinstance(each, StateChanged)]
    assert (states[0], states[-1]) == (STATES[make], "done")
    check_usable(agent)


@pytest.mark.parametrize("end", ["cancel", "interrupt", "shutdown"])
@pytest.mark.parametrize("make", STATES)
def test_it_is_ended_as_any_other(make, end):
    """Through the handle; the agent's own cancel spares it."""
    agent, gate = make()
    handle = released(agent, gate)
    assert not agent.cancel()
    assert getattr(handle, end)("enough").first
    word = "shutdown" if end == "shutdown" else "cancelled"
    assert handle.result(LONG).stop_reason == word
    assert (handle.state == "idle") == (end == "interrupt")
    handle.close()
    gate.open()
    until(lambda: not agent.is_running)
    check_usable(agent)


def hasty():
    """Return an agent whose tool sends the run away as soon as it is called."""
    gate, made = Gate(), []

    @tool(on_cancel="abandon")
    def work() -> str:
        """Send the run away that calls it."""
        assert made[0].background()
        gate.stop_here(LONG)
        return "worked"

    made.append(Agent(model(say(call("work"))), tools=[work]))
    return made[0], gate


def test_a_wish_that_comes_just_when_the_tool_begins_is_not_lost():
    """The caller is released at once, and not when the tool has ended."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.5)  # the tool's thread goes on while the run's waits for it
    try:
        for _ in range(20):
            agent, gate = hasty()
            result = agent.run("Do it.", timeout=LONG)
            gate.open()
            assert result.stop_reason == "backgrounded"
            assert outcomes(result.handle.result(LONG)) == ["done"]
    finally:
        sys.setswitchinterval(before)
