"""What was sent to the background stays there, also with its next run."""

from support.agents import check_usable
from support.background import Caller, check_released
from support.threads import LONG, meanwhile, until

from syncagent import Agent
from syncagent.testing import Gate, ScriptedModel


def away(*script):
    """Return an agent whose run was sent away, its handle, and where it stands."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, *script, *["ok"] * 9]))
    caller = Caller(agent, backgroundable=True)
    gate.wait_reached()
    assert agent.background()
    return agent, check_released(caller.result(), agent), gate


def test_the_next_run_of_the_handle_is_in_the_background_too():
    """A cancel of the foreground spares it, as it has spared the first."""
    second = Gate()
    agent, handle, gate = away("first", second, "second")
    handle.send_input("And then?")
    gate.open()
    second.wait_reached()
    assert not agent.cancel()
    assert agent.cancel(background="cancel")
    assert handle.result(LONG).cancelled
    check_usable(agent)


def test_a_run_that_takes_the_place_of_others_waits_for_it():
    """on_busy="interrupt" is for what somebody waits for."""
    agent, handle, gate = away("first")

    def open_later():
        until(lambda: agent._conversation.line)
        gate.open()

    with meanwhile(open_later):
        result = agent.run("Me!", on_busy="interrupt")
    assert result.stop_reason == "end_turn"
    assert handle.result(LONG).text == "first"
    check_usable(agent)
