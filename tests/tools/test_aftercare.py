"""What frameworks tidy up on threads of ours, and only there."""

import logging
import threading

import pytest
from support.threads import LONG

from syncagent import Agent, tool
from syncagent._context import _cleanups, after_each_call
from syncagent.testing import ScriptedModel, call, say


@pytest.fixture
def tidied():
    """The threads on which something was tidied up, in order."""
    names = []

    def tidy():
        names.append(threading.current_thread().name.split("-")[1])

    after_each_call(tidy)
    yield names
    del _cleanups[tidy]


def agent_with(*tools):
    script = [say(*(call(one.name) for one in tools)), "It is done."]
    return Agent(ScriptedModel(script), tools=list(tools))


@tool
def here() -> str:
    """Work on the thread of the run."""
    return threading.current_thread().name


@tool(isolation="thread")
def aside() -> str:
    """Work on another thread."""
    return threading.current_thread().name


def test_on_the_thread_of_a_handle(tidied):
    """After each tool, and at the end of the thread."""
    handle = agent_with(here).start("Go.")
    assert handle.result(LONG).text == "It is done."
    handle.thread._thread.join(LONG)
    assert tidied == ["run", "run"]


def test_on_the_thread_of_a_tool(tidied):
    """A tool's thread is tidied up before anybody hears of its end."""
    agent_with(aside).run("Go.")
    assert tidied == ["aside"]


def test_not_on_the_thread_of_a_caller(tidied):
    """Promise 10: the thread of run() is the caller's, and is left alone."""
    agent_with(here).run("Go.")
    assert tidied == []


def test_not_in_the_middle_of_another_call(tidied):
    """A tool with a run of its own is not tidied up by the tools of that one."""
    during = []

    @tool
    def outer() -> str:
        """Ask another agent."""
        agent_with(here).run("Go.")
        during.extend(tidied)
        return "asked"

    handle = agent_with(outer).start("Go.")
    handle.result(LONG)
    handle.thread._thread.join(LONG)
    assert during == []
    assert tidied == ["run", "run"]


def test_what_it_raises_is_logged(tidied, caplog):
    """Trouble in it is nobody else's."""

    def trouble():
        raise OSError("the database is gone")

    after_each_call(trouble)
    try:
        with caplog.at_level(logging.ERROR, "syncagent.run"):
            assert agent_with(aside).run("Go.").text == "It is done."
    finally:
        del _cleanups[trouble]
    assert "a function of after_each_call() raised" in caplog.text
    assert tidied == ["aside"]
