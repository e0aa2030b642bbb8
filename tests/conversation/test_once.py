"""An approved tool runs exactly once, across cancel, resume, restart and a kill."""

import threading
from types import SimpleNamespace

import msgspec
import pytest
from support.processes import run_script
from support.questions import DO, asking, check_usable, outcomes, the_one
from support.threads import together

from syncagent import Agent, ConfigurationError, ToolContext, tool
from syncagent.events import ToolStarted
from syncagent.exceptions import AgentBusy
from syncagent.testing import Gate, ScriptedModel, call, complaints, say

CALLS = ["p1", "n1", "p2", "p3", "q1", "n2"]


@pytest.mark.parametrize("isolation", ["here", "thread"])
@pytest.mark.parametrize("face", ["handler", "resume"])
@pytest.mark.slow
def test_killed_at_every_event(tmp_path, face, isolation):
    """Once if the kill was not while it ran, else at most once; idempotent ones again.

    The idempotency key is the same whenever a call is made again.
    """
    ran = run_script("conversation/once_script", tmp_path, face, isolation, timeout=60)
    assert ran.returncode == 0, ran.stderr
    runs = msgspec.json.decode(ran.stdout)
    assert len(runs) > 20
    assert [each["killed"] for each in runs[-2:]] == [True, False]
    keys = {}
    for each in runs:
        where = f"{each['inside']} {each['began']}"
        assert (each["stop"], each["text"]) == ("end_turn", "All is done."), where
        assert each["complaints"] == {}, where
        assert [name for name, _ in each["told"]] == CALLS, where
        lines = [line.split() for line in each["ledger"]]
        for name in CALLS:
            mine = [key.split(":", 1)[1] for found, key in lines if found == name]
            keys.setdefault(name, set()).update(mine)
            check_times(each, name, len(mine), where)
    assert {name: len(found) for name, found in keys.items()} == dict.fromkeys(CALLS, 1)


def check_times(run, name, times, where):
    """See that a call was made as often as it should have been."""
    is_error = dict(map(tuple, run["told"]))[name]
    is_idempotent = name.startswith("n")
    if name not in run["began"]:
        assert (times, is_error) == (1, False), where
    elif is_idempotent:  # it is made again, and has perhaps done something before
        assert (times in (1, 2), is_error) == (True, False), where
        assert times == 2 or run["inside"] != f"after {name}", where
    else:
        assert times <= 1, where
        assert is_error or times == 1, where  # one that had only asked is made again
        assert times == 1 or run["inside"] != f"after {name}", where


def counting(**settings):
    """Return a tool that counts, and what it has counted."""
    ran = []

    @tool(name="do", requires_approval=True, **settings)
    def counted(what: str) -> str:
        """Do it."""
        ran.append(what)
        return "done"

    return counted, ran


# -- Strands 3594, 3615: a cancel during a resume --------------------------------------


def test_a_cancel_during_a_resume_before_the_tool():
    """There, the approval was lost and the agent stuck; here the call is let go."""
    made, ran = counting()
    agent = asking(DO, tools=[made])
    agent.run("Go.")
    asked = the_one(agent)
    with agent.resume_stream({asked.id: True}) as stream:
        agent.cancel("changed my mind")
        for _ in stream:
            pass
    assert (stream.result.stop_reason, ran) == ("cancelled", [])
    assert outcomes(stream.result) == ["not_started"]
    with pytest.raises(ConfigurationError, match="does not wait"):
        agent.resume({asked.id: True})
    check_usable(agent)


def test_a_cancel_during_a_resume_after_the_tool():
    """There, the approved tool ran twice; here it has run, and that is told."""
    made, ran = counting()
    gate = Gate()
    agent = asking(DO, gate, tools=[made])
    agent.run("Go.")
    asked = the_one(agent)
    results = []
    together(
        lambda: results.append(agent.resume({asked.id: True})),
        lambda: (gate.wait_reached(), agent.cancel()),
    )
    assert (results[0].stop_reason, outcomes(results[0])) == ("cancelled", ["done"])
    with pytest.raises(ConfigurationError):
        agent.resume({asked.id: True})
    check_usable(agent)
    assert ran == ["it"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_cancel_before_an_idempotent_tool_is_called_again(times):
    """It was running when its process ended: its effects are unknown, and it is told.

    Also if the state was saved and loaded once more before the call.
    """
    states = []

    def save(event):
        if isinstance(event, ToolStarted):
            states.append(agent.save())

    done = tool(lambda: "done", name="do", idempotent=True)
    hook = SimpleNamespace(on_event=save)
    model = ScriptedModel([say(call("do")), "Done."])
    agent = Agent(model, tools=[done], hooks=[hook])
    agent.run("Go.")
    state = states[0]
    for _ in range(times):
        resumed = Agent.load(state, ScriptedModel("Done."), tools=[done])
        state = resumed.save()
    with resumed.resume_stream({}) as stream:
        resumed.cancel()
        for _ in stream:
            pass
    assert outcomes(stream.result) == ["interrupted"]
    check_usable(resumed)


def test_a_cancel_inside_the_approved_tool():
    """It runs on by its policy, once, and its result is the real one."""
    agent = None
    ran = []

    @tool(name="do", requires_approval=True)
    def cancels(what: str, ctx: ToolContext) -> str:
        """Cancel its own run."""
        ran.append(what)
        agent.cancel()
        return "done anyway"

    agent = asking(DO, tools=[cancels])
    agent.run("Go.")
    result = agent.resume({the_one(agent).id: True})
    assert (result.stop_reason, outcomes(result), ran) == (
        "cancelled",
        ["done"],
        ["it"],
    )
    check_usable(agent)


# -- twice, and at once ----------------------------------------------------------------


@pytest.mark.parametrize("turn", range(5))
def test_many_threads_resume_at_once(turn):
    """One of them goes on with the run, the others are told; the tool runs once."""
    made, ran = counting()
    agent = asking(DO, tools=[made])
    agent.run("Go.")
    asked = the_one(agent)
    results, errors = [], []

    def resume():
        try:
            results.append(agent.resume({asked.id: True}))
        except (AgentBusy, ConfigurationError) as error:
            errors.append(error)

    together(*[resume] * 8)
    assert (len(results), len(errors), ran) == (1, 7, ["it"])
    assert outcomes(results[0]) == ["done"]
    check_usable(agent)


def test_an_answer_is_not_taken_for_a_later_pause():
    """Who comes too late with an old answer does not go on with another run."""
    made, ran = counting()
    agent = asking(DO, "ok", DO, tools=[made])
    agent.run("Go.")
    late = agent.drive()
    agent.resume({the_one(agent).id: False})
    agent.run("Again.")
    asked = the_one(agent)
    late.next()
    assert the_one(agent) == asked
    assert agent.resume({asked.id: True}).run_id in asked.id
    assert ran == ["it"]


@pytest.mark.parametrize("turn", range(10))
def test_a_cancel_and_a_resume_at_once(turn):
    """Promise 3: the run is cancelled if, and only if, the receipt is true."""
    made, ran = counting()
    agent = asking(DO, tools=[made])
    agent.run("Go.")
    asked = the_one(agent)
    found = {}

    def resume():
        try:
            found["result"] = agent.resume({asked.id: True})
        except ConfigurationError as error:
            found["error"] = error

    def cancel():
        found["receipt"] = agent.cancel()

    together(resume, cancel)
    assert len(ran) <= 1
    if "error" in found:  # the pause was let go before it could be resumed
        assert not found["receipt"]
        assert ran == []
    else:
        assert found["result"].cancelled == bool(found["receipt"])
    assert not agent.is_paused
    assert complaints(agent.messages) == {}
    check_usable(agent)
    assert len(ran) <= 1


def test_a_driver_and_a_cancel_at_once():
    """An approval and a cancel race: the tool runs at most once, and all is told."""
    for _ in range(10):
        made, ran = counting()
        agent = asking(DO, tools=[made])
        driver = agent.drive("Go.")
        asked = driver.next()

        def approve(asked=asked):
            try:
                asked.approve()
            except ConfigurationError:
                pass

        together(approve, agent.cancel)
        result = driver.next().result
        assert (result.cancelled, ran) == (True, [])
        assert outcomes(result) == ["not_started"]
        check_usable(agent)


# -- a second life of the same state ---------------------------------------------------


def test_a_tool_that_was_running_is_not_run_again():
    """A state saved inside it says that it had begun: the model is told the truth."""
    states = []

    @tool(name="do")
    def saves(what: str) -> str:
        """Save the agent that it is called by."""
        states.append(agent.save())
        return "done"

    agent = asking(DO, tools=[saves])
    agent.run("Go.")
    other = Agent.load(states[0], ScriptedModel(["ok"]), tools=[saves])
    result = other.resume()
    assert (outcomes(result), len(states)) == (["interrupted"], 1)
    assert "effects are unknown" in result.tool_outcomes[0].error
    check = Agent.load(other.save(), ScriptedModel(["ok"]))
    assert check.run("Go on.").text == "ok"


def test_an_idempotent_one_is():
    """With the same key, by which whoever is called knows that it is the same."""
    keys, states = [], []

    @tool(name="do", idempotent=True, requires_auth="door")
    def saves(what: str, ctx: ToolContext) -> str:
        """Save the agent that it is called by."""
        keys.append((ctx.idempotency_key, ctx.credentials))
        states.append(agent.save())
        return "done"

    agent = asking(DO, tools=[saves], authenticate=lambda asked: "first")
    agent.run("Go.")
    other = agent = Agent.load(states[0], ScriptedModel(["ok"]), tools=[saves])
    asked_again = other.resume().interrupts  # credentials are not in a state
    result = other.resume({asked_again[0].id: "second"})
    assert outcomes(result) == ["done"]
    assert len({key for key, _ in keys}) == 1
    assert [credentials for _, credentials in keys] == ["first", "second"]


def test_a_state_saved_while_tools_run_on_threads():
    """Those that had begun are not begun again; the others are."""
    states, ran = [], []
    lock = threading.Lock()

    @tool(isolation="thread")
    def slow(number: int) -> int:
        """Note that it ran."""
        with lock:
            ran.append(number)
        return number

    class Save:
        def on_event(self, event):
            states.append(agent.save())

    script = say(*(call("slow", {"number": n}, f"c{n}") for n in range(4)))
    agent = asking(script, tools=[slow], parallel_tools=2, hooks=[Save()])
    agent.run("Go.")
    for state in states:
        ran.clear()
        other = Agent.load(state, ScriptedModel([script, "ok"]), tools=[slow])
        saved = msgspec.json.decode(state)["run"] if other.is_paused else None
        if saved is None or not saved.get("calls"):
            continue
        other.model._script.pop(0)
        begun = {
            each["call"]["call_id"]
            for each in saved["calls"]
            if each.get("has_begun") or each.get("ending")
        }
        other.resume()
        assert not {f"c{number}" for number in ran} & begun
        assert len(ran) + len(begun) == 4
