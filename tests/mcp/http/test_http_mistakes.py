"""Mistakes of servers: an error now, never a hang."""

import pytest
from support.mcp_http import DIALECTS, Call, Owner, calling, connected, text_of
from support.threads import together

from syncagent.cancel import CancelToken
from syncagent.exceptions import (
    ConfigurationError,
    MCPError,
    MCPProtocolError,
    MCPRequestFailed,
    MCPServerLost,
)
from syncagent.mcp.connection import Caller
from syncagent.mcp.http import wire
from syncagent.testing import FakeMCPServer

RESULT = '{"jsonrpc":"2.0","id":%s,"result":{}}'


def reply(kind, body, *, length=None):
    data = body.encode()
    # It closes: without a word about that, the next request might be sent there.
    head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: {kind}\r\n"
    size = len(data) if length is None else length
    return f"{head}Content-Length: {size}\r\n\r\n".encode() + data


def json_reply(body, **more):
    return reply("application/json", body, **more)


def events_reply(body, **more):
    return reply("text/event-stream", body, **more)


def raw(data):
    def script(exchange):
        exchange.http.raw(data)
        exchange.http.close()
        exchange.silence()

    return script


REFUSED = {"jsonrpc": "2.0", "id": None, "error": {"code": 7, "message": "no"}}
FOREIGN = RESULT % 99999

MISTAKES = {
    "400": (lambda x: x.http.status(400, "what?"), MCPProtocolError, "400 Bad Request"),
    "403": (lambda x: x.http.status(403, "no"), MCPRequestFailed, "403 Forbidden"),
    "405": (lambda x: x.http.status(405, ""), MCPProtocolError, "405"),
    "418": (lambda x: x.http.status(418, "tea"), MCPProtocolError, "tea"),
    "429": (lambda x: x.http.status(429, "slow"), MCPServerLost, "429"),
    "500": (lambda x: x.http.status(500, "boom"), MCPServerLost, "boom"),
    "503": (lambda x: x.http.status(503, ""), MCPServerLost, "try again later"),
    "302": (
        lambda x: x.http.status(302, "", headers={"Location": "http://127.0.0.1:1/"}),
        MCPProtocolError,
        "redirects are not followed",
    ),
    "202": (lambda x: x.http.accept(), MCPProtocolError, "never answer"),
    "204": (lambda x: x.http.status(204, ""), MCPProtocolError, "204"),
    "html": (
        raw(reply("text/html", "<html>")),
        MCPProtocolError,
        "text/html in place of a message",
    ),
    "empty": (raw(json_reply("")), MCPProtocolError, "in place of a message"),
    "list": (raw(json_reply("[]")), MCPProtocolError, "in place of a message"),
    "number": (raw(json_reply("3")), MCPProtocolError, "in place of a message"),
    "wrong id": (
        raw(json_reply(RESULT % '"other"')), MCPProtocolError, "mixes up ids",
    ),
    "cut json": (raw(json_reply('{"jsonrpc":', length=99)), MCPServerLost, "unknown"),
    "bad json": (raw(json_reply('{"jsonrpc":')), MCPProtocolError, "in place of"),
    "cut head": (raw(b"HTTP/1.1 200 OK\r\nContent-"), MCPError, "srv"),
    "no http": (raw(b"220 smtp ready\r\n\r\n"), MCPServerLost, "lost in the request"),
    "gone": (raw(b""), MCPServerLost, "lost in the request"),
    "empty sse": (raw(events_reply("")), MCPServerLost, "ended before"),
    "sse, foreign": (
        raw(events_reply(f'data: {FOREIGN}\n\n')), MCPServerLost, "ended before",
    ),
    "sse, no json": (raw(events_reply("data: hello\n\n")), MCPServerLost, "ended"),
    "sse, comments": (raw(events_reply(":\n:\n\n")), MCPServerLost, "ended before"),
    "sse, cut": (
        raw(events_reply('data: {"jsonrpc"', length=99)), MCPServerLost, "broke",
    ),
    "json as sse": (
        raw(events_reply(RESULT % 1)), MCPProtocolError, "srv",
    ),
}  # fmt: skip


@pytest.mark.parametrize("dialect", ["modern", "legacy", "no-get"])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_an_error_now(dialect, name):
    """MCP trap 3: with the name of the server in it, and the next call is answered."""
    script, kind, text = MISTAKES[name]
    with FakeMCPServer(**DIALECTS[dialect][0]) as server:
        server.get_status = 405 if dialect == "no-get" else 200

        @server.tool
        def echo(text: str = "hi") -> str:
            return text

        with connected(server) as connection:
            server.on("tools/call", script)
            with pytest.raises(kind, match=text) as caught:
                calling(connection, idle=10.0)
            assert "srv" in str(caught.value)
            assert caught.value.server == "srv"
            assert text_of(calling(connection)) == "hi"
        assert server.cancels() == []


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (lambda x: x.http.status(404, "no"), MCPProtocolError),
        (lambda x: x.http.status(500, "no"), MCPServerLost),
        (lambda x: x.http.status(400, REFUSED), MCPRequestFailed),
        (lambda x: x.http.close(), MCPServerLost),
    ],
)  # fmt: skip
def test_mistakes_of_the_oldest_servers(script, kind):
    """HTTP+SSE: a POST that is refused, or never answered."""
    with FakeMCPServer(era="legacy") as server:
        with connected(server, kind="sse") as connection:
            server.on("POST", script)
            with pytest.raises(kind):
                calling(connection)


def test_a_giant_body_is_refused(monkeypatch):
    """Above the limit nothing more is read."""
    with FakeMCPServer(era="modern") as server, connected(server) as connection:
        connection._wire._transport._max_bytes = 1000
        server.on("tools/call", lambda x: x.answer({"x": "y" * 2000}))
        server.form = "json"
        with pytest.raises(MCPProtocolError, match="more than 1000 bytes"):
            calling(connection)
    assert wire.MAX_MESSAGE_BYTES == 32 * 1024 * 1024


def test_a_server_that_dies_ends_all_calls():
    """MCP trap 1: ten calls fail at once; after its return the next one works."""
    for dialect in ("modern", "legacy", "stateless"):
        with FakeMCPServer(**DIALECTS[dialect][0]) as server:
            with connected(server) as connection:
                server.on("tools/call", lambda x: x.until_hung_up(), times=10)
                calls = [Call(lambda: calling(connection)) for _ in range(10)]
                server.wait_for(lambda: len(server.requests("tools/call")) == 10)
                server.go_down()
                for call in calls:
                    assert isinstance(call.ended().error, MCPServerLost)
                with pytest.raises(MCPServerLost) as caught:
                    calling(connection)
                assert caught.value.started is False
                server.come_back()
                connection.request("tools/list", {}, Caller(token=CancelToken()))


def test_the_death_of_an_oldest_server_is_noticed():
    """HTTP+SSE: the stream is the session, and its end is the end of the connection."""
    with FakeMCPServer(era="legacy") as server:
        with connected(server, kind="sse") as connection:
            server.on("tools/call", lambda x: x.silence())
            call = Call(lambda: calling(connection))
            server.wait_for(lambda: server.requests("tools/call"))
            server.drop_connections()
            error = call.ended().error
            assert isinstance(error, MCPServerLost)
            assert "effects" in str(error)
            assert connection.is_usable is False


def test_key_and_arguments_do_not_leave_in_clear():
    """Plain HTTP goes to this machine only, unless it is allowed."""
    with pytest.raises(ConfigurationError, match="allow_insecure"):
        with connected("http://mcp.invalid/mcp"):
            pass


def test_json_and_events_change_from_call_to_call():
    """MCP trap 22: the same method is answered in either form."""
    with FakeMCPServer(era="legacy") as server, connected(server) as connection:
        for form in ("json", "sse", "json", "sse"):
            server.form = form
            connection.request("tools/list", {}, Caller(token=CancelToken()))


def test_a_body_may_be_a_batch():
    """A list of messages in place of one, with notifications before the response."""
    with FakeMCPServer(era="legacy") as server:
        owner = Owner()
        with connected(server, owner) as connection:

            def script(exchange):
                note = '{"jsonrpc":"2.0","method":"notifications/x"}'
                both = f"[{note},{RESULT % exchange.id}]"
                raw(json_reply(both))(exchange)

            server.on("tools/call", script)
            assert calling(connection) == {}
            owner.wait_for("notifications/x")


@pytest.mark.stress
def test_200_threads_on_one_server():
    """Each of them gets its own answers, over one connection object."""
    with FakeMCPServer(era="legacy") as server:

        @server.tool
        def echo(text: str = "hi") -> str:
            return text

        with connected(server) as connection:

            def work(number):
                for step in range(5):
                    text = f"{number}/{step}"
                    assert (
                        text_of(calling(connection, arguments={"text": text})) == text
                    )

            together(
                *(lambda number=number: work(number) for number in range(200)),
                timeout=50,
            )
            assert connection._requests._pending == {}
