"""A signal handler that raises in the middle of a tool: its exception goes up."""

import signal
import threading

import pytest
from support.tools import AGAIN, LAST, LONG, Door, agent_for, cooperate, results

from syncagent import ToolContext, tool
from syncagent.messages import ToolMessage
from syncagent.testing import Gate, call, complaints

ERRORS = [TimeoutError, ValueError, OSError, RuntimeError]


@pytest.fixture(params=ERRORS)
def watchdog(request):
    """A handler that raises; return the class of what it raises."""

    def bark(number, frame):
        raise request.param("the watchdog has barked")

    before = signal.signal(signal.SIGALRM, bark)
    yield request.param
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def barks_after(wait):
    """Send the signal when *wait* has returned."""

    def bark():
        wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)

    threading.Thread(target=bark, daemon=True).start()


def check_settled(agent):
    """See that the conversation is whole, and that the agent works."""
    assert complaints(agent.messages) == {}
    told = [each for each in agent.messages if isinstance(each, ToolMessage)]
    assert all(each.is_error for message in told for each in message.content)
    assert agent.run(AGAIN).text == LAST


@tool
def sleep(ctx: ToolContext) -> str:
    """Sleep."""
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    ctx.sleep(LONG)
    return "slept"


@tool
def compute() -> str:
    """Compute."""
    signal.raise_signal(signal.SIGALRM)
    return "computed"


class Odd:
    """A value that is interrupted while it is told."""

    def model_dump(self, mode):
        signal.raise_signal(signal.SIGALRM)


@tool
def give() -> Odd:
    """Give something odd."""
    return Odd()


@pytest.mark.parametrize("made", [sleep, compute, give], ids=lambda made: made.name)
def test_a_tool_on_this_thread(watchdog, made):
    """S1: it is the watchdog's error, and no error of the tool."""
    agent = agent_for(made)
    with pytest.raises(watchdog, match="barked"):
        agent.run("Do it.")
    check_settled(agent)


def test_a_tool_elsewhere(watchdog):
    """S1: the same while this thread waits for a tool on another one."""
    gate = Gate()

    @tool(isolation="thread")
    def wait(ctx: ToolContext) -> str:
        """Wait."""
        gate.stop_here(LONG, token=ctx.token)
        return "waited"

    agent = agent_for(wait)
    barks_after(gate.wait_reached)
    with pytest.raises(watchdog, match="barked"):
        agent.run("Do it.")
    check_settled(agent)


@pytest.mark.parametrize("watchdog", [TimeoutError], indirect=True)
def test_a_tool_in_a_process(watchdog, tmp_path):
    """S1: or in a process."""
    made = tool(name="job", isolation="process")(cooperate)
    with Door(tmp_path) as door:
        agent = agent_for(made, calls=[call("job", door.arguments)])
        barks_after(door.wait_reached)
        with pytest.raises(watchdog, match="barked"):
            agent.run("Do it.")
        check_settled(agent)


def test_an_error_of_the_tool_itself(watchdog):
    """An error that a tool raises is the tool's, whatever its class."""

    @tool
    def fail() -> str:
        """Fail."""
        raise watchdog("my own")

    result = agent_for(fail).run("Do it.")
    [told] = results(result)
    assert "my own" in told.content[0].text
