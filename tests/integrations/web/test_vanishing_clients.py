"""The client vanishes, and the run ends: on every server, in every phase."""

import ssl

import pytest
import trustme
from support.web.servers import Server, moments


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


# -- other ways to serve -----------------------------------------------------------


@pytest.mark.parametrize("worker", ["gunicorn-sync", "gunicorn-gthread"])
@pytest.mark.slow
def test_tls(worker, fake, tmp_path):
    """Issue 8: with TLS that ends in the server a lost client is seen as well."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    files = ("--certfile", str(tmp_path / "certificate.pem"))
    files += ("--keyfile", str(tmp_path / "key.pem"))
    with Server(worker, *files, context=context) as server:
        with server.stream("stall", fake) as client:
            client.until("text_delta")
        check_gone(server, fake, 0, {"stream"})


def test_a_server_that_reads_ahead(fake):
    """Issue 8: one that closes a lost client's connection itself is asked for that."""
    with Server("waitress-ahead") as server:
        for before in range(3):
            with server.stream("silence", fake) as client:
                client.until("run")
                assert any(len(fake.requests) > before for _ in moments())
            fake.wait_for_hang_up(before + 1)
            check_gone(server, fake, before, {"headers", "first event"})
