"""Sources of tools: asked at each turn, under the token of the run."""

import logging
import pickle

import pytest
from support.agents import check_usable, outcomes, told
from support.tools import LONG, SOON, Background

from syncagent import Agent, Approval, CancelToken, ToolDefaults, llm_function, tool
from syncagent.exceptions import (
    ConfigurationError,
    InterruptPending,
    ProviderUnavailable,
    StateInvalid,
    ToolSourceFailed,
)
from syncagent.messages import ToolMessage
from syncagent.stores import RunStore
from syncagent.testing import Gate, ScriptedModel, call, cancel_everywhere, say
from syncagent.tools.tool import Tool


class Source:
    """Have the tools in ``tools`` at the moment; count how often it was asked."""

    name = "shop"

    def __init__(self, *tools):
        self.tools = list(tools)
        self.asked = 0

    def current_tools(self, token):
        self.asked += 1
        token.checkpoint()
        return self.tools


class Server:
    """Be no source, but have one."""

    def __init__(self, *tools):
        self.source = Source(*tools)

    def as_tool_source(self):
        return self.source


class Seen(ScriptedModel):
    """Note the tools of each request."""

    def __init__(self, *script):
        super().__init__([*script, *["ok"] * 20])
        self.specs = []

    def ask(self, messages, tools=(), **settings):
        self.specs.append(tools)
        return super().ask(messages, tools, **settings)

    @property
    def names(self):
        return [[spec.name for spec in specs] for specs in self.specs]


def named(name, result="done", **settings):
    """Return a tool of this name."""
    return Tool(lambda: result, name=name, description=name, **settings)


def local() -> str:
    """Be a tool of the agent's own."""
    return "mine"


A, B = say(call("a")), say(call("b"))


# -- turns -----------------------------------------------------------------------------


def test_a_source_is_asked_at_each_turn():
    """The model sees the tools that the source has when its turn begins."""
    source = Source(named("a"))
    model = Seen(A)

    @tool(name="a")
    def grow() -> str:
        """Add a tool."""
        source.tools.append(named("b"))
        return "grown"

    source.tools = [grow]
    result = Agent(model, tools=[source, local]).run("Go.")
    assert outcomes(result) == ["done"]
    assert model.names == [["local", "a"], ["local", "a", "b"]]


def test_an_object_with_a_source_is_taken_as_it():
    """``as_tool_source()`` of a server is what counts."""
    server = Server(named("a"))
    agent = Agent(Seen(A), tools=[server])
    assert outcomes(agent.run("Go.")) == ["done"]
    assert server.source.asked == 2


def test_the_same_tools_are_encoded_once():
    """While a source returns the same objects, all turns share the descriptions."""
    model = Seen(A, A)
    agent = Agent(model, tools=[Source(named("a")), local])
    agent.run("Go.")
    agent.fork().run("Go.")
    assert len(model.specs) >= 4
    assert len({id(specs) for specs in model.specs}) == 1


def test_an_agent_without_sources_asks_nobody(tmp_path):
    """Its requests share the one tuple of its setup, and no phase is added."""
    model = Seen(say(call("local")))
    agent = Agent(model, tools=[local])
    agent.run("Go.", record=tmp_path / "run.jsonl")
    assert '"tools"' not in (tmp_path / "run.jsonl").read_text()
    assert {id(specs) for specs in model.specs} == {id(agent._setup.toolbox.own.specs)}
    with_source = Agent(Seen(), tools=[Source(local)])
    with_source.run("Go.", record=tmp_path / "run.jsonl")
    assert '"tools"' in (tmp_path / "run.jsonl").read_text()


def test_no_tool_is_replaced(caplog):
    """The agent's own tool wins, then that of the first source; one warning each."""
    sources = [
        Source(named("local", "fake"), named("a", "first")),
        Source(named("a", "second"), named("b"), named("b", "again")),
    ]
    calls = say(call("local"), call("a"), call("b"))
    agent = Agent(Seen(calls, calls), tools=[*sources, local])
    with caplog.at_level(logging.WARNING):
        agent.run("Go.")
        assert [each in told(agent) for each in ("mine", "first", "done")] == [True] * 3
        sources[0].tools.append(named("c"))  # another set, the same clashes
        agent.run("Go.")
    assert "fake" not in told(agent)
    assert "second" not in told(agent)
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == 3
    assert all("because another tool has its name" in text for text in warned)
    assert "'local' of the source shop" in warned[0]


def test_defaults_approvals_and_rules_count():
    """A tool of a source is a tool like any other."""
    source = Source(named("a"), named("b", timeout=3.0))
    agent = Agent(
        Seen(A, "ok", A),
        tools=[source],
        tool_defaults=ToolDefaults(timeout=7.0),
        requires_approval=True,
        approve=lambda request: Approval(request.tool == "a", remember=True),
    )
    assert outcomes(agent.run("Go.")) == ["done"]
    assert {each.name: each.timeout for each in agent.tools} == {"a": 7.0, "b": 3.0}
    assert [rule.tool for rule in agent.rules] == ["a"]
    assert outcomes(agent.run("Go.")) == ["done"]


def test_a_round_has_the_tools_of_its_turn():
    """A tool that goes away while its call waits is called all the same."""
    source = Source(named("a", requires_approval=True))
    agent = Agent(Seen(A), tools=[source])
    result = agent.run("Go.")
    source.tools = []
    result = agent.resume({result.interrupts[0].id: True})
    assert outcomes(result) == ["done"]


def test_a_tool_that_went_away_is_no_tool():
    """The model that calls it in a later turn is told which tools there are."""
    source = Source(named("a"))
    agent = Agent(Seen(A, "ok", A), tools=[source, local])
    agent.run("Go.")
    source.tools = []
    assert outcomes(agent.run("Go.")) == ["failed"]
    assert "there is no tool 'a'; the tools are: local" in told(agent)
    assert [each.name for each in agent.tools] == ["local"]


def test_sub_agents_and_functions_have_sources():
    """Forks, agents as tools and @llm_function ask the sources that they were given."""
    source = Source(named("a"))
    inner = Agent(Seen(A), tools=[source], name="inner", system="Help.")
    outer = Agent(Seen(say(call("inner", {"prompt": "Go."}))), tools=[inner])
    assert outcomes(outer.run("Go.")) == ["done"]
    asked = source.asked
    assert asked == 2

    @llm_function(model=Seen(A), tools=[source])
    def guess() -> str:
        """Guess."""

    assert guess() == "ok"
    assert source.asked == asked + 2


# -- errors ----------------------------------------------------------------------------


class Broken:
    def __init__(self, error):
        self.error = error

    def current_tools(self, token):
        raise self.error

    def __repr__(self):
        return "<Broken>"


def test_a_source_that_raises_fails_the_run():
    """The error names the source, has its cause, and leaves a valid conversation."""
    source = Broken(OSError("no route"))
    agent = Agent(Seen(), tools=[source])
    with pytest.raises(
        ToolSourceFailed, match="<Broken> failed: OSError: no route"
    ) as e:
        agent.run("Go.")
    assert isinstance(e.value.__cause__, OSError)
    again = pickle.loads(pickle.dumps(e.value))
    assert again.source == "<Broken>"
    source.current_tools = lambda token: []
    check_usable(agent)


def test_an_error_of_ours_is_passed_on():
    """A source that knows what is wrong says it in its own words."""
    agent = Agent(Seen(), tools=[Broken(ProviderUnavailable("later"))])
    with pytest.raises(ProviderUnavailable, match="later"):
        agent.run("Go.")


@pytest.mark.parametrize(
    ("offer", "problem"),
    [
        (None, "must return a list of tools; got None"),
        ("text", "must return a list of tools; got 'text'"),
        ([3], "gave an invalid tool: tools must be functions"),
    ],
)
def test_a_source_that_gives_nonsense(offer, problem):
    """The run fails with an error that names the source."""
    source = Source()
    source.tools = offer
    with pytest.raises(ToolSourceFailed, match=f"the tool source shop {problem}"):
        Agent(Seen(), tools=[source]).run("Go.")


class _Wrong:
    def as_tool_source(self):
        return 3


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([3], "tools must be functions, Tool objects, agents or tool sources; got 3"),
        (Source(), r"tools must be a list, as in tools=\[f\]"),
        (Server(), r"tools must be a list, as in tools=\[f\]"),
        ([_Wrong()], "must return an object with current_tools"),
        (None, "tools must be a list"),
    ],
)
def test_things_that_are_no_tools(tools, problem):
    """They are refused when the agent is made."""
    with pytest.raises(ConfigurationError, match=problem):
        Agent(Seen(), tools=tools)


# -- cancels ---------------------------------------------------------------------------


class Stuck(Source):
    """Be stuck from the turn *number* on."""

    def __init__(self, *tools, number=1):
        super().__init__(*tools)
        self.gate, self.number = Gate(), number

    def current_tools(self, token):
        if self.asked + 1 == self.number:
            self.gate.stop_here(token=token)
        return super().current_tools(token)


@pytest.mark.parametrize("mode", ["now", "after_tools"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_cancel_ends_the_question_at_once(mode, number):
    """The phase is "tools", nothing is sent, and the agent goes on."""
    source = Stuck(named("a"), number=number)
    model = Seen(A)
    agent = Agent(model, tools=[source])
    run = Background(agent)
    source.gate.wait_reached(LONG)
    agent.cancel("enough", mode=mode)
    result = run.result(SOON)
    assert result.cancelled
    assert result.cancellation.phase == "tools"
    assert result.cancellation.reason == "enough"
    assert len(model.specs) == number - 1
    source.gate.open()
    check_usable(agent)


@pytest.mark.parametrize("mode", ["now", "after_tools"])
def test_an_error_after_a_cancel_is_the_cancel(mode):
    """A source may end in any way once its token is cancelled."""

    class Rude(Source):
        def current_tools(self, token):
            agent.cancel("enough", mode=mode)
            raise OSError("closed")

    agent = Agent(Seen(), tools=[Rude()])
    assert agent.run("Go.").cancelled


@pytest.mark.slow
@pytest.mark.parametrize("way", ["inside", "thread", "meanwhile"])
def test_a_sweep_through_a_source(way):
    """Promises 3 to 8 hold at every point of a run with a source."""

    def respond(messages):
        return "ok" if isinstance(messages[-1], ToolMessage) else A

    swept = cancel_everywhere(
        lambda: Agent(ScriptedModel(respond), tools=[Source(named("a")), local]),
        "Go.",
        way=way,
    )
    assert "tools" in swept.phases


# -- saved runs ------------------------------------------------------------------------


def saved(source):
    """Return the state of an agent that waits for an approval of a source's tool."""
    agent = Agent(Seen(A), tools=[source])
    interrupts = agent.run("Go.").interrupts
    return agent.save(), interrupts[0].id


def test_a_loaded_run_asks_the_sources_first():
    """The call that waits gets its tool from the source of the new process."""
    state, id = saved(Source(named("a", requires_approval=True)))
    source = Source(named("a", "new", requires_approval=True))
    agent = Agent.load(state, Seen(), tools=[source])
    assert source.asked == 0  # load() never blocks
    agent = Agent.load(agent.save(), Seen(), tools=[source])
    result = agent.resume({id: True})
    assert outcomes(result) == ["done"]
    assert "new" in told(agent)
    assert source.asked == 2


def test_changed_arguments_are_checked_when_the_tool_is_there():
    """An approval that changes them is used once the source has said what it has."""
    state, id = saved(Source(named("a", requires_approval=True)))
    agent = Agent.load(state, Seen(), tools=[Source(named("a"))])
    with pytest.raises(ConfigurationError, match="they do not fit"):
        agent.resume({id: Approval(True, {"b": 1})})
    check_usable(agent)


def test_a_tool_that_is_gone_fails_its_call():
    """The model is told, and the question about the call is dropped."""
    state, id = saved(Source(named("a", requires_approval=True)))
    agent = Agent.load(state, Seen(), tools=[Source(named("b"))])
    result = agent.resume({id: True})
    assert outcomes(result) == ["failed"]
    assert "the tool 'a' is gone since this call was saved" in told(agent)
    check_usable(agent)


def test_a_tool_that_has_changed_fails_its_call():
    """Arguments that do not fit any more are never passed on."""

    def a(number: int) -> str:
        """Take a number."""
        return "never"

    state, id = saved(Source(named("a", requires_approval=True)))
    agent = Agent.load(state, Seen(), tools=[Source(tool(a))])
    assert outcomes(agent.resume({id: True})) == ["failed"]
    assert "has changed since this call" in told(agent)


def test_without_a_source_a_missing_tool_is_an_invalid_state():
    """load() says so at once."""
    state, _ = saved(Source(named("a", requires_approval=True)))
    with pytest.raises(StateInvalid, match="open call of 'a'"):
        Agent.load(state, Seen(), tools=[local])


@pytest.mark.parametrize(
    ("idempotent", "outcome"), [(True, "done"), (False, "interrupted")]
)
def test_a_call_that_was_running_is_made_again_only_if_it_may(idempotent, outcome):
    """A loaded call of a source keeps the rule of all tools."""
    states = []
    source = Source()
    agent = Agent(Seen(A), tools=[source])

    def work() -> str:
        """Save in the middle."""
        states.append(agent.save())
        return "worked"

    source.tools = [Tool(work, name="a")]
    agent.run("Go.")
    again = Source(named("a", idempotent=idempotent))
    loaded = Agent.load(states[0], Seen(), tools=[again])
    loaded = Agent.load(loaded.save(), Seen(), tools=[again])
    assert outcomes(loaded.resume()) == [outcome]
    check_usable(loaded)


def test_a_cancel_while_a_loaded_run_asks():
    """The open call ends as not started, and the agent goes on."""
    state, id = saved(Source(named("a", requires_approval=True)))
    source = Stuck(named("a"))
    agent = Agent.load(state, Seen(), tools=[source])
    token = CancelToken()
    token.cancel("at once")
    result = agent.resume({id: True}, cancel=token)
    assert result.cancelled
    assert outcomes(result) == ["not_started"]
    source.gate.open()
    check_usable(agent)


@pytest.mark.slow
@pytest.mark.parametrize(("is_there", "outcome"), [(True, "done"), (False, "failed")])
def test_a_worker_of_a_store_asks_the_sources(tmp_path, is_there, outcome):
    """A parked run asks the source of its next worker, which may lack the tool."""
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    first = Source(named("a", requires_approval=True))
    with RunStore(url, lambda run: Agent(Seen(A), tools=[first])) as store:
        id = store.submit("Go.")
        with pytest.raises(InterruptPending):
            store.result(id, LONG)
        question = store.get(id).interrupts[0]
    later = Source(*first.tools if is_there else ())
    with RunStore(url, lambda run: Agent(Seen(), tools=[later])) as store:
        store.answer(id, {question.id: True})
        result = store.result(id, LONG)
    assert outcomes(result) == [outcome]
