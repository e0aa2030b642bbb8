"""The example on real servers: clients vanish, return and press Stop."""

import re

import pytest
from flask_serving import EXAMPLE, Served


@pytest.fixture(scope="module", params=["werkzeug", "gunicorn"])
def served(request):
    with Served(request.param, grace=0) as running:
        yield running


@pytest.fixture
def guest(served):
    with served.visitor() as guest:
        yield guest


def test_stop(guest):
    """The text so far is kept, and the stream ends with how it ended."""
    stream = guest.start("tell me a story")
    stream.until("text_delta", 10)
    status, _ = guest.ask("POST", f"runs/{stream.id}/cancel", json={"reason": "Stop"})
    assert status == 202
    view = stream.until("end")
    assert view["stop_reason"] == "cancelled"
    assert view["cancellation"]["reason"] == "Stop"
    assert view["text"] == stream.text


def test_the_tab_is_closed(guest):
    """Issue 8: the run ends with its last follower, in the middle of an answer."""
    stream = guest.start("tell me a story")
    stream.until("text_delta", 3)
    stream.vanish()
    view = guest.wait(stream.id)
    assert view["cancellation"]["origin"] == "disconnect"
    assert view["cancellation"]["phase"] == "stream"


def test_the_tab_is_closed_while_a_tool_works(guest):
    """Issue 8: the tool ends, too, even one that does not cooperate."""
    stream = guest.start("count for ever")
    stream.until("tool_started")
    stream.vanish()
    view = guest.wait(stream.id)
    assert view["cancellation"]["origin"] == "disconnect"
    # Not started, if its process was still being made.
    outcome = view["tool_outcomes"][0]["outcome"]
    assert outcome in ("interrupted", "not_started")


def test_the_tab_is_closed_while_it_asks(guest):
    """Issue 8: no client is left to answer, so the run ends without an effect."""
    stream = guest.start("order 2 pizzas")
    stream.until("interrupt_raised")
    stream.vanish()
    view = guest.wait(stream.id)
    assert view["cancellation"]["phase"] == "approval"
    assert view["tool_outcomes"][0]["outcome"] == "not_started"


def test_a_second_tab_keeps_it(guest):
    """A run continues as long as it has a follower."""
    first = guest.start("tell me a story")
    first.until("text_delta", 3)
    second = guest.stream("GET", f"runs/{first.id}/events")
    second.until("text_delta")
    first.vanish()
    second.until("text_delta", 5)
    assert guest.ask("POST", f"runs/{first.id}/cancel")[0] == 202
    assert second.until("end")["text"] == second.text


def test_a_foreign_stop(served, guest):
    """Issue 8: the Stop of another user gets 404, and the run continues."""
    stream = guest.start("tell me a story")
    stream.until("text_delta")
    with served.visitor() as other:
        assert other.ask("POST", f"runs/{stream.id}/cancel")[0] == 404
        assert other.ask("GET", "runs")[1] == {"runs": []}
    stream.until("text_delta", 3)
    assert guest.ask("POST", f"runs/{stream.id}/cancel")[0] == 202
    stream.until("end")


@pytest.mark.slow
def test_a_reload_in_the_middle():
    """A client that returns in time misses nothing and gets nothing twice."""
    with Served(grace=20) as served, served.visitor() as guest:
        first = guest.start("tell me a story")
        first.until("text_delta", 5)
        first.vanish()
        again = guest.stream("GET", f"runs/{first.id}/events", first.last)
        again.until("text_delta", 5)
        guest.ask("POST", f"runs/{first.id}/cancel")
        view = again.until("end")
    assert view["cancellation"]["origin"] == "user"
    assert view["text"] == first.text + again.text


def test_the_example_says_how_it_is_run():
    """Two commands, which name what is there."""
    text = (EXAMPLE / "app.py").read_text()
    assert text.count("\n") <= 70
    assert re.search(r'^Install it: pip install "\.\[flask\]"$', text, re.M)
    run = re.search(r"^Run it: flask --app (\S+) run$", text, re.M)
    assert (EXAMPLE.parents[1] / run[1]).exists()
