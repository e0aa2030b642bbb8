"""A cancel over HTTP: the call ends at once, and the server hears the right word."""

import os
import signal
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest
from support.mcp_http import DIALECTS, Call, Owner, calling, connected, text_of
from support.threads import LONG, meanwhile, together, until

from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled, MCPServerLost, MCPTimedOut
from syncagent.mcp.connection import Caller
from syncagent.mcp.http import HTTPSettings, connect_http
from syncagent.mcp.http.legacy import LegacyConnection
from syncagent.mcp.http.modern import ModernConnection
from syncagent.testing import FakeMCPServer, Gate
from syncagent.transport import close_idle

#: Seconds within which a cancelled call has ended, on a busy machine.
AT_ONCE = 2.0
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}

HALF = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
)
HALF_EVENT = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n"
)


@pytest.fixture(params=["thread", "signal"])
def way(request):
    """The canceller: another thread, or a signal handler of the calling one."""
    Stage.way = request.param
    yield request.param
    Stage.way = "thread"


in_both_ways = pytest.mark.usefixtures("way")


class Stage:
    """A fake server, a connection to it, and a token that is cancelled in a call."""

    way = "thread"

    def __init__(self, dialect, owner=None):
        arguments, settings = DIALECTS[dialect]
        self.is_modern = dialect.startswith("modern")
        self.server = FakeMCPServer(**arguments)
        self.server.get_status = 405 if dialect == "no-get" else 200
        self.server.tool(echo)
        self.owner = owner or Owner(elicitation={})
        self.settings = settings
        self.token = CancelToken()
        self.there = threading.Event()

    def __enter__(self):
        self.server.__enter__()
        self._context = connected(self.server, self.owner, **self.settings)
        self.connection = self._context.__enter__()
        return self

    def __exit__(self, *error):
        self._context.__exit__(*error)
        self.server.__exit__(*error)

    def cancelled(self, **caller):
        """Cancel a call as soon as it is there; return the exception."""
        times = []

        def cancel(*_):
            times.append(time.monotonic())
            self.token.cancel("enough")

        def call():
            return calling(self.connection, token=self.token, **caller)

        cancelled = self._on_main if self.way == "signal" else self._on_thread
        error = cancelled(call, cancel)
        assert time.monotonic() - times[0] < AT_ONCE
        assert isinstance(error, Cancelled), error
        assert error.reason == "enough"
        return error

    def _on_thread(self, function, cancel):
        call = Call(function)
        assert self.there.wait(LONG)
        cancel()
        return call.ended().error

    def _on_main(self, function, cancel):
        def interrupt():
            assert self.there.wait(LONG)
            os.kill(os.getpid(), signal.SIGUSR1)

        before = signal.signal(signal.SIGUSR1, cancel)
        try:
            with meanwhile(interrupt):
                function()
        except BaseException as error:
            return error
        finally:
            signal.signal(signal.SIGUSR1, before)
        return None

    def check(self, is_told):
        """See the next call answered, and exactly the right words on the wire."""
        first = self.server.requests("tools/call")
        assert text_of(calling(self.connection)) == "hi"
        ids = [request.id for request in first]
        expected = ids if is_told and not self.is_modern else []
        if expected:
            self.server.wait_for(lambda: self.server.cancels())
        self._context.__exit__(None, None, None)
        assert self.server.cancels() == expected
        assert self.server.complaints == []


def echo(text: str = "hi") -> str:
    """Return the text."""
    return text


@pytest.fixture(params=DIALECTS)
def stage(request):
    with Stage(request.param) as stage:
        yield stage


@pytest.fixture(params=[name for name in DIALECTS if not name.endswith("json")])
def events_stage(request):
    with Stage(request.param) as stage:
        yield stage


@in_both_ways
def test_before_the_response_begins(stage):
    """MCP traps 10 and 11: waiting for the head of the response."""

    def script(exchange):
        stage.there.set()
        exchange.until_hung_up() if stage.is_modern else exchange.until_cancelled()

    stage.server.on("tools/call", script)
    assert stage.cancelled().started is True
    stage.check(is_told=True)


@in_both_ways
def test_between_progress_reports(events_stage):
    """In the middle of a stream."""
    stage = events_stage

    def script(exchange):
        exchange.progress(1, 2)
        exchange.until_hung_up() if stage.is_modern else exchange.until_cancelled()

    stage.server.on("tools/call", script)
    assert stage.cancelled(on_progress=lambda _: stage.there.set()).started is True
    stage.check(is_told=True)


@in_both_ways
@pytest.mark.parametrize("dialect", ["modern", "legacy", "stateless", "no-get"])
@pytest.mark.parametrize("part", [HALF, HALF_EVENT])
def test_in_the_middle_of_a_message(dialect, part):
    """Half of a body, or of an event, has come."""
    with Stage(dialect) as stage:

        def script(exchange):
            exchange.http.raw(part)
            stage.there.set()
            exchange.until_hung_up()
            exchange.silence()

        stage.server.on("tools/call", script)
        assert stage.cancelled().started is True
        stage.check(is_told=True)


@in_both_ways
@pytest.mark.parametrize("over", ["call", "session"])
@pytest.mark.parametrize("dialect", ["legacy", "no-get", "stateless", "sse"])
def test_in_a_question(dialect, over):
    """While a person is asked; the question ends, and gets no answer."""
    if over == "session" and dialect in ("no-get", "stateless"):
        over = "call"
    with Stage(dialect) as stage:

        def answer(question, token):
            stage.there.set()
            token.sleep(LONG)

        def script(exchange):
            exchange.ask_without_waiting(
                "elicitation/create", {"message": "?", "requestedSchema": FORM}
            )
            exchange.until_cancelled()

        stage.server.on("tools/call", script)
        assert stage.cancelled(answer=answer).started is True
        stage.check(is_told=True)
        assert not [one for one in stage.server.received if one.is_response]


class SlowKeys:
    """An authorizer that blocks once in a call."""

    def __init__(self):
        self.there = threading.Event()
        self.is_slow = False

    def headers(self, url, token):
        if self.is_slow:
            self.is_slow = False
            self.there.set()
            token.sleep(LONG)
        return {}

    def handle(self, url, status, headers, token, *, used, attempt=0):
        self.there.set()
        token.sleep(LONG)


@in_both_ways
@pytest.mark.parametrize("dialect", DIALECTS)
def test_while_credentials_are_renewed(dialect):
    """Nothing was sent, so nothing is said, and the caller knows it."""
    stage = Stage(dialect)
    keys = SlowKeys()
    stage.settings = {**stage.settings, "auth": keys}
    stage.there = keys.there
    with stage:
        keys.is_slow = True
        assert stage.cancelled().started is False
        stage.check(is_told=False)


@in_both_ways
@pytest.mark.parametrize("dialect", ["modern", "legacy", "sse"])
def test_in_a_login(dialect):
    """The server refused the request, so it has done nothing."""
    stage = Stage(dialect)
    keys = SlowKeys()
    stage.settings = {**stage.settings, "auth": keys}
    stage.there = keys.there
    with stage:
        stage.server.require_token = "key"
        assert stage.cancelled().started is False
        stage.server.require_token = None
        stage.check(is_told=False)


@contextmanager
def deaf_listener(port=0):
    """Yield the port of a listener whose next connection waits for its SYN."""
    with ExitStack() as stack:
        listener = socket.create_server(("127.0.0.1", port), backlog=0)
        stack.enter_context(listener)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@in_both_ways
@pytest.mark.parametrize("dialect", ["modern", "legacy", "stateless"])
def test_while_connecting(dialect):
    """The server does not accept: it has seen nothing, and is told nothing."""
    stage = Stage(dialect, Owner())
    stage.server.catalogue.capabilities = {"tools": {}}  # no stream besides
    with stage:
        port = urlsplit(stage.server.url).port
        stage.server.go_down()
        close_idle()
        with deaf_listener(port):
            threading.Timer(0.1, stage.there.set).start()
            assert stage.cancelled().started is False
        stage.server.come_back()
        stage.check(is_told=False)


@pytest.mark.parametrize("kind", [ModernConnection, LegacyConnection])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_before_there_is_a_connection(kind, scheme):
    """At the first request, while connecting or in the TLS handshake."""
    with ExitStack() as stack:
        if scheme == "http":
            port = stack.enter_context(deaf_listener())
        else:  # it accepts, and never says a word
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = listener.getsockname()[1]
        settings = HTTPSettings(url=f"{scheme}://127.0.0.1:{port}/mcp")
        connection = kind(settings, Owner())
        token = CancelToken()
        threading.Timer(0.1, token.cancel).start()
        with pytest.raises(Cancelled) as caught:
            calling(connection, token=token)
        assert caught.value.started is False
        connection.close(grace=1.0)


@pytest.mark.parametrize("where", ["server/discover", "initialize"])
def test_in_a_handshake(where):
    """The start ends at once; ``initialize`` is never cancelled by notification."""
    with FakeMCPServer(era="legacy") as server:
        token, gate = CancelToken(), Gate()
        server.on(where, lambda x: x.stop_at(gate))
        settings = HTTPSettings(url=server.url)
        call = Call(lambda: connect_http(settings, Owner(), token))
        gate.wait_reached()
        token.cancel("enough")
        assert isinstance(call.ended().error, Cancelled)
        gate.open()
        assert server.cancels() == []


def test_a_session_that_no_one_will_use_is_deleted():
    """A cancel between the two halves of a handshake leaves nothing at the server."""
    with FakeMCPServer(era="legacy") as server, connected(server) as connection:
        token, gate, posts = CancelToken(), Gate(), []

        def stop_third(exchange):
            posts.append(exchange)
            if len(posts) == 3:  # the call, the handshake, and its end
                exchange.stop_at(gate)

        server.forget_sessions()
        server.on("POST", stop_third, times=3)
        call = Call(lambda: calling(connection, token=token))
        gate.wait_reached()
        token.cancel("enough")
        assert isinstance(call.ended().error, Cancelled)
        gate.open()
        server.wait_for(lambda: any(r.verb == "DELETE" for r in server.http_requests))
        assert server.cancels() == []


@in_both_ways
def test_in_a_handshake_of_its_own():
    """The session was lost, and the call makes a new one."""
    with Stage("legacy") as stage:
        gate = Gate()

        def stop(exchange):
            stage.there.set()
            exchange.stop_at(gate)

        stage.server.forget_sessions()
        stage.server.on("initialize", stop)
        assert stage.cancelled().started is False
        gate.open()
        assert text_of(calling(stage.connection)) == "hi"
        assert stage.server.cancels() == []


def test_during_a_new_handshake():
    """One of two who wait for it is cancelled; the other makes it and goes on."""
    with Stage("legacy") as stage:
        server, connection = stage.server, stage.connection
        gate, before = Gate(), len(stage.server.requests("initialize"))
        server.forget_sessions()
        server.on("initialize", lambda x: x.stop_at(gate))
        first = Call(lambda: calling(connection, token=stage.token))
        gate.wait_reached()
        second = Call(lambda: calling(connection))
        until(lambda: connection._handshake.value.watch.bells)
        stage.token.cancel("enough")
        assert isinstance(first.ended().error, Cancelled)
        assert first.error.started is False
        gate.open()
        assert text_of(second.ended().value) == "hi"
        assert len(server.requests("initialize")) == before + 2
        assert server.cancels() == []


def test_a_timeout_is_a_cancel_on_the_wire(stage):
    """MCP trap 16: the server is told in the same way, with another reason."""
    stage.server.on("tools/call", lambda x: x.until_hung_up() or x.silence())
    with pytest.raises(MCPTimedOut, match="srv did not answer tools/call"):
        calling(stage.connection, total=0.1)
    stage.check(is_told=True)


def test_a_post_that_is_never_answered_ends_with_the_timeout():
    """HTTP+SSE: neither the POST nor the stream says anything."""
    with Stage("sse") as stage:
        gate = Gate()
        stage.server.on("POST", lambda x: x.stop_at(gate))
        with pytest.raises(MCPTimedOut):
            calling(stage.connection, total=0.1)
        gate.open()


def test_progress_extends_the_wait_and_the_total_does_not_move(events_stage):
    """Five reports, each earlier than the idle timeout, and then silence."""

    def script(exchange):
        for step in range(5):
            exchange.progress(step)
            CancelToken().wait(0.04)  # a server that works
        exchange.silence()

    events_stage.server.on("tools/call", script)
    began = time.monotonic()
    with pytest.raises(MCPTimedOut, match="no sign of life"):
        calling(events_stage.connection, idle=0.15, on_progress=lambda _: None)
    assert time.monotonic() - began > 0.2
    events_stage.server.on("tools/call", script)
    began = time.monotonic()
    with pytest.raises(MCPTimedOut, match="did not answer"):
        calling(events_stage.connection, total=0.1, on_progress=lambda _: None)
    assert time.monotonic() - began < AT_ONCE


def test_late_words_of_a_cancelled_call_are_dropped(events_stage):
    """MCP trap 12: response, progress, error and question after the cancel."""
    stage, late = events_stage, threading.Event()

    def script(exchange):
        stage.there.set()
        exchange.until_hung_up() if stage.is_modern else exchange.until_cancelled()
        for say in (
            lambda: exchange.progress(1),
            lambda: exchange.error(0, "Request cancelled"),
        ):
            try:
                say()
            except Exception:
                pass
        late.set()
        exchange.silence()

    stage.server.on("tools/call", script)
    stage.cancelled(on_progress=lambda _: pytest.fail("late progress"))
    assert late.wait(LONG)
    assert text_of(calling(stage.connection)) == "hi"


def test_one_of_ten_leaves_nine(stage):
    """MCP trap 13: a cancel reaches its own call only."""
    gate = Gate()
    stage.server.on("tools/call", lambda x: x.stop_at(gate), times=10)
    tokens = [CancelToken() for _ in range(10)]
    calls = [
        Call(lambda token=token: calling(stage.connection, token=token))
        for token in tokens
    ]
    stage.server.wait_for(lambda: len(stage.server.requests("tools/call")) == 10)
    tokens[3].cancel("just this one")
    assert isinstance(calls[3].ended().error, Cancelled)
    gate.open()
    for number, call in enumerate(calls):
        if number != 3:
            assert text_of(call.ended().value) == "hi", call.error
    if not stage.is_modern:
        stage.server.wait_for(lambda: stage.server.cancels())
        assert len(stage.server.cancels()) == 1


@pytest.mark.parametrize("trouble", ["down", "500", "silent"])
def test_a_cancel_that_cannot_be_delivered_costs_nothing(trouble):
    """MCP trap 15: no exception and no delay; the log has a line."""
    with Stage("legacy") as stage:
        gate = Gate()

        def script(exchange):
            stage.there.set()
            exchange.stop_at(gate)

        def refuse(exchange):
            if trouble == "500":
                exchange.http.status(500, "")
            else:
                exchange.silence()

        stage.server.on("tools/call", script)
        stage.server.on("notifications/cancelled", refuse)
        if trouble == "down":
            call = Call(lambda: calling(stage.connection, token=stage.token))
            assert stage.there.wait(LONG)
            stage.server.go_down()
            stage.token.cancel()
            assert isinstance(call.ended().error, (Cancelled, MCPServerLost))
        else:
            stage.cancelled()
        gate.open()
        began = time.monotonic()
        stage.connection.close(grace=0.2)
        assert time.monotonic() - began < AT_ONCE


def test_a_response_that_is_there_is_returned(stage):
    """Cancel and response at the same instant: one of the two, never a mixture."""
    for _ in range(20):
        token = CancelToken()
        calls = []

        def call(token=token, calls=calls):
            try:
                calls.append(text_of(calling(stage.connection, token=token)))
            except Cancelled:
                calls.append("cancelled")

        together(call, token.cancel)
        assert calls[0] in ("hi", "cancelled")
    assert text_of(calling(stage.connection)) == "hi"


def leftovers(connection):
    """Return how many entries of requests and questions are left."""
    requests = connection._requests
    return len(requests._pending) + len(requests._questions)


def cancel_many(stage, count):
    for _ in range(count):
        token = CancelToken()
        stage.there.clear()
        call = Call(lambda token=token: calling(stage.connection, token=token))
        assert stage.there.wait(LONG)
        token.cancel()
        assert isinstance(call.ended().error, Cancelled)
    assert leftovers(stage.connection) == 0
    assert text_of(calling(stage.connection)) == "hi"


@pytest.mark.parametrize("dialect", ["modern", "legacy", "no-get", "sse"])
@pytest.mark.parametrize(
    "count",
    [100, pytest.param(1000, marks=[pytest.mark.stress, pytest.mark.timeout(300)])],
)
def test_cancelled_calls_leak_nothing(dialect, count):
    """No thread, no descriptor, no entry; the session answers the next call."""
    with Stage(dialect) as stage:

        def script(exchange):
            stage.there.set()
            exchange.until_hung_up() if stage.is_modern else exchange.until_cancelled()
            exchange.silence()

        stage.server.on("tools/call", script, times=count)
        cancel_many(stage, count)
        threads = [t.name for t in threading.enumerate() if "mcp-call" in t.name]
        assert len(threads) <= 2, threads


def test_list_requests_are_cancelled_alike():
    """Not only calls: a list that never comes."""
    with Stage("legacy") as stage:

        def script(exchange):
            stage.there.set()
            exchange.until_cancelled()

        stage.server.on("tools/list", script)
        token = CancelToken()
        call = Call(
            lambda: stage.connection.request("tools/list", {}, Caller(token=token))
        )
        assert stage.there.wait(LONG)
        token.cancel()
        assert isinstance(call.ended().error, Cancelled)
        [listed] = stage.server.requests("tools/list")
        stage.server.wait_for(lambda: stage.server.cancels() == [listed.id])
