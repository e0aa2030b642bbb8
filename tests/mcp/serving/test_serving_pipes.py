"""Our MCP server on pipes: messages, results and errors, in both eras."""

import json
import sys

import pytest
from support.mcp_clients import MODERN, PREFIX, envelope, piped
from support.threads import LONG

from syncagent import ToolContext, tool
from syncagent.exceptions import ConfigurationError, ToolError
from syncagent.mcp.serving import MCPService
from syncagent.messages import File, Image, Text
from syncagent.testing import Gate


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    :param a: the first one.
    """
    return a + b


@tool(idempotent=True)
def weather(city: str) -> dict:
    """Look up the weather."""
    return {"city": city, "degrees": 20}


@tool
def fail() -> str:
    """Fail."""
    raise ToolError("out of order")


@tool
def leave() -> str:
    """End the interpreter, as a tool should not."""
    sys.exit(3)


@tool
def blocks():
    """Return blocks of all kinds."""
    return [
        Text("see"),
        Image(b"\x89PNG"),
        File(b"abc", media_type="audio/wav", name="a.wav"),
        File(b"hello", media_type="text/plain", name="a b.txt"),
        File(b"%PDF", name="a.pdf"),
        Image(url="https://example.com/x.png"),
    ]


@tool
def count(ctx: ToolContext) -> str:
    """Report progress of several kinds."""
    for value in (0, {"progress": 5, "total": 9, "message": "half"}, 3, "words"):
        ctx.progress(value)
    return "counted"


def service(**settings):
    return MCPService([add, weather, fail, leave, blocks, count], **settings)


def test_modern_client_needs_no_handshake():
    """The first message may be a call: it carries its version itself."""
    with piped(service(name="shop", version="7")) as client:
        result = client.result_of(client.call("add", {"a": 1, "b": 2}, meta=envelope()))
        assert result["content"] == [{"type": "text", "text": "3"}]
        assert result["structuredContent"] == 3
        assert result["resultType"] == "complete"
        assert result["_meta"][f"{PREFIX}serverInfo"] == {
            "name": "shop",
            "version": "7",
        }


def test_discover_names_versions_and_instructions():
    """A modern client learns everything in one request."""
    with piped(service(instructions="Be kind.")) as client:
        result = client.result_of(
            client.request("server/discover", {"_meta": envelope()})
        )
        assert result["supportedVersions"] == [MODERN]
        assert result["capabilities"] == {"tools": {}}
        assert result["instructions"] == "Be kind."
        assert result["ttlMs"] > 0


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2024-11-05"),
        ("1900-01-01", "2025-11-25"),
    ],
)
def test_legacy_client_gets_its_version_or_the_newest(asked, answered):
    """A handshake never fails because of the version."""
    with piped(service()) as client:
        result = client.initialize(version=asked)
        assert result["protocolVersion"] == answered
        assert client.result_of(client.request("ping")) == {}
        result = client.result_of(client.call("add", {"a": 1, "b": 2}))
        assert result == {"content": [{"type": "text", "text": "3"}]}


def test_the_list_has_schemas_and_hints():
    """Names, descriptions, schemas and hints are those of the tools."""
    with piped(service()) as client:
        client.initialize()
        tools = client.result_of(client.request("tools/list"))["tools"]
    assert [each["name"] for each in tools][:3] == ["add", "weather", "fail"]
    assert tools[0]["description"] == "Add two numbers."
    assert tools[0]["inputSchema"]["properties"]["a"]["description"] == "the first one."
    assert tools[1]["annotations"] == {"idempotentHint": True}


def test_results_have_blocks_of_all_kinds():
    """Images, sounds, files and links become the blocks of the protocol."""
    with piped(service()) as client:
        client.initialize()
        content = client.result_of(client.call("blocks"))["content"]
        structured = client.result_of(client.call("weather", {"city": "Oslo"}))
    assert [each["type"] for each in content] == [
        *("text", "image", "audio", "resource", "resource", "resource_link"),
    ]
    assert content[3]["resource"] == {
        "uri": "file:///a%20b.txt",
        "mimeType": "text/plain",
        "text": "hello",
    }
    assert content[4]["resource"]["blob"] == "JVBERg=="
    assert structured["structuredContent"] == {"city": "Oslo", "degrees": 20}
    assert json.loads(structured["content"][0]["text"])["degrees"] == 20


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("fail", {}, "out of order"),
        ("add", {"a": "x", "b": 1}, "the arguments do not fit"),
        ("add", {"a": 1, "b": 1, "c": 1}, "the arguments do not fit"),
    ],
)
def test_an_error_of_a_tool_is_a_result(name, arguments, text):
    """The client's model reads what was wrong, and may try again."""
    with piped(service()) as client:
        result = client.result_of(client.call(name, arguments, meta=envelope()))
        assert result["isError"] is True
        assert text in result["content"][0]["text"]


def test_a_tool_that_exits_ends_only_its_call(caplog):
    """The server answers with an error, and serves the next call."""
    with piped(service()) as client:
        assert client.error_of(client.call("leave", meta=envelope()))["code"] == -32603
        assert client.result_of(client.call("add", {"a": 1, "b": 1}, meta=envelope()))
    assert "a call failed" in caplog.text


def refused(method, params):
    with piped(service()) as client:
        client.initialize()
        return client.error_of(client.request(method, params))


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "nothing"}, -32602),
        ("tools/call", {"name": ["add"]}, -32602),
        ("tools/call", {"name": "add", "arguments": [1]}, -32602),
        ("tools/list", {"cursor": "x"}, -32602),
        ("resources/list", {}, -32601),
        ("initialize", {"_meta": envelope()}, -32601),
        ("ping", {"_meta": envelope()}, -32601),
        ("tools/list", {"_meta": {f"{PREFIX}protocolVersion": MODERN}}, -32602),
    ],
)
def test_requests_that_cannot_be_answered_are_errors(method, params, code):
    """Each has the code of the protocol."""
    assert refused(method, params)["code"] == code


def test_an_unknown_version_is_told_the_known_ones():
    """The error lists what this server speaks, and what was asked for."""
    meta = {**envelope(), f"{PREFIX}protocolVersion": "2099-01-01"}
    error = refused("tools/list", {"_meta": meta})
    assert error["code"] == -32022
    assert error["data"]["requested"] == "2099-01-01"
    assert error["data"]["supported"][0] == MODERN


def test_a_request_without_handshake_and_envelope_is_refused():
    """It is told what it lacks."""
    with piped(service()) as client:
        error = client.error_of(client.request("tools/list"))
        assert error["code"] == -32602
        assert "protocolVersion" in error["message"]


def test_both_eras_share_a_connection():
    """Each request says its era itself."""
    with piped(service()) as client:
        client.initialize()
        assert "ttlMs" in client.result_of(
            client.request("tools/list", {"_meta": envelope()})
        )
        assert "ttlMs" not in client.result_of(client.request("tools/list"))


def test_odd_input_does_not_end_the_connection():
    """Bad JSON, other values, empty lines, bad UTF-8, CRLF and batches are survived."""
    with piped(service()) as client:
        client.send_bytes(b"nonsense\n")
        assert client.receive()["error"]["code"] == -32700
        client.send_bytes(b'\n\r\n{"id": 5}\n')
        assert client.receive() == {
            "jsonrpc": "2.0",
            "id": 5,
            "error": {"code": -32600, "message": "a request needs a method"},
        }
        client.send_bytes(b'{"jsonrpc":"2.0","method":"notifications/\xff"}\r\n')
        client.send_bytes(b"[" * 5000 + b"\n")
        assert client.receive()["error"]["code"] == -32700
        lists = [
            {"id": id, "method": "tools/list", "params": {"_meta": envelope()}}
            for id in ("x", 7)
        ]
        client.send_bytes(json.dumps(lists).encode() + b"\n")
        assert [client.receive()["id"] for _ in lists] == ["x", 7]


def test_lines_may_be_cut_anywhere():
    """Bytes are put together again, however they arrive."""
    line = json.dumps(
        {"id": "é", "method": "tools/list", "params": {"_meta": envelope()}},
        ensure_ascii=False,
    )
    with piped(service()) as client:
        for number in line.encode() + b"\n":
            client.send_bytes(bytes([number]))
        assert client.receive()["id"] == "é"


def test_a_message_that_is_too_long_is_skipped():
    """The rest of the line is dropped, and the next line is served."""
    with piped(service()) as client:
        client.send_bytes(b"x" * (9 * 1024 * 1024) + b"\n")
        assert client.receive()["error"]["code"] == -32600
        assert client.result_of(client.request("tools/list", {"_meta": envelope()}))


def test_progress_grows_and_is_sent_only_if_wanted():
    """Reports without a number, or with a smaller one, count on."""
    with piped(service()) as client:
        id = client.call("count", meta=envelope(progressToken="t"))
        reports = [client.receive()["params"] for _ in range(4)]
        assert client.result_of(id)["content"][0]["text"] == "counted"
        id = client.call("count", meta=envelope())
        assert client.receive()["id"] == id
    assert reports == [
        {"progressToken": "t", "progress": 0},
        {"progressToken": "t", "progress": 5, "total": 9, "message": "half"},
        {"progressToken": "t", "progress": 6},
        {"progressToken": "t", "progress": 7, "message": "words"},
    ]


def test_an_id_in_use_is_refused():
    """Of two calls with one id only the first is made."""
    gate = Gate()

    @tool
    def hold(ctx: ToolContext) -> str:
        gate.stop_here(token=ctx.token)
        return "held"

    with piped(MCPService(hold)) as client:
        client.call("hold", id="x", meta=envelope())
        gate.wait_reached()
        assert client.call("hold", id="x", meta=envelope()) == "x"
        assert client.receive()["error"]["code"] == -32600
        gate.open()
        assert client.result_of("x")["content"][0]["text"] == "held"


def test_a_hundred_calls_run_at_once():
    """All of them wait together, and each gets its own response."""
    gates = [Gate() for _ in range(100)]

    @tool
    def hold(number: int, ctx: ToolContext) -> int:
        gates[number].stop_here(token=ctx.token)
        return number

    with piped(MCPService(hold, max_calls=100)) as client:
        for number in range(100):
            client.call("hold", {"number": number}, id=number, meta=envelope())
        for gate in gates:
            gate.wait_reached()
        client.call("hold", {"number": 0}, id="one too many", meta=envelope())
        assert client.receive()["error"]["code"] == -32000
        for gate in reversed(gates):
            gate.open()
        results = [client.receive() for _ in gates]
        assert {
            each["id"]: each["result"]["structuredContent"] for each in results
        } == {number: number for number in range(100)}
        assert client.result_of(client.call("hold", {"number": 1}, meta=envelope()))


def test_the_token_ends_the_server():
    """A cancel ends it without a word of the client."""
    with piped(service()) as client:
        client.initialize()
        client.token.cancel("enough")
        client.thread.join(LONG)
        assert not client.thread.is_alive()
        assert client.receive() is None


@pytest.mark.parametrize(
    ("tools", "settings"),
    [
        ([], {}),
        ([add, add], {}),
        ([5], {}),
        (add, {"name": ""}),
        (add, {"max_calls": 0}),
    ],
)
def test_a_service_that_cannot_work_is_refused(tools, settings):
    """Mistakes show when the service is made."""
    with pytest.raises(ConfigurationError):
        MCPService(tools, **settings)
