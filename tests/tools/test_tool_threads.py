"""Where tools run: on the caller's thread, on others, in processes."""

import contextvars
import os
import sqlite3
import threading

import pytest
from support.tools import (
    LONG,
    agent_for,
    check,
    die,
    misbehave,
    outcomes,
    process_id,
    results,
    run_tools,
    take,
    told,
    unpicklable,
)

from syncagent import ToolContext, tool
from syncagent.events import ToolFinished, ToolStarted
from syncagent.hooks import Change
from syncagent.messages import Json
from syncagent.testing import Gate, call, no_leaks
from syncagent.tools.tool import Tool

colour = contextvars.ContextVar("colour", default="none")


def here(**settings):
    """Return a tool that says where it runs, and where it has run."""
    seen = []

    @tool(**settings)
    def where() -> str:
        """Say where this runs."""
        seen.append(threading.get_ident())

    return where, seen


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("settings", [{}, {"parallel": False}])
def test_one_call_runs_on_the_callers_thread(width, settings):
    """Promise 10: also where several could run at once."""
    where, seen = here(**settings)
    run_tools(where, parallel_tools=width)
    assert seen == [threading.get_ident()]


def test_several_calls_run_on_the_callers_thread_one_after_the_other():
    """Promise 10: by default."""
    where, seen = here()
    run_tools(where, calls=[call("where", call_id=str(n)) for n in range(5)])
    assert seen == [threading.get_ident()] * 5


@pytest.mark.parametrize(
    "settings", [{"isolation": "thread"}, {"on_cancel": "abandon"}, {"timeout": LONG}]
)
def test_who_wants_a_thread_has_one(settings):
    """Whatever can be left behind is not on the caller's thread."""
    where, seen = here(**settings)
    run_tools(where)
    assert len(seen) == 1
    assert seen != [threading.get_ident()]


def test_thread_locals_and_connections_are_the_callers():
    """Promise 10: a per-thread database connection works in a tool."""
    local = threading.local()
    local.connection = sqlite3.connect(":memory:", check_same_thread=True)

    @tool
    def query() -> int:
        """Ask the database."""
        return local.connection.execute("select 42").fetchone()[0]

    try:
        [found] = results(run_tools(query, parallel_tools=4))
    finally:
        local.connection.close()
    assert found.content == (Json(42),)


@pytest.mark.parametrize(
    "settings", [{}, {"isolation": "thread"}, {"timeout": LONG}, {"parallel": False}]
)
@pytest.mark.parametrize("width", [1, 2])
def test_context_variables_are_the_callers(settings, width):
    """Promise 10: on whatever thread; and what a tool sets there stays there."""

    @tool(**settings)
    def paint(ctx: ToolContext) -> str:
        """Look at the colour."""
        return colour.get()

    calls = [call("paint", call_id="1"), call("paint", call_id="2")]
    mark = colour.set("red")
    try:
        result = run_tools(paint, calls=calls, parallel_tools=width)
    finally:
        colour.reset(mark)
    assert told(result) == ["red", "red"]


def test_they_run_at_once():
    """As many as may: all of them meet, which one after the other could not."""
    barrier = threading.Barrier(3)

    @tool
    def meet() -> str:
        """Wait for the others."""
        barrier.wait(LONG)
        return "met"

    calls = [call("meet", call_id=str(n)) for n in range(3)]
    result = run_tools(meet, calls=calls, parallel_tools=3)
    assert told(result) == ["met"] * 3


def test_no_more_than_so_many_run_at_once():
    """The third begins when one of two has ended."""
    gate, order = Gate(), []

    @tool
    def work() -> str:
        """Work."""
        gate.stop_here()

    calls = [call("work", call_id=str(n)) for n in range(3)]
    with agent_for(work, calls=calls, parallel_tools=2).stream("Do it.") as stream:
        for event in stream:
            order += [type(event).__name__] * isinstance(
                event, (ToolStarted, ToolFinished)
            )
            if len(order) == 2:
                gate.open()
    assert order[:4] == ["ToolStarted", "ToolStarted", "ToolFinished", "ToolStarted"]


def test_a_tool_that_is_not_for_company_runs_alone():
    """Nothing runs beside it, and it is on the caller's thread."""
    running, seen, lock = [], [], threading.Lock()

    def note(name):
        with lock:
            running.append(name)
            seen.append((name, list(running), threading.get_ident()))

    @tool
    def shared() -> str:
        """Run with others."""
        note("shared")
        running.remove("shared")

    @tool(parallel=False)
    def alone() -> str:
        """Run alone."""
        note("alone")
        running.remove("alone")

    calls = [call("shared", call_id=f"s{n}") for n in range(3)]
    calls[1:1] = [call("alone", call_id="a1")]
    calls.append(call("alone", call_id="a2"))
    run_tools(shared, alone, calls=calls, parallel_tools=4)
    found = [each for each in seen if each[0] == "alone"]
    assert found == [("alone", ["alone"], threading.get_ident())] * 2


def test_results_are_in_the_order_of_the_calls():
    """Promise 5: whoever ends first."""
    gate = Gate()

    @tool
    def slow() -> str:
        """End last."""
        gate.stop_here()
        return "slow"

    @tool
    def fast() -> str:
        """End first."""
        gate.open()
        return "fast"

    assert told(run_tools(slow, fast, parallel_tools=2)) == ["slow", "fast"]


def test_a_hundred_at_once_leave_nothing():
    """Promise 7: no thread is kept."""

    @tool
    def nothing() -> str:
        """Do nothing."""

    calls = [call("nothing", call_id=str(n)) for n in range(100)]
    with no_leaks():
        result = run_tools(nothing, calls=calls, parallel_tools=100)
    assert outcomes(result) == ["done"] * 100


# -- processes ---------------------------------------------------------------------


def test_a_process_of_its_own():
    """It is another one, which is kept for the next call."""
    made = Tool(process_id, isolation="process")
    calls = [call("process_id", call_id=str(n)) for n in range(2)]
    blocks = [each.content for each in results(run_tools(made, calls=calls))]
    assert blocks[0] == blocks[1] != (Json(os.getpid()),)


def test_what_does_not_pickle_is_told():
    """Arguments and results go over a wire; the error says what to do."""
    odd = Tool(take, parameters={}, name="odd", isolation="process")
    agent = agent_for(
        *(odd, Tool(unpicklable, isolation="process")),
        calls=[call("odd", {"number": 1}), call("unpicklable")],
        hooks=[_Smuggle()],
    )
    result = agent.run("Do it.")
    check(agent, result, ["failed", "failed"])
    assert "cannot be pickled for its process" in told(result)[0]
    assert "must return plain data" in told(result)[1]


class _Smuggle:
    """A hook that puts something in which no other process can have."""

    def before_tool(self, event):
        if event.call.name == "odd":
            return Change({"number": threading.Lock()})
        return None


@pytest.mark.parametrize("how", ["exit", "interrupt", "memory", "generator"])
def test_what_a_process_raises_ends_that_tool_only(how):
    """Promise 9: it is the tool's process, and not ours."""
    made = Tool(misbehave, isolation="process")
    result = run_tools(made, calls=[call("misbehave", {"how": how})])
    assert outcomes(result) == ["failed"]
    assert result.stop_reason == "end_turn"


def test_a_process_that_dies():
    """It is a failed call, with advice, and the next has another process."""
    calls = [call("die", {"code": 3}), call("process_id")]
    tools = [Tool(die, isolation="process"), Tool(process_id, isolation="process")]
    result = run_tools(*tools, calls=calls)
    assert outcomes(result) == ["failed", "done"]
    assert "os._exit()" in told(result)[0]


def test_a_process_that_had_not_begun():
    """Promise 6: a cancel while it is started is a call that was never made."""

    class Cancel:
        def on_event(self, event):
            if isinstance(event, ToolStarted):
                threading.Thread(target=agent.cancel).start()

    agent = agent_for(Tool(process_id, on_cancel="kill"), hooks=[Cancel()])
    check(agent, agent.run("Do it."), ["not_started"])
