"""Several servers: they start together, end together, and share their names."""

import json
import logging
import threading
import time

import pytest

from syncagent import Agent
from syncagent.cancel import CancelToken
from syncagent.exceptions import (
    Cancelled,
    ConfigurationError,
    MCPServerLost,
)
from syncagent.mcp import MCPServer, MCPServers
from syncagent.mcp.config import read_config
from syncagent.messages import ToolMessage
from syncagent.testing import FakeMCPServer, ScriptedModel, call, say

#: Seconds within which a thread has done what a test waits for.
LIMIT = 10
BROKEN = ["sh", "-c", "echo no key >&2; exit 3"]


@pytest.fixture
def fakes():
    """Two servers, each with a tool that tells which one it is."""
    with FakeMCPServer() as first, FakeMCPServer() as second:
        for name, fake in (("first", first), ("second", second)):

            @fake.tool
            def who(name: str = name) -> str:
                """Tell who it is."""
                return name

        yield first, second


def stdio(fake):
    return MCPServer.stdio(fake.command)


def made(*fakes, **more):
    """Return servers called a, b, ..."""
    servers = dict(zip("abc", map(stdio, fakes), strict=False))
    return MCPServers(servers | more.pop("others", {}), **more)


def broken(name="broken"):
    return MCPServer.stdio(BROKEN, name=name)


def written(tmp_path, **servers):
    """Return a file with these servers."""
    entries = {
        name: {"command": each.command[0], "args": each.command[1:]}
        if isinstance(each, FakeMCPServer)
        else each
        for name, each in servers.items()
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": entries}))
    return path


def test_a_file_becomes_servers_by_name(fakes, tmp_path):
    """They start with the block, are ready in it, and are closed after it."""
    path = written(tmp_path, one=fakes[0], two=fakes[1], off={"command": "x"})
    with MCPServers.load(path, only=["two", "one"]) as servers:
        assert list(servers) == ["two", "one"]
        assert {server.state for server in servers.values()} == {"ready"}
        assert servers["one"].call("who").text == "first"
        kept = list(servers.values())
    assert {server.state for server in kept} == {"closed"}
    for process in [one for fake in fakes for one in fake.processes]:
        process.wait_ended()


def test_the_file_decides_variables_timeout_and_tools(fakes, tmp_path, monkeypatch):
    """env reaches the server, timeout its calls, and the chosen tools the agent."""
    monkeypatch.setenv("TOKEN_OF_MINE", "s3cret")
    fakes[0].add_tool({"name": "other", "inputSchema": {"type": "object"}})
    entry = {
        "command": "sh",
        "args": ["-c", 'test "$KEY" = s3cret && exec "$0" "$@"', *fakes[0].command],
        "env": {"KEY": "${TOKEN_OF_MINE}"},
        "timeout": 40,
        "tools": ["w*"],
    }
    with MCPServers.load(written(tmp_path, a=entry)) as servers:
        timeouts = servers["a"].timeouts
        assert (timeouts.total, timeouts.idle, timeouts.start) == (40, 40, 60)
        assert [tool.name for tool in servers.tools()] == ["a_who"]
        assert [tool.name for tool in servers.tools(only=["who"])] == ["a_who"]
        assert not servers.tools(only=["other"])


def test_equal_tool_names_get_prefixes(fakes):
    """By default the name of the server; a function or an empty text say otherwise."""
    with made(*fakes) as servers:
        assert [tool.name for tool in servers.tools()] == ["a_who", "b_who"]
        named = servers.tools(prefix=lambda name: f"mcp_{name}_")
        assert [tool.name for tool in named] == ["mcp_a_who", "mcp_b_who"]
        assert [tool.name for tool in servers.tools(prefix="")] == ["who", "who"]
        assert servers.tools()[1].name == "b_who"


def test_odd_names_of_servers_make_prefixes_that_providers_accept(fakes):
    """Blanks, dots and long names are replaced or cut; two servers never share one."""
    names = ["my server", "my.server", "x" * 80]
    servers = [MCPServer.stdio(fakes[0].command) for _ in names]
    with MCPServers(dict(zip(names, servers, strict=True))) as mapping:
        found = [tool.name for tool in mapping.tools()]
    assert len(set(found)) == 3
    assert all(len(name) <= 64 and name.isascii() for name in found)


@pytest.mark.parametrize("is_bare", [False, True])
def test_an_agent_calls_tools_of_all_servers(fakes, is_bare):
    """Agent(tools=[servers]) and tools=[servers.tools()] are the same source."""
    model = ScriptedModel([say(call("a_who", {}), call("b_who", {})), "Done."])
    with made(*fakes) as servers:
        agent = Agent(model, tools=[servers if is_bare else servers.tools()])
        assert agent.run("Who?").text == "Done."
    (results,) = [each for each in agent.messages if isinstance(each, ToolMessage)]
    assert [block.content[0].text for block in results.content] == ["first", "second"]


def test_all_failures_are_named_and_the_rest_is_closed(fakes):
    """One error for all that did not start; servers that did are closed again."""
    servers = made(fakes[0], others={"x": broken("x"), "y": broken("y")})
    with pytest.raises(MCPServerLost) as caught, servers:
        pytest.fail("the block was entered")
    said = str(caught.value)
    assert said.startswith("2 of 3 MCP servers did not start: x: ")
    assert said.count("no key") == 2
    assert caught.value.server == "x, y"
    assert servers["a"].state == "closed"


def test_one_failure_is_raised_as_it_is():
    """With its own message and type."""
    with pytest.raises(MCPServerLost) as caught, MCPServers({"x": broken("x")}):
        pytest.fail("the block was entered")
    assert caught.value.server == "x"


def test_a_server_that_does_not_start_can_be_skipped(fakes, caplog):
    """on_error='skip': a warning, the reason, and the others work."""
    with caplog.at_level(logging.WARNING, "syncagent.mcp"):
        with made(fakes[0], others={"x": broken()}, on_error="skip") as servers:
            assert list(servers) == ["a"]
            assert isinstance(servers.failed["x"], MCPServerLost)
            assert [tool.name for tool in servers.tools()] == ["a_who"]
    assert "MCP server x is skipped" in caplog.text
    with pytest.raises(ConfigurationError, match="on_error must be"):
        MCPServers({}, on_error="ignore")


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_server_lost_between_turns(fakes, on_error, caplog):
    """It ends the run with its error, or has no tools in this turn."""
    with made(*fakes, on_error=on_error) as servers:
        source = servers.tools()
        token = CancelToken()
        assert len(source.current_tools(token)) == 2
        fakes[1].on_start(lambda process: process.exit(3, stderr="no key"))
        fakes[1].on("tools/call", lambda exchange: exchange.process.exit(1))
        with pytest.raises(MCPServerLost):
            servers["b"].call("who")
        if on_error == "raise":
            with pytest.raises(MCPServerLost, match="no key"):
                source.current_tools(token)
        else:
            assert [tool.name for tool in source.current_tools(token)] == ["a_who"]


def test_a_cancel_ends_all_starts_at_once(fakes):
    """From another thread, while two servers say nothing; all of them are closed."""
    for fake in fakes:
        fake.on("server/discover", lambda x: x.silence())
    servers, token = made(*fakes), CancelToken()
    ended = []

    def connect():
        try:
            servers.connect(token=token)
        except Cancelled:
            ended.append(time.monotonic())

    thread = threading.Thread(target=connect)
    thread.start()
    for fake in fakes:
        fake.wait_for(lambda fake=fake: fake.requests("server/discover"), LIMIT)
    began = time.monotonic()
    token.cancel()
    thread.join(LIMIT)
    assert ended
    assert ended[0] - began < 5
    assert {server.state for server in servers.values()} == {"closed"}
    for process in (each for fake in fakes for each in fake.processes):
        process.wait_ended()
        assert process.has_ended


def test_servers_start_and_close_side_by_side(fakes):
    """Each waits for the other's start; one after the other they would never end."""
    both = threading.Barrier(2, timeout=LIMIT)
    for fake in fakes:
        fake.on("server/discover", lambda x: both.wait() and None)
    with made(*fakes) as servers:
        assert len(servers) == 2
    servers.close()  # again


def test_two_files_must_not_share_a_name(fakes, tmp_path):
    """The error names both files."""
    first = written(tmp_path, a=fakes[0])
    (tmp_path / "other").mkdir()
    second = written(tmp_path / "other", a=fakes[1])
    configs = [each for p in (first, second) for each in read_config(p).chosen()]
    with pytest.raises(ConfigurationError) as caught:
        MCPServers.of(configs)
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)


def test_servers_are_a_mapping_without_secrets_in_sight(tmp_path, fakes):
    """Names only in repr(); equality is identity, so they can be in sets."""
    servers = made(*fakes)
    assert repr(servers) == "<MCPServers a, b>"
    assert len({servers, made(*fakes)}) == 2
    servers.close()
