"""Agents that use real servers: calls, cancels, progress, approvals and questions."""

import pytest
from real_servers import HTTP, MISSING, STDIO, connect
from support.agents import check_usable, model, outcomes, told
from support.threads import meanwhile, together

from syncagent import Agent
from syncagent.events import ToolProgress
from syncagent.testing import call, say

pytestmark = [
    pytest.mark.mcp_real,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
    pytest.mark.parametrize("variant", [*STDIO, *HTTP], ids=repr, scope="module"),
]


@pytest.fixture(scope="module")
def server(variant, journal, process):
    """Yield a connected server object whose questions go to the agent's user."""
    with connect(variant, journal, process) as server:
        server.connect()
        yield server


@pytest.fixture
def nothing_left():
    """Replace the check of all tests: the server object is shared."""


def test_a_tool_of_a_server_is_called(server):
    """The model calls a tool, and reads its result."""
    agent = Agent(model(say(call("add", {"a": 20, "b": 22}))), tools=[server])
    result = agent.run("Add.")
    assert outcomes(result) == ["done"]
    assert "42" in told(agent)


def test_a_cancel_of_the_agent_reaches_the_server(variant, server, journal):
    """agent.cancel() ends the run at once, and the server's tool."""
    arguments = {"steps": 40, "seconds": 20, "name": "agent"}
    agent = Agent(model(say(call("count", arguments))), tools=[server])

    def cancel():
        journal.wait_for("began count agent")
        agent.cancel("enough")

    with meanwhile(cancel):
        result = agent.run("Count.")
    assert result.stop_reason == "cancelled"
    assert outcomes(result) == ["interrupted"]
    if variant.hears_cancel:
        journal.wait_for("cancelled count agent")
    check_usable(agent)


def test_progress_is_an_event_of_the_run(variant, server):
    """Reports of the server are progress of the tool call."""
    if not variant.reports:
        pytest.skip("a JSON response has no room for progress")
    arguments = {"steps": 3, "seconds": 0.6}
    agent = Agent(model(say(call("count", arguments))), tools=[server])
    events = list(agent.stream("Count."))
    seen = [event for event in events if isinstance(event, ToolProgress)]
    assert len(seen) >= 2


def test_a_question_of_the_server_is_one_of_the_tool(variant, server):
    """A form goes to the handler of the agent, and its answer to the server."""
    if not variant.asks:
        pytest.skip("a server without sessions cannot ask")
    asked = []

    def ask(question):
        asked.append(question)
        return {"name": "Grace", "age": 45}

    agent = Agent(model(say(call("ask_name"))), tools=[server], ask=ask)
    agent.run("Ask.")
    assert "Grace is 45" in told(agent)
    assert "Who are you?" in asked[0]
    assert "age" in asked[0].form["properties"]


def test_ten_agents_share_a_server(server):
    """Runs on ten threads each get their own results."""

    def run(number):
        arguments = {"a": number, "b": number}
        agent = Agent(model(say(call("add", arguments))), tools=[server])
        agent.run("Add.")
        assert str(2 * number) in told(agent)

    together(*(lambda n=n: run(n) for n in range(100, 110)))
