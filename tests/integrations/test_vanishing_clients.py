"""The client vanishes, and the run ends: on every server, in every phase."""

import pytest
from serving import moments


def check_gone(server, fake, before, phases, *, was_asking=True):
    """See that the run has ended, its provider knows, and nothing is left."""
    if was_asking:
        try:
            fake.wait_for_hang_up()
        except TimeoutError:
            raise TimeoutError(server.stacks()) from None
    state = server.wait_until_free()
    reason, origin, phase = state["ended"][-1]
    assert (reason, origin) == ("cancelled", "disconnect")
    assert phase in phases
    assert len(state["ended"]) == before + 1
    assert state["abandoned"] == 0


def server_has_asked(fake):
    """Wait until the provider has the request."""
    assert any(fake.requests for _ in moments())


@pytest.fixture
def before(server):
    """How many runs had ended before."""
    return len(server.wait_until_free()["ended"])


def test_before_the_first_word(server, fake, before):
    """Issue 8: a client that goes while the model is silent ends the run."""
    with server.stream("silence", fake) as client:
        client.until("run")
        server_has_asked(fake)
    check_gone(server, fake, before, {"headers", "first event"})


def test_before_headers(server, fake, before):
    """Issue 8: a client that goes without having read anything ends the run."""
    with server.stream("stall", fake):
        server_has_asked(fake)
    check_gone(server, fake, before, {"headers", "first event", "stream", "turn"})


def test_in_the_middle(server, fake, before):
    """Issue 8: a client that goes in the middle of an answer ends the run."""
    with server.stream("stall", fake) as client:
        client.until("text_delta")
    check_gone(server, fake, before, {"stream"})


def test_in_a_tool(server, fake, before):
    """Issue 8: a client that goes while a tool works ends the tool and the run."""
    with server.stream("endless tool", fake) as client:
        client.until("tool_started")
    check_gone(server, fake, before, {"tool"}, was_asking=False)


def test_in_an_approval(server, fake, before):
    """Issue 8: a client that goes while it is asked ends the run."""
    with server.stream("approval", fake) as client:
        client.until("interrupt_raised")
    check_gone(server, fake, before, {"approval"}, was_asking=False)


def test_of_a_handler_that_blocks(server, fake, before):
    """Issue 8: also run() in a handler ends when its client goes, wherever it is."""
    with server.block("stall", fake):
        server_has_asked(fake)
    check_gone(server, fake, before, {"headers", "first event", "stream"})


def test_the_next_request_is_served(server, fake, before):
    """Promise 8: what the client has left can be used by the next one."""
    with server.stream("stall", fake) as client:
        client.until("text_delta")
    server.wait_until_free()
    with server.stream("hello", fake) as client:
        _, _, view = client.until("end")
    assert view["text"] == "Hello."
    assert view["stop_reason"] == "end_turn"
