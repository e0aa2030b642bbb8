"""Timeouts of tools: the run goes on, on time, and says what became of the tool."""

import threading
import time

import pytest
from support.threads import until
from support.tools import (
    LONG,
    SOON,
    Background,
    Door,
    agent_for,
    check,
    give_back,
    outcomes,
    process_id,
    run_tools,
    told,
)

from syncagent import ToolContext, abandoned, tool
from syncagent.hooks import Retry
from syncagent.testing import Gate, call
from syncagent.tools.tool import Tool

SHORT = 0.05
KINDS = {
    "wait": {},
    "abandon": {"on_cancel": "abandon", "grace": LONG},
    "wait in a process": {"on_cancel": "wait", "isolation": "process"},
    "abandon in a process": {"on_cancel": "abandon", "isolation": "process"},
    "kill": {"on_cancel": "kill"},
}


@tool
def companion() -> str:
    """Be there, too."""
    return "here"


@pytest.mark.parametrize(
    ("kind", "width"),
    [*((kind, 1) for kind in KINDS), ("wait", 2), ("abandon", 2), ("kill", 2)],
)
def test_a_tool_that_ignores_its_timeout(tmp_path, kind, width):
    """Promise 7: threads are left behind and listed, processes killed; on it goes."""
    made = Tool(give_back, name="job", timeout=0.1, **KINDS[kind])
    if made.runs_in_process:  # a warm one: it is not to be killed before it begins
        run_tools(Tool(process_id, isolation="process"))
    with Door(tmp_path) as door:
        calls = [call("job", door.arguments), call("companion")]
        agent = agent_for(made, companion, calls=calls, parallel_tools=width)
        began = time.monotonic()
        result = agent.run("Do it.")
        assert time.monotonic() - began < SOON
        outcome = "interrupted" if made.runs_in_process else "abandoned"
        check(agent, result, [outcome, "done"])
        assert result.stop_reason == "end_turn"
        assert result.tool_outcomes[0].timed_out
        assert "Timed out after 0.1 s" in told(result)[0]
        names = [each.name for each in abandoned()]
        assert names == ([] if made.runs_in_process else ["job"])
        door.open()
        until(lambda: not abandoned())


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("kind", ["wait", "abandon"])
def test_a_tool_that_heeds_its_timeout(kind, width):
    """Promise 5: it was stopped, it is not still running, and the run goes on."""

    @tool(timeout=SHORT, **KINDS[kind])
    def polite(ctx: ToolContext) -> str:
        """Sleep."""
        ctx.sleep(LONG)

    agent = agent_for(polite, companion, parallel_tools=width)
    result = agent.run("Do it.")
    check(agent, result, ["interrupted", "done"])
    assert result.tool_outcomes[0].timed_out
    assert not abandoned()
    assert "Timed out after 0.05 s" in told(result)[0]


def test_a_program_with_a_timeout():
    """What it had said by then is told."""

    @tool(timeout=0.2)
    def program(ctx: ToolContext) -> str:
        """Run a program."""
        return ctx.run_process(["sh", "-c", "echo half; exec sleep 1000"]).stdout

    result = run_tools(program)
    assert outcomes(result) == ["interrupted"]
    assert result.tool_outcomes[0].timed_out
    assert "half" in told(result)[0]


@pytest.mark.parametrize("settings", [{}, {"isolation": "process"}])
def test_a_tool_that_is_fast_enough(settings, tmp_path):
    """It has nothing of it."""
    with Door(tmp_path) as door:
        door.open()
        made = Tool(give_back, name="job", timeout=LONG, **settings)
        result = run_tools(made, calls=[call("job", door.arguments)])
    assert outcomes(result) == ["done"]
    assert not result.tool_outcomes[0].timed_out


def test_the_runs_own_deadline_is_no_timeout_of_the_tool():
    """Promise 5: it is the run that took too long."""

    @tool(timeout=LONG)
    def polite(ctx: ToolContext) -> str:
        """Sleep."""
        ctx.sleep(LONG)

    result = agent_for(polite).run("Do it.", timeout=SHORT)
    assert result.cancellation.origin == "deadline"
    assert outcomes(result) == ["interrupted"]
    assert not result.tool_outcomes[0].timed_out


@pytest.mark.parametrize("settings", [{}, {"on_cancel": "abandon", "grace": LONG}])
def test_a_timeout_counts_after_a_cancel_too(settings):
    """Promise 2: neither wait nor grace is longer than the timeout."""
    gate = Gate()

    @tool(timeout=0.1, **settings)
    def deaf() -> str:
        """Ignore everything."""
        gate.stop_here()

    agent = agent_for(deaf)
    background = Background(agent)
    gate.wait_reached()
    agent.cancel()
    result = background.result(SOON)
    assert outcomes(result) == ["abandoned"]
    assert result.tool_outcomes[0].timed_out
    gate.open()
    until(lambda: not abandoned())


def test_a_late_result_changes_nothing():
    """Promise 5: what was told about a tool that was left behind stays."""
    gate, ended = Gate(), threading.Event()

    @tool(timeout=SHORT)
    def deaf() -> str:
        """Ignore everything."""
        gate.stop_here()
        ended.set()
        return "late"

    agent = agent_for(deaf)
    result = agent.run("Do it.")
    before = agent.messages
    gate.open()
    assert ended.wait(LONG)
    until(lambda: not abandoned())
    assert (agent.messages, outcomes(result)) == (before, ["abandoned"])
    assert "late" not in str(before)


def test_a_hook_may_repeat_what_was_stopped_but_not_what_still_runs():
    """Promise 7: no second one is begun beside a tool that was left behind."""
    gate, begun = Gate(), []

    @tool(timeout=SHORT)
    def polite(ctx: ToolContext) -> str:
        """Sleep, the first time."""
        begun.append("polite")
        ctx.sleep(LONG if begun.count("polite") == 1 else 0)
        return "slept"

    @tool(timeout=SHORT)
    def deaf() -> str:
        """Ignore everything."""
        begun.append("deaf")
        gate.stop_here()

    class Insist:
        def after_tool(self, event):
            return Retry() if event.outcome.timed_out else None

    result = run_tools(polite, deaf, hooks=[Insist()])
    assert begun == ["polite", "polite", "deaf"]
    assert outcomes(result) == ["done", "abandoned"]
    gate.open()
    until(lambda: not abandoned())
