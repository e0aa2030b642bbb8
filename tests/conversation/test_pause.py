"""A paused run is cancelled or resumed, and never both."""

from syncagent import Agent, tool
from syncagent.testing import ScriptedModel, call, say


@tool(requires_approval=True)
def publish() -> str:
    """Publish it."""
    return "published"


def paused():
    agent = Agent(ScriptedModel([say(call("publish", {}))]), tools=[publish])
    assert agent.run("Go.").interrupts
    return agent, agent._conversation.pause


def test_the_first_of_cancelled_and_resumed_wins():
    """Promise 6: a pause that was cancelled starts no tool, whoever holds it."""
    agent, pause = paused()
    assert pause.cancel()
    assert not pause.take()
    assert pause.interrupts == agent.interrupts == ()
    agent, pause = paused()
    assert pause.take()
    assert not pause.cancel()


def test_each_may_be_done_again():
    """A signal handler may have raised between the claim and what follows it."""
    _, pause = paused()
    assert pause.cancel()
    assert pause.cancel()
    _, pause = paused()
    assert pause.take()
    assert pause.take()
