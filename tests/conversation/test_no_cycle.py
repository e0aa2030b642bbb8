"""A run that raises keeps nothing alive: neither frames nor what they hold."""

import gc
import sys
import threading
import weakref
from contextlib import contextmanager

import pytest
from support.agents import SUM, add

from syncagent import Agent, CancelToken, ToolContext, tool
from syncagent.driver import Finished
from syncagent.exceptions import ProviderError
from syncagent.testing import ScriptedModel, call, say

SERVICES = ("syncagent-timer", "syncagent-cancel")
METHODS = ["before_model", "after_model", "before_tool", "after_tool", "on_finish"]


class Held:
    """Something that the caller's frame holds, such as an open file."""


@contextmanager
def no_collector():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def survivors(make_agent, use, kind=BaseException):
    """Return what is alive after a caller that caught the exception has returned."""
    alive = {}

    def caller():
        held, agent = Held(), make_agent()
        alive["held"], alive["agent"] = weakref.ref(held), weakref.ref(agent)
        # From 3.12 on, a frame keeps the one that called it: those of a handle's thread
        # are in the handle's error.
        if use not in HANDLES or sys.version_info < (3, 12):
            alive["conversation"] = weakref.ref(agent._conversation)
        try:
            use(agent)
        except kind:
            return True
        return False

    with no_collector():
        assert caller() is True
        is_over = CancelToken(timeout=10)
        while any(ref() is not None for ref in alive.values()):
            # A thread of the run may be about to end, and has a frame as well.
            is_last = is_over.wait(0.001)
            if is_last or not any(map(is_ours, threading.enumerate())):
                break
        return [name for name, ref in alive.items() if ref() is not None]


def is_ours(thread):
    """Is this a thread that works for a run?"""
    name = thread.name
    return name.startswith("syncagent-") and name not in SERVICES


def fails(kind):
    return Agent(ScriptedModel([kind("from a test")]))


def fails_later(kind):
    return Agent(ScriptedModel([SUM, kind("from a test")]), tools=[add])


def run(agent):
    agent.run("hi")


def read(agent):
    for _ in agent.stream("hi"):
        pass


def read_inside(agent):
    with agent.stream("hi") as stream:
        list(stream)


def drop(agent):
    stream = agent.stream("hi")
    next(stream)
    del stream
    raise ValueError


def close(agent):
    with agent.stream("hi") as stream:
        next(stream)
        raise ValueError


def drive(agent):
    driver = agent.drive("hi")
    while not isinstance(driver.next(), Finished):
        pass


def start(agent):
    agent.start("hi").result(20)


def hold_handle(agent):
    handle = agent.start("hi")
    handle.result(20)


def release(agent):
    agent.run("hi", backgroundable=True)


HANDLES = (start, hold_handle, release)
WAYS = {
    each.__name__: each
    for each in (run, read, read_inside, drive, start, hold_handle, release)
}


@pytest.mark.parametrize("kind", [ProviderError, KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("make", [fails, fails_later])
@pytest.mark.parametrize("way", WAYS)
def test_an_error_of_the_model(way, make, kind):
    """S6: however it is run, and whatever comes out."""
    assert survivors(lambda: make(kind), WAYS[way], kind) == []


@pytest.mark.parametrize("use", [drop, close])
def test_a_stream_that_is_not_read_to_its_end(use):
    """S6: dropped, or closed by an exception."""
    assert survivors(lambda: Agent(ScriptedModel([SUM]), tools=[add]), use) == []


class Raises:
    def __init__(self, method, kind):
        self._kind = kind
        setattr(self, method, self._call)

    def _call(self, event):
        raise self._kind("from a test")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("way", ["run", "read", "drive", "hold_handle"])
@pytest.mark.parametrize("method", [*METHODS, "on_event"])
def test_an_error_of_a_hook(method, way, kind):
    """S6: from every method."""

    def make():
        hooks = [Raises(method, kind)]
        return Agent(ScriptedModel([SUM, "ok"]), tools=[add], hooks=hooks)

    assert survivors(make, WAYS[way], kind) == []


@pytest.mark.parametrize("way", ["run", "read", "drive", "hold_handle"])
@pytest.mark.parametrize("isolation", [None, "thread"])
def test_ctrl_c_in_a_tool(isolation, way):
    """S6: on whatever thread the tool is."""

    def make():
        @tool(isolation=isolation)
        def break_off() -> str:
            """Raise."""
            raise KeyboardInterrupt

        reply = say(call("break_off"), call("break_off"))
        return Agent(ScriptedModel([reply]), tools=[break_off], parallel_tools=2)

    assert survivors(make, WAYS[way], KeyboardInterrupt) == []


@pytest.mark.parametrize("way", ["run", "read", "drive", "hold_handle"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
def test_an_error_of_a_handler(way, kind):
    """S6: of the approval, and of the question of a tool."""

    def refuse(request):
        raise kind("from a test")

    def make():
        careful = tool(name="add", requires_approval=True)(add)
        return Agent(ScriptedModel([SUM]), tools=[careful], approve=refuse)

    assert survivors(make, WAYS[way], kind) == []

    def make_asking():
        def curious(ctx: ToolContext) -> str:
            """Ask."""
            return ctx.ask("Who?")

        reply = say(call("curious"))
        return Agent(ScriptedModel([reply, kind()]), tools=[curious], ask=refuse)

    assert survivors(make_asking, WAYS[way], kind) == []


@pytest.mark.parametrize("kind", [ProviderError, KeyboardInterrupt])
def test_a_resumed_run(kind):
    """S6: the same for resume()."""

    def make():
        careful = tool(name="add", requires_approval=True)(add)
        return Agent(ScriptedModel([SUM, kind("from a test")]), tools=[careful])

    def use(agent):
        [asked] = agent.run("hi").interrupts
        agent.resume({asked.id: True})

    assert survivors(make, use, kind) == []


@pytest.mark.parametrize("kind", [ProviderError, KeyboardInterrupt])
@pytest.mark.parametrize("isolation", [None, "thread"])
def test_a_sub_agent(isolation, kind):
    """S6: its error is the tool's, or goes up through both runs."""

    def make():
        inner = fails(kind)

        @tool(isolation=isolation)
        def delegate(ctx: ToolContext) -> str:
            """Delegate."""
            return ctx.agent(inner, "hi").text

        script = [say(call("delegate")), kind("from a test")]
        return Agent(ScriptedModel(script), tools=[delegate])

    assert survivors(make, run, kind) == []


def test_a_cancel_by_an_exception():
    """S6: one that the caller's own token has raised."""
    token = CancelToken()
    token.cancel("enough")

    class Checks:
        def before_model(self, event):
            token.checkpoint()

    def use(agent):
        assert agent.run("hi").cancelled
        raise ValueError

    assert survivors(lambda: Agent(ScriptedModel(["ok"]), hooks=[Checks()]), use) == []
