"""Who may call background(), and when there is nothing that it could mean."""

import json
import sys
import threading

import pytest
from support.background import FACES, Caller, check_finished, check_released, phase_of
from support.processes import run_script
from support.threads import LONG, until

from syncagent import Agent, AgentBusy, ConfigurationError, tool
from syncagent.driver import Finished
from syncagent.exceptions import InterruptPending, ProviderUnavailable
from syncagent.testing import Gate, ScriptedModel, call, complaints, say

LAST = "All is done."
SCENES = ["headers", "stream", "tool", "worker", "approval"]


@pytest.mark.parametrize(
    "how", [[], pytest.param(["backgroundable"], marks=pytest.mark.stress)]
)
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.skipif(sys.platform == "win32", reason="no such signal there")
@pytest.mark.slow
def test_from_a_signal_handler(scene, how):
    """A real signal that comes to the main thread while that waits in run()."""
    done = run_script("background/background_script", scene, *how)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "granted": True,
        "stop": "backgrounded",
        "busy": True,
        "text": "Hello there, all of you.",
        "requests": 1,
        "connections": 1,
        "complaints": {},
        "next": "end_turn",
    }


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        ("ctrl_c", [True, "end_turn", None]),
        ("sigterm", [False, "cancelled", "shutdown"]),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="no such signal there")
def test_signals_while_it_is_in_the_background(scene, expected):
    """Ctrl+C is for what somebody waits for; what ends the process ends all."""
    done = run_script("background/background_script", scene)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [told["went_up"], told["stop"], told["by"]] == expected
    assert told["next"] == "end_turn"


@pytest.mark.parametrize("face", ["run", "stream", "backgroundable"])
@pytest.mark.skipif(sys.platform != "linux", reason="looks at memory in /proc")
def test_no_thread_is_to_be_had(face):
    """The run stays where it is, comes to its end, and can be cancelled there."""
    done = run_script("background/no_thread_script", face)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "stop": "end_turn",
        "text": "Done.",
        "on_main_thread": [True, True],
        "complaints": {},
        "cancelled": "cancelled",
        "next": "end_turn",
    }


# -- from inside of the run ------------------------------------------------------------


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("isolation", [None, "thread"])
def test_from_a_tool(isolation, face):
    """The tool that asks for it ends as it would have."""
    later, granted = Gate(), []

    @tool(isolation=isolation)
    def leave() -> str:
        """Ask for the background."""
        granted.append(agent.background())
        return "left"

    script = [say("One.", call("leave")), later, LAST, "ok"]
    agent = Agent(ScriptedModel(script), tools=[leave])
    caller = Caller(agent, face)
    handle = check_released(caller.result(), agent)
    later.open()
    final = check_finished(handle, agent, LAST)
    assert granted == [True]
    assert [each.outcome for each in final.tool_outcomes] == ["done"]


METHODS = ["before_model", "after_model", "before_tool", "after_tool", "on_event"]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("method", METHODS)
def test_from_a_hook(method, face):
    """From every method, at its first call."""
    later, granted = Gate(), []

    def look(event):
        if not granted:
            granted.append(agent.background())

    def idle() -> str:
        """Do nothing."""
        return "nothing"

    hook = type("Hook", (), {method: staticmethod(look)})()
    script = [say("One.", call("idle")), later, LAST, "ok"]
    agent = Agent(ScriptedModel(script), tools=[idle], hooks=[hook])
    caller = Caller(agent, face)
    handle = check_released(caller.result(), agent)
    later.open()
    check_finished(handle, agent, LAST)
    assert granted == [True]


@pytest.mark.parametrize("face", FACES)
def test_when_the_run_is_about_to_end(face):
    """It has ended before that, and its caller is told how."""
    granted = []

    class Late:
        def on_finish(self, result):
            granted.append(agent.background())

    agent = Agent(ScriptedModel([LAST, "ok"]), hooks=[Late()])
    result = Caller(agent, face).result()
    if face != "backgroundable":  # there the caller may be released right now
        assert result.stop_reason == "end_turn"
    elif result.handle is not None:
        assert result.handle.result(LONG).stop_reason == "end_turn"
    until(lambda: not agent.is_running)
    assert granted == [True]
    assert agent.run("Go on.").text == "ok"
    assert not agent.background()


# -- when it means nothing -------------------------------------------------------------


def test_of_an_agent_that_is_idle():
    """Nothing happens, and nothing is left for the next run."""
    agent = Agent(ScriptedModel(["one", "two", "three"]))
    assert not agent.background()
    assert agent.run("Do it.").text == "one"
    assert not agent.background()
    assert agent.run("Do it.", backgroundable=True).text == "two"
    assert not agent.background()
    *_, last = agent.stream("Do it.")
    assert last.result.stop_reason == "end_turn"


@pytest.mark.parametrize("face", FACES)
def test_twice(face):
    """The second one finds it there, or on its way."""
    first, second = Gate(), Gate()

    def block() -> str:
        """Wait."""
        first.stop_here()
        return "blocked"

    script = [say("One.", call("block")), second, LAST, "ok"]
    agent = Agent(ScriptedModel(script), tools=[tool(isolation="thread")(block)])
    caller = Caller(agent, face)
    first.wait_reached()
    assert agent.background()
    handle = check_released(caller.result(), agent)
    assert not agent.background()
    first.open()
    second.wait_reached()
    assert not agent.background()
    second.open()
    check_finished(handle, agent, LAST)
    assert not agent.background()


def test_of_runs_that_nobody_is_blocked_by():
    """Those of a handle and of a driver have nobody who could be released."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, "one", "two"]))
    handle = agent.start("Do it.")
    gate.wait_reached()
    assert not agent.background()
    gate.open()
    assert handle.result(LONG).stop_reason == "end_turn"
    answers = []

    class Asks:
        def before_model(self, event):
            answers.append(driven.background())

    driven = Agent(ScriptedModel(["three"]), hooks=[Asks()])
    step = driven.drive("Do it.").next()
    assert isinstance(step, Finished)
    assert (step.result.text, answers) == ("three", [False])


@pytest.mark.parametrize("backgroundable", [False, True])
def test_of_a_run_that_waits_for_its_turn(backgroundable):
    """It is no run yet; and the live one is a handle's, which has nobody to release."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, "first", "second"]))
    handle = agent.start("First.")
    gate.wait_reached()
    caller = Caller(
        *(agent, "run", "Second."), on_busy="queue", backgroundable=backgroundable
    )
    until(lambda: agent._conversation.line)
    assert not agent.background()
    gate.open()
    assert caller.result().text == "second"
    assert handle.result(LONG).text == "first"


def test_of_a_live_run_while_another_waits_for_its_turn():
    """The live one leaves; the other waits on, for the end of that."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, "first", "second", "ok"]))
    first = Caller(agent, "backgroundable", "First.")
    gate.wait_reached()
    second = Caller(agent, "run", "Second.", on_busy="queue")
    until(lambda: agent._conversation.line)
    assert agent.background()
    handle = check_released(first.result(), agent)
    assert second.is_waiting
    gate.open()
    assert second.result().text == "second"
    assert handle.result(LONG).text == "first"


def test_of_the_agent_of_a_tool():
    """A wish is for one agent: what runs below, or above, is not released."""
    gate, granted = Gate(), []
    below = Agent(ScriptedModel([gate, "helped"]), name="below")
    script = [say("x", call("below", {"prompt": "Help."})), LAST, "ok"]
    agent = Agent(ScriptedModel(script), tools=[below])
    caller = Caller(agent, "run")
    gate.wait_reached()
    granted.append(below.background())
    until(lambda: phase_of(agent) == "agent")
    gate.open()
    assert caller.result().text == LAST
    assert granted == [False]


# -- run(backgroundable=True) is a run like any other ----------------------------------


def test_what_it_raises_at_its_begin():
    """It waits for nobody where there is no run: it raises, as without it."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, "one", "two"]))
    handle = agent.start("Do it.")
    gate.wait_reached()
    with pytest.raises(AgentBusy):
        agent.run("Not now.", backgroundable=True)
    gate.open()
    handle.result(LONG)
    for wrong in ({"timeout": -1}, {"cancel": 5}, {"on_busy": "never"}):
        with pytest.raises((ConfigurationError, ValueError)):
            agent.run("Do it.", backgroundable=True, **wrong)
    assert agent.run("Do it.", backgroundable=True).text == "two"


def test_what_it_raises_when_the_agent_waits():
    """An answer is to be given first."""

    @tool(requires_approval=True)
    def pay() -> None:
        """Pay."""

    agent = Agent(ScriptedModel([say(call("pay")), "ok"]), tools=[pay])
    assert agent.run("Do it.", backgroundable=True).stop_reason == "interrupt"
    with pytest.raises(InterruptPending):
        agent.run("Do it.", backgroundable=True)
    assert complaints(agent.messages[:1]) == {}
    agent.cancel()
    assert agent.run("Do it.", backgroundable=True).text == "ok"


@pytest.mark.parametrize("error", [ProviderUnavailable("busy"), KeyboardInterrupt()])
def test_what_it_raises_later(error):
    """Whatever the run has raised on its thread comes out on the caller's."""
    agent = Agent(ScriptedModel([error, "ok"]))
    with pytest.raises(type(error)) as caught:
        agent.run("Do it.", backgroundable=True)
    assert (type(caught.value), caught.value.args) == (type(error), error.args)
    assert complaints(agent.messages) == {}
    assert agent.run("Go on.", backgroundable=True).text == "ok"


def test_it_is_cancelled_like_any_other():
    """Promise 3: for as long as its caller waits, it is in the foreground."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, "one", "two"]))
    caller = Caller(agent, "backgroundable")
    gate.wait_reached()
    assert agent.cancel("enough").wait(LONG)
    result = caller.result()
    assert (result.stop_reason, result.handle) == ("cancelled", None)
    ready = threading.Event()
    ready.set()
    assert agent.run("Again.", backgroundable=True, cancel=ready).cancelled
    assert agent.run("Again.", backgroundable=True).text == "one"
