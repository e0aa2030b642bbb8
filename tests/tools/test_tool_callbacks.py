"""ctx.on_cancel(): called once if the cancel comes while the tool runs, else never."""

import threading

import pytest
from support.tools import LONG, SOON, Background, agent_for, outcomes

from syncagent import CancelToken, ToolContext, tool
from syncagent.testing import Gate

#: Seconds in which a callback would be lost, if it were.
WHILE = 0.3


@pytest.fixture
def busy():
    """Keep the thread of the callbacks busy until the gate is opened."""
    token, gate = CancelToken(), Gate()
    token.on_cancel(gate.stop_here)
    token.cancel()
    gate.wait_reached()
    yield gate
    gate.open()


class Calls:
    """Counts the calls of a callback."""

    def __init__(self):
        self.count = 0
        self.called = threading.Event()

    def __call__(self):
        self.count += 1
        self.called.set()


@pytest.mark.parametrize("isolation", [None, "thread"])
@pytest.mark.parametrize("way", ["plain", "with"])
def test_the_tool_ends_first(busy, isolation, way):
    """S4: a tool that ends at once because of the cancel loses no callback."""
    calls, gate = Calls(), Gate()

    @tool(isolation=isolation)
    def quick(ctx: ToolContext) -> str:
        """End with the run."""
        if way == "with":
            with ctx.on_cancel(calls):
                gate.open()
                ctx.sleep(LONG)
        ctx.on_cancel(calls)
        gate.open()
        ctx.sleep(LONG)
        return "slept"

    agent = agent_for(quick)
    background = Background(agent)
    gate.stop_here()
    agent.cancel()
    background.join(WHILE)
    assert calls.count == 0  # the thread is busy
    busy.open()
    assert outcomes(background.result()) == ["interrupted"]
    assert calls.count == 1


def test_the_timeout(busy):
    """S4: the same for the tool's own timeout."""
    calls = Calls()

    @tool(timeout=0.05)
    def slow(ctx: ToolContext) -> str:
        """Take too long."""
        ctx.on_cancel(calls)
        ctx.sleep(LONG)
        return "slept"

    background = Background(agent_for(slow))
    background.join(WHILE)
    busy.open()
    background.result()
    assert calls.called.wait(LONG)
    assert calls.count == 1


def test_a_tool_that_had_ended():
    """S4: a callback of a tool that ended before the cancel is not called."""
    early, late, gate = Calls(), Calls(), Gate()

    @tool
    def first(ctx: ToolContext) -> str:
        """End before it."""
        ctx.on_cancel(early)
        return "done"

    @tool
    def second(ctx: ToolContext) -> str:
        """End with it."""
        ctx.on_cancel(late)
        gate.stop_here(token=ctx.token)
        return "done"

    agent = agent_for(first, second)
    background = Background(agent)
    gate.wait_reached()
    agent.cancel()
    assert outcomes(background.result()) == ["done", "interrupted"]
    assert (early.count, late.count) == (0, 1)


def test_taken_back_by_the_tool(busy):
    """A callback that the tool itself takes back is not called, and not waited for."""
    calls, gate = Calls(), Gate()

    @tool
    def quick(ctx: ToolContext) -> str:
        """Change its mind."""
        registration = ctx.on_cancel(calls)
        gate.open()
        ctx.wait(LONG)
        assert registration.close()
        return "done"

    agent = agent_for(quick)
    background = Background(agent)
    gate.stop_here()
    agent.cancel()
    assert outcomes(background.result(SOON)) == ["done"]
    busy.open()
    assert calls.count == 0


def race(number):
    """Cancel a tool about when it ends; return what has happened, as it came."""
    seen, gate = [], Gate()

    @tool
    def quick(ctx: ToolContext) -> str:
        """End with the run, or about then."""
        ctx.on_cancel(lambda: seen.append("called"))
        gate.open()
        ctx.wait(0.0005 * (number % 7) if number % 3 else LONG)
        seen.append("cancelled" if ctx.cancelled else "ended")
        return "done"

    agent = agent_for(quick)
    background = Background(agent)
    gate.stop_here()
    agent.cancel()
    background.result()
    return seen


def test_a_storm():
    """S4: whenever the cancel comes, the callback runs once, or never and too late."""
    for number in range(60):
        seen = race(number)
        if "cancelled" in seen:
            assert sorted(seen) == ["called", "cancelled"]
        else:
            assert seen.count("called") <= 1
