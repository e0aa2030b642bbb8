"""One warning for a cancel that still waits for a tool after a second."""

import logging
import re
import threading
from pathlib import Path

import pytest
from support.threads import until
from support.tools import (
    LONG,
    Background,
    Door,
    agent_for,
    give_back,
    outcomes,
    process_id,
)

from syncagent import Agent, CancelToken, ToolContext, abandoned, tool
from syncagent.testing import FakeClock, Gate, ScriptedModel, call, say
from syncagent.tools.tool import Tool

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.rst"
WAITS = "still waits for the tool"


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def clock():
    with FakeClock() as clock:
        yield clock


@pytest.fixture(autouse=True)
def all_records(caplog):
    caplog.set_level(logging.DEBUG)


def deaf_at(gate, name="deaf", **settings):
    """Return a tool that stands at a gate, whatever is cancelled."""

    def deaf() -> str:
        """Hear nothing."""
        gate.stop_here(LONG)
        return "late"

    return Tool(deaf, name=name, **settings)


def warnings(caplog):
    """Return the warnings so far, as they are written."""
    return [each for each in caplog.records if WAITS in each.getMessage()]


def flush(clock):
    """Let a second pass, and wait until all that it brings has been logged."""
    ran = threading.Event()
    token = CancelToken(1.0)
    with token.on_cancel(ran.set):
        clock.advance(1.5)
        assert ran.wait(LONG)
    after = CancelToken()
    after.on_cancel(lambda: None)
    ran.clear()
    after.on_cancel(ran.set)
    after.cancel()
    assert ran.wait(LONG)


HOW = {
    "cancel": lambda agent, token: agent.cancel(),
    "force": lambda agent, token: agent.cancel(force=True),
    "twice": lambda agent, token: [agent.cancel(), agent.cancel()],
    "token": lambda agent, token: token.cancel("gone", "disconnect"),
}


#: With force, a thread is left behind at once.
HOW_AND_WHERE = [(how, None) for how in HOW] + [
    ("cancel", "thread"),
    ("token", "thread"),
]


@pytest.mark.parametrize(("how", "isolation"), HOW_AND_WHERE)
def test_one_warning(caplog, clock, gate, how, isolation):
    """Item 4: a second after a cancel, one warning names the tool and the remedies."""
    token = CancelToken()
    agent = agent_for(deaf_at(gate, isolation=isolation))
    background = Background(agent, cancel=token)
    gate.wait_reached()
    HOW[how](agent, token)
    assert not warnings(caplog)
    clock.advance(1.01)
    until(lambda: warnings(caplog))
    flush(clock)
    flush(clock)
    [record] = warnings(caplog)
    assert (record.name, record.levelname) == ("syncagent.tools", "WARNING")
    assert record.threadName == "syncagent-cancel"
    run_id = background.run_id
    assert record.getMessage().startswith(f"run {run_id}: cancelled a second ago")
    for part in ("deaf", "ctx.checkpoint()", "on_cancel='abandon'", "on_cancel='kill'"):
        assert part in record.getMessage()
    [quoted] = re.findall(r"^``run …: (.+)``$", PAGE.read_text(), re.MULTILINE)
    assert all(part in record.getMessage() for part in quoted.split("…"))
    gate.open()
    background.result()


def test_a_deadline(caplog, clock, gate):
    """Item 4: the same for a run whose time is over."""
    agent = agent_for(deaf_at(gate))
    background = Background(agent, timeout=5.0)
    gate.wait_reached()
    clock.advance(5.1)
    until(lambda: not clock.advance(0.2) and warnings(caplog))
    flush(clock)
    assert len(warnings(caplog)) == 1
    gate.open()
    assert background.result().cancellation.origin == "deadline"


def test_parallel_tools(caplog, clock, gate):
    """Item 4: one warning names all tools that are waited for, and no others."""
    other = Gate()
    tools = [
        deaf_at(gate, "one"),
        deaf_at(other, "two"),
        Tool(process_id, name="three"),
        deaf_at(gate, "four", on_cancel="abandon", grace=60.0),
    ]
    agent = agent_for(*tools, parallel_tools=4)
    background = Background(agent)
    gate.wait_reached()
    other.wait_reached()
    until(lambda: "call_three" in background.finished())
    agent.cancel()
    flush(clock)
    [record] = warnings(caplog)
    assert "the tool one, two." in record.getMessage()
    other.open()
    gate.open()
    background.result()


def test_a_sub_agent(caplog, clock, gate):
    """Item 4: the tool of a sub-agent is named, and not the sub-agent."""
    inner = Agent(
        ScriptedModel([say(call("deaf")), "Done."]), tools=[deaf_at(gate)], name="inner"
    )
    agent = agent_for(inner, calls=[call("inner", {"prompt": "Go."})])
    background = Background(agent)
    gate.wait_reached()
    agent.cancel()
    flush(clock)
    [record] = warnings(caplog)
    assert "the tool deaf." in record.getMessage()
    gate.open()
    background.result()


@pytest.mark.parametrize("on_cancel", ["wait", "abandon", "kill"])
def test_processes(caplog, clock, tmp_path, on_cancel):
    """Item 4: a tool that is killed, or left behind, is not waited for."""
    with Door(tmp_path) as door:
        made = Tool(give_back, isolation="process", on_cancel=on_cancel)
        agent = agent_for(made, calls=[call("give_back", door.arguments)])
        background = Background(agent)
        door.wait_reached()
        agent.cancel()
        flush(clock)
        assert len(warnings(caplog)) == (on_cancel == "wait")
        clock.advance(LONG)
        door.open()
        background.result()
        until(lambda: not abandoned())


def test_a_tool_that_stops(caplog, clock):
    """A tool that hears of the cancel is no reason for a warning."""
    gate = Gate()

    @tool
    def quick(ctx: ToolContext) -> str:
        """Hear everything."""
        gate.stop_here(token=ctx.token)
        return "never"

    agent = agent_for(quick)
    background = Background(agent)
    gate.wait_reached()
    agent.cancel()
    assert outcomes(background.result()) == ["interrupted"]
    flush(clock)
    assert not warnings(caplog)


def test_a_tool_that_ends_in_time(caplog, clock, gate):
    """Nor is one that ends within the second."""
    agent = agent_for(deaf_at(gate))
    background = Background(agent)
    gate.wait_reached()
    agent.cancel()
    clock.advance(0.9)
    gate.open()
    assert outcomes(background.result()) == ["done"]
    flush(clock)
    assert not warnings(caplog)


@pytest.mark.parametrize("mode", ["after_tools", "after_turn"])
def test_a_cancel_for_later(caplog, clock, gate, mode):
    """Nor is a cancel that lets tools finish."""
    agent = agent_for(deaf_at(gate))
    background = Background(agent)
    gate.wait_reached()
    agent.cancel(mode=mode)
    flush(clock)
    assert not warnings(caplog)
    gate.open()
    assert background.result().cancelled


def test_the_next_run(caplog, clock, gate):
    """A run that is not cancelled has no warning of an earlier one."""
    second = Gate()
    gates = iter([gate, second])

    def deaf() -> str:
        """Hear nothing."""
        next(gates).stop_here(LONG)
        return "late"

    agent = agent_for(deaf)
    background = Background(agent)
    gate.wait_reached()
    agent.cancel()
    gate.open()
    background.result()
    background = Background(agent)
    second.wait_reached()
    flush(clock)
    assert not warnings(caplog)
    second.open()
    background.result()


def test_no_thread_for_each_run(clock):
    """The two threads of the process do it for all runs."""
    gates = [Gate() for _ in range(10)]
    agents = [agent_for(deaf_at(gate)) for gate in gates]
    runs = [Background(agent) for agent in agents]
    for gate, agent in zip(gates, agents, strict=True):
        gate.wait_reached()
        agent.cancel()
    flush(clock)
    names = [each.name for each in threading.enumerate()]
    ours = [name for name in names if name.startswith("syncagent-")]
    assert sorted(ours) == ["syncagent-cancel", "syncagent-timer"]
    for gate, run in zip(gates, runs, strict=True):
        gate.open()
        run.result()
