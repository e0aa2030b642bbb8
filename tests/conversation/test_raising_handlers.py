"""S1: what a signal handler raises comes out of the run, wherever the run is."""

import signal
import socket
import sys
import threading
from functools import partial

import pytest
import requests
from support.agents import SUM, add, check_usable, model
from support.threads import LONG
from support.watchdog import watchdog

from syncagent import Agent, CancelToken, ToolContext, tool
from syncagent.messages import ToolMessage
from syncagent.testing import call, say
from syncagent.tools.processes.program import run_process
from syncagent.transport import CancellableSession

ERRORS = [TimeoutError, ValueError, OSError, RuntimeError, LookupError]


@pytest.fixture(autouse=True, scope="module")
def everything_imported():
    """Python's import takes an OSError, whoever raises it, for a missing file."""
    assert callable(run_process)
    refused = pytest.raises(requests.ConnectionError)
    with CancellableSession(CancelToken()) as session, refused:
        session.get("http://127.0.0.1:1/", timeout=1)


def comes_out(error, make, use=lambda agent: agent.run("hi")):
    """See that it does, that all is settled, and that nothing more is sent."""
    ready = threading.Event()
    agent = make(ready)
    with (
        watchdog(error, ready.is_set),
        pytest.raises(error, match="watchdog") as raised,
    ):
        use(agent)
    assert type(raised.value) is error
    count = len(agent.model.requests)
    assert count == 1
    check_usable(agent)
    assert len(agent.model.requests) == count + 1
    return agent


def sleeps(ctx):
    ctx.sleep(LONG)


def waits(ctx):
    ctx.wait(LONG)


def runs_process(ctx):
    ctx.run_process([sys.executable, "-c", "import time; time.sleep(60)"])


def asks(ctx):
    ctx.ask("Who?")


def fetches(ctx):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ctx.http.get(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=LONG)


def sleeps_by_itself(ctx):
    threading.Event().wait(LONG)


def computes(ctx):
    while True:
        pass


WAITS = [sleeps, waits, runs_process, asks, fetches, sleeps_by_itself, computes]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("wait", WAITS)
def test_while_a_tool_works(wait, error):
    """In every wait of the SDK, and in the tool's own code."""

    def make(ready):
        def work(ctx: ToolContext) -> str:
            """Work."""
            ready.set()
            wait(ctx)
            return "done"

        never = threading.Event()
        script = [say(call("work"), call("work"))]
        return Agent(model(*script), tools=[work], ask=lambda question: never.wait(0.5))

    agent = comes_out(error, make)
    [results] = [each for each in agent.messages if isinstance(each, ToolMessage)]
    texts = [block.content[0].text for block in results.content]
    assert "stopped while it ran" in texts[0]
    assert "not started" in texts[1]


@pytest.mark.parametrize("error", ERRORS)
def test_while_a_sub_agent_works(error):
    """It goes up through both runs."""

    def make(ready):
        def nap() -> None:
            """Sleep."""
            ready.set()
            threading.Event().wait(LONG)

        def delegate(ctx: ToolContext) -> str:
            """Delegate."""
            return ctx.agent(Agent(model(say(call("nap"))), tools=[nap]), "hi").text

        return Agent(model(say(call("delegate"))), tools=[delegate])

    comes_out(error, make)


@pytest.mark.parametrize("error", ERRORS)
def test_while_tools_work_on_other_threads(error):
    """In the wait for them."""

    def make(ready):
        @tool
        def work(ctx: ToolContext) -> str:
            """Work."""
            ready.set()
            ctx.sleep(LONG)
            return "done"

        script = [say(call("work"), call("work", call_id="b"))]
        return Agent(model(*script), tools=[work], parallel_tools=2)

    comes_out(error, make)


@pytest.mark.parametrize("error", ERRORS)
def test_while_somebody_is_asked(error):
    """A TimeoutError of a watchdog is no answer that did not come in time."""

    def make(ready):
        careful = tool(name="add", requires_approval=True)(add)

        def approve(request, token):
            ready.set()
            token.wait(0.5)
            return False

        return Agent(model(SUM), tools=[careful], approve=approve)

    comes_out(error, make)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("method", ["before_model", "after_model", "on_finish"])
def test_while_a_hook_works(method, error):
    """In the hooks of a turn, and in that of the end."""

    def make(ready):
        def nap(self, event):
            if not ready.is_set():
                ready.set()
                threading.Event().wait(LONG)

        hook = type("Hook", (), {method: nap})()
        return Agent(model(), hooks=[hook])

    ready = threading.Event()
    agent = make(ready)
    with watchdog(error, ready.is_set), pytest.raises(error, match="watchdog"):
        agent.run("hi")
    assert len(agent.model.requests) <= 1
    check_usable(agent)


@pytest.mark.parametrize("error", ERRORS)
def test_while_an_error_is_shown_to_a_hook(error):
    """It comes out in place of the error that ended the run."""
    ready = threading.Event()

    class Hook:
        def on_error(self, error):
            ready.set()
            threading.Event().wait(LONG)

    agent = Agent(model(KeyError("first")), hooks=[Hook()])
    with watchdog(error, ready.is_set), pytest.raises(error, match="watchdog"):
        agent.run("hi")
    check_usable(agent)


@pytest.mark.parametrize("error", ERRORS)
def test_in_a_run_that_is_cancelled(error):
    """It is not taken for the way in which a cancelled run ends."""

    def make(ready):
        def work() -> None:
            """Cancel, and sleep on."""
            agent.cancel()
            ready.set()
            threading.Event().wait(LONG)

        agent = Agent(model(say(call("work"))), tools=[work])
        return agent

    comes_out(error, make)


class Watchdog:
    """Handlers of all kinds."""

    def method(self, number, frame):
        raise TimeoutError("watchdog")

    def __call__(self, number, frame):
        raise TimeoutError("watchdog")


def with_more(more, number, frame):
    raise TimeoutError("watchdog")


HANDLERS = {
    "method": Watchdog().method,
    "object": Watchdog(),
    "partial": partial(with_more, "more"),
    "any": lambda *args: with_more("more", *args),
}


@pytest.mark.parametrize("kind", HANDLERS)
def test_handlers_of_all_kinds(kind):
    """A handler is known, however it is written."""

    def work() -> None:
        """Sleep."""
        signal.raise_signal(signal.SIGUSR1)

    agent = Agent(model(say(call("work"))), tools=[work])
    before = signal.signal(signal.SIGUSR1, HANDLERS[kind])
    try:
        with pytest.raises(TimeoutError, match="watchdog"):
            agent.run("hi")
    finally:
        signal.signal(signal.SIGUSR1, before)
    check_usable(agent)


def test_a_handler_of_the_tools_own():
    """A tool that limits its own time has failed, and the run goes on."""

    def work() -> None:
        """Limit the time."""
        before = signal.signal(signal.SIGUSR1, HANDLERS["any"])
        try:
            signal.raise_signal(signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, before)

    agent = Agent(model(say(call("work"))), tools=[work])
    result = agent.run("hi")
    assert result.stop_reason == "end_turn"
    [outcome] = result.tool_outcomes
    assert (outcome.outcome, outcome.error) == ("failed", "TimeoutError: watchdog")


def test_while_a_recording_is_written(tmp_path):
    """A recording never fails the run; a watchdog does."""

    class File:
        def write(self, text):
            if b"turn" in text:
                signal.raise_signal(signal.SIGUSR1)

    agent = Agent(model())
    before = signal.signal(signal.SIGUSR1, HANDLERS["method"])
    try:
        with pytest.raises(TimeoutError, match="watchdog"):
            agent.run("hi", record=File())
    finally:
        signal.signal(signal.SIGUSR1, before)
    check_usable(agent)
