"""The end of connections over HTTP, and forks."""

import threading
import time

import pytest
from support.mcp_http import DIALECTS, Call, Owner, calling, connected, text_of
from support.processes import in_child
from support.threads import together

from syncagent.cancel import CancelToken
from syncagent.exceptions import MCPServerLost
from syncagent.testing import FakeMCPServer, Gate

#: Seconds that a close may take beyond its grace, on a busy machine.
MORE = 2.0


def echo(text: str = "hi") -> str:
    """Return the text."""
    return text


@pytest.fixture(params=DIALECTS)
def dialect(request):
    return request.param


@pytest.fixture
def server(dialect):
    with FakeMCPServer(**DIALECTS[dialect][0]) as server:
        server.get_status = 405 if dialect == "no-get" else 200
        server.tool(echo)
        yield server


def our_threads():
    return [t.name for t in threading.enumerate() if t.name.startswith("syncagent-mcp")]


def test_a_close_leaves_no_thread_and_no_session(dialect, server):
    """Also if it comes from another thread, twice, and after it from a third."""
    with connected(server, Owner(elicitation={}), **DIALECTS[dialect][1]) as connection:
        calling(connection)
        together(*[lambda: connection.close(grace=5.0)] * 3)
        assert our_threads() == []
        assert connection.is_usable is False
        with pytest.raises(MCPServerLost, match="srv was closed") as caught:
            calling(connection)
        assert caught.value.started is False
    deletes = [r for r in server.http_requests if r.verb == "DELETE"]
    has_session = dialect in ("legacy", "legacy-json", "no-get")
    assert len(deletes) == has_session


def test_a_close_ends_calls_at_once(dialect, server):
    """A call in flight fails; whether it was done is unknown."""
    with connected(server, Owner(elicitation={}), **DIALECTS[dialect][1]) as connection:
        gate = Gate()
        server.on("tools/call", lambda x: x.stop_at(gate))
        call = Call(lambda: calling(connection))
        gate.wait_reached()
        began = time.monotonic()
        connection.close(grace=1.0)
        assert isinstance(call.ended().error, MCPServerLost)
        assert call.error.started is True
        assert time.monotonic() - began < 1.0 + MORE
        gate.open()


def test_a_close_ends_a_handshake():
    """A thread that makes a session anew is not left behind."""
    with FakeMCPServer(era="legacy") as server, connected(server) as connection:
        gate = Gate()
        server.forget_sessions()
        server.on("initialize", lambda x: x.stop_at(gate))
        call = Call(lambda: calling(connection))
        gate.wait_reached()
        connection.close(grace=1.0)
        assert isinstance(call.ended().error, MCPServerLost)
        assert call.error.started is False
        gate.open()


def test_a_close_is_bounded_with_a_deaf_server():
    """MCP trap 6: neither DELETE nor a cancel is waited for beyond the grace."""
    with FakeMCPServer(era="legacy") as server, connected(server) as connection:
        gate = Gate()
        server.on("DELETE", lambda x: x.stop_at(gate))
        began = time.monotonic()
        connection.close(grace=0.2)
        assert time.monotonic() - began < 0.2 + MORE
        gate.open()


def test_a_delete_that_is_refused_is_no_error():
    """405: the server ends sessions by itself."""
    with FakeMCPServer(era="legacy") as server:
        server.delete_status = 405
        with connected(server):
            pass


def test_a_queued_cancel_is_delivered_before_the_end():
    """close() waits for it within its grace."""
    with FakeMCPServer(era="legacy") as server, connected(server) as connection:
        gate, token = Gate(), CancelToken()
        server.on("tools/call", lambda x: x.stop_at(gate))
        call = Call(lambda: calling(connection, token=token))
        gate.wait_reached()
        token.cancel()
        call.ended()
        connection.close(grace=5.0)
        assert len(server.cancels()) == 1
        gate.open()


def test_a_forked_child_makes_its_own_session(dialect, server):
    """MCP trap 9: it neither uses nor ends the parent's, and its close is its own."""
    with connected(server, **DIALECTS[dialect][1]) as connection:
        calling(connection)
        before = {r.session for r in server.requests("tools/call")}

        def child():
            if not connection.is_usable:  # HTTP+SSE: its owner makes a new one
                connection.close(grace=1.0)
                return "lost"
            text = text_of(calling(connection, arguments={"text": "from the child"}))
            connection.close(grace=1.0)
            return text

        said = in_child(child)
        assert said == ("lost" if dialect == "sse" else "from the child")
        assert text_of(calling(connection)) == "hi"
        calls = server.requests("tools/call")
        if dialect == "legacy":
            assert calls[0].session == calls[-1].session
            assert calls[1].session not in before
