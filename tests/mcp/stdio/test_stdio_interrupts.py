"""A signal handler that raises on the main thread, anywhere in a call."""

import os
import signal
import threading

import pytest
from support.interrupting import interrupted
from support.mcp_stdio import Call, serving
from support.threads import until

from syncagent.testing import Gate

#: Every so many steps a call is interrupted; the steps of a call are some thousand.
STRIDE = 97
MOST_STEPS = 40_000


def check_session(server, client):
    """See that the session is whole: nothing pending, and calls are answered."""
    channel = client._client.current._channel
    assert client.call("echo", {"text": "next"}).text == "next"
    assert channel.requests._pending == {}
    assert channel.requests._questions == {}
    until(lambda: not channel._writer.has_more)


@pytest.mark.parametrize(
    "stride", [STRIDE, pytest.param(1, marks=pytest.mark.stress)], ids=str
)
def test_an_exception_of_a_signal_handler_anywhere_in_a_call(stride):
    """The request is taken back, cancelled or answered; the session stays usable."""
    with serving() as (server, client):
        client.connect()
        for step in range(1, MOST_STEPS, stride):
            was = interrupted(lambda: client.call("echo"), step)
            check_session(server, client)
            if not was:
                break
        else:
            raise AssertionError("a call has more steps than that")
        assert len(server.processes) == 1
        ids = [one.id for one in server.requests("tools/call")]
        assert len(set(ids)) == len(ids)
        assert len(set(server.cancels())) == len(server.cancels())


def test_an_exception_of_a_signal_handler_in_the_wait_tells_the_server():
    """Ctrl+C in a call is a cancel on the wire."""
    with serving() as (server, client):
        server.on("tools/call", lambda x: x.until_cancelled())
        client.connect()

        def interrupt():
            server.wait_for(lambda: server.requests("tools/call"))
            os.kill(os.getpid(), signal.SIGINT)

        interrupting = Call(interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.call("echo")
        interrupting.ended()
        server.wait_for(server.cancels)
        assert server.cancels() == [server.requests("tools/call")[0].id]
        check_session(server, client)


@pytest.mark.parametrize(
    "stride", [311, pytest.param(7, marks=pytest.mark.stress)], ids=str
)
def test_an_exception_of_a_signal_handler_anywhere_in_the_wait_for_a_start(stride):
    """A start that was interrupted locks no one out of the next one."""
    for step in range(1, MOST_STEPS, stride):
        with serving() as (_server, client):
            was = interrupted(client.connect, step)
            other = Call(lambda client=client: client.call("echo"))
            assert other.ended().value.text == "hi"
        if not was:
            break


def test_the_question_of_an_interrupted_call_is_not_kept():
    """A handler that was interrupted leaves no open question behind."""
    asked = Gate()
    form = {"type": "object", "properties": {"name": {"type": "string"}}}

    def elicit(request):
        asked.stop_here()
        return {"name": "Ada"}

    with serving("legacy", elicit=elicit) as (server, client):
        server.on("tools/call", lambda x: x.elicit("Who?", form))
        client.connect()

        def interrupt():
            asked.wait_reached()
            os.kill(os.getpid(), signal.SIGINT)

        interrupting = Call(interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.call("echo")
        interrupting.ended()
        asked.open()
        check_session(server, client)
        until(lambda: threading.active_count() < 50)
