"""background() while tools run: they run on, once, and are waited for elsewhere."""

import sys
import threading

import pytest
from support.background import (
    DIALECTS,
    FACES,
    Caller,
    Replies,
    check_finished,
    check_released,
    connections,
    model_on,
    phase_of,
    said_after,
)
from support.threads import until
from support.tools import Door, give_back

from syncagent import Agent, ToolContext, tool
from syncagent.events import ToolFinished, ToolProgress, ToolStarted
from syncagent.testing import FakeServer, Gate, ScriptedModel, call, say

LAST = "All is done."


class Bench:
    """Tools that stand at a gate, and where they ran."""

    def __init__(self, **settings):
        self.gate = Gate()
        #: A later tool of the same round stands there.
        self.later = Gate()
        self.threads = []
        gates = iter([self.gate, self.later])

        @tool(**settings)
        def block() -> str:
            """Wait."""
            self.threads.append(threading.current_thread())
            next(gates).stop_here()
            return "blocked"

        self.tool = block


def outcomes(result):
    return [each.outcome for each in result.tool_outcomes]


def served(server, dialect, *tools, **settings):
    return Agent(model_on(server, dialect), tools=tools, **settings)


BLOCK = say("One moment.", call("block", {}, "c1"))
BLOCKS = say("Two.", call("block", {}, "c1"), call("block", {}, "c2"))


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("settings", [{"isolation": "thread"}, {"timeout": 60}])
def test_a_tool_on_another_thread(settings, dialect, face):
    """The caller is released while the tool still stands at the gate."""
    bench = Bench(**settings)
    with FakeServer(Replies(BLOCK, say(LAST))) as server:
        agent = served(server, dialect, bench.tool)
        caller = Caller(agent, face)
        bench.gate.wait_reached()
        assert agent.background()
        result = caller.result()
        handle = check_released(result, agent)
        assert outcomes(result) == []  # it has not ended, so nothing became of it yet
        assert agent.state == "executing_tool"
        until(lambda: handle.state == "executing_tool")
        assert (handle.state.tool, handle.state.call_id) == ("block", "c1")
        bench.gate.open()
        final = check_finished(handle, agent, LAST)
        assert (len(server.requests), connections(server)) == (3, 1)
    assert outcomes(final) == ["done"]
    assert len(bench.threads) == 1


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tool_on_the_thread_of_the_run(dialect, face):
    """It ends on the thread where it began; the rest of the round runs elsewhere."""
    bench = Bench()
    with FakeServer(Replies(BLOCKS, say(LAST))) as server:
        agent = served(server, dialect, bench.tool)
        caller = Caller(agent, face)
        bench.gate.wait_reached()
        assert agent.background()
        if face == "backgroundable":
            check_released(caller.result(), agent)
        bench.gate.open()
        result = caller.result()
        handle = check_released(result, agent)
        bench.later.open()
        final = check_finished(handle, agent, LAST)
        assert (len(server.requests), connections(server)) == (3, 1)
    assert outcomes(final) == ["done", "done"]
    first, second = bench.threads
    assert second.name.startswith("syncagent-run-")
    assert (first is second) is (face == "backgroundable")
    if face == "stream":
        assert outcomes(result) == ["done"]
        kinds = [type(e) for e in [*caller.events, *said_after(handle)]]
        assert kinds.count(ToolStarted) == kinds.count(ToolFinished) == 2


@pytest.mark.parametrize("face", FACES)
def test_parallel_tools(face):
    """Those that run go on, and those that wait for room begin later, once each."""
    gates = [Gate() for _ in range(4)]
    ran = []

    def work(number: int) -> int:
        """Work."""
        ran.append(number)
        gates[number].stop_here()
        return number

    calls = [call("work", {"number": n}, f"c{n}") for n in range(4)]
    with FakeServer(Replies(say("All.", *calls), say(LAST))) as server:
        agent = served(server, DIALECTS[0], work, parallel_tools=2)
        caller = Caller(agent, face)
        gates[0].wait_reached()
        gates[1].wait_reached()
        assert agent.background()
        handle = check_released(caller.result(), agent)
        assert sorted(ran) == [0, 1]
        for gate in gates:
            gate.open()
        final = check_finished(handle, agent, LAST)
    assert outcomes(final) == ["done"] * 4
    assert sorted(ran) == [0, 1, 2, 3]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("width", [1, 2])
def test_tools_in_processes(width, face, tmp_path):
    """Each call is made once; one that the caller itself waits for ends first."""
    stuck = tool(isolation="process")(give_back)
    with Door(tmp_path) as door:
        calls = [call("give_back", door.arguments, f"c{n}") for n in range(2)]
        with FakeServer(Replies(say("Wait.", *calls), say(LAST))) as server:
            agent = served(server, DIALECTS[1], stuck, parallel_tools=width)
            caller = Caller(agent, face)
            for _ in range(width):
                door.wait_reached()
            assert agent.background()
            if width == 1 and face != "backgroundable":
                door.open()
            handle = check_released(caller.result(), agent)
            door.open(2)
            final = check_finished(handle, agent, LAST)
    assert outcomes(final) == ["done"] * 2


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("isolation", [None, "thread"])
def test_a_program_that_a_tool_runs(isolation, face, tmp_path):
    """It is neither stopped nor started again."""
    with Door(tmp_path) as door:
        mail, pipe = door.arguments.values()
        code = (
            "import os, sys; print(os.getpid(), file=open(sys.argv[1], 'w'), "
            "flush=True); os.read(os.open(sys.argv[2], os.O_RDWR), 1); print('said')"
        )

        @tool(isolation=isolation)
        def shell(ctx: ToolContext) -> str:
            """Run a program."""
            return ctx.run_process([sys.executable, "-c", code, mail, pipe]).stdout

        reply = say("Wait.", call("shell"), call("shell", {}, "c2"))
        with FakeServer(Replies(reply, say(LAST))) as server:
            agent = served(server, DIALECTS[0], shell)
            caller = Caller(agent, face)
            door.wait_reached()
            assert agent.background()
            if isolation or face == "backgroundable":
                handle = check_released(caller.result(), agent)
                door.open(2)
            else:
                door.open()
                handle = check_released(caller.result(), agent)
                door.open()
            final = check_finished(handle, agent, LAST)
    assert outcomes(final) == ["done", "done"]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("isolation", [None, "thread"])
def test_a_sub_agent(isolation, face):
    """It goes on below, wherever it runs, and is asked once."""
    gate = Gate()

    @tool(isolation=isolation)
    def below(ctx: ToolContext) -> str:
        """Ask another agent."""
        return ctx.agent(helper, "Help.").text

    later = Gate()
    with FakeServer(Replies(say("x", call("below")), held(later))) as server:
        helper = Agent(ScriptedModel([gate, "helped"]))
        agent = served(server, DIALECTS[0], below)
        caller = Caller(agent, face)
        gate.wait_reached()
        until(lambda: phase_of(agent) == "agent")
        assert agent.background()
        if isolation or face == "backgroundable":
            handle = check_released(caller.result(), agent)
            until(lambda: handle.state == "waiting_for_agent")
            gate.open()
        else:
            gate.open()
            handle = check_released(caller.result(), agent)
        later.open()
        check_finished(handle, agent, LAST)
    assert len(helper.model.requests) == 1


def held(gate):
    """Return what says something when a gate is opened."""

    def reply():
        gate.stop_here()
        return say(LAST)

    return reply


class Listens:
    """A hook that writes events down."""

    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(event)


@pytest.mark.parametrize("hooks", [0, 1])
def test_what_a_tool_has_said_by_then_is_not_lost(hooks):
    """Who follows the handle hears what nobody has heard before, with hooks or not."""
    listens = Listens()

    def talk(ctx: ToolContext) -> str:
        """Talk."""
        agent.background()
        for number in range(5):
            ctx.progress(number)
        return "said"

    model = ScriptedModel([say("x", call("talk")), LAST])
    agent = Agent(model, tools=[talk], hooks=[listens] * hooks)
    caller = Caller(agent, "stream")
    handle = caller.result().handle
    seen = [*caller.events, *said_after(handle)]
    assert [e.value for e in seen if isinstance(e, ToolProgress)] == list(range(5))
    heard = [e.value for e in listens.events if isinstance(e, ToolProgress)]
    assert heard == list(range(5)) * hooks
    assert handle.result().text == LAST
