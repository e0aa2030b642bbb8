"""Data, options, tools and metadata for one run: who gets them, and who never does."""

import logging
import pickle
import threading

import pytest
from deps_tools import Tenant, aside, careless, here, killed, left
from support.agents import model, told

from syncagent import Agent, ConfigurationError, ToolContext, tool
from syncagent.events import RunFinished
from syncagent.models import OpenAIChat
from syncagent.options import Options
from syncagent.stores import RunStore
from syncagent.testing import FakeServer, ScriptedModel, call, say

#: In the deps of every run here; found nowhere else.
SECRET = "s3cr3t-marker"
ACME = Tenant("acme", SECRET)


def calling(*names):
    """Return a model that calls these tools in one round, and then says ok."""
    return model(say(*(call(name) for name in names)))


# -- tools -----------------------------------------------------------------------------


@pytest.mark.parametrize("parallel_tools", [1, 4])
def test_tools_on_every_thread_get_the_deps(parallel_tools):
    """Own thread, another thread, one that may be left, a worker process."""
    tools = [here, aside, left, killed]
    names = [each.name for each in tools]
    agent = Agent(calling(*names), tools=tools, parallel_tools=parallel_tools)
    result = agent.run("Go.", deps=ACME, metadata={"ticket": "-7"})
    said = [block.content[0].text for block in agent.messages[2].content]
    assert said == ["acme", "acme", "acme", "acme-7"]
    assert result.metadata == {"ticket": "-7"}


def test_a_worker_process_needs_deps_that_can_be_pickled():
    """Only a tool that looks at them fails, and its result says why."""
    agent = Agent(calling("killed", "careless"), tools=[killed, careless])
    result = agent.run("Go.", deps=threading.Lock())
    assert [each.outcome for each in result.tool_outcomes] == ["failed", "done"]
    assert "deps of this run cannot be pickled" in told(agent)


def test_deps_of_the_agent_hold_for_runs_without_their_own():
    """A run's own deps win; without any, ctx.deps is None; false is not None."""
    seen = []

    def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append(ctx.deps)
        return "seen"

    for agent_deps, deps in [(None, None), (1, None), (1, 2), (1, 0)]:
        agent = Agent(calling("look"), tools=[look], deps=agent_deps)
        agent.run("Go.", deps=deps)
    assert seen == [None, 1, 2, 0]


def test_a_run_leaves_nothing_to_the_next():
    """Deps, options, tools and metadata are those of one run."""
    scripted = model(say(call("here")), "ok", say(call("here")))
    agent = Agent(scripted)
    first = agent.run("Go.", deps=ACME, tools=[here], metadata={"a": 1})
    second = agent.run("Again.")
    assert [each.outcome for each in first.tool_outcomes] == ["done"]
    assert [each.outcome for each in second.tool_outcomes] == ["failed"]
    assert (first.metadata, second.metadata) == ({"a": 1}, {})
    assert agent.tools == ()


# -- hooks, policies, handlers, sub-agents ---------------------------------------------


class Watch:
    """Notes the deps and the metadata that every hook event shows."""

    def __init__(self):
        self.seen = []
        self.texts = []

    def _note(self, event):
        self.seen.append((type(event).__name__, event.deps, event.metadata))
        self.texts.append(repr(event))

    before_model = after_model = before_tool = after_tool = _note


def test_hooks_get_the_deps():
    """All four events have them, and none shows them in its text."""
    watch = Watch()
    agent = Agent(calling("here"), tools=[here], hooks=[watch])
    agent.run("Go.", deps=ACME, metadata={"a": 1})
    kinds = {"BeforeModel", "AfterModel", "BeforeTool", "AfterTool"}
    assert {kind for kind, _, _ in watch.seen} == kinds
    assert all((deps, data) == (ACME, {"a": 1}) for _, deps, data in watch.seen)
    assert SECRET not in "".join(watch.texts)


def test_policies_and_handlers_get_the_deps():
    """requires_approval=, approve=, authenticate= and ask= see whom they work for."""
    seen = []

    def policy(arguments, ctx):
        seen.append(("policy", ctx.deps))
        return True

    def handler(request):
        seen.append((type(request).__name__, request.deps, request.metadata))
        assert SECRET not in repr(request)
        assert SECRET.encode() not in pickle.dumps(request)
        return {"ApprovalRequest": True}.get(type(request).__name__, "answer")

    @tool(requires_approval=policy, requires_auth="shop")
    def order(ctx: ToolContext) -> str:
        """Order."""
        return ctx.ask("Which?")

    handlers = {"approve": handler, "authenticate": handler, "ask": handler}
    agent = Agent(calling("order"), tools=[order], **handlers)
    agent.run("Go.", deps=ACME, metadata={"a": 1})
    names = ["ApprovalRequest", "AuthRequest", "Question"]
    assert seen == [("policy", ACME), *((name, ACME, {"a": 1}) for name in names)]


def test_sub_agents_inherit_the_deps():
    """As tools and by ctx.agent(); their own win, and those of the call before all."""
    other, third = Tenant("other", SECRET), Tenant("third", SECRET)

    def inner(name, **settings):
        return Agent(calling("here"), tools=[here], name=name, **settings)

    results = []

    def ask(ctx: ToolContext) -> str:
        """Ask two agents."""
        for agent, given in [
            (inner("c"), {}),
            (inner("d"), {"deps": third, "metadata": {"b": 2}}),
        ]:
            result = ctx.agent(agent, "Go.", **given)
            results.append((agent.messages[2].content[0].content[0].text, result))
        return "asked"

    go = {"prompt": "Go."}
    inherits, has_own = inner("inherits"), inner("has_own", deps=other)
    watch = Watch()
    inherits._setup.hooks.after_tool = (watch._note,)
    has_own._setup.hooks.after_tool = (watch._note,)
    script = say(call("inherits", go), call("has_own", go), call("ask"))
    agent = Agent(model(script), tools=[inherits, has_own, ask])
    agent.run("Go.", deps=ACME, metadata={"a": 1})
    assert [deps for _, deps, _ in watch.seen] == [ACME, other]
    assert [(text, result.metadata) for text, result in results] == [
        ("acme", {"a": 1}),
        ("third", {"b": 2}),
    ]


# -- ways to run -----------------------------------------------------------------------


def test_every_way_to_run_takes_them():
    """stream(), start(), drive(), and all runs of a handle and a driver."""
    given = {"deps": ACME, "tools": [here], "metadata": {"a": 1}}
    with Agent(calling("here")).stream("Go.", **given) as stream:
        list(stream)
    assert stream.result.metadata == {"a": 1}
    assert stream.result.tool_outcomes[0].outcome == "done"
    again = [say(call("here")), "ok"]
    agent = Agent(model(*again, *again))
    ends = []
    handle = agent.start(keep_alive=True, **given)
    for prompt in ("Go.", "Again."):
        handle.send_input(prompt)
        for event in handle.subscribe():
            if isinstance(event, RunFinished) and event.result not in ends:
                ends.append(event.result)
                break
    handle.shutdown()
    agent = Agent(model(*again, *again))
    with agent.drive("Go.", **given) as driver:
        driver.next()
        first = driver.next()
        driver.send_input("Again.")
        driver.next()
        second = driver.next()
    for result in (*ends, first.result, second.result):
        assert result.metadata == {"a": 1}
        assert result.tool_outcomes[0].outcome == "done"


@tool(requires_approval=True)
def pay(ctx: ToolContext[Tenant]) -> str:
    """Pay."""
    return "nobody" if ctx.deps is None else ctx.deps.name


def test_a_paused_run_keeps_its_deps_until_it_gets_others():
    """resume() without any changes nothing; each that is given replaces the old one."""
    for given, said, metadata in [
        ({}, "acme", {"a": 1}),
        ({"deps": Tenant("other", SECRET)}, "other", {"a": 1}),
        ({"metadata": {"b": 2}}, "acme", {"b": 2}),
    ]:
        agent = Agent(calling("pay"))
        paused = agent.run("Go.", deps=ACME, tools=[pay], metadata={"a": 1})
        assert paused.metadata == {"a": 1}
        result = agent.resume({agent.interrupts[0].id: True}, **given)
        assert said in told(agent)
        assert result.metadata == metadata


def test_a_loaded_run_is_given_its_deps_again():
    """A state has the metadata and no deps: without new ones, ctx.deps is None."""
    agent = Agent(calling("pay"), tools=[pay])
    agent.run("Go.", deps=ACME, metadata={"a": 1})
    state = agent.save()
    assert SECRET not in state
    for given, said in [({}, "nobody"), ({"deps": ACME}, "acme")]:
        loaded = Agent.load(state, model(), tools=[pay])
        result = loaded.resume({loaded.interrupts[0].id: True}, **given)
        assert said in told(loaded)
        assert result.metadata == {"a": 1}


# -- never sent, never saved -----------------------------------------------------------


def test_deps_are_in_no_request_state_recording_or_log(tmp_path, caplog):
    """A marker in the deps is in nothing that leaves the process or stays behind."""
    caplog.set_level(logging.DEBUG)
    path, states = tmp_path / "run.jsonl", []

    class Save:
        def after_tool(self, event):
            states.append(agent.save())

    with FakeServer([say(call("here"), call("killed")), "ok"]) as server:
        chat = OpenAIChat("any", base_url=server.base_url, api_key="any")
        agent = Agent(chat, tools=[here, killed], hooks=[Save()])
        result = agent.run("Go.", deps=ACME, record=path, metadata={"ticket": "T-7"})
        sent = repr([(each.headers, each.body) for each in server.requests])
    states.append(agent.save())
    assert "acme" in told(agent)
    assert SECRET not in sent
    assert "T-7" not in sent.replace("acmeT-7", ""), "metadata is not the provider's"
    recorded = path.read_text()
    assert '"metadata":{"ticket":"T-7"}' in recorded
    everything = (recorded, caplog.text, repr(agent), repr(result), *states)
    assert SECRET not in "".join(everything)
    assert SECRET.encode() not in pickle.dumps(result)


def test_deps_are_in_no_store(tmp_path):
    """make_agent gives them with Agent(deps=...), in whatever process works on it."""
    place = tmp_path / "runs.db"

    def make_agent(run):
        return Agent(calling("here"), tools=[here], deps=ACME)

    with RunStore(f"sqlite:///{place}", make_agent, lambda run: None) as store:
        result = store.work(store.submit("Go."))
    assert result.tool_outcomes[0].outcome == "done"
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert place in files
    for path in files:
        assert SECRET.encode() not in path.read_bytes()


# -- options, tools, mistakes ----------------------------------------------------------


def test_options_of_a_run_replace_those_of_the_model():
    """By name or as Options; what is not given stays the model's."""
    with FakeServer(["ok"] * 3) as server:
        chat = OpenAIChat(
            "any", base_url=server.base_url, api_key="any", temperature=0.5, top_p=0.9
        )
        agent = Agent(chat, system="Be kind.")
        agent.run("Go.", options={"temperature": 0.1, "system": "Be brief."})
        agent.run("Go.", options=Options(temperature=0.2))
        agent.run("Go.")
        bodies = [each.payload for each in server.requests]
    assert [body["temperature"] for body in bodies] == [0.1, 0.2, 0.5]
    assert all(body["top_p"] == 0.9 for body in bodies)
    systems = [body["messages"][0]["content"] for body in bodies]
    assert systems == ["Be brief.", "Be kind.", "Be kind."]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"options": {"temprature": 1}}, "unknown option: temprature"),
        ({"options": {"temperature": "hot"}}, "temperature"),
        ({"options": 3}, "options takes a dict or Options"),
        ({"tools": here}, "tools must be a list"),
        ({"tools": [aside]}, "has a tool named 'aside'"),
        ({"metadata": {"a": object()}}, "objects go into deps="),
        ({"metadata": {1: "a"}}, "strings as keys"),
        ({"metadata": "a"}, "got a str"),
    ],
)
def test_wrong_settings_are_refused_before_the_run(given, words):
    """The conversation is as it was, and the agent is free."""
    agent = Agent(ScriptedModel(["ok"]), tools=[aside])
    for begin in (agent.run, agent.stream, agent.start, agent.drive):
        with pytest.raises(ConfigurationError, match=words):
            begin("Go.", **given)
    assert agent.messages == ()
    assert not agent.is_running


def test_metadata_is_a_copy():
    """A change of the caller's dict afterwards changes no run."""
    mine = {"a": [1]}
    agent = Agent(model())
    stream = agent.stream("Go.", metadata=mine)
    mine["a"].append(2)
    list(stream)
    assert stream.result.metadata == {"a": [1]}
