"""A handle that nobody waits for any more."""

import pytest

from syncagent import Agent, AgentBusy
from syncagent.testing import Gate, ScriptedModel


def test_it_counts_as_sent_to_the_background():
    """``agent.cancel()`` spares it, and a fork is the conversation before its run."""
    silence = Gate()
    agent = Agent(ScriptedModel(["One.", silence, "Two.", "Three."]))
    agent.run("one")
    handle = agent.start("two")
    silence.wait_reached()
    with pytest.raises(AgentBusy):
        agent.fork()
    handle.background()
    assert not agent.cancel()
    aside = agent.fork()
    assert aside.messages == agent.messages[:2]
    silence.open()
    assert handle.result().text == "Two."
    assert aside.run("three").text == "Three."
    handle.background()  # over: nothing happens
