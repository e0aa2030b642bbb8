"""Requests over HTTP in every dialect, and how the dialect of a server is found."""

import threading

import pytest
from support.mcp_http import DIALECTS, Call, Owner, calling, connected, text_of
from support.threads import together

from syncagent.cancel import CancelToken
from syncagent.exceptions import (
    ConfigurationError,
    MCPAuthRequired,
    MCPProtocolError,
    MCPRequestFailed,
    MCPServerLost,
    MCPTimedOut,
)
from syncagent.mcp.connection import Caller
from syncagent.mcp.http import HTTPSettings
from syncagent.testing import FakeMCPServer

#: The dialects whose responses are events: JSON is one message.
with_events = pytest.mark.parametrize(
    "dialect", [name for name in DIALECTS if not name.endswith("json")]
)
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


@pytest.fixture(params=DIALECTS)
def dialect(request):
    return request.param


@pytest.fixture
def server(dialect):
    with FakeMCPServer(**DIALECTS[dialect][0]) as server:
        server.get_status = 405 if dialect == "no-get" else 200

        @server.tool
        def echo(text: str = "hi") -> str:
            return text

        yield server
        assert server.complaints == []


@pytest.fixture
def connection(dialect, server):
    with connected(server, **DIALECTS[dialect][1]) as connection:
        yield connection


def test_every_dialect_answers(dialect, server, connection):
    """A call gets its result, in JSON and in SSE, with and without a session."""
    assert text_of(calling(connection, arguments={"text": "yo"})) == "yo"
    era = "modern" if dialect.startswith("modern") else "legacy"
    assert connection.session.era == era
    assert connection.session.capabilities["tools"]


def test_an_error_is_raised_with_code_and_data(server, connection):
    """The code and the data of the server are attributes."""
    server.on("tools/call", lambda x: x.error(-32602, "no good", {"a": 1}))
    with pytest.raises(
        MCPRequestFailed, match=r"srv answered tools/call .* no good"
    ) as e:
        calling(connection)
    assert (e.value.code, e.value.data, e.value.server) == (-32602, {"a": 1}, "srv")


@with_events
def test_progress_comes_on_the_calling_thread(server, connection):
    """Reports arrive in order, on the thread of the call."""

    def script(exchange):
        for step in (1, 2, 3):
            exchange.progress(step, 3, f"step {step}")

    server.on("tools/call", script)
    seen = []

    def on_progress(report):
        seen.append((report.progress, report.message, threading.get_ident()))

    calling(connection, on_progress=on_progress)
    me = threading.get_ident()
    assert seen == [(1, "step 1", me), (2, "step 2", me), (3, "step 3", me)]


@pytest.mark.parametrize(
    ("dialect", "over"),
    [
        ("legacy", "call"),
        ("legacy", "session"),
        ("stateless", "call"),
        ("no-get", "call"),
        ("sse", "call"),
        ("sse", "session"),
    ],
)
def test_a_question_is_answered_on_the_calling_thread(dialect, over):
    """Both on the stream of the call and on the one of the session."""
    arguments, settings = DIALECTS[dialect]
    with FakeMCPServer(**arguments) as server:
        server.get_status = 405 if dialect == "no-get" else 200

        @server.tool
        def greet(ctx) -> str:
            return "hello " + ctx.elicit("Who?", FORM, over=over)["content"]["name"]

        seen = []

        def answer(question, token):
            seen.append((question.method, threading.get_ident()))
            return {"action": "accept", "content": {"name": "Ada"}}

        with connected(server, Owner(elicitation={}), **settings) as connection:
            assert text_of(calling(connection, "greet", answer=answer)) == "hello Ada"
            assert text_of(calling(connection, "greet", answer=answer)) == "hello Ada"
        assert seen == [("elicitation/create", threading.get_ident())] * 2
        assert server.complaints == []


def test_threads_share_a_connection(connection):
    """Opened here, used by twenty threads, each gets its own answer."""

    def work(number):
        for _ in range(3):
            text = f"thread {number}"
            assert text_of(calling(connection, arguments={"text": text})) == text

    together(*(lambda number=number: work(number) for number in range(20)))


@with_events
def test_the_result_comes_with_any_ids_and_messages_around_it(server, connection):
    """Notifications, unknown progress and a foreign result around it do no harm."""

    def script(exchange):
        exchange.log("a word")
        exchange.notify("notifications/from_the_future", {"x": 1})
        exchange.progress(1, token="unknown")
        exchange.send([{"jsonrpc": "2.0", "id": "nobody", "result": {}}])

    server.on("tools/call", script)
    assert text_of(calling(connection)) == "hi"


@pytest.mark.parametrize("id", [None, "server-error"])
def test_an_error_belongs_to_the_post_it_answers(id):
    """Whatever id the server has put there."""
    with FakeMCPServer(era="modern") as server, connected(server) as connection:
        server.on("tools/call", lambda x: x.error(-32000, "oops", id=id))
        with pytest.raises(MCPRequestFailed, match="oops"):
            calling(connection)


def test_arguments_are_repeated_in_headers():
    """After the list of tools is known, annotated arguments are headers."""
    schema = {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    }
    with FakeMCPServer(era="modern") as server, connected(server) as connection:
        server.add_tool({"name": "t", "inputSchema": schema}, lambda x: "fine")
        connection.request("tools/list", {}, Caller(token=CancelToken()))
        assert text_of(calling(connection, "t", {"region": "eu"})) == "fine"
        headers = server.requests("tools/call")[0].headers
        assert headers["mcp-param-region"] == "eu"
        assert (headers["mcp-method"], headers["mcp-name"]) == ("tools/call", "t")
        assert server.complaints == []


# -- the probe -------------------------------------------------------------------------


def test_the_era_can_be_given():
    """Then the other one is not tried."""
    with FakeMCPServer(era="both") as server:
        with connected(server, era="legacy") as connection:
            assert connection.session.era == "legacy"
        assert not server.requests("server/discover")
        with connected(server, era="modern") as connection:
            assert connection.session.era == "modern"
    with FakeMCPServer(era="legacy") as server:
        with pytest.raises((MCPProtocolError, MCPRequestFailed)):
            with connected(server, era="modern"):
                pass


MISSING = {
    "jsonrpc": "2.0",
    "id": "server-error",
    "error": {"code": -32600, "message": "Missing session ID"},
}


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.http.status(400, MISSING, headers={"Mcp-Session-Id": "wrong"}),
        lambda x: x.http.status(404, "<html>no</html>"),
        lambda x: x.http.status(405, ""),
        lambda x: x.http.status(500, "oops"),
        lambda x: x.http.accept(),
        lambda x: x.answer({}),
        lambda x: x.error(-32601, status=200),
        lambda x: x.error(-32022, data={"supported": ["2025-11-25"]}, status=400),
        lambda x: x.silence(),
    ],
    ids=["400", "404", "405", "500", "202", "{}", "-32601", "-32022", "silence"],
)  # fmt: skip
def test_a_server_that_does_not_know_the_question_is_legacy(look):
    """Any odd answer to the first look leads to a handshake, with its own session."""
    with FakeMCPServer(era="legacy") as server:
        server.on("server/discover", look)
        with connected(server, start_timeout=1.0) as connection:
            assert connection.session.era == "legacy"
            connection.request("tools/list", {}, Caller(token=CancelToken()))
        assert all(r.session != "wrong" for r in server.requests("tools/list"))


def test_a_version_in_common_is_asked_for_again():
    """-32022 with our version in it is a modern server in a bad moment."""
    with FakeMCPServer(era="modern") as server:
        data = {"supported": ["2026-07-28"], "requested": "?"}
        server.on("server/discover", lambda x: x.error(-32022, data=data))
        with connected(server) as connection:
            assert connection.session.era == "modern"


def test_no_common_version_is_an_error():
    """A server from the future is told apart from one from the past."""
    with FakeMCPServer(era="modern") as server:
        data = {"supported": ["2030-01-01"]}
        server.on("server/discover", lambda x: x.error(-32022, data=data), times=9)
        with pytest.raises(MCPRequestFailed), connected(server):
            pass
        assert not server.requests("initialize")
    with FakeMCPServer(era="legacy") as server:
        server.on("initialize", lambda x: x.answer({"protocolVersion": "1999-01-01"}))
        with pytest.raises(MCPProtocolError, match="1999"), connected(server):
            pass


def test_the_oldest_servers_are_found():
    """A handshake that gets 404 leads to HTTP+SSE, if that is allowed."""
    with FakeMCPServer(era="legacy") as server:
        server.on("POST", lambda x: x.http.status(404, ""), times=2)
        with connected(server.sse_url) as connection:
            assert connection.session.era == "legacy"
            assert type(connection).__name__ == "TwoEndpointsConnection"
        server.on("POST", lambda x: x.http.status(404, ""), times=2)
        with pytest.raises(MCPProtocolError, match="404"):
            with connected(server.sse_url, kind="streamable"):
                pass


def test_nothing_there_is_said_at_once():
    """A refused connection fails once, and names server and reason."""
    with FakeMCPServer() as server:
        server.go_down()
        with pytest.raises(MCPServerLost, match="srv cannot be reached") as caught:
            with connected(server):
                pass
        assert caught.value.started is False


def test_a_silent_server_ends_with_the_start_timeout():
    """Neither question is ever answered."""
    with FakeMCPServer() as server:
        server.on("server/discover", lambda x: x.silence())
        server.on("initialize", lambda x: x.silence())
        with pytest.raises(MCPTimedOut, match=r"handshake within 0\.2 s"):
            with connected(server, start_timeout=0.2):
                pass


# -- credentials -----------------------------------------------------------------------


class Keys:
    """An authorizer with one key after the other."""

    def __init__(self, *keys):
        self.keys = list(keys)
        self.handled = []
        self.lock = threading.Lock()

    def headers(self, url, token):
        return {"Authorization": f"Bearer {self.keys[0]}"} if self.keys[0] else {}

    def handle(self, url, status, headers, token, *, used, attempt=0):
        with self.lock:
            self.handled.append((status, attempt, dict(used)))
            if used == self.headers(url, token):
                if len(self.keys) == 1:
                    return False
                self.keys.pop(0)
        return attempt < 3


@pytest.mark.parametrize("name", ["modern", "legacy", "sse"])
def test_a_login_happens_where_it_is_asked_for(name):
    """At the first look, and in a call whose key has expired."""
    arguments, settings = DIALECTS[name]
    keys = Keys("", "first-key", "second-key")
    with FakeMCPServer(**arguments, require_token="first-key") as server:
        with connected(server, auth=keys, **settings) as connection:
            calling(connection)
            server.require_token = "second-key"
            calling(connection)
        assert [one[:2] for one in keys.handled] == [(401, 0), (401, 0)]


def test_no_one_to_log_in_is_an_error():
    """Without an authorizer, and if it gives up."""
    with FakeMCPServer(require_token="key") as server:
        for auth in (None, ("me", "wrong"), Keys("wrong")):
            with pytest.raises(MCPAuthRequired, match="srv answered 401"):
                with connected(server, auth=auth):
                    pass
        assert len(server.http_requests) == 3  # one look each, and no handshake


def test_a_login_takes_no_time_of_the_call():
    """A person takes longer than the call may, and the call is made even so."""
    keys = Keys("old", "new-key")
    with FakeMCPServer(era="modern", require_token="new-key") as server:
        handle = keys.handle

        def slow(*args, **kwargs):
            CancelToken().wait(0.3)
            return handle(*args, **kwargs)

        keys.handle = slow
        server.require_token = None
        with connected(server, auth=keys) as connection:
            server.require_token = "new-key"
            calling(connection, total=0.25)


def test_no_secret_is_shown():
    """Neither key nor session id is in an error, though the server says them."""
    with FakeMCPServer(era="legacy") as server:
        keys = Keys("very-secret-key-123")
        with connected(server, auth=keys) as connection:
            session = server.requests("initialize") and server.received[-1].session

            def tell(exchange):
                sent = exchange.received.headers
                both = sent["authorization"] + " " + sent["mcp-session-id"]
                exchange.http.status(500, f"you said {both}")

            server.on("tools/call", tell)
            with pytest.raises(MCPServerLost, match="you said") as caught:
                calling(connection)
            assert "very-secret" not in str(caught.value)
            assert session not in str(caught.value)


def test_headers_of_the_user_go_with_every_request():
    """With the GET stream, the notifications and the DELETE, too."""
    with FakeMCPServer(era="legacy") as server:
        with connected(server, headers={"X-Tenant": "7"}) as connection:
            call = Call(lambda: calling(connection))
            call.ended()
            server.wait_for(lambda: any(r.verb == "GET" for r in server.http_requests))
        verbs = {request.verb for request in server.http_requests}
        assert verbs == {"GET", "POST", "DELETE"}
        assert all(r.headers.get("x-tenant") == "7" for r in server.http_requests)


def test_the_endpoint_must_be_at_the_same_origin():
    """HTTP+SSE: a server cannot send our requests elsewhere."""
    with FakeMCPServer(era="legacy") as server:
        server.endpoint = "http://127.0.0.1:1/messages"
        with pytest.raises(MCPProtocolError, match="another origin"):
            with connected(server, kind="sse"):
                pass


@pytest.mark.parametrize("url", ["", "mcp.example.com", "ftp://x/y", "http://", None])
def test_the_address_is_checked(url):
    """A mistake in the settings is told before anything is sent."""
    with pytest.raises(ConfigurationError, match="not the address of a server"):
        HTTPSettings(url=url)
