"""Sessions that a server loses, streams that break, and streams that stay open."""

import threading

import pytest
from support.mcp_http import Call, Owner, calling, connected, text_of
from support.threads import LONG, together, until

from syncagent.cancel import CancelToken
from syncagent.exceptions import MCPRequestFailed, MCPServerLost
from syncagent.mcp.connection import Caller
from syncagent.testing import FakeMCPServer, Gate


def echo(text: str = "hi") -> str:
    """Return the text."""
    return text


@pytest.fixture
def server():
    with FakeMCPServer(era="legacy") as server:
        server.tool(echo)
        yield server
        assert server.complaints == []


# -- lost sessions ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [404, 400])
def test_a_lost_session_is_made_anew(server, status):
    """MCP trap 2: the server restarted: the same call is answered, in a new session."""
    server.lost_status = status
    owner = Owner()
    with connected(server, owner) as connection:
        server.restart()
        assert text_of(calling(connection)) == "hi"
        assert len(server.requests("initialize")) == 2
        owner.wait_for("notifications/tools/list_changed")


def test_any_number_of_threads_make_one_handshake(server):
    """MCP trap 2: twenty threads find the session lost; one handshake follows."""
    with connected(server) as connection:
        server.forget_sessions()

        def work():
            assert text_of(calling(connection)) == "hi"

        together(*[work] * 20)
        assert len(server.requests("initialize")) == 2


def test_a_late_404_does_not_end_the_new_session(server):
    """MCP trap 2: it answers a request of the session before the handshake."""
    with connected(server) as connection:
        gate = Gate()

        def late(exchange):
            exchange.stop_at(gate)
            exchange.http.status(404, "")

        server.on("tools/call", late)
        call = Call(lambda: calling(connection))
        gate.wait_reached()
        server.forget_sessions()
        calling(connection)
        gate.open()
        assert text_of(call.ended().value) == "hi"
        assert len(server.requests("initialize")) == 2


def test_a_server_that_keeps_no_session_is_an_error_and_no_loop(server):
    """One new handshake for each request, then the caller is told."""
    with connected(server) as connection:
        server.on("tools/call", lambda x: x.http.status(404, ""), times=9)
        with pytest.raises(MCPServerLost, match="does not know its session"):
            calling(connection)
        assert len(server.requests("tools/call")) == 2


def test_a_handshake_that_fails_fails_all_who_wait(server):
    """Each gets an error of its own, and none waits for a second handshake."""
    with connected(server) as connection:
        gate = Gate()
        server.forget_sessions()

        def fail(exchange):
            exchange.stop_at(gate)
            exchange.http.status(500, "not now")

        server.on("initialize", fail, times=99)
        calls = [Call(lambda: calling(connection)) for _ in range(5)]
        gate.wait_reached()
        until(lambda: len(connection._handshake.value.watch.bells) == 4)
        gate.open()
        errors = [call.ended().error for call in calls]
        assert all(isinstance(error, MCPServerLost) for error in errors)
        assert not any(error.started for error in errors)
        assert len(server.requests("initialize")) == 2


def test_404_without_a_session_is_just_an_error():
    """Where there is no session there is none to make anew."""
    with FakeMCPServer(era="legacy", sessions=False) as server:
        with connected(server) as connection:
            server.on("tools/call", lambda x: x.http.status(404, ""))
            with pytest.raises(Exception, match="404 Not Found"):
                calling(connection)
            assert len(server.requests("initialize")) == 1


@pytest.mark.parametrize(("status", "code"), [(400, -32602), (404, -32601)])
def test_an_error_about_other_things_is_no_lost_session(server, status, code):
    """It is the answer, though its status is that of a lost session."""
    with connected(server) as connection:
        server.on("tools/call", lambda x: x.error(code, "bad", status=status))
        with pytest.raises(MCPRequestFailed, match="bad"):
            calling(connection)
        assert len(server.requests("initialize")) == 1


# -- streams of calls ------------------------------------------------------------------


def test_a_broken_stream_is_resumed():
    """MCP trap 22: the server closes after an event id; the response comes on a GET."""
    with FakeMCPServer(era="legacy", event_ids=True) as server:
        server.tool(echo)

        def script(exchange):
            exchange.log("a sign of life, with an id")
            exchange.http.event("", retry=10)
            exchange.http.end()
            exchange.wait(lambda: resumed(server))
            return exchange.default_result()

        server.on("tools/call", script)
        with connected(server) as connection:
            assert text_of(calling(connection)) == "hi"
        [get] = resumed(server)
        assert get.headers["last-event-id"]


def resumed(server):
    return [
        request
        for request in server.http_requests
        if request.verb == "GET" and "last-event-id" in request.headers
    ]


def test_a_stream_that_is_not_resumed_is_lost():
    """The caller is told that the effects are unknown."""
    with FakeMCPServer(era="legacy", event_ids=True) as server:
        with connected(server) as connection:

            def script(exchange):
                exchange.http.event("", id="e1", retry=1)
                server.get_status = 405
                exchange.http.end()
                exchange.silence()

            server.on("tools/call", script)
            with pytest.raises(MCPServerLost, match="effects are unknown") as caught:
                calling(connection)
            assert caught.value.started is True


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("end", ["end", "close"])
def test_a_stream_without_a_response_is_lost_at_once(era, end):
    """MCP trap 22: without event ids there is nothing to resume or to wait for."""
    with FakeMCPServer(era=era) as server, connected(server) as connection:

        def script(exchange):
            exchange.http.begin()
            getattr(exchange.http, end)()
            exchange.silence()

        server.on("tools/call", script)
        with pytest.raises(MCPServerLost, match="effects are unknown") as caught:
            calling(connection)
        assert caught.value.started is True
        assert server.cancels() == []


def gets(server):
    return [request for request in server.http_requests if request.verb == "GET"]


# -- the GET stream --------------------------------------------------------------------


@pytest.mark.parametrize("status", [405, 404, 400, 409])
def test_calls_work_without_a_get_stream(server, status):
    """MCP trap 4: a server without one is asked once; 409 may pass."""
    server.get_status = status
    with connected(server, Owner(elicitation={})) as connection:
        assert text_of(calling(connection)) == "hi"
        assert len(gets(server)) == 1


def test_calls_work_with_a_get_stream_that_closes_at_once(server):
    """MCP trap 4: it is opened again with a pause; calls do not notice."""
    server.closes_get = True
    with connected(server, Owner(elicitation={})) as connection:
        assert text_of(calling(connection)) == "hi"
        assert len(gets(server)) < 3


def test_list_changes_come_on_the_get_stream(server):
    """And pings on it are answered."""
    owner = Owner()
    with connected(server, owner):
        server.wait_for(lambda: gets(server))
        server.change("tools", times=5)
        owner.wait_for("notifications/tools/list_changed")
        assert server.ping() == {}


def test_a_question_of_no_call_is_answered_by_the_owner(server):
    """On a thread of its own, while nothing is called."""
    owner = Owner(lambda question, token: {"roots": []}, roots={})
    with connected(server, owner):
        server.wait_for(lambda: gets(server))
        assert server.ask("roots/list") == {"roots": []}


@pytest.mark.slow
def test_the_get_stream_is_opened_again(server):
    """After the server has dropped all connections, changes come through again."""
    owner = Owner()
    with connected(server, owner):
        server.wait_for(lambda: gets(server))
        server.drop_connections()
        server.wait_for(lambda: len(gets(server)) == 2)
        server.change("tools")
        owner.wait_for("notifications/tools/list_changed")


def test_a_withdrawn_question_is_no_longer_asked():
    """The server takes its question back: the token of the question ends."""
    with FakeMCPServer(era="legacy", withdraws=True) as server:
        server.get_status = 405
        withdrawn = threading.Event()

        def answer(question, token):
            assert token.wait(LONG)
            withdrawn.set()
            token.checkpoint()

        def script(exchange):
            form = {"type": "object", "properties": {}}
            id = exchange.ask_without_waiting(
                "elicitation/create", {"message": "?", "requestedSchema": form}
            )
            exchange.notify("notifications/cancelled", {"requestId": id})
            assert withdrawn.wait(LONG)
            exchange.answer({"content": [{"type": "text", "text": "without you"}]})

        server.on("tools/call", script)
        with connected(server, Owner(elicitation={})) as connection:
            assert text_of(calling(connection, answer=answer)) == "without you"


def test_a_question_ends_with_its_call():
    """The server answers the call while a person is still asked."""
    with FakeMCPServer(era="legacy") as server:
        server.get_status = 405
        asked = threading.Event()

        def answer(question, token):
            asked.set()
            token.sleep(LONG)
            pytest.fail("the question did not end")

        def script(exchange):
            form = {"type": "object", "properties": {}}
            exchange.ask_without_waiting(
                "elicitation/create", {"message": "?", "requestedSchema": form}
            )
            assert asked.wait(LONG)
            exchange.answer({"content": [{"type": "text", "text": "never mind"}]})

        server.on("tools/call", script)
        with connected(server, Owner(elicitation={})) as connection:
            assert text_of(calling(connection, answer=answer)) == "never mind"
            assert connection._requests._questions == {}


# -- subscriptions ---------------------------------------------------------------------


def test_list_changes_come_on_a_subscription():
    """A modern server is asked for them, and told nothing at the end."""
    owner = Owner()
    with FakeMCPServer(era="modern") as server:
        with connected(server, owner):
            server.wait_for(lambda: server.listeners())
            server.change("tools")
            owner.wait_for("notifications/tools/list_changed")
        assert all(
            name != "notifications/subscriptions/acknowledged"
            for name, _ in owner.notes
        )
        assert server.cancels() == server.complaints == []


def test_a_list_that_came_before_the_subscription_is_read_again():
    """A change in between would be missed."""
    owner, gate = Owner(), Gate()
    with FakeMCPServer(era="modern") as server:
        server.on("subscriptions/listen", lambda x: x.stop_at(gate))
        with connected(server, owner) as connection:
            gate.wait_reached()
            connection.request("tools/list", {}, Caller(token=CancelToken()))
            gate.open()
            owner.wait_for("notifications/tools/list_changed")


@pytest.mark.slow
def test_a_subscription_is_opened_again():
    """Changes may have been missed in between: the owner looks at all lists."""
    owner = Owner()
    with FakeMCPServer(era="modern") as server, connected(server, owner):
        server.wait_for(lambda: server.listeners())
        server.drop_connections()
        owner.wait_for("notifications/tools/list_changed")


@pytest.mark.parametrize(
    "refuse",
    [
        lambda x: x.error(-32601),
        lambda x: x.http.status(404, "no"),
        lambda x: x.http.accept(),
        lambda x: x.http.end(),
    ],
    ids=["-32601", "404", "202", "empty"],
)
def test_a_server_without_subscriptions_is_fine(refuse):
    """It is asked once, and calls work."""
    with FakeMCPServer(era="modern") as server:
        server.tool(echo)
        server.on("subscriptions/listen", refuse, times=9)
        with connected(server) as connection:
            server.wait_for(lambda: server.requests("subscriptions/listen"))
            assert text_of(calling(connection)) == "hi"
        assert len(server.requests("subscriptions/listen")) == 1


def test_notifications_are_sent():
    """A notification of ours is posted with the session, and never raises."""
    with FakeMCPServer(era="legacy") as server, connected(server) as connection:
        connection.notify("notifications/roots/list_changed")
        server.wait_for(
            lambda: server.notifications("notifications/roots/list_changed")
        )
        connection.request("tools/list", {}, Caller(token=CancelToken()))
        assert server.complaints == []
    connection.notify("notifications/roots/list_changed")
