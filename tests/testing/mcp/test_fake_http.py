"""A fake MCP server over HTTP: sessions, streams, and everything that breaks them."""

import http.client
import json
import threading

import pytest
from support.mcp_wire import (
    META,
    call,
    cancel_of,
    events,
    line_to,
    message,
    messages,
)

from syncagent.testing import FakeMCPServer, Gate


def make_server(**settings):
    server = FakeMCPServer(**settings)

    @server.tool
    def add(a: int, b: int = 1) -> int:
        return a + b

    return server


@pytest.fixture
def server():
    with make_server() as server:
        yield server


def body_of(response):
    return json.loads(response.read())


def text_of(said):
    return said["result"]["content"][0]["text"]


def test_a_legacy_session(server):
    """It has an id, which is on everything after the handshake; DELETE ends it."""
    with line_to(server) as line:
        line.initialize()
        response = line.post(call("add", {"a": 2}))
        assert response.getheader("Content-Type") == "application/json"
        assert text_of(body_of(response)) == "3"
        line.connection.request("DELETE", "/mcp", headers=line.headers)
        assert line.connection.getresponse().read() == b""
        response = line.post(message("ping", id=3))
        assert response.status == 404
        response.read()
    assert server.http_requests[-2].verb == "DELETE"
    assert server.complaints == []


def test_without_sessions():
    """No id, no GET stream."""
    with make_server(sessions=False) as server, line_to(server) as line:
        line.initialize()
        assert "Mcp-Session-Id" not in line.headers
        assert text_of(body_of(line.post(call("add", {"a": 2})))) == "3"
        assert line.get().status == 405
        assert server.complaints == []


def test_a_modern_request(server):
    """It needs nothing before it."""
    with line_to(server) as line:
        said = body_of(line.modern(message("server/discover", id=1)))
        assert said["result"]["supportedVersions"] == ["2026-07-28"]
        assert text_of(body_of(line.modern(call("add", {"a": 2})))) == "3"
    assert server.complaints == []


@pytest.mark.parametrize(
    ("era", "status", "code"), [("legacy", 400, -32000), ("modern", 400, -32022)]
)
def test_the_other_era(era, status, code):
    """A server of one era refuses the probe for the other."""
    with make_server(era=era) as server, line_to(server) as line:
        if era == "legacy":
            response = line.modern(message("server/discover", id=1))
        else:
            params = {"protocolVersion": "2025-11-25"}
            response = line.post(message("initialize", params, 1))
        assert response.status == status
        assert body_of(response)["error"]["code"] == code
        assert server.complaints == []


@pytest.mark.parametrize("form", ["auto", "json", "sse"])
def test_the_form_of_an_answer(server, form):
    """JSON or SSE for the same method; progress makes a stream unless it must not."""

    def script(exchange):
        exchange.http.form = form
        exchange.progress(1)

    server.on("tools/call", script)
    with line_to(server) as line:
        line.initialize()
        made = call("add", {"a": 1}, _meta={"progressToken": 5})
        response = line.post(made)
        if form == "json":
            assert text_of(body_of(response)) == "2"
        else:
            first, last = messages(response)
            assert first["method"] == "notifications/progress"
            assert text_of(last) == "2"


def test_closing_cancels_a_modern_call(server):
    """The script sees it at once, with headers sent and without."""
    for has_headers in (False, True):
        gate = Gate()

        def script(exchange, gate=gate, has_headers=has_headers):
            if has_headers:
                exchange.http.begin()
            gate.open()
            exchange.until_cancelled()

        server.on("tools/call", script)
        with line_to(server) as line:
            made = {**call("add"), "params": {"name": "add", "_meta": META}}
            head = {"Mcp-Method": "tools/call", "Mcp-Name": "add"}
            version = {"MCP-Protocol-Version": "2026-07-28"}
            line.connection.request(
                "POST", "/mcp", json.dumps(made), {**line.headers, **head, **version}
            )
            gate.stop_here()
        number = 1 + has_headers
        server.wait_for(lambda number=number: len(server.cancelled_calls) == number)
    assert server.cancels() == []
    assert server.complaints == []


def test_closing_does_not_cancel_a_legacy_call(server):
    """It takes the notification, on another connection."""
    seen = []

    def script(exchange):
        exchange.until_hung_up()
        seen.append(exchange.was_cancelled)
        exchange.until_cancelled()

    server.on("tools/call", script)
    with line_to(server) as line, line_to(server) as other:
        line.initialize()
        other.headers = line.headers
        line.connection.request("POST", "/mcp", json.dumps(call("add")), line.headers)
        server.wait_for(lambda: server.requests("tools/call"))
        line.close()
        server.wait_for(lambda: seen)
        assert server.cancelled_calls == []
        assert other.post(cancel_of(2)).status == 202
        server.wait_for(lambda: server.cancelled_calls)
    assert (seen, server.complaints) == ([False], [])


def test_closing_cancels_without_a_session():
    """Both ways are right there."""
    with make_server(era="legacy", sessions=False) as server:
        server.on("tools/call", lambda exchange: exchange.until_cancelled())
        with line_to(server) as line:
            line.initialize()
            body = json.dumps(call("add"))
            line.connection.request("POST", "/mcp", body, line.headers)
            server.wait_for(lambda: server.requests("tools/call"))
        server.wait_for(lambda: server.cancelled_calls)
        assert server.complaints == []


def test_a_question_on_the_stream_of_the_call(server):
    """The answer is a POST of its own, accepted with 202."""
    server.on("tools/call", lambda e: e.elicit("Who?")["action"])
    with line_to(server) as line, line_to(server) as other:
        line.initialize()
        other.headers = line.headers
        stream = messages(line.post(call("add")))
        assert next(stream)["method"] == "elicitation/create"
        answer = {"jsonrpc": "2.0", "id": 0, "result": {"action": "decline"}}
        assert other.post(answer).status == 202
        assert text_of(next(stream)) == "decline"
    assert server.complaints == []


def test_a_question_on_the_get_stream(server):
    """A call can hang on it, if the client opens no such stream."""
    server.on("tools/call", lambda e: e.elicit("Who?", over="session")["action"])
    with line_to(server) as line, line_to(server) as other, line_to(server) as third:
        line.initialize()
        other.headers = third.headers = line.headers
        body = json.dumps(call("add"))
        line.connection.request("POST", "/mcp", body, line.headers)
        server.wait_for(lambda: server.requests("tools/call"))
        question = next(messages(other.get()))
        assert question["method"] == "elicitation/create"
        answer = {"jsonrpc": "2.0", "id": 0, "result": {"action": "cancel"}}
        assert third.post(answer).status == 202
        assert text_of(body_of(line.connection.getresponse())) == "cancel"
    assert server.complaints == []


@pytest.mark.parametrize("status", [404, 405, 409])
def test_no_get_stream(server, status):
    """Refused with any status; calls work."""
    server.get_status = status
    with line_to(server) as line:
        line.initialize()
        response = line.get()
        assert response.status == status
        response.read()
        assert text_of(body_of(line.post(call("add", {"a": 1})))) == "2"


def test_one_get_stream_at_a_time(server):
    """The second gets 409; one that the server closes at once is empty."""
    with line_to(server) as line, line_to(server) as other:
        line.initialize()
        other.headers = line.headers
        line.get()
        assert other.get().status == 409
    server.closes_get = True
    with line_to(server) as line:
        line.initialize()
        assert list(events(line.get())) == []


def test_a_stream_that_ends_and_is_resumed():
    """With the last event id the client gets what it has missed."""
    with make_server(event_ids=True) as server:

        def script(exchange):
            exchange.progress(1)
            exchange.http.event(None, event=None, retry=5)
            exchange.http.end()
            exchange.progress(2)

        server.on("tools/call", script)
        with line_to(server) as line:
            line.initialize()
            made = call("add", {"a": 1}, _meta={"progressToken": 5})
            first, second, third = events(line.post(made))
            assert (first["data"], first["id"]) == ("", "s3.0")
            assert second["id"] == "s3.1"
            assert third == {"retry": "5"}
            missed = messages(line.get(Last_Event_ID=second["id"]))
            assert next(missed)["params"]["progress"] == 2
            assert text_of(next(missed)) == "2"
            assert list(missed) == []
            again = [event["id"] for event in events(line.get(Last_Event_ID="s3.0"))]
            assert again == ["s3.1", "s3.2", "s3.3"]
        assert server.complaints == []


@pytest.mark.parametrize("status", [404, 400])
def test_a_lost_session(server, status):
    """At a chosen call, and after it for ever; a new handshake helps."""
    server.lost_status = status
    server.on("tools/call", lambda exchange: exchange.lose_session(status))
    with line_to(server) as line:
        line.initialize()
        for _ in range(2):
            response = line.post(call("add"))
            assert response.status == status
            response.read()
        del line.headers["Mcp-Session-Id"], line.headers["MCP-Protocol-Version"]
        line.initialize()
        assert text_of(body_of(line.post(call("add", {"a": 1})))) == "2"
    assert server.complaints == []


def test_a_restart(server):
    """Connections end, sessions are lost, the address stays."""
    with line_to(server) as line:
        line.initialize()
        server.go_down()
        with pytest.raises((OSError, http.client.HTTPException)):
            line.post(message("ping", id=2))
        line.close()
        with pytest.raises(ConnectionRefusedError):
            line.post(message("ping", id=3))
        line.close()
        server.come_back()
        assert line.post(message("ping", id=4)).status == 404


BROKEN = {
    "status": lambda e: e.http.status(503, "busy", headers={"Retry-After": "1"}),
    "accepted": lambda e: e.http.accept(),
    "empty": lambda e: e.http.end(),
    "before": lambda e: e.http.close(),
    "reset": lambda e: e.http.close(reset=True),
    "inside": lambda e: (e.http.raw(b"HTTP/1.1 2"), e.http.close()),
    "after": lambda e: (e.http.begin(), e.http.close()),
    "null": lambda e: e.error(-32000, id=None, status=400),
    "comments": lambda e: (e.http.comment(times=3), e.answer({"content": []})),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_answers(server, kind):
    """Every kind of trouble that a response can be."""
    server.on("tools/call", lambda exchange: BROKEN[kind](exchange) and None)
    with line_to(server) as line:
        try:
            response = line.modern(call("add"))
            seen = (response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            seen = type(error).__name__
    assert {
        "status": lambda: seen == (503, b"busy"),
        "accepted": lambda: seen == (202, b""),
        "empty": lambda: seen == (200, b""),
        "before": lambda: seen == "RemoteDisconnected",
        "reset": lambda: seen == "ConnectionResetError",
        "inside": lambda: seen in ("BadStatusLine", "RemoteDisconnected"),
        "after": lambda: seen == "IncompleteRead",
        "null": lambda: seen[0] == 400 and b'"id":null' in seen[1],
        "comments": lambda: seen[1].startswith(b": keep-alive\n\n" * 3 + b"event"),
    }[kind]()
    assert server.complaints == []


def test_a_token(server):
    """Without it 401 and a challenge; a script can refuse with anything."""
    server.require_token = "secret"
    server.challenge = 'Bearer scope="all"'
    with line_to(server) as line:
        refused = line.modern(call("add", {"a": 1}))
        assert refused.status == 401
        assert refused.getheader("WWW-Authenticate") == 'Bearer scope="all"'
        refused.read()
        wrong = line.modern(call("add", {"a": 1}), Authorization="Bearer x")
        expected = 'Bearer scope="all", error="invalid_token"'
        assert wrong.getheader("WWW-Authenticate") == expected
        wrong.read()
        line.headers["Authorization"] = "Bearer secret"
        assert text_of(body_of(line.modern(call("add", {"a": 1})))) == "2"
        server.on("POST", lambda exchange: exchange.http.status(403))
        assert line.modern(call("add", {"a": 1})).status == 403
    assert len(server.requests()) == 1


def test_http_sse(server):
    """The stream names an endpoint; answers come on the stream."""
    with line_to(server) as line, line_to(server) as other:
        stream = events(line.get("/sse"))
        endpoint = next(stream)
        assert endpoint["event"] == "endpoint"
        params = {"protocolVersion": "2024-11-05", "capabilities": {}}
        params["clientInfo"] = {"name": "raw", "version": "1"}
        sent = [message("initialize", params, 1), message("notifications/initialized")]
        for made in [*sent, call("add", {"a": 4})]:
            response = other.post(made, endpoint["data"])
            assert response.status == 202
            response.read()
        said = [json.loads(next(stream)["data"]) for _ in range(2)]
        assert said[0]["result"]["protocolVersion"] == "2024-11-05"
        assert text_of(said[1]) == "5"
    assert server.complaints == []


def test_a_cancel_over_http_sse(server):
    """By notification, as on stdio."""
    server.on("tools/call", lambda exchange: exchange.until_cancelled())
    with line_to(server) as line, line_to(server) as other:
        endpoint = next(events(line.get("/sse")))["data"]
        params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {}}
        for made in (message("initialize", params, 1), call("add"), cancel_of(2)):
            other.post(made, endpoint).read()
        server.wait_for(lambda: server.cancelled_calls)


MODERN_MISTAKES = [
    ({"Mcp_Method": "tools/list"}, "header Mcp-Method must be 'tools/call'"),
    ({"Mcp_Name": "sub"}, "header Mcp-Name must be 'add'"),
    ({"MCP_Protocol_Version": "2025-11-25"}, "header MCP-Protocol-Version"),
    ({"Mcp_Session_Id": "x"}, "Mcp-Session-Id is for legacy"),
    ({"Mcp_Param_A": "x"}, "belongs to no argument"),
]


@pytest.mark.parametrize(("headers", "complaint"), MODERN_MISTAKES)
def test_headers_that_do_not_match(server, headers, complaint):
    """They get -32020 with status 400, and are complaints."""
    with line_to(server) as line:
        response = line.modern(call("add", {"a": 1}), **headers)
        assert response.status == 400
        assert body_of(response)["error"]["code"] == -32020
    assert complaint in server.complaints[0]


def test_headers_of_arguments(server):
    """``x-mcp-header`` asks for them; names outside of ASCII are base64."""
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        },
    }
    server.add_tool({"name": "müll", "inputSchema": schema}, lambda exchange: "ok")
    made = call("müll", {"region": "eu", "dry": True})
    right = {"Mcp_Param_Region": "eu", "Mcp_Param_Dry": "true"}
    with line_to(server) as line:
        name = {"Mcp_Name": "=?base64?bcO8bGw=?="}
        assert text_of(body_of(line.modern(made, **name, **right))) == "ok"
        assert server.complaints == []
        wrong = line.modern(made, **name, Mcp_Param_Region="eu")
        assert wrong.status == 400
    assert "header Mcp-Param-Dry must be 'true'" in server.complaints[0]


LEGACY_MISTAKES = [
    ({"Accept": "application/json"}, 406, "Accept must name text/event-stream"),
    ({"Content_Type": "text/plain"}, 200, "Content-Type must be application/json"),
    ({"Origin": "http://x"}, 200, "Origin was sent"),
    ({"Mcp_Session_Id": "made up"}, 404, "no session ever had the id 'made up'"),
    ({"MCP_Protocol_Version": "2025-06-18"}, 200, "MCP-Protocol-Version must be"),
]


@pytest.mark.parametrize(("headers", "status", "complaint"), LEGACY_MISTAKES)
def test_legacy_headers(server, headers, status, complaint):
    """Wrong ones are complaints."""
    with line_to(server) as line:
        line.initialize()
        assert line.post(message("ping", id=2), **headers).status == status
    assert complaint in server.complaints[0]


def test_a_missing_session_id(server):
    """It gets 400."""
    with line_to(server) as line:
        line.initialize()
        del line.headers["Mcp-Session-Id"]
        assert line.post(message("ping", id=2)).status == 400
    assert "Mcp-Session-Id is missing" in server.complaints[0]


def test_a_cancel_by_notification_on_modern_http(server):
    """It is a mistake there."""
    with line_to(server) as line:
        made = {**cancel_of(1)}
        made["params"] |= {"_meta": META}
        assert line.modern(made).status == 202
    assert "closing the stream" in server.complaints[0]


def test_many_clients_at_once(server):
    """50 threads, each with its own session."""
    results = []

    def work(number):
        with line_to(server) as line:
            line.initialize()
            results.append(text_of(body_of(line.post(call("add", {"a": number})))))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(map(int, results)) == list(range(1, 51))
    assert server.complaints == []
