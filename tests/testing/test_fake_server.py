"""A server that does what a script says."""

import time

import pytest
import requests

from syncagent.testing import Comment, Delay, FakeServer, Gate, Send, Split, Stall, say

PAYLOAD = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
}


def post(server, payload=PAYLOAD, path="/chat/completions", **options):
    return requests.post(server.base_url + path, json=payload, timeout=20, **options)


def test_any_client_can_talk_to_it():
    """It is plain HTTP and server-sent events."""
    with FakeServer(["Hi"]) as server:
        said = post(server)
        assert said.headers["content-type"] == "text/event-stream"
        assert '"content":"Hi"' in said.text
        assert said.text.endswith("data: [DONE]\n\n")
        assert server.requests[0].payload == PAYLOAD


def test_what_the_provider_would_reject():
    """Status 400, in its own form; the script is not used up."""
    with FakeServer(["Hi"]) as server:
        wrong = post(server, {**PAYLOAD, "messages": []})
        assert wrong.status_code == 400
        assert "messages" in wrong.json()["error"]["message"]
        assert post(server).status_code == 200


def test_a_script_that_is_over_and_a_path_that_is_none():
    """Both are said."""
    with FakeServer() as server:
        assert "over" in post(server).json()["error"]["message"]
        assert post(server, path="/nothing").status_code == 404
        server.add("more")
        server.add("and more")
        assert post(server).status_code == 200


@pytest.mark.parametrize(
    "acts", [[Split(3), Comment("hm", 2), Send()], [Delay(0.01), Send(1), Send()]]
)
def test_acts(acts):
    """Whatever is done to it, the answer is the same; comments come between."""
    with FakeServer([say("Hello", acts=acts)]) as server:
        text = post(server).text
    assert text.count(": hm") == 2 * any(isinstance(act, Comment) for act in acts)
    assert text.endswith("data: [DONE]\n\n")


def test_a_gate_in_an_answer():
    """It goes on when the gate is opened."""
    gate = Gate()
    with FakeServer([say("Hello", acts=[Send(1), Stall(gate), Send()])]) as server:
        with post(server, stream=True) as response:
            lines = response.iter_lines()
            next(lines)
            gate.wait_reached()
            gate.open()
            assert b"data: [DONE]" in list(lines)


def test_who_hangs_up_is_noted():
    """With the time of it."""
    with FakeServer([say("Hello", acts=[Send(1), Stall()])]) as server:
        response = post(server, stream=True)
        lines = response.iter_lines()
        next(lines)
        begin = time.monotonic()
        response.close()
        server.wait_for_hang_up()
        assert begin <= server.hang_ups[0] <= time.monotonic()


def test_nobody_hangs_up():
    """Who waits for it is told."""
    with FakeServer() as server, pytest.raises(TimeoutError, match="only 0"):
        server.wait_for_hang_up(timeout=0.01)
