"""A signal handler that raises on the main thread, anywhere in a call over HTTP."""

import os
import signal
import threading

import pytest
from support.interrupting import interrupted
from support.mcp_http import DIALECTS, Call, Owner, calling, connected, text_of
from support.threads import until

from syncagent.testing import FakeMCPServer

#: Every so many steps a call is interrupted; the steps of a call are some thousand.
STRIDE = 101
MOST_STEPS = 60_000
STRESS = (pytest.mark.stress, pytest.mark.timeout(300))


#: The complaints about a request of which the server has seen a part only.
HALF_SENT = ("a POST without JSON", "no request has the id")


def echo(text: str = "hi") -> str:
    """Return the text."""
    return text


@pytest.fixture
def stage(request):
    """Yield a fake server, a connection to it, and the name of its dialect."""
    arguments, settings = DIALECTS[request.param]
    with FakeMCPServer(**arguments) as server:
        server.get_status = 405 if request.param == "no-get" else 200
        server.tool(echo)
        with connected(server, Owner(elicitation={}), **settings) as connection:
            yield server, connection, request.param


def check_connection(connection):
    """See another thread's call answered, and nothing left of any other."""
    other = Call(lambda: calling(connection))
    assert text_of(other.ended().value) == "hi"
    assert connection._requests._pending == {}
    assert connection._requests._questions == {}


@pytest.mark.parametrize("stage", DIALECTS, indirect=True)
@pytest.mark.parametrize("stride", [STRIDE, pytest.param(7, marks=STRESS)], ids=str)
def test_anywhere_in_a_call(stage, stride):
    """MCP trap 10: the connection stays usable for all threads."""
    server, connection, _ = stage
    for step in range(1, MOST_STEPS, stride):
        was = interrupted(lambda: calling(connection), step)
        check_connection(connection)
        if not was:
            break
    else:
        raise AssertionError("a call has more steps than that")
    assert len(set(server.cancels())) == len(server.cancels())
    assert [one for one in server.complaints if not is_about_a_half(one)] == []


@pytest.mark.parametrize("stage", ["legacy", "no-get"], indirect=True)
@pytest.mark.parametrize("stride", [307, pytest.param(31, marks=STRESS)], ids=str)
def test_anywhere_in_a_new_handshake(stage, stride):
    """Another thread makes the handshake, and no session is left at the server."""
    server, connection, _ = stage
    for step in range(1, MOST_STEPS, stride):
        server.forget_sessions()
        was = interrupted(lambda: calling(connection), step)
        check_connection(connection)
        if not was:
            break
    else:
        raise AssertionError("a call has more steps than that")
    until(lambda: len(streams()) <= 1)
    assert [one for one in server.complaints if not is_about_a_half(one)] == []


@pytest.mark.parametrize("dialect", ["modern", "legacy", "sse"])
def test_anywhere_in_a_close(dialect):
    """MCP trap 6: the next close ends what the interrupted one has left."""
    arguments, settings = DIALECTS[dialect]
    with FakeMCPServer(**arguments) as server:
        server.tool(echo)
        for step in (*range(1, 120, 7), *range(120, MOST_STEPS, STRIDE)):
            with connected(server, Owner(elicitation={}), **settings) as connection:
                calling(connection)
                was = interrupted(lambda: connection.close(grace=5.0), step)
            until(lambda: not ours())
            if not was:
                break
        else:
            raise AssertionError("a close has more steps than that")


def ours():
    """Return the threads of connections."""
    return [one for one in threading.enumerate() if "syncagent-mcp-" in one.name]


def is_about_a_half(complaint):
    """Return whether a complaint is about a request that was cut off."""
    return any(words in complaint for words in HALF_SENT)


def streams():
    """Return the threads that read GET streams."""
    return [one for one in threading.enumerate() if "mcp-stream" in one.name]


@pytest.mark.parametrize("stage", ["legacy", "sse"], indirect=True)
def test_a_question_whose_answer_is_cut_short_is_forgotten(stage):
    """A handler that was interrupted leaves no entry: a server has only so many."""
    server, connection, _ = stage
    form = {"type": "object", "properties": {}}

    def ask(exchange):
        exchange.ask_without_waiting(
            "elicitation/create", {"message": "?", "requestedSchema": form}
        )
        exchange.until_cancelled()

    def cut_short(*_):
        raise KeyboardInterrupt

    server.on("tools/call", ask)
    connection._requests.answer = cut_short
    with pytest.raises(KeyboardInterrupt):
        calling(connection, answer=cut_short)
    del connection._requests.answer
    check_connection(connection)


@pytest.mark.parametrize("stage", DIALECTS, indirect=True)
def test_ctrl_c_in_the_wait_tells_the_server(stage):
    """MCP trap 10: it is a cancel on the wire, in the way of the dialect."""
    server, connection, dialect = stage
    is_modern, over = dialect.startswith("modern"), threading.Event()

    def script(exchange):
        exchange.until_hung_up() if is_modern else exchange.until_cancelled()
        over.set()
        exchange.silence()

    server.on("tools/call", script)

    def interrupt():
        server.wait_for(lambda: server.requests("tools/call"))
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = Call(interrupt)
    with pytest.raises(KeyboardInterrupt):
        calling(connection)
    interrupting.ended()
    server.wait_for(over.is_set)
    told = [] if is_modern else [server.requests("tools/call")[0].id]
    server.wait_for(lambda: server.cancels() == told)
    check_connection(connection)
    assert server.complaints == []
