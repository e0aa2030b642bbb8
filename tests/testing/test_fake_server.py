"""A server that does what a script says."""

import json
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
import requests

from syncagent.testing import (
    Broken,
    Comment,
    Delay,
    Drop,
    FakeServer,
    Gate,
    ScriptedResponse,
    Send,
    Split,
    Stall,
    say,
)

PAYLOAD = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
}


WHOLE = {**PAYLOAD, "stream": False}
KEYS = {
    "Authorization": "Bearer k",
    "x-api-key": "k",
    "x-goog-api-key": "k",
    "anthropic-version": "2023-06-01",
}
PATHS = {
    "/chat/completions": "Authorization",
    "/responses": "Authorization",
    "/messages": "x-api-key",
    "/models/m:generateContent": "x-goog-api-key",
    "/models/m:streamGenerateContent": "x-goog-api-key",
}


def post(server, payload=PAYLOAD, path="/chat/completions", headers=KEYS, **options):
    url = server.base_url + path
    return requests.post(url, json=payload, headers=headers, timeout=20, **options)


def connect(server):
    """Return a socket, and what a client would send over it."""
    address = urlsplit(server.base_url)
    body = json.dumps(PAYLOAD)
    head = "POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer k\r\n"
    text = f"{head}Content-Length: {len(body)}\r\n\r\n{body}"
    sock = socket.create_connection((address.hostname, address.port), timeout=20)
    return sock, text.encode()


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
    """Both are said; what is added later is said to the next who asks."""
    with FakeServer() as server:
        over = post(server)
        assert over.status_code == 501
        assert over.json()["error"]["message"] == "the script is over"
        assert post(server, path="/nothing").status_code == 404
        server.add("more")
        assert post(server).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_who_has_no_key_is_not_answered(path):
    """Status 401 in the form of the provider, before anything else is looked at."""
    headers = {name: key for name, key in KEYS.items() if name != PATHS[path]}
    with FakeServer(["Hi"]) as server:
        told = post(server, {}, path, headers)
        assert told.status_code == 401
        assert "API key" in told.json()["error"]["message"]
        assert post(server, {}, path).status_code == 400


def test_a_key_is_more_than_a_scheme():
    """An empty one is none."""
    with FakeServer(["Hi"]) as server:
        assert post(server, headers={"Authorization": "Bearer "}).status_code == 401


def test_anthropic_wants_to_know_the_version():
    """Status 400 without the header."""
    headers = {"x-api-key": "k"}
    with FakeServer(["Hi"]) as server:
        told = post(server, {**WHOLE, "max_tokens": 9}, "/messages", headers)
        assert told.status_code == 400
        assert "anthropic-version" in told.json()["error"]["message"]
        assert post(server, {**WHOLE, "max_tokens": 9}, "/messages").ok


@pytest.mark.parametrize("payload", [PAYLOAD, WHOLE])
@pytest.mark.parametrize("entry", [42, ScriptedResponse("no message")])
def test_what_it_cannot_answer(entry, payload):
    """Status 500 and the reason; the connection lives on."""
    with FakeServer([entry, "ok"]) as server, requests.Session() as session:
        url = server.base_url + "/chat/completions"
        told = session.post(url, json=payload, headers=KEYS, timeout=20)
        assert told.status_code == 500
        assert "the fake server failed" in told.json()["error"]["message"]
        assert session.post(url, json=payload, headers=KEYS, timeout=20).ok


def test_it_listens_inside_a_with_alone():
    """Who wants its address before is told, and nobody hangs."""
    server = FakeServer(["Hi"])
    with pytest.raises(RuntimeError, match="with FakeServer"):
        assert server.base_url
    server.close()
    with FakeServer() as server, pytest.raises(RuntimeError, match="once"):
        server.__enter__()


@pytest.mark.parametrize(
    "acts", [[Split(3), Comment("hm", 2), Send()], [Delay(0.01), Send(1), Send()]]
)
def test_acts(acts):
    """Whatever is done to it, the answer is the same; comments come between."""
    with FakeServer([say("Hello", acts=acts)]) as server:
        text = post(server).text
    assert text.count(": hm") == 2 * any(isinstance(act, Comment) for act in acts)
    assert text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    "acts", [[Send(2)], [Split(3)], [Send(2), Drop()], [Send(2), Broken()]]
)
def test_an_answer_that_is_no_stream_is_cut_too(acts):
    """In the middle of the document."""
    with FakeServer([say("Hello", acts=acts)]) as server:
        with post(server, WHOLE, stream=True) as response:
            assert response.status_code == 200
            begin = response.raw.read(1)
            with pytest.raises(requests.exceptions.ChunkedEncodingError):
                assert response.content
    assert begin == b"{"


def test_acts_of_an_answer_that_is_no_stream():
    """All of it comes, and no comment."""
    acts = [Split(3), Comment("hm"), Send(1), Delay(0.01), Send()]
    with FakeServer([say("Hello", acts=acts)]) as server:
        told = post(server, WHOLE).json()
    assert told["choices"][0]["message"]["content"] == "Hello"


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


def test_a_stall_before_headers():
    """Nothing at all comes until the gate is opened, and then the whole answer."""
    gate = Gate()
    acts = [Stall(gate, before_headers=True), Send()]
    with FakeServer([say("Hello", acts=acts)]) as server:
        sock, request = connect(server)
        with sock:
            sock.sendall(request)
            gate.wait_reached()
            sock.setblocking(False)
            with pytest.raises(BlockingIOError):
                sock.recv(1)
            gate.open()
            sock.settimeout(20)
            assert sock.recv(20).startswith(b"HTTP/1.1 200")


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


@pytest.mark.parametrize("payload", [PAYLOAD, WHOLE])
def test_who_hangs_up_at_a_gate_is_noted_at_once(payload):
    """The gate stays shut."""
    gate = Gate()
    acts = [Send(1), Stall(gate), Send()]
    with FakeServer([say("Hello", acts=acts)]) as server:
        with post(server, payload, stream=True):
            gate.wait_reached()
        server.wait_for_hang_up(timeout=5)


def test_who_sends_more_has_not_hung_up():
    """The next request waits until the answer before it is complete."""
    acts = [Send(1), Delay(0.2), Send()]
    with FakeServer([say("Hello", acts=acts), "again"]) as server:
        sock, request = connect(server)
        with sock, sock.makefile("rb") as file:
            sock.sendall(request)
            assert file.readline().startswith(b"HTTP/1.1 200")
            sock.sendall(request)
            for _ in range(2):
                assert b"0\r\n" in iter(file.readline, b"")
        assert server.hang_ups == []


def test_who_hangs_up_is_noted_where_poll_knows_less():
    """Without ``POLLRDHUP``, which not every system has."""
    code = """
import select
vars(select).pop("POLLRDHUP", None)
import test_fake_server
test_fake_server.test_who_hangs_up_is_noted()
test_fake_server.test_who_sends_more_has_not_hung_up()
"""
    folder = __file__.rpartition("/")[0]
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=60)


def test_nobody_hangs_up():
    """Who waits for it is told."""
    with FakeServer() as server, pytest.raises(TimeoutError, match="only 0"):
        server.wait_for_hang_up(timeout=0.01)
