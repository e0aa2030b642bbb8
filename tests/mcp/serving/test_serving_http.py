"""Our MCP server over HTTP, with raw sockets for clients."""

import json
import threading

import pytest
from support.mcp_clients import (
    MODERN,
    PREFIX,
    Posted,
    modern,
    modern_call,
    served,
)
from support.threads import LONG, together

from syncagent import ToolContext, tool
from syncagent.exceptions import Cancelled, ConfigurationError
from syncagent.integrations.web.mcp import MCPApp
from syncagent.mcp.serving import MCPService
from syncagent.testing import Gate

TOKEN = "a long and secret token"
#: Seconds in which a client that leaves has ended its call, on a busy machine.
PROMPT = 5.0
REGION = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "deep": {
            "type": "object",
            "properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}},
        },
    },
}


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def ask_name(ctx: ToolContext) -> str:
    """Ask for a name."""
    return f"Hello {ctx.ask('Who?')}"


@tool(parameters=REGION)
def by_region(**arguments) -> str:
    """Repeat the arguments."""
    return json.dumps(arguments)


class Held:
    """A tool that waits, and notes that it was cancelled."""

    def __init__(self, *, reports=False):
        self.gate, self.cancelled = Gate(), threading.Event()

        @tool
        def hold(ctx: ToolContext) -> str:
            try:
                if reports:
                    ctx.progress(1)
                self.gate.stop_here(token=ctx.token)
            except Cancelled:
                self.cancelled.set()
                raise
            return "held"

        self.tool = hold


@pytest.fixture
def port():
    app = MCPApp(MCPService([add, ask_name, by_region]))
    with served(app) as port:
        yield port


def test_short_calls_get_json(port):
    """No stream is needed for a result that is there at once."""
    post = Posted(port, modern_call("add", {"a": 1, "b": 2}, id="x")).head()
    assert post.status == 200
    assert post.headers["content-type"] == "application/json"
    response = post.json()
    assert response["id"] == "x"
    assert response["result"]["structuredContent"] == 3


def test_the_server_says_what_it_is(port):
    """Discovery and the list of tools need no session."""
    result = Posted(port, modern("server/discover")).json()["result"]
    assert result["supportedVersions"] == [MODERN]
    tools = Posted(port, modern("tools/list")).json()["result"]
    assert [each["name"] for each in tools["tools"]] == ["add", "ask_name", "by_region"]
    assert tools["cacheScope"] == "public"


def test_progress_makes_a_stream():
    """Reports come as they are made, and the response is the last event."""
    held = Held(reports=True)
    with served(MCPApp(MCPService(held.tool))) as port:
        with Posted(port, modern_call("hold", progressToken="t")).head() as post:
            assert post.headers["content-type"].startswith("text/event-stream")
            assert post.event()["params"] == {"progressToken": "t", "progress": 1}
            held.gate.open()
            assert post.event()["result"]["content"][0]["text"] == "held"
            assert post.event() is None


def test_a_long_call_makes_a_stream():
    """The headers come after a moment, and the response when it is there."""
    held = Held()
    with served(MCPApp(MCPService(held.tool))) as port:
        with Posted(port, modern_call("hold")).head() as post:
            assert post.headers["content-type"].startswith("text/event-stream")
            held.gate.open()
            assert post.event()["result"]["content"][0]["text"] == "held"


@pytest.mark.parametrize("when", ["before the headers", "in the stream"])
def test_a_client_that_leaves_has_cancelled(when):
    """The tool unwinds at once, wherever the response was."""
    held = Held(reports=True)
    with served(MCPApp(MCPService(held.tool))) as port:
        meta = {} if when == "before the headers" else {"progressToken": 1}
        post = Posted(port, modern_call("hold", **meta))
        held.gate.wait_reached()
        if when == "in the stream":
            assert post.head().event()["method"] == "notifications/progress"
        post.vanish()
        assert held.cancelled.wait(PROMPT)


def test_a_question_ends_a_round(port):
    """The next request brings the answer."""
    asking = {"elicitation": {}}
    first = Posted(port, modern_call("ask_name", capabilities=asking)).json()["result"]
    assert first["resultType"] == "input_required"
    more = {
        "inputResponses": {
            "question": {"action": "accept", "content": {"answer": "Ada"}}
        },
        "requestState": first["requestState"],
    }
    done = Posted(port, modern_call("ask_name", capabilities=asking, more=more)).json()
    assert done["result"]["content"][0]["text"] == "Hello Ada"


def test_a_changed_state_is_a_bad_request(port):
    """It has the status of its code."""
    more = {"requestState": "x.y"}
    post = Posted(port, modern_call("ask_name", more=more)).head()
    assert (post.status, post.json()["error"]["code"]) == (400, -32602)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_other_methods_are_refused(port, method):
    """There is no session to follow or to end."""
    with Posted(port, b"", method=method).head() as post:
        assert post.status == 405
        assert post.headers["allow"] == "POST"


def test_notifications_are_accepted(port):
    """They need no answer, and have no effect."""
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    with Posted(port, message).head() as post:
        assert post.status == 202


MISMATCH = [
    ({"MCP-Protocol-Version": None}, -32020),
    ({"MCP-Protocol-Version": "2025-11-25"}, -32020),
    ({"Mcp-Method": None}, -32020),
    ({"Mcp-Method": "TOOLS/CALL"}, -32020),
    ({"Mcp-Name": None}, -32020),
    ({"Mcp-Name": "other"}, -32020),
    ({"Mcp-Name": "=?base64?!!?="}, -32020),
    ({"Mcp-Name": "=?base64?YWRk?="}, None),
    ({"Mcp-Name": "  add  "}, None),
]


@pytest.mark.parametrize(("headers", "code"), MISMATCH)
def test_headers_must_repeat_the_body(port, headers, code):
    """A proxy may have decided by them."""
    post = Posted(port, modern_call("add", {"a": 1, "b": 1}, id=9), headers).head()
    assert post.status == (400 if code else 200)
    response = post.json()
    assert response["id"] == 9
    assert response.get("error", {}).get("code") == code


@pytest.mark.parametrize(
    ("arguments", "headers", "is_fine"),
    [
        ({"region": "eu"}, {"Mcp-Param-Region": "eu"}, True),
        ({"region": "eu"}, {}, False),
        ({"region": "eu"}, {"Mcp-Param-Region": "us"}, False),
        ({}, {}, True),
        ({}, {"Mcp-Param-Region": "us"}, False),
        ({"region": "é"}, {"Mcp-Param-Region": "=?base64?w6k=?="}, True),
        ({"deep": {"flag": True}}, {"Mcp-Param-Flag": "true"}, True),
        ({"deep": {"flag": True}}, {"Mcp-Param-Flag": "false"}, False),
    ],
)
def test_headers_of_arguments_must_repeat_them(port, arguments, headers, is_fine):
    """They are checked where a schema has x-mcp-header."""
    post = Posted(port, modern_call("by_region", arguments), headers).head()
    response = post.json()
    assert post.status == (200 if is_fine else 400)
    assert is_fine or response["error"]["code"] == -32020


def changed(**meta):
    message = modern("server/discover", id=3)
    message["params"]["_meta"].update(meta)
    return {
        **message,
        "params": {
            "_meta": {
                k: v for k, v in message["params"]["_meta"].items() if v is not None
            }
        },
    }


BAD = [
    (modern("resources/list", id=3), {}, 404, -32601),
    (modern("ping", id=3), {}, 404, -32601),
    (modern("initialize", id=3), {}, 404, -32601),
    (modern_call("nothing", id=3), {}, 400, -32602),
    (changed(**{f"{PREFIX}clientCapabilities": None}), {}, 400, -32602),
    (changed(**{f"{PREFIX}protocolVersion": None}), {}, 400, -32602),
    (
        changed(**{f"{PREFIX}protocolVersion": "v9"}),
        {"MCP-Protocol-Version": "v9"},
        *(400, -32022),
    ),
    (b"nonsense", {}, 400, -32700),
    (b"[]", {}, 400, -32600),
    (json.dumps([modern("tools/list")]).encode(), {}, 400, -32600),
    (b'{"jsonrpc":"2.0","id":3,"result":{}}', {}, 400, -32600),
    (modern("tools/list", id=3), {"Content-Type": "text/plain"}, 415, -32600),
    (modern("tools/list", id=3), {"Accept": "application/json"}, 406, -32600),
    (b"", {"Content-Length": "5000000"}, 413, -32600),
]


@pytest.mark.parametrize(("message", "headers", "status", "code"), BAD)
def test_bad_requests_have_a_status_and_a_code(port, message, headers, status, code):
    """The id of the request comes back, as far as there is one."""
    post = Posted(port, message, headers).head()
    response = post.json()
    assert (post.status, response["error"]["code"]) == (status, code)
    assert response["id"] == (3 if isinstance(message, dict) else None)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example.com"}, 421),
        ({"Origin": "http://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "https://app.example.com"}, 200),
        ({"X-Forwarded-For": "10.0.0.1"}, 403),
        ({"Host": "localhost"}, 200),
    ],
)
def test_pages_and_names_of_others_are_refused(headers, status):
    """A page cannot reach a server on the user's machine, by no name."""
    app = MCPApp(MCPService(add), trusted_origins=["https://app.example.com"])
    with (
        served(app) as port,
        Posted(port, modern("tools/list"), headers).head() as post,
    ):
        assert post.status == status


@pytest.mark.parametrize(
    ("authorization", "status"),
    [(f"Bearer {TOKEN}", 200), (TOKEN, 401), ("Bearer x", 401), ("", 401), ("é", 401)],
)
def test_a_token_is_needed_where_one_is_set(authorization, status):
    """Also behind a proxy, which is then allowed."""
    headers = {"Authorization": authorization, "X-Forwarded-For": "10.0.0.1"}
    with served(MCPApp(MCPService(add), token=TOKEN)) as port:
        with Posted(port, modern("tools/list"), headers).head() as post:
            assert post.status == status
            assert ("www-authenticate" in post.headers) == (status == 401)


def test_a_function_decides_about_clients():
    """It sees the request, and only True is a yes."""
    seen = []

    def authorize(environ):
        seen.append(environ["HTTP_X_USER"])
        return environ["HTTP_X_USER"] == "ada" or "true"

    with served(MCPApp(MCPService(add), authorize=authorize)) as port:
        statuses = [
            Posted(port, modern("tools/list"), {"X-User": user}).head()
            for user in ("ada", "bob")
        ]
        assert [each.status for each in statuses] == [200, 403]
        for each in statuses:
            each.vanish()
    assert seen == ["ada", "bob"]


@pytest.mark.parametrize(
    "settings", [{"token": "short"}, {"token": 5}, {"authorize": 5}, {"max_body": 0}]
)
def test_settings_that_cannot_work_are_refused(settings):
    """Mistakes show at the start."""
    with pytest.raises(ConfigurationError):
        MCPApp(MCPService(add), **settings)


def test_too_many_calls_are_refused():
    """The next one gets 503, and is served later."""
    held = Held()
    with served(MCPApp(MCPService([held.tool, add], max_calls=1))) as port:
        with Posted(port, modern_call("hold")) as first:
            held.gate.wait_reached()
            post = Posted(port, modern_call("add", {"a": 1, "b": 1})).head()
            assert (post.status, post.json()["error"]["code"]) == (503, -32000)
            held.gate.open()
            assert first.json()["result"]
        assert Posted(port, modern_call("add", {"a": 1, "b": 1})).json()["result"]


def test_the_end_of_the_process_ends_calls():
    """A stream gets an error as its last event, and new calls are refused."""
    held = Held()
    app = MCPApp(MCPService(held.tool))
    with served(app) as port:
        with Posted(port, modern_call("hold")).head() as post:
            app.cancel_all("SIGTERM", is_last=True)
            assert post.event()["error"]["message"] == "the call was cancelled"
            assert held.cancelled.wait(PROMPT)
        assert (
            Posted(port, modern_call("hold")).head().json()["error"]["code"] == -32000
        )
        app.shutdown()


@pytest.mark.slow
def test_a_hundred_clients_call_at_once():
    """Each gets its own result."""
    barrier = threading.Barrier(100)

    @tool
    def meet(number: int) -> int:
        barrier.wait(LONG)
        return number

    results = []
    with served(MCPApp(MCPService(meet, max_calls=100))) as port:

        def call(number):
            post = Posted(port, modern_call("meet", {"number": number})).head()
            if post.headers["content-type"] == "application/json":
                message = post.json()
            else:
                message = post.event()
                post.vanish()
            results.append(message["result"]["structuredContent"] == number)

        together(*(lambda number=number: call(number) for number in range(100)))
    assert results == [True] * 100
