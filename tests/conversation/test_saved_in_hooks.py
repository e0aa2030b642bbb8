"""A state may be saved in any hook; going on with it misses and repeats nothing."""

import msgspec
import pytest
from support.questions import DO, asking, do, model, outcomes, said_to_model, the_one
from support.threads import LONG, until

from syncagent import Agent, AgentBusy, tool
from syncagent.events import ToolFinished, TurnFinished
from syncagent.hooks import Change, Deny
from syncagent.messages import AssistantMessage, UserMessage
from syncagent.testing import Gate, ScriptedModel, call, complaints, say
from syncagent.usage import Usage

free = tool(name="do")(do.function)


class Saves:
    """Saves the state of an agent at events of one kind."""

    def __init__(self, kind):
        self.agent = None
        self.states = []
        self._kind = kind

    def on_event(self, event):
        if isinstance(event, self._kind):
            self.states.append(self.agent.save())


def saved_at(kind, *script, prompt="Go.", **settings):
    """Return the states of a run, one for each such event."""
    hook = Saves(kind)
    hook.agent = asking(*script, hooks=[hook], tools=[free], **settings)
    hook.agent.run(prompt)
    return hook.states


# -- right after a turn ----------------------------------------------------------------


def test_after_the_last_turn_the_model_is_not_asked_again():
    """The answer is there: whoever goes on is given it, and pays for nothing."""
    [state] = saved_at(TurnFinished, "the answer")
    other = Agent.load(state, ScriptedModel([]))
    result = other.resume()
    assert (result.text, result.stop_reason, result.turns) == (
        "the answer",
        "end_turn",
        1,
    )
    assert (other.model.requests, result.usage) == ([], Usage(10, 5))
    assert complaints(other.messages) == {}


@pytest.mark.parametrize("answer", ['{"value": 7}', "seven"])
def test_the_form_of_the_last_answer_is_looked_at(answer):
    """One that is not of the type is asked for again, as it would have been."""
    hook = Saves(TurnFinished)
    hook.agent = asking(answer, '{"value": 7}', hooks=[hook])
    hook.agent.run("Go.", output=int)
    other = Agent.load(hook.states[0], model('{"value": 7}'))
    result = other.resume(output=int)
    assert (result.output, len(other.model.requests)) == (7, answer == "seven")


@pytest.mark.parametrize("stop", ["max_tokens", "refusal"])
def test_after_a_turn_that_was_cut_off(stop):
    """Its calls, of which the last may be half a one, are not made there either."""
    cut = AssistantMessage((call("do", {"what": "half"}),), stop)
    states = saved_at(TurnFinished, cut)
    other = Agent.load(states[0], model(), tools=[free])
    result = other.resume()
    assert (result.stop_reason, outcomes(result)) == (stop, ["not_started"])
    assert other.model.requests == []


def test_after_a_turn_with_calls():
    """They are made there, and then the model is asked."""
    first, _ = saved_at(TurnFinished, DO)
    other = Agent.load(first, model(), tools=[free])
    result = other.resume()
    assert (outcomes(result), len(other.model.requests)) == (["done"], 1)


# -- in hooks about tools --------------------------------------------------------------


@pytest.mark.parametrize("wish", [Deny("no"), Change({"what": "safe"})])
def test_a_hook_that_saves_before_it_says_what_it_wants(wish):
    """It is asked again after the restart: nothing runs that it would not let run."""
    states = []

    class Guard:
        def before_tool(self, event):
            if event.call.call_id == "c1" and not states:
                states.append(agent.save())
            return wish

    script = say(*(call("do", {"what": "wild"}, f"c{n}") for n in range(3)))
    agent = asking(script, tools=[free], hooks=[Guard()])
    agent.run("Go.")
    other = Agent.load(states[0], model(), tools=[free], hooks=[Guard()])
    other.resume()
    assert said_to_model(other.messages) == said_to_model(agent.messages)
    assert "did wild" not in said_to_model(other.messages)


def test_hooks_look_once_at_what_they_have_seen():
    """A call that waits for approval was looked at before, and is not again."""
    seen = []

    class Look:
        def before_tool(self, event):
            seen.append(event.call.call_id)

    agent = asking(DO, hooks=[Look()])
    agent.run("Go.")
    other = Agent.load(agent.save(), model(), tools=[do], hooks=[Look()])
    other.resume({the_one(other).id: True})
    assert seen == ["call_do"]


def test_changed_arguments_are_saved():
    """What a hook has changed is what is asked about, and what is called."""

    class Change_:
        def before_tool(self, event):
            return Change({"what": "safe"})

    agent = asking(DO, hooks=[Change_()])
    agent.run("Go.")
    other = Agent.load(agent.save(), model(), tools=[do])
    assert the_one(other).arguments == {"what": "safe"}
    other.resume({the_one(other).id: True})
    assert said_to_model(other.messages) == ["did safe"]


# -- what was said meanwhile -----------------------------------------------------------


def heard(agent):
    return [
        block.text
        for message in agent.messages
        if isinstance(message, UserMessage)
        for block in message.content
    ]


@pytest.mark.parametrize("face", ["drive", "start"])
def test_input_that_is_queued_is_saved_by_a_hook(face):
    """A state of a run that is driven, or in the background, has it as well."""
    hook = Saves(ToolFinished)
    gate = Gate()
    agent = hook.agent = asking(gate, DO, tools=[free], hooks=[hook])
    if face == "drive":
        gate.open()
        with agent.drive("one") as driver:
            driver.send_input("two")
            driver.next()
    else:
        with agent.start("one") as handle:
            gate.wait_reached()
            handle.send_input("two")
            gate.open()
            handle.result(LONG)
    other = Agent.load(hook.states[0], model(), tools=[free])
    with other.start() as handle:
        handle.result(LONG)
    assert heard(other) == ["one", "two"]


@pytest.mark.parametrize("face", ["run", "stream", "drive", "start"])
def test_input_that_was_saved_comes_before_what_is_said_next(face):
    """Whoever loads it and begins with a prompt says both, in order; and saves both."""
    driver = asking().drive()
    driver.send_input("one")
    driver.send_input("two")
    state = driver.snapshot().state
    other = Agent.load(state, model())
    if face == "run":
        other.run("three")
    elif face == "stream":
        list(other.stream("three"))
    elif face == "drive":
        with other.drive("three") as driver:
            before = driver.snapshot()
            driver.next()
        words = [block.text for m in before.pending_input for block in m.content]
        assert words == ["one", "two", "three"]
        assert '"three"' in before.state
    else:
        with other.start("three") as handle:
            handle.result(LONG)
    assert heard(other) == ["one", "two", "three"]
    assert msgspec.json.decode(other.save()).get("unheard", []) == []


# -- who may save ----------------------------------------------------------------------


def test_another_thread_may_not_save_a_live_run():
    """Half a step is no state; the run is not disturbed."""
    gate = Gate()
    agent = asking(gate, "ok")
    with agent.start("Go.") as handle:
        gate.wait_reached()
        with pytest.raises(AgentBusy, match="save it there"):
            agent.save()
        gate.open()
        assert handle.result(LONG).text == "ok"
    assert agent.save()


def test_a_handle_that_waits_is_saved_by_a_hook():
    """A question at a desk is in the state, and asked again elsewhere."""
    hook = Saves(object)
    agent = hook.agent = asking(DO, hooks=[hook])
    with agent.start("Go.") as handle:
        [asked] = until(lambda: handle.interrupts)
        until(lambda: "approval:" in hook.states[-1])
        handle.cancel()
    states = [state for state in hook.states if "approval:" in state]
    other = Agent.load(states[0], model(), tools=[do])
    assert the_one(other) == asked
    assert outcomes(other.resume({asked.id: True})) == ["done"]


# -- what was used ---------------------------------------------------------------------


def test_the_usage_of_a_pause_that_is_let_go():
    """It was used: it neither vanishes with the cancel nor with a restart."""
    agent = asking(DO)
    agent.run("Go.")
    for _ in range(2):
        assert agent.usage == Usage(10, 5)
        assert Agent.load(agent.save(), model(), tools=[do]).usage == Usage(10, 5)
        agent.cancel()
    agent.run("Go on.")
    assert agent.usage == Usage(20, 10)
    other = Agent.load(agent.save(), model())
    other.run("Go on.")
    assert other.usage == Usage(30, 15)


def test_a_state_has_only_what_is_needed():
    """Of calls that have ended it has what became of them, and no arguments."""
    states = saved_at(ToolFinished, DO, "ok")
    [saved] = msgspec.json.decode(states[0])["run"]["calls"]
    assert set(saved) <= {"call", "key", "is_approved", "ending", "seconds"}
