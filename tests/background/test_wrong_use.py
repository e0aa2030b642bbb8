"""What is easily got wrong: it is refused at once, and nothing is lost or done."""

import threading

import pytest
from support.agents import check_usable, model
from support.contents import json_of
from support.handles import approval
from support.threads import LONG, meanwhile, until

from syncagent import (
    Agent,
    AgentBusy,
    Approval,
    ConfigurationError,
    Rule,
    Runtime,
    tool,
)
from syncagent.exceptions import StateInvalid
from syncagent.testing import Gate, ScriptedModel, call, say

NO = (ConfigurationError, TypeError, ValueError)


@tool(requires_approval=True)
def send(amount: int = 1) -> str:
    """Send something."""
    return f"sent {amount}"


def test_no_arguments_is_a_change_too():
    """Who takes all arguments away has not approved of those that were there."""
    asked = []

    def approve(request):
        asked.append(request.arguments)
        return Approval(True, arguments={}, remember="arguments")

    twice = say(call("send", {"amount": 9}, "a"), call("send", {"amount": 9}, "b"))
    agent = Agent(model(twice), tools=[send], approve=approve)
    agent.run("Go.")
    assert asked == [{"amount": 9}] * 2
    assert "sent 9" not in json_of(agent.messages)


def test_one_call_id_for_two_calls():
    """Sub-agents may use the same; nobody guesses which of them is meant."""

    def helper(name):
        inner = ScriptedModel([say(call("send", {"amount": 1}, "c")), "ok"])
        return Agent(inner, tools=[send], name=name)

    both = say(call("one", {"prompt": "x"}), call("two", {"prompt": "x"}))
    tools = [helper("one"), helper("two")]
    agent = Agent(model(both), tools=tools, parallel_tools=2)
    with agent.start("Go.") as handle:
        until(lambda: len(handle.interrupts) == 2)
        with pytest.raises(ConfigurationError, match="several open calls"):
            handle.answer("c", True)
        for asked in handle.interrupts:
            assert handle.answer(asked.id, True)
        assert handle.result(LONG).stop_reason == "end_turn"


@pytest.mark.parametrize("face", ["start", "drive"])
def test_what_is_for_the_first_run_waits_for_it(face):
    """Also if its words come later: a cancel that is set ends it."""
    event = threading.Event()
    event.set()
    agent = Agent(model())
    if face == "start":
        with agent.start(cancel=event) as handle:
            handle.send_input("Go.")
            assert handle.result(LONG).cancelled
            handle.send_input("Again.")
            assert handle.result(LONG).stop_reason == "end_turn"
    else:
        driver = agent.drive(cancel=event)
        driver.next().submit("Go.")
        assert driver.next().result.cancelled
        driver.next().submit("Again.")
        assert driver.next().result.stop_reason == "end_turn"
    check_usable(agent)


@pytest.mark.parametrize("prompt", [None, "Go."])
@pytest.mark.parametrize("face", ["start", "drive"])
@pytest.mark.parametrize(
    "settings", [{"timeout": -1}, {"timeout": "5"}, {"cancel": "x"}]
)
def test_wrong_settings_are_refused_at_once(face, prompt, settings):
    """And not by a thread, or at the first step."""
    agent = Agent(model())
    with pytest.raises(NO):
        getattr(agent, face)(prompt, **settings)
    check_usable(agent)


def test_two_threads_pull():
    """The second is told so, and the run of the first goes on."""
    gate, steps = Gate(), []
    driver = Agent(model(gate, "well")).drive("Go.")
    with meanwhile(lambda: steps.append(driver.next())):
        gate.wait_reached()
        with pytest.raises(AgentBusy, match="another thread"):
            driver.next()
        gate.open()
    assert steps[0].result.text == "well"


def test_a_driver_that_waits_for_its_turn_can_be_cancelled():
    """Promise 2: its next() ends at once, and nothing of it ever runs."""
    gate, steps = Gate(), []
    agent = Agent(model(gate, "first"), on_busy="queue")
    first = agent.start("One.")
    gate.wait_reached()
    driver = agent.drive("Two.")
    with meanwhile(lambda: steps.append(driver.next())):
        until(lambda: agent._conversation.line)
        assert driver.cancel("enough")
    assert steps[0].result.cancelled
    gate.open()
    assert first.result(LONG).text == "first"
    assert "Two." not in json_of(agent.messages)


def test_what_a_driver_has_not_heard_is_the_agents_again():
    """It was only looked at; a fork has it as well."""
    driver = Agent(model()).drive("hello")
    agent = Agent.load(driver.snapshot().state, model())
    assert "hello" in agent.fork().save()
    with agent.drive() as looked_at:
        looked_at.send_input("more")
    assert "hello" in agent.save()
    assert "hello" in str(agent.run("later").messages[0])
    assert "more" in json_of(agent.messages[0])


@pytest.mark.parametrize("more", [{"remember": True}, {"arguments": {}}])
def test_words_for_an_approval_beside_another_answer(more):
    """Nobody would hear them; the question stays open."""
    scene = approval(None)
    [asked] = scene.handle.interrupts
    with pytest.raises(ConfigurationError, match="go with True or False"):
        scene.handle.answer(asked.id, Approval(True), **more)
    assert scene.handle.interrupts == (asked,)
    scene.handle.close()
    scene.check_end()


WRONG_RULES = [
    Rule("t", 1),
    Rule(5, True),
    Rule("t", True, [1]),
    Rule("t", True, {}, 5),
]


@pytest.mark.parametrize(
    "rules", [None, 5, Rule("t", True), *([r] for r in WRONG_RULES)]
)
def test_rules_that_could_not_be_saved(rules):
    """They are refused where they are given, and not where they are loaded."""
    with pytest.raises(ConfigurationError):
        Agent(model(), rules=rules)


def test_wrong_words_in_an_approval():
    """A reason is words."""
    with pytest.raises(ConfigurationError, match="reason"):
        Approval(False, reason=None)


def test_no_version_of_a_state():
    """It says so."""
    state = '{"format":"syncagent.agent","version":-3,"messages":[]}'
    with pytest.raises(StateInvalid, match="version -3"):
        Agent.load(state, model())


def test_a_runtime_that_is_used_wrongly():
    """It is not closed by that, and nothing is started."""
    for drain in ("10", -1, float("nan")):
        with pytest.raises(ConfigurationError, match="drain"):
            Runtime(drain=drain)
    with Runtime(drain=0) as runtime:
        for wrong in (
            lambda: runtime.start(None, "x"),
            lambda: runtime.add(None),
            lambda: runtime.shutdown("5"),
            lambda: runtime.shutdown(grace="x"),
            lambda: runtime.get(5),
            lambda: runtime.cancel("no", mode="zz"),
            lambda: runtime.cancel("no", background="zz"),
        ):
            with pytest.raises(NO):
                wrong()
        assert runtime.start(Agent(model("fine")), "Go.").result(LONG).text == "fine"


def test_a_handle_that_is_used_wrongly():
    """Nothing is cancelled, and every callback is called."""
    gate, called = Gate(), []
    handle = Agent(model(gate, "fine")).start("Go.")
    gate.wait_reached()
    for wrong in (
        lambda: handle.cancel(background="cancle"),
        lambda: handle.cancel(mode="zz"),
        lambda: handle.interrupt(5),
        lambda: handle.result("5"),
        lambda: handle.wait(-1),
        lambda: handle.add_done_callback(None),
    ):
        with pytest.raises(NO):
            wrong()

    def leave(done):
        raise SystemExit(3)

    handle.add_done_callback(leave)
    handle.add_done_callback(called.append)
    gate.open()
    assert handle.result(LONG).text == "fine"
    assert handle.join(LONG)
    assert called == [handle]
