"""A cancel over HTTP in a signal handler, while the main thread makes the call."""

import os
import signal
import threading
import time

import pytest
from support.mcp_http import DIALECTS, Owner, calling, connected, text_of
from support.threads import LONG, meanwhile

from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled
from syncagent.testing import FakeMCPServer

#: Seconds within which a cancelled call has ended, on a busy machine.
AT_ONCE = 2.0
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
EVENTS = [name for name in DIALECTS if not name.endswith("json")]
ASKING = [name for name in EVENTS if not name.startswith("modern")]


def echo(text: str = "hi") -> str:
    """Return the text."""
    return text


def wait_at_server(exchange):
    """Wait until the server has heard of the cancel, in the way of its era."""
    if exchange.era == "modern":
        exchange.until_hung_up()
    else:
        exchange.until_cancelled()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_while_the_response_has_not_begun(dialect):
    """MCP trap 10: the handler takes no lock, and the wait ends at once."""
    there = threading.Event()

    def script(exchange):
        there.set()
        wait_at_server(exchange)

    check_cancel(dialect, script, there)


@pytest.mark.parametrize("dialect", EVENTS)
def test_between_progress_reports(dialect):
    """MCP trap 10: in the middle of a stream."""
    there = threading.Event()

    def script(exchange):
        exchange.progress(1, 2)
        wait_at_server(exchange)

    check_cancel(dialect, script, there, on_progress=lambda _: there.set())


@pytest.mark.parametrize("dialect", ASKING)
def test_in_a_question(dialect):
    """MCP trap 10: the question ends without an answer."""
    there = threading.Event()

    def answer(question, token):
        there.set()
        token.sleep(LONG)

    def script(exchange):
        asked = {"message": "?", "requestedSchema": FORM}
        exchange.ask_without_waiting("elicitation/create", asked)
        wait_at_server(exchange)

    check_cancel(dialect, script, there, answer=answer)


def check_cancel(dialect, script, there, **caller):
    """Cancel a call in a handler; see one right word, and the next call answered."""
    arguments, settings = DIALECTS[dialect]
    with FakeMCPServer(**arguments) as server:
        server.get_status = 405 if dialect == "no-get" else 200
        server.tool(echo)
        server.on("tools/call", script)
        with connected(server, Owner(elicitation={}), **settings) as connection:
            error = interrupted(connection, there, **caller)
            assert (error.reason, error.started) == ("enough", True)
            first = server.requests("tools/call")[0].id
            assert text_of(calling(connection)) == "hi"
            if not dialect.startswith("modern"):
                server.wait_for(server.cancels)
        is_told = not dialect.startswith("modern")
        assert server.cancels() == ([first] if is_told else [])
        assert server.complaints == []


def interrupted(connection, there, **caller):
    """Make a call, cancel it in a handler once *there* is set; return the error."""
    token, times = CancelToken(), []

    def cancel(*_):
        times.append(time.monotonic())
        token.cancel("enough")

    def interrupt():
        assert there.wait(LONG)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, cancel)
    try:
        with meanwhile(interrupt), pytest.raises(Cancelled) as caught:
            calling(connection, token=token, **caller)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - times[0] < AT_ONCE
    return caught.value
