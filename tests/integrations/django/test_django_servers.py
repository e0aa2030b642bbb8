"""A site behind Django's own server, gunicorn and uvicorn: runs end with clients."""

import json
import random
from contextlib import closing
from http.client import HTTPResponse

import pytest
from support.web.servers import Client, connect, moments


def check_gone(site, before, phases):
    """See that the run has ended, and nothing is left."""
    state = site.wait_until_free()
    reason, origin, phase = state["ended"][-1]
    assert (reason, origin) == ("cancelled", "disconnect")
    assert phase in phases
    assert len(state["ended"]) == before + 1
    assert state["abandoned"] == 0


def has_asked(fake):
    """Wait until the provider has the request."""
    assert any(fake.requests for _ in moments())


@pytest.fixture
def before(site):
    """How many runs had ended before."""
    return len(site.wait_until_free()["ended"])


def test_a_stream_comes_as_it_happens(site, fake):
    """Events of a live run have ids, and the last one says how it ended."""
    with site.stream("stall", fake) as client:
        assert client.response.status == 200
        kind = client.response.getheader("Content-Type")
        assert kind.startswith("text/event-stream")
        number, _, event = client.until("text_delta")
        assert number > 0
        assert event["text"]
        id = client.response.getheader("X-Run-Id")
        status, body = site.ask("POST", f"/runs/{id}/cancel", {"reason": "enough"})
        assert (status, json.loads(body)["is_cancelled"]) == (202, True)
        _, _, view = client.until("end")
    assert view["stop_reason"] == "cancelled"
    assert view["cancellation"]["origin"] == "user"
    assert view["text"].startswith("Once")


def test_gone_before_headers(site, fake, before):
    """Issue 8: a client that goes without having read anything ends the run."""
    with site.stream("silence", fake):
        has_asked(fake)
    fake.wait_for_hang_up()
    check_gone(site, before, {"headers", "first event"})


def test_gone_in_the_middle(site, fake, before):
    """Issue 8: a client that goes in the middle of an answer ends the run."""
    with site.stream("stall", fake) as client:
        client.until("text_delta")
    fake.wait_for_hang_up()
    check_gone(site, before, {"stream"})


def test_gone_in_a_tool(site, fake, before):
    """Issue 8: a client that goes while a tool works ends the tool and the run."""
    with site.stream("endless tool", fake) as client:
        client.until("tool_started")
    check_gone(site, before, {"tool"})


def test_gone_in_an_approval(site, fake, before):
    """Issue 8: a client that goes while it is asked ends the run."""
    with site.stream("approval", fake) as client:
        client.until("interrupt_raised")
    check_gone(site, before, {"approval"})


def test_gone_from_a_view_that_blocks(site, fake, before):
    """Issue 8: also run() in a view ends when its client goes, wherever it is."""
    with site.block("stall", fake):
        has_asked(fake)
    fake.wait_for_hang_up()
    check_gone(site, before, {"headers", "first event", "stream"})


def test_gone_from_a_view_that_is_a_coroutine(site, fake, before):
    """Issue 8: also where a coroutine waits for a thread with a run."""
    if "uvicorn" not in site.name:
        pytest.skip("under WSGI such a view is run by a loop that hears of nothing")
    path = "/block-async?stall"
    with Client(site.port, "GET", path, provider=fake.base_url):
        has_asked(fake)
    fake.wait_for_hang_up()
    check_gone(site, before, {"headers", "first event", "stream"})


def test_a_run_that_may_be_in_another_process(site):
    """B1: an ASGI server closes the connection, which leads to the same process."""
    with closing(connect(site.port)) as sock:
        sock.sendall(b"GET /runs/unknown HTTP/1.1\r\nHost: test\r\n\r\n")
        response = HTTPResponse(sock)
        response.begin()
        code = json.loads(response.read())["error"]["code"]
        is_asgi = "uvicorn" in site.name
        assert code == ("not_here" if is_asgi else "not_found")
        assert (response.getheader("Connection") == "close") == is_asgi


def test_resume(site, fake):
    """A client that reconnects with the last id gets the rest, and nothing twice."""
    view = site.start("tool", fake)
    with site.follow(view["id"]) as client:
        seen = [event for event in client.events() if event]
    numbers = [number for number, _, _ in seen if number is not None]
    assert seen[-1][1] == "end"
    with site.follow(view["id"], last=numbers[2]) as client:
        again = [event for event in client.events() if event]
    assert [number for number, _, _ in again if number is not None] == numbers[3:]
    with site.follow(view["id"], last=numbers[-1]) as client:
        assert client.response.status == 204


def test_many_streams_at_once(site, fake):
    """Forty that follow one run each get its end: none waits for another."""
    with site.stream("approval", fake) as first:
        _, _, event = first.until("interrupt_raised")
        id = first.response.getheader("X-Run-Id")
        waits = event["interrupts"][0]["id"]
        others = [site.follow(id) for _ in range(40 if "uvicorn" in site.name else 4)]
        try:
            for other in others:
                other.until("interrupt_raised")
            answer = {"answers": {waits: {"allow": True}}}
            assert site.ask("POST", f"/runs/{id}/answers", answer)[0] == 200
            for client in (first, *others):
                assert client.until("end")[2]["stop_reason"] == "end_turn"
        finally:
            for other in others:
                other.vanish()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_a_crowd_that_vanishes(site, fake, seed):
    """Issue 8: of many clients that go at random moments, no run is left behind."""
    chance = random.Random(seed)
    talks = ["stall", "silence", "endless tool", "approval", "hello", "leave open"]
    clients = []
    # No more than there are threads, where each stream has one.
    for _ in range(40 if "gunicorn" not in site.name else 6):
        client = site.stream(chance.choice(talks), fake)
        if chance.random() < 0.5:
            client.until("run")
        clients.append(client)
    chance.shuffle(clients)
    for client in clients:
        client.vanish()
    state = site.wait_until_free()
    assert state["abandoned"] == 0
    site.wait(lambda state: not state["databases"], "no connection")


# -- databases ---------------------------------------------------------------------


@pytest.mark.parametrize("talk", ["count", "count aside"])
def test_connections_are_closed(site, fake, talk):
    """Whatever thread a tool uses the database on, its connection ends with it."""
    view = site.start(talk, fake)
    with site.follow(view["id"]) as client:
        _, _, view = client.until("end")
    assert "there are notes: True" in view["text"]
    site.wait(lambda state: not state["databases"], "no connection")


def test_a_run_that_waits_holds_no_connection(site, fake):
    """A run that waits for an approval holds no database connection."""
    view = site.start("count and ask", fake)
    with site.follow(view["id"]) as client:
        client.until("interrupt_raised")
        site.wait(lambda state: state["live"] and not state["databases"], "none")
    site.wait_until_free()


def test_connections_of_a_cancelled_tool_are_closed(site, fake):
    """Also a tool that is cancelled while it has a connection leaves none."""
    with site.stream("leave open", fake) as client:
        client.until("tool_started")
        site.wait(lambda state: state["databases"], "a connection")
    site.wait_until_free()
    site.wait(lambda state: not state["databases"], "no connection")
