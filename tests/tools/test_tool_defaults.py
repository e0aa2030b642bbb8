"""ToolDefaults: settings for the tools of an agent that say nothing themselves."""

import os
import threading

import pytest
from support.threads import until
from support.tools import (
    LONG,
    Background,
    Door,
    agent_for,
    give_back,
    is_gone,
    outcomes,
    process_id,
)

from syncagent import (
    Agent,
    ConfigurationError,
    ToolContext,
    ToolDefaults,
    abandoned,
    llm_function,
    tool,
)
from syncagent.testing import ScriptedModel, call


@pytest.fixture
def door(tmp_path):
    with Door(tmp_path) as door:
        yield door


def plain(text: str = "") -> str:
    """Say nothing about how it is stopped."""
    return text


def made(*tools, **defaults):
    """Return the tools of an agent with these defaults."""
    agent = Agent(ScriptedModel(), tools=tools, tool_defaults=ToolDefaults(**defaults))
    return agent.tools


STOPPING = ("on_cancel", "grace", "timeout", "isolation")


def stopping(made):
    return tuple(getattr(made, name) for name in STOPPING)


@pytest.mark.parametrize(
    ("own", "defaults", "expected"),
    [
        ({}, {}, ("wait", 2.0, None, None)),
        ({}, {"on_cancel": "abandon"}, ("abandon", 2.0, None, None)),
        ({}, {"on_cancel": "kill"}, ("kill", 2.0, None, None)),
        ({}, {"isolation": "process"}, ("kill", 2.0, None, "process")),
        ({}, {"timeout": 3, "grace": 0.5}, ("wait", 0.5, 3, None)),
        # The tool's own count, one by one.
        ({"on_cancel": "wait"}, {"on_cancel": "kill"}, ("wait", 2.0, None, None)),
        (
            {"timeout": 1.0},
            {"on_cancel": "abandon", "timeout": 9.0},
            ("abandon", 2.0, 1.0, None),
        ),
        (
            {"grace": 0.0},
            {"on_cancel": "abandon", "grace": 1.0},
            ("abandon", 0.0, None, None),
        ),
        (
            {"on_cancel": "wait"},
            {"isolation": "process"},
            ("wait", 2.0, None, "process"),
        ),
        # None is given, too.
        ({"timeout": None}, {"timeout": 9.0}, ("wait", 2.0, None, None)),
        ({"isolation": None}, {"isolation": "thread"}, ("wait", 2.0, None, None)),
        ({"on_cancel": None}, {"on_cancel": "abandon"}, ("wait", 2.0, None, None)),
        # A tool in a process is not made weaker.
        (
            {"isolation": "process"},
            {"on_cancel": "abandon"},
            ("kill", 2.0, None, "process"),
        ),
        (
            {"on_cancel": "kill"},
            {"isolation": "thread", "timeout": 1},
            ("kill", 2.0, 1, None),
        ),
    ],
)
def test_what_a_tool_gets(own, defaults, expected):
    """A default counts for each setting that a tool does not have itself."""
    function = tool(**own)(process_id)
    (found,) = made(function, **defaults)
    assert stopping(found) == expected
    assert found.spec is function.spec
    assert found() == os.getpid()


def test_no_defaults_no_copy():
    """Without defaults the agent has the very tools it was given."""
    own = tool(on_cancel="abandon")(plain)
    assert made(own) == (own,)
    assert made(own, on_cancel="kill") == (own,)


def test_the_tool_itself_is_not_changed():
    """Two agents may have other defaults for one tool."""
    own = tool(plain)
    (one,), (other,) = made(own, on_cancel="abandon"), made(own, timeout=1.0)
    assert [each.on_cancel for each in (own, one, other)] == ["wait", "abandon", "wait"]
    assert [each.timeout for each in (own, one, other)] == [None, None, 1.0]


def test_methods_and_forks():
    """Methods, forks and loaded agents have the defaults, too."""

    class Box:
        @tool
        def look(self) -> str:
            """Look."""
            return "empty"

    settings = {"tools": [Box().look], "tool_defaults": ToolDefaults(timeout=4.0)}
    agent = Agent(ScriptedModel(), **settings)
    loaded = Agent.load(agent.save(), ScriptedModel(), **settings)
    for each in (agent, agent.fork(), loaded):
        assert each.tools[0].timeout == 4.0


def test_an_agent_as_a_tool():
    """An agent, or a function of a model, cannot run in a process."""
    inner = Agent(ScriptedModel(), name="inner")
    assert stopping(made(inner, on_cancel="kill")[0]) == ("wait", 2.0, None, None)
    assert stopping(made(inner, isolation="process")[0])[3] is None
    patient = made(inner, on_cancel="abandon", timeout=5)[0]
    assert stopping(patient) == ("abandon", 2.0, 5, None)
    function = llm_function(model=ScriptedModel())(plain)
    assert stopping(made(function, on_cancel="kill")[0]) == ("wait", 2.0, None, None)
    own = inner.as_tool(timeout=60.0)
    assert made(own, timeout=5)[0].timeout == 60.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"on_cancel": "stop"}, "on_cancel must be one of wait, abandon, kill"),
        ({"isolation": "fiber"}, "isolation must be None, 'thread' or 'process'"),
        ({"timeout": 0}, "timeout must be a positive number of seconds or None"),
        ({"grace": -1}, "grace must be a non-negative number of seconds or None"),
        ({"on_cancel": "kill", "isolation": "thread"}, "cannot stop a thread"),
    ],
)
def test_wrong_defaults(settings, message):
    """A wrong default is an error where it is written."""
    with pytest.raises(ConfigurationError, match=message):
        ToolDefaults(**settings)


def test_something_else():
    """tool_defaults= takes ToolDefaults and nothing else."""
    with pytest.raises(ConfigurationError, match=r"takes ToolDefaults\(\.\.\.\); got"):
        Agent(ScriptedModel(), tool_defaults="abandon")


def test_defaults_that_do_not_fit():
    """Defaults that a tool cannot have are an error that names the tool."""
    with pytest.raises(ConfigurationError, match=r"kill'\) does not fit the tool 'loc"):

        def local() -> str:
            """No worker can import it."""
            return ""

        made(local, on_cancel="kill")
    with pytest.raises(ConfigurationError, match="'plain': on_cancel='kill' cannot"):
        made(tool(isolation="thread")(plain), on_cancel="kill")


@pytest.mark.parametrize("width", [1, 2])
def test_abandon(door, width):
    """Item 4: with the default, a plain function that hears nothing is left behind."""
    agent = agent_for(
        *(give_back, process_id),
        calls=[call("give_back", door.arguments), call("process_id")],
        parallel_tools=width,
        tool_defaults=ToolDefaults(on_cancel="abandon", grace=0.0),
    )
    background = Background(agent)
    door.wait_reached()
    agent.cancel()
    assert outcomes(background.result())[0] == "abandoned"
    door.open()
    until(lambda: not abandoned())


def test_kill(door):
    """Item 4: with the default, a plain function that hears nothing is killed."""
    agent = agent_for(
        give_back,
        calls=[call("give_back", door.arguments)],
        tool_defaults=ToolDefaults(on_cancel="kill"),
    )
    background = Background(agent)
    worker = door.wait_reached()
    agent.cancel()
    assert outcomes(background.result()) == ["interrupted"]
    assert is_gone(worker)


def test_timeout():
    """Item 4: with the default, a plain function has a timeout."""
    end = threading.Event()

    def stuck() -> str:
        """Hear nothing."""
        end.wait(LONG)
        return "late"

    agent = agent_for(stuck, tool_defaults=ToolDefaults(timeout=0.05))
    result = agent.run("Do it.")
    assert outcomes(result) == ["abandoned"]
    assert result.tool_outcomes[0].timed_out
    end.set()
    until(lambda: not abandoned())


def test_thread():
    """Item 4: with the default, a plain function runs on a thread of its own."""
    seen = []

    def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append(threading.current_thread())
        return "seen"

    agent = agent_for(look, tool_defaults=ToolDefaults(isolation="thread"))
    assert outcomes(agent.run("Do it.")) == ["done"]
    assert seen[0] is not threading.current_thread()
