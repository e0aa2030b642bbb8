"""A fake MCP server over stdio: a process that does what this one says."""

import json
import os
import signal

import pytest
from support.mcp_wire import META, call, cancel_of, message, pipe_to

from syncagent.testing import ClientRefused, FakeMCPServer, Gate, MCPExchange


@pytest.fixture
def server():
    with FakeMCPServer() as server:

        @server.tool
        def add(a: int, b: int = 1) -> int:
            """Add two numbers.

            :param a: the first.
            """
            return a + b

        yield server


def text_of(said):
    return said["result"]["content"][0]["text"]


def test_a_legacy_session(server):
    """It answers the handshake, lists its tools and calls them."""
    with pipe_to(server) as pipe:
        said = pipe.initialize()
        assert said["protocolVersion"] == "2025-11-25"
        (tool,) = pipe.ask(message("tools/list", id=2))["result"]["tools"]
        assert tool["name"] == "add"
        assert tool["description"] == "Add two numbers."
        assert tool["inputSchema"]["required"] == ["a"]
        assert text_of(pipe.ask(call("add", {"a": 2}, id=3))) == "3"
        assert pipe.close() == 0
    assert server.complaints == []
    assert [each.method for each in server.received] == [
        *("initialize", "notifications/initialized", "tools/list", "tools/call")
    ]


def test_a_modern_session(server):
    """It discovers, and every request has its envelope."""
    with pipe_to(server) as pipe:
        said = pipe.ask(message("server/discover", {"_meta": META}, 1))["result"]
        assert said["supportedVersions"] == ["2026-07-28"]
        said = pipe.ask(call("add", {"a": 2}, _meta=META))
        assert said["result"]["resultType"] == "complete"
        assert said["result"]["structuredContent"] == {"result": 3}
    assert server.complaints == []


@pytest.mark.parametrize(
    ("era", "probe", "code"),
    [
        ("legacy", message("server/discover", {"_meta": META}, 1), -32601),
        ("modern", message("initialize", {"protocolVersion": "2025-11-25"}, 1), -32022),
    ],
)
def test_the_other_era(era, probe, code):
    """A server of one era answers the probe for the other with its error."""
    with FakeMCPServer(era=era) as server, pipe_to(server) as pipe:
        assert pipe.ask(probe)["error"]["code"] == code
        assert server.complaints == []


def test_initialize_after_a_silent_probe(server):
    """The answer to initialize decides; a late discovery changes nothing."""
    gate = Gate()
    server.on("server/discover", lambda exchange: exchange.stop_at(gate))
    with pipe_to(server) as pipe:
        pipe.send(message("server/discover", {"_meta": META}, 0))
        pipe.initialize()
        gate.open()
        assert pipe.read()["id"] == 0
        assert text_of(pipe.ask(call("add", {"a": 2}))) == "3"
    assert server.complaints == []


@pytest.mark.parametrize(
    ("on_cancel", "answers"), [("silent", [3]), ("error", [2, 3]), ("result", [2, 3])]
)
def test_a_cancelled_call(server, on_cancel, answers):
    """The notification reaches the tool; the answer to it is as the test wants."""
    server.on_cancel = on_cancel
    gate = Gate()

    @server.tool
    def slow(ctx):
        gate.open()
        ctx.until_cancelled()
        return "late"

    with pipe_to(server) as pipe:
        pipe.initialize()
        pipe.send(call("slow"))
        server.wait_for(lambda: server.requests("tools/call"))
        pipe.send(cancel_of(2))
        server.wait_for(lambda: server.cancelled_calls)
        if 2 in answers:
            assert pipe.read()["id"] == 2
        assert pipe.ask(call("add", {"a": 2}, id=3))["id"] == 3
    assert server.cancels() == [2]
    assert [each.id for each in server.cancelled_calls] == [2]
    assert server.complaints == []


@pytest.mark.parametrize("has_answer", [True, False])
def test_a_question_in_a_call(server, has_answer):
    """It has its own ids, and an error of the client is an exception in the script."""

    @server.tool
    def greet(exchange: MCPExchange):
        try:
            said = exchange.elicit("Who?", {"properties": {"name": {}}})
        except ClientRefused as refused:
            return f"refused: {refused.code}"
        return said["content"]["name"]

    with pipe_to(server) as pipe:
        pipe.initialize()
        question = pipe.ask(call("greet"))
        assert (question["method"], question["id"]) == ("elicitation/create", 0)
        result = {"result": {"action": "accept", "content": {"name": "Ada"}}}
        error = {"error": {"code": -1, "message": "no"}}
        answer = {"jsonrpc": "2.0", "id": 0, **(result if has_answer else error)}
        said = pipe.ask(answer)
        assert text_of(said) == ("Ada" if has_answer else "refused: -1")
    assert server.complaints == []


def test_a_question_goes_with_its_call(server):
    """A server that withdraws cancels its own request when the call is cancelled."""
    server.withdraws = True

    @server.tool
    def greet(ctx):
        return ctx.elicit("Who?")

    with pipe_to(server) as pipe:
        pipe.initialize()
        assert pipe.ask(call("greet"))["method"] == "elicitation/create"
        said = pipe.ask(cancel_of(2))
        assert said["method"] == "notifications/cancelled"
        assert said["params"]["requestId"] == 0


def test_questions_outside_of_any_call(server):
    """Such as the roots right after the handshake, and a ping."""
    server.on(
        "notifications/initialized",
        lambda exchange: exchange.ask_without_waiting("roots/list"),
    )
    with pipe_to(server) as pipe:
        pipe.initialize()
        assert pipe.read()["method"] == "roots/list"
        pipe.send({"jsonrpc": "2.0", "id": 0, "result": {"roots": []}})
        server.on("tools/call", lambda _: server.ping())
        assert pipe.ask(call("add", {"a": 1}))["method"] == "ping"
        assert pipe.ask({"jsonrpc": "2.0", "id": 1, "result": {}})["id"] == 2
    assert server.complaints == []


def test_modern_questions(server):
    """The client calls again with the answers and the state; the script runs again."""

    def greet(exchange):
        names = [exchange.elicit(who)["content"]["n"] for who in ("First?", "Last?")]
        return " ".join(names)

    server.on("tools/call", greet, name="greet")
    with pipe_to(server) as pipe:
        said = pipe.ask(call("greet", _meta=META))["result"]
        for id, (key, name) in enumerate([("q1", "Ada"), ("q2", "Byron")], start=3):
            assert said["resultType"] == "input_required"
            assert list(said["inputRequests"]) == [key]
            answers = {key: {"action": "accept", "content": {"n": name}}}
            state = {"requestState": said["requestState"], "inputResponses": answers}
            said = pipe.ask(call("greet", id=id, _meta=META, **state))["result"]
        assert said["content"][0]["text"] == "Ada Byron"
    assert [each for each in server.complaints if "not asked for" not in each] == []


def test_a_changed_state_is_a_mistake(server):
    """The state is compared byte for byte."""
    server.on("tools/call", lambda exchange: exchange.elicit("Who?"))
    with pipe_to(server) as pipe:
        said = pipe.ask(call("greet", _meta=META))["result"]
        state = said["requestState"].strip('"') + " "
        answers = {"q1": {"action": "decline"}}
        more = {"requestState": state, "inputResponses": answers, "_meta": META}
        assert pipe.ask(call("greet", id=3, **more))["error"]["code"] == -32602
    assert "requestState was changed" in server.complaints[0]


def test_the_process_can_do_anything(server):
    """Flood stderr, write no JSON, cut lines, end them with CRLF, and die."""

    def start(process):
        process.stderr("x" * 1_000_000)
        process.stdout(b"hello\n\xff\xfe\n")
        process.line_end = b"\r\n"
        process.piece_size = 7

    server.on_start(start)
    server.on("tools/call", lambda e: e.process.exit(3, stderr="I die"))
    with pipe_to(server) as pipe:
        assert len(pipe.process.stderr.read(1_000_000)) == 1_000_000
        assert [pipe.line(), pipe.line()] == [b"hello\n", b"\xff\xfe\n"]
        pipe.send(message("ping", id=9))
        assert pipe.line().endswith(b"}\r\n")
        pipe.initialize()
        pipe.send(call("add"))
        assert pipe.process.stderr.read() == b"I die"
        assert pipe.process.wait(20) == 3
        server.processes[0].wait_ended()


def test_death_by_a_signal(server):
    """A process ends by the signal that the script names."""
    server.on("initialize", lambda exchange: exchange.process.kill(signal.SIGSEGV))
    with pipe_to(server) as pipe:
        pipe.send(message("initialize", id=1))
        assert pipe.process.wait(20) == -signal.SIGSEGV


def test_a_process_that_does_not_want_to_end(server):
    """It ignores the end of stdin and SIGTERM, from its first moment."""

    def start(process):
        process.ends_with_stdin = False
        process.ignore(signal.SIGTERM)

    server.on_start(start)
    with pipe_to(server) as pipe:
        pipe.initialize()
        pipe.process.stdin.close()
        (process,) = server.processes
        server.wait_for(lambda: process.stdin_closed)
        os.kill(pipe.process.pid, signal.SIGTERM)
        process.send(b'"still here"')
        assert pipe.line() == b'"still here"\n'


def test_a_deaf_process(server):
    """What the client writes stays in the pipe until the process listens again."""
    with pipe_to(server) as pipe:
        pipe.initialize()
        (process,) = server.processes
        server.on("tools/call", lambda exchange: exchange.process.go_deaf())
        pipe.ask(call("add", {"a": 1}))
        pipe.send(message("ping", id=3))
        process.send(b'"nothing"')
        assert pipe.line() == b'"nothing"\n'
        assert server.requests("ping") == []
        process.listen()
        assert pipe.read()["id"] == 3


def test_long_lines_in_both_directions(server):
    """20 MB in a line, and U+2028 in it."""

    @server.tool
    def echo(text: str) -> str:
        return text

    text = "\u2028" + "x" * 5_000_000
    with pipe_to(server) as pipe:
        pipe.initialize()
        assert text_of(pipe.ask(call("echo", {"text": text}))) == text
    assert server.complaints == []


def test_scripted_messages(server):
    """Progress, log, batches, foreign ids, errors without an id, late answers."""

    def script(exchange):
        exchange.progress(1, 2, "half")
        exchange.progress(9, token="unknown")
        exchange.log({"a": 1}, level="debug")
        exchange.send([message("notifications/x"), message("notifications/y")])
        exchange.error(-32000, id=None)
        exchange.answer({"content": []}, id="server-error")
        exchange.answer({"content": []})

    server.on("tools/call", script)
    with pipe_to(server) as pipe:
        pipe.initialize()
        pipe.send(call("add", {"a": 1}, _meta={"progressToken": "t"}))
        progress = pipe.read()["params"]
        assert progress == {
            "progressToken": "t",
            "progress": 1,
            "total": 2,
            "message": "half",
        }
        assert pipe.read()["params"]["progressToken"] == "unknown"
        assert pipe.read()["params"] == {"level": "debug", "data": {"a": 1}}
        assert len(pipe.read()) == 2
        assert [pipe.read()["id"] for _ in range(3)] == [None, "server-error", 2]


def test_lists_in_pages_and_their_changes(server):
    """Pages by a cursor; list_changed as often as wanted."""
    server.catalogue.page_size = 1
    server.add_tool({"name": "bad"})
    server.on("prompts/list", {"prompts": [], "nextCursor": ""})
    with pipe_to(server) as pipe:
        pipe.initialize()
        said = pipe.ask(message("tools/list", id=2))["result"]
        assert [tool["name"] for tool in said["tools"]] == ["add"]
        cursor = {"cursor": said["nextCursor"]}
        said = pipe.ask(message("tools/list", cursor, 3))["result"]
        assert said == {"tools": [{"name": "bad"}]}
        assert pipe.ask(message("prompts/list", id=4))["result"]["nextCursor"] == ""
        server.remove_tool("bad")
        server.change("tools", times=5)
        for _ in range(5):
            assert pipe.read()["method"] == "notifications/tools/list_changed"
        assert "nextCursor" not in pipe.ask(message("tools/list", id=5))["result"]


def test_resources_prompts_and_completion(server):
    """The rest of a usual server."""
    server.resource("file:///a", "text of a", name="a")
    server.template("file:///{name}")

    @server.prompt
    def review(code):
        return f"Review {code}"

    server.catalogue.completions["code"] = ["python", "pascal", "rust"]
    with pipe_to(server) as pipe:
        declared = pipe.initialize()["capabilities"]
        assert {"resources", "prompts", "completions", "logging"} <= declared.keys()
        listed = pipe.ask(message("resources/list", id=2))["result"]["resources"]
        assert listed[0]["uri"] == "file:///a"
        said = pipe.ask(message("resources/read", {"uri": "file:///a"}, 3))
        assert said["result"]["contents"][0]["text"] == "text of a"
        said = pipe.ask(message("resources/read", {"uri": "file:///b"}, 4))
        assert said["error"]["code"] == -32002
        said = pipe.ask(message("resources/templates/list", id=5))["result"]
        assert said["resourceTemplates"][0]["uriTemplate"] == "file:///{name}"
        said = pipe.ask(
            message("prompts/get", {"name": "review", "arguments": {"code": "x"}}, 6)
        )
        assert said["result"]["messages"][0]["content"]["text"] == "Review x"
        argument = {"name": "code", "value": "p"}
        said = pipe.ask(message("completion/complete", {"argument": argument}, 7))
        assert said["result"]["completion"]["values"] == ["python", "pascal"]
    assert server.complaints == []


def test_subscriptions(server):
    """Modern clients get the notifications that they listen for, with their id."""
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]}
    with pipe_to(server) as pipe:
        params = {"notifications": wanted, "_meta": META}
        said = pipe.ask(message("subscriptions/listen", params, "s"))
        assert said["method"] == "notifications/subscriptions/acknowledged"
        assert said["params"]["notifications"] == wanted
        server.wait_for(lambda: server.listeners() == 1)
        server.change("prompts")
        server.change("tools")
        server.notify("notifications/resources/updated", {"uri": "file:///a"})
        for name in ("tools/list_changed", "resources/updated"):
            said = pipe.read()
            assert said["method"] == f"notifications/{name}"
            id = said["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
            assert id == "s"
        pipe.send(cancel_of("s"))
        server.wait_for(lambda: server.listeners() == 0)
    assert server.complaints == []


def test_the_server_ends_a_subscription(server):
    """In good order: with a result."""
    with pipe_to(server) as pipe:
        params = {"notifications": {}, "_meta": META}
        pipe.ask(message("subscriptions/listen", params, 7))
        server.wait_for(server.listeners)
        server.end_listeners()
        assert pipe.read()["id"] == 7
        server.wait_for(lambda: server.listeners() == 0)


def test_processes_that_fail_to_start(server):
    """As often as wanted; the next one works."""
    server.on_start(lambda process: process.exit(2, stderr="usage: x"), times=2)
    for _ in range(2):
        with pipe_to(server) as pipe:
            assert pipe.process.wait(20) == 2
            assert pipe.process.stderr.read() == b"usage: x"
    with pipe_to(server) as pipe:
        pipe.initialize()
    assert len(server.processes) == 3


def test_a_wrapped_command(server):
    """The server is a grandchild of the client, as with npx."""
    with pipe_to(server, server.wrapped_command) as pipe:
        pipe.initialize()
        (process,) = server.processes
        assert process.pid != pipe.process.pid
        assert pipe.close() == 0


def test_a_script_that_fails_is_seen(server):
    """As an error for the client, and as a complaint for the test."""
    server.on("tools/list", lambda exchange: 1 / 0)
    with pipe_to(server) as pipe:
        pipe.initialize()
        assert pipe.ask(message("tools/list", id=2))["error"]["code"] == -32603
    assert "ZeroDivisionError" in server.complaints[0]


LEGACY_MISTAKES = [
    (b"no json", "not JSON"),
    ([[message("ping", id=5)]], "batch"),
    ([message("ping", id=1)], "used before"),
    ([{"method": "ping", "id": 5}], "jsonrpc"),
    ([message("ping", id=5.5)], "an id must be"),
    ([message("initialize", {}, 5)], "initialized already"),
    ([cancel_of(77)], "no request has the id 77"),
    ([cancel_of(1)], "initialize must not be cancelled"),
    ([{"jsonrpc": "2.0", "id": 0, "result": {}}], "never sent"),
    ([message("tools/list", {"_meta": META}, 5)], "the session is legacy"),
]


@pytest.mark.parametrize(("sent", "complaint"), LEGACY_MISTAKES)
def test_legacy_mistakes_of_the_client(server, sent, complaint):
    """Each is a sentence."""
    with pipe_to(server) as pipe:
        pipe.initialize()
        if isinstance(sent, bytes):
            pipe.process.stdin.write(sent + b"\n")
            pipe.process.stdin.flush()
        else:
            pipe.send(*sent)
        server.wait_for(lambda: any(complaint in each for each in server.complaints))


def test_requests_before_the_handshake(server):
    """Only a ping may come before the session is initialized."""
    with pipe_to(server) as pipe:
        assert "result" in pipe.ask(message("ping", id=1))
        assert pipe.ask(message("tools/list", id=2))["error"]["code"] == -32600
        assert "came before initialize" in server.complaints[0]


def test_two_cancels_for_one_id(server):
    """The second is a mistake."""
    server.on("tools/call", lambda exchange: exchange.silence())
    with pipe_to(server) as pipe:
        pipe.initialize()
        pipe.send(call("add"), cancel_of(2), cancel_of(2))
        server.wait_for(lambda: server.complaints)
        assert "2 was cancelled before" in server.complaints[0]


def test_two_answers_to_one_question(server):
    """The second is a mistake."""
    server.on("tools/call", lambda exchange: exchange.ask("roots/list") and None)
    with pipe_to(server) as pipe:
        pipe.initialize()
        pipe.ask(call("add", {"a": 1}))
        answer = {"jsonrpc": "2.0", "id": 0, "result": {"roots": [{"uri": "x"}]}}
        pipe.send(answer, answer)
        server.wait_for(lambda: len(server.complaints) == 2)
        assert "file://" in server.complaints[0]
        assert "a second response to 0" in server.complaints[1]


def test_a_modern_request_without_its_envelope():
    """It gets -32602, and is a complaint."""
    with FakeMCPServer(era="modern") as server, pipe_to(server) as pipe:
        assert pipe.ask(message("tools/list", {}, 1))["error"]["code"] == -32602
        meta = {key: META[key] for key in list(META)[:1]}
        said = pipe.ask(message("tools/list", {"_meta": meta}, 2))
        assert said["error"]["code"] == -32602
        assert "_meta is missing" in server.complaints[0]
        assert "clientCapabilities" in server.complaints[1]


def test_an_unknown_modern_version(server):
    """The error names the versions that there are."""
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "1900-01-01"}
    with pipe_to(server) as pipe:
        error = pipe.ask(message("server/discover", {"_meta": meta}, 1))["error"]
        assert error["code"] == -32022
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "1900-01-01"}


def test_waiting_has_a_bound(server):
    """The message says what was seen instead."""
    with pytest.raises(TimeoutError, match="seen: "):
        server.wait_for(lambda: server.received, timeout=0.01)
    assert json.dumps(server.complaints) == "[]"
