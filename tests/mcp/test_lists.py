"""Lists of a server: pages, changes, and what is kept."""

import pytest
from support.mcp_stdio import Call, serving
from support.threads import until

from syncagent.cancel import CancelToken
from syncagent.exceptions import MCPProtocolError
from syncagent.testing import Gate


@pytest.fixture(params=["legacy", "modern"])
def era(request):
    return request.param


def names(client):
    return [one["name"] for one in client.definitions(CancelToken())]


def add(server, *names):
    for name in names:
        server.add_tool({"name": name, "inputSchema": {"type": "object"}})


def test_a_list_is_read_by_pages_and_kept(era):
    """All pages, in order; a second look asks nothing."""
    with serving(era, fake={"page_size": 1}) as (server, client):
        add(server, "b", "c")
        assert names(client) == ["echo", "b", "c"]
        first = client.definitions(CancelToken())
        assert client.definitions(CancelToken()) is first
        assert len(server.requests("tools/list")) == 3


def test_a_change_makes_the_list_stale(era):
    """MCP traps 17 and 20: five notifications in a row are one new list."""
    with serving(era) as (server, client):
        heard = []
        client.connect()
        if era == "modern":
            server.wait_for(server.listeners)
        assert names(client) == ["echo"]
        registration = client.on_change(heard.append)
        add(server, "b")
        server.change("tools", times=5)
        until(lambda: "tools" in heard)
        until(lambda: names(client) == ["echo", "b"])
        registration.close()


def test_a_change_during_the_read_makes_what_was_read_stale():
    """MCP trap 20: the list that was begun before the change is not kept."""
    gate = Gate()
    with serving("legacy") as (server, client):
        server.on("tools/list", lambda x: [x.stop_at(gate), None][1])
        client.connect()
        heard = []
        client.on_change(heard.append)
        reading = Call(lambda: names(client))
        gate.wait_reached()
        server.change("tools")
        until(lambda: heard)
        gate.open()
        assert reading.ended().value == ["echo"]
        add(server, "b")
        assert names(client) == ["echo", "b"]


def test_an_equal_list_is_the_same_object():
    """Tools are made anew only if something has changed."""
    with serving("legacy") as (server, client):
        first = client.tools().current_tools(CancelToken())
        tools = client.tools()
        before = tools.current_tools(CancelToken())
        server.change("tools")
        heard = []
        client.on_change(heard.append)
        server.change("tools")
        until(lambda: heard)
        after = tools.current_tools(CancelToken())
        assert [one is other for one, other in zip(before, after, strict=True)] == [
            True
        ]
        assert len(first) == 1


def test_a_new_process_has_its_own_lists():
    """After a restart nothing of the old list counts."""
    with serving() as (server, client):
        assert names(client) == ["echo"]
        add(server, "b")
        server.processes[0].kill()
        until(lambda: client.state == "lost")
        assert names(client) == ["echo", "b"]


@pytest.mark.parametrize(
    "answer",
    [
        {"tools": [{"name": "x"}], "nextCursor": "same"},
        {"tools": [{"name": "x"}], "nextCursor": ""},
    ],
    ids=["repeated cursor", "empty cursor"],
)
def test_pages_without_an_end_have_one(answer):
    """A server that does not know its own cursors is asked no more."""
    with serving("legacy") as (server, client):
        server.on("tools/list", lambda x: answer, times=None)
        assert names(client) == ["x"]
        assert len(server.requests("tools/list")) == 2


@pytest.mark.parametrize("answer", [{}, {"tools": None}, {"tools": "x"}])
def test_a_list_that_is_none_is_an_error_of_the_server(answer):
    """It names the server."""
    with serving() as (server, client):
        server.on("tools/list", lambda x: answer)
        with pytest.raises(
            MCPProtocolError, match="srv: the result of tools/list"
        ) as e:
            names(client)
        assert e.value.server == "srv"
        assert names(client) == ["echo"]


def test_a_server_without_the_capability_is_not_asked():
    """It has no resources; that is no error."""
    with serving("legacy") as (server, client):
        server.catalogue.capabilities = {"tools": {}}
        assert client.resources() == []
        assert client.prompts() == []
        assert not server.requests("resources/list")


def test_resources_and_prompts(era):
    """The other lists, a read and a prompt."""
    with serving(era) as (server, client):
        server.resource("note://a", "text of a")
        server.template("note://{name}")

        @server.prompt
        def greet(name):
            return f"Greet {name}."

        assert [one["uri"] for one in client.resources()] == ["note://a"]
        assert len(client.templates()) == 1
        assert client.read("note://a")[0].text == "text of a"
        assert [one["name"] for one in client.prompts()] == ["greet"]
        (message,) = client.prompt("greet", name="Ada")
        assert message.content[0].text == "Greet Ada."
