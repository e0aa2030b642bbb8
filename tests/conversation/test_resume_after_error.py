"""resume() after an error or a limit: the run goes on from its last complete step."""

import copy
import pickle

import msgspec
import pytest
from support.agents import add, outcomes
from support.processes import run_script
from support.two_rounds import CLASSES, on_server

from syncagent import Agent, ConfigurationError, Limits, ToolContext, tool
from syncagent.exceptions import (
    LimitReached,
    OutputInvalid,
    ProviderError,
    SyncAgentError,
    TransportError,
)
from syncagent.messages import Text, ToolMessage
from syncagent.models.prices import Price
from syncagent.testing import (
    Drop,
    FakeServer,
    ScriptedModel,
    Send,
    Status,
    call,
    complaints,
    say,
)
from syncagent.transport import close_idle

ROUNDS = 4


@pytest.fixture(autouse=True)
def nothing_idle():
    """No connection outlives its test."""
    yield
    close_idle()


def rounds(count=ROUNDS):
    """Return responses with a call each, and the last one, for a script."""
    calls = [
        say(f"Step {number}.", call("step", {"number": number}, f"step_{number}"))
        for number in range(1, count + 1)
    ]
    return [*calls, "All done."]


def stepping():
    """Return a tool that notes its calls, and the notes."""
    made = []

    @tool
    def step(number: int, ctx: ToolContext) -> str:
        """Make a step."""
        made.append((number, ctx.idempotency_key))
        return f"made {number}"

    return step, made


def numbers(made):
    return [number for number, _ in made]


ERRORS = {
    "500": (Status(500, "down"), ProviderError),
    "cut": (say("I was about to say " * 9, acts=[Send(8), Drop()]), TransportError),
    "nothing": (say("x", acts=[Drop()]), TransportError),
}


@pytest.mark.parametrize("turn", range(1, ROUNDS + 2))
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_in_any_turn(kind, error, turn):
    """No tool is called twice; the next request is the one that failed."""
    failure, raised = ERRORS[error]
    script = rounds()
    script.insert(turn - 1, failure)
    step, made = stepping()
    with FakeServer(script) as server:
        agent = Agent(on_server(kind, server), tools=[step])
        with pytest.raises(raised) as caught:
            agent.run("Go.", run_id="the-run")
        assert caught.value.can_resume
        assert agent.state == "failed"
        assert complaints(agent.messages) == {}
        assert numbers(made) == list(range(1, turn))
        result = agent.resume()
        failed, repeated = server.requests[turn - 1 : turn + 1]
        assert failed.payload == repeated.payload
    assert (result.text, result.run_id) == ("All done.", "the-run")
    assert numbers(made) == list(range(1, ROUNDS + 1))
    assert outcomes(result) == ["done"] * ROUNDS
    assert not any(getattr(m, "is_cut", False) for m in result.messages)
    assert result.usage == agent.usage
    assert (agent.state, agent.can_resume) == ("idle", False)
    assert complaints(agent.messages) == {}


def test_the_error_says_how_to_go_on():
    """As data, and as a note where Python shows notes; once, also if raised again."""
    error = ProviderError("down")
    agent = Agent(ScriptedModel([*rounds(2)[:2], error, error]), tools=[stepping()[0]])
    for go in (lambda: agent.run("Go."), agent.resume):
        with pytest.raises(ProviderError) as caught:
            go()
        assert caught.value.can_resume
        if hasattr(error, "add_note"):
            assert caught.value.__notes__ == [
                "the run is kept up to turn 2; agent.resume() continues from there"
            ]
            assert pickle.loads(pickle.dumps(error)).__notes__ == error.__notes__
    assert not SyncAgentError("another").can_resume


def test_a_key_typed_too_early():
    """Ctrl+C ends a run with KeyboardInterrupt, and resume() goes on with it."""
    step, made = stepping()
    agent = Agent(
        ScriptedModel([*rounds(2)[:1], KeyboardInterrupt(), *rounds(2)[1:]]),
        tools=[step],
    )
    with pytest.raises(KeyboardInterrupt):
        agent.run("Go.")
    assert agent.resume().text == "All done."
    assert numbers(made) == [1, 2]


def test_a_hook_that_raises():
    """Nothing of the run is lost: the call it was shown is made after all."""
    step, made = stepping()
    errors = [RuntimeError("a bug")]

    class Buggy:
        def before_tool(self, event):
            if errors and event.call.call_id == "step_2":
                raise errors.pop()

    agent = Agent(ScriptedModel(rounds(2)), tools=[step], hooks=[Buggy()])
    with pytest.raises(RuntimeError):
        agent.run("Go.")
    assert isinstance(agent.messages[-1], ToolMessage)
    assert outcomes(agent.resume()) == ["done", "done"]
    assert numbers(made) == [1, 2]


def test_an_approval_outlives_an_error():
    """A person said yes, a hook broke the run: the call is made, unasked."""
    asked, made = [], []

    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        made.append("paid")
        return "paid"

    class Buggy:
        def on_event(self, event):
            if type(event).__name__ == "ToolStarted" and not made and len(asked) == 1:
                asked.append("broken")
                raise RuntimeError("a bug")

    agent = Agent(
        ScriptedModel([say(call("pay")), "Done."]),
        tools=[pay],
        hooks=[Buggy()],
        approve=lambda request: asked.append(request.id) is None,
    )
    with pytest.raises(RuntimeError):
        agent.run("Pay.")
    assert made == []
    assert agent.resume().text == "Done."
    assert (len(asked), made) == (2, ["paid"])


# -- limits ----------------------------------------------------------------------------

LIMITS = {
    "turns": Limits(turns=2),
    "tool_calls": Limits(tool_calls=2),
    "tokens": Limits(tokens=25),
    "cost": Limits(cost=25e-6),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_counts_anew(limit):
    """Each resume() gets the whole allowance; the result goes on counting."""
    step, made = stepping()
    model = ScriptedModel(rounds(), price=Price(1, 1))
    agent = Agent(model, tools=[step], limits=LIMITS[limit])
    result = agent.run("Go.")
    ends = [result.stop_reason]
    while result.stop_reason == "limit":
        assert result.limit == limit
        assert agent.can_resume
        with pytest.raises(LimitReached, match="resume"):
            result.raise_for_status()
        assert complaints(agent.messages) == {}
        result = agent.resume()
        ends.append(result.stop_reason)
        assert len(ends) < 9
    assert 1 < len(ends) < 5
    assert (result.text, result.turns) == ("All done.", ROUNDS + 1)
    assert numbers(made) == list(range(1, ROUNDS + 1))
    assert outcomes(result) == ["done"] * ROUNDS
    assert result.usage == agent.usage


def test_calls_that_the_limit_refused_are_made():
    """Three calls in a round, one allowed at a time: all are made in the end."""
    made = []

    @tool
    def note(what: str) -> str:
        """Write a note."""
        made.append(what)
        return what

    script = say(*(call("note", {"what": w}, w) for w in "abc"))
    agent = Agent(
        ScriptedModel([script, "Done."]), tools=[note], limits=Limits(tool_calls=1)
    )
    results = [agent.run("Go.")]
    while results[-1].stop_reason == "limit":
        results.append(agent.resume())
        assert len(results) < 9
    assert made == ["a", "b", "c"]
    assert outcomes(results[0]) == ["done", "not_started", "not_started"]
    assert outcomes(results[-1]) == ["done"] * 3
    assert len(agent.messages) == 4


def test_an_output_that_did_not_fit_is_asked_for_again():
    """The attempts count anew: the model is told what is wrong, and may repair it."""
    agent = Agent(ScriptedModel([*["no"] * 3, "7"]))
    with pytest.raises(OutputInvalid) as caught:
        agent.run("A number?", output=int)
    assert caught.value.can_resume
    assert agent.resume().output == 7


# -- saved -----------------------------------------------------------------------------


def failed():
    """Return an agent whose run failed in its third turn, and the calls it made."""
    step, made = stepping()
    script = [*rounds()[:2], ProviderError("down"), *rounds()[2:]]
    agent = Agent(ScriptedModel(script), tools=[step])
    with pytest.raises(ProviderError):
        agent.run("Go.", run_id="saved-run")
    return agent, made


def test_a_failed_run_is_saved_and_goes_on_in_another_process(tmp_path):
    """The same run, with its sums; no call of the first process is made again."""
    agent, made = failed()
    path = tmp_path / "state.json"
    path.write_text(agent.save())
    ran = run_script("conversation/resumed_script", path)
    assert ran.returncode == 0, ran.stderr
    there = msgspec.json.decode(ran.stdout)
    assert there["made"] == [3, 4]
    assert numbers(made) == [1, 2]
    assert there["run_id"] == "saved-run"
    assert there["text"] == "All done."
    assert there["outcomes"] == ["done"] * 4
    assert (there["turns"], there["tokens"]) == (6, there["agent_tokens"])


def test_what_is_loaded_is_saved_as_it_was():
    """And an agent that was loaded may run another prompt instead."""
    state = failed()[0].save()
    other = Agent.load(state, ScriptedModel(["Hi."]), tools=[stepping()[0]])
    assert other.can_resume
    assert not other.is_paused
    assert msgspec.json.decode(other.save()) == msgspec.json.decode(state)
    assert other.run("Something else.").text == "Hi."
    assert not other.can_resume


def test_open_calls_of_a_cut_round_are_saved():
    """The one that was done keeps its result, the other one is made there."""
    made = []

    def noting(stops):
        @tool
        def note(what: str, ctx: ToolContext) -> str:
            """Write a note."""
            made.append((what, ctx.idempotency_key))
            if stops:
                agent.cancel("enough", "signal")
            return what

        return note

    script = say(*(call("note", {"what": w}, w) for w in "ab"))
    agent = Agent(ScriptedModel([script]), tools=[noting(stops=True)])
    assert outcomes(agent.run("Go.")) == ["done", "not_started"]
    other = Agent.load(
        agent.save(), ScriptedModel(["Done."]), tools=[noting(stops=False)]
    )
    result = other.resume()
    assert outcomes(result) == ["done", "done"]
    assert [what for what, _ in made] == ["a", "b"]
    run_id = result.run_id
    assert [key for _, key in made] == [f"{run_id}:1:a", f"{run_id}:1:b"]
    answers = [block for m in result.messages for block in m.content]
    assert sum(isinstance(each, Text) for each in answers) == 2


def test_an_agent_without_the_tool_can_do_anything_but_resume():
    """A state that loaded before there was resume() must not fail to load now."""
    agent = Agent(
        ScriptedModel([say(call("add", {"a": 1, "b": 2}))]),
        tools=[add],
        requires_approval=True,
        approve=lambda request: bool(agent.cancel()),
    )
    assert agent.run("Go.").cancelled
    other = Agent.load(agent.save(), ScriptedModel(["Hi."]))
    assert not other.can_resume
    with pytest.raises(ConfigurationError, match="'add', which is not among the tools"):
        other.resume()
    assert other.run("Hello.").text == "Hi."


def test_a_state_that_was_changed_is_not_resumed():
    """Numbers that do not fit the messages leave an idle agent."""
    agent = Agent(ScriptedModel([say(call("add", {"a": 1, "b": 2}))]), tools=[add])
    with agent.stream("Go.") as stream:
        next(event for event in stream if type(event).__name__ == "TurnFinished")
    good = msgspec.json.decode(agent.save())
    for path, value in [("length", 0), ("length", 1), ("in_round", 7)]:
        bad = copy.deepcopy(good)
        part = bad["unfinished"] if path == "length" else bad["unfinished"]["run"]
        part[path] = value
        other = Agent.load(
            msgspec.json.encode(bad), ScriptedModel(["Hi."]), tools=[add]
        )
        assert not other.can_resume, path
        assert other.run("Hello.").text == "Hi."


def test_the_reason_of_a_cancel_is_in_the_saved_state():
    """On the message that was cut off."""
    agent = Agent(ScriptedModel(["One two three four"], piece=2))
    with agent.stream("Count.") as stream:
        next(event for event in stream if type(event).__name__ == "TextDelta")
        agent.cancel("the client left", "disconnect")
        list(stream)
    last = msgspec.json.decode(agent.save())["messages"][-1]
    assert (last["cut_reason"], last["cut_origin"]) == ("the client left", "disconnect")
    other = Agent.load(agent.save(), ScriptedModel(["Hi."]))
    assert other.messages[-1].cut_reason == "the client left"
