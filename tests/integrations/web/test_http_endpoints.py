"""The endpoints as clients see them, through a real server."""

import json
from contextlib import closing
from http.client import HTTPConnection

import pytest
from support.threads import LONG
from support.web.servers import Server, moments


def run_of(server, id, **headers):
    status, body = server.ask("GET", f"/runs/{id}", **headers)
    assert status == 200, body
    return json.loads(body)


def wait_for(server, id, is_so):
    """Wait until the view of a run is as wished, and return it."""
    for _ in moments():
        view = run_of(server, id)
        if is_so(view):
            return view
    raise TimeoutError(view)


def error_of(answer):
    status, body = answer
    return status, json.loads(body)["error"]["code"]


# -- beginning and following -------------------------------------------------------


def test_start_as_json(gthread, fake):
    """POST /runs says where the run is, and GET /runs/<id> what has come of it."""
    view = gthread.start("hello", fake)
    assert view["is_live"] in (True, False)
    view = wait_for(gthread, view["id"], lambda view: not view["is_live"])
    assert (view["text"], view["stop_reason"]) == ("Hello.", "end_turn")
    assert view["agent"] == "tester"
    assert view["usage"]["input_tokens"] == 10


def test_start_as_a_stream(gthread, fake):
    """POST /runs with Accept: text/event-stream is the run's events, from the first."""
    with gthread.stream("hello", fake) as client:
        events = list(client.events())
        headers = client.response.headers
    assert headers["Content-Type"].startswith("text/event-stream")
    assert headers["Content-Length"] is None
    assert headers["X-Run-Id"] == events[0][2]["id"]
    names = [name for _, name, _ in events]
    assert (names[0], names[-1]) == ("run", "end")
    numbers = [number for number, _, _ in events[1:]]
    assert numbers == list(range(1, len(events)))


def test_resume(gthread, fake):
    """GET /runs/<id>/events continues after Last-Event-ID, to the last event."""
    with gthread.stream("hello", fake) as client:
        whole = list(client.events())
    id = whole[0][2]["id"]
    with gthread.follow(id, last=3) as client:
        assert list(client.events())[1:] == whole[4:]
    last = whole[-1][0]
    with gthread.follow(id, last=last) as client:
        assert client.response.status == 204
    with gthread.follow(id) as client:
        assert list(client.events())[1:] == whole[1:]


def test_two_who_follow(gthread, fake):
    """Two tabs see the same, and the run ends with the second, not the first."""
    with gthread.stream("stall", fake) as first:
        id = first.until("run")[2]["id"]
        first.until("text_delta")
        with gthread.follow(id) as second:
            second.until("text_delta")
            first.vanish()
            assert run_of(gthread, id)["is_live"]
    view = wait_for(gthread, id, lambda view: not view["is_live"])
    assert view["cancellation"]["origin"] == "disconnect"
    assert view["text"]


def test_failure(gthread, fake):
    """Issue 8: an error ends the stream with an event, and says nothing secret."""
    with gthread.stream("failure", fake) as client:
        data = client.response.read()
    for secret in (b"dbhost", b"sk-", b"Traceback", b"RequestRejected"):
        assert secret not in data
    assert b'"code":"rejected"' in data
    assert any("dbhost" in gthread.log() for _ in moments())
    assert "sk-secret" not in gthread.log()


def test_lists_are_short(gthread, fake):
    """L3: a list does not repeat the texts of all runs."""
    with gthread.stream("tool", fake, user="lister") as client:
        id = client.until("end")[2]["id"]
    status, body = gthread.ask("GET", "/runs", user="lister")
    (listed,) = json.loads(body)["runs"]
    assert (status, listed["id"], listed["stop_reason"]) == (200, id, "end_turn")
    assert not {"text", "tool_outcomes"} & listed.keys()
    view = run_of(gthread, id, user="lister")
    assert view["text"]
    assert view["tool_outcomes"]
    assert listed.items() <= view.items()


def test_too_many_streams(fake):
    """M2: one stream too many is a 429, and starts no run."""
    with Server("gunicorn-gthread", FOLLOWERS="2") as server:
        with server.stream("stall", fake) as first, server.stream("stall", fake):
            id = first.until("run")[2]["id"]
            assert any(server.state()["live"] == 2 for _ in moments())
            with server.follow(id) as third:
                assert third.response.status == 429
                assert third.response.headers["Retry-After"]
                assert b"too_many_followers" in third.response.read()
            with server.stream("stall", fake) as third:
                assert third.response.status == 429
            # They may arrive later than the runs that make them start.
            assert any(len(fake.requests) == 2 for _ in moments())
            assert server.state()["live"] == 2


# -- Stop --------------------------------------------------------------------------


def test_stop(gthread, fake):
    """Issue 8: cancel is 202 for a live run, 409 for one that has ended."""
    with gthread.stream("stall", fake) as client:
        id = client.until("run")[2]["id"]
        client.until("text_delta")
        body = {"reason": "enough"}
        status, body = gthread.ask("POST", f"/runs/{id}/cancel", body)
        assert (status, json.loads(body)["is_cancelled"]) == (202, True)
        _, _, view = client.until("end")
    assert view["stop_reason"] == "cancelled"
    assert view["cancellation"]["origin"] == "user"
    assert view["cancellation"]["reason"] == "enough"
    assert view["text"]
    status, body = gthread.ask("POST", f"/runs/{id}/cancel")
    assert (status, json.loads(body)["is_cancelled"]) == (409, False)
    fake.wait_for_hang_up()


@pytest.mark.parametrize(
    "path", ["", "/events", "/cancel", "/answers", "/calls/c/cancel"]
)
def test_foreign_runs(gthread, fake, path):
    """Issue 8: another one's run and no run at all are the same 404."""
    id = gthread.start("stall", fake)["id"]
    method = "GET" if path in ("", "/events") else "POST"
    body = {"answers": {}} if path == "/answers" else None
    said = [
        gthread.ask(method, f"/runs/{id}{path}", body, user="bert"),
        gthread.ask(method, f"/runs/{'x' * 32}{path}", body),
        gthread.ask(method, f"/runs/{'x' * 999}{path}", body),
    ]
    assert len(set(said)) == 1
    assert error_of(said[0]) == (404, "not_found")
    assert run_of(gthread, id)["is_live"]
    status, body = gthread.ask("POST", f"/runs/{id}/calls/%C3%A4%2Fb/cancel")
    assert status == 409
    assert json.loads(body) == {"id": id, "call_id": "ä/b", "is_cancelled": False}
    assert gthread.ask("POST", f"/runs/{id}/cancel")[0] == 202


def test_list(gthread, fake):
    """GET /runs has one's own runs, the newest first."""
    made = [gthread.start("hello", fake, user="carla")["id"] for _ in range(2)]
    gthread.start("hello", fake, user="bert")
    _, body = gthread.ask("GET", "/runs", user="carla")
    assert [view["id"] for view in json.loads(body)["runs"]] == made[::-1]


# -- answers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("talk", "answer", "words"),
    [
        ("approval", {"allow": True}, "launched to the moon"),
        ("approval", {"allow": False, "reason": "no fuel"}, "no fuel"),
        ("approval", {"allow": True, "arguments": {"where": "Oslo"}}, "to Oslo"),
        ("secret", {"credentials": "hunter2"}, "paid with 7 characters"),
        ("question", {"text": "the red one"}, "the red one"),
    ],
)
def test_answers(gthread, fake, talk, answer, words):
    """Questions of a run are answered over HTTP, and credentials are never echoed."""
    with gthread.stream(talk, fake) as client:
        id = client.until("run")[2]["id"]
        _, _, raised = client.until("interrupt_raised")
        asked = raised["interrupts"][0]["id"]
        view = run_of(gthread, id)
        assert [one["id"] for one in view["interrupts"]] == [asked]
        path, body = f"/runs/{id}/answers", {"answers": {asked: answer}}
        status, said = gthread.ask("POST", path, body)
        assert (status, json.loads(said)) == (200, {"answers": {asked: "taken"}})
        rest = client.response.read()
    assert words in rest.decode()
    assert b"hunter2" not in rest
    status, said = gthread.ask("POST", path, body)
    assert (status, json.loads(said)) == (409, {"answers": {asked: "over"}})


def test_answers_to_nobody(gthread, fake):
    """An answer without a question is refused, and the run keeps waiting."""
    id = gthread.start("approval", fake)["id"]
    wait_for(gthread, id, lambda view: view["interrupts"])
    path = f"/runs/{id}/answers"
    body = {"answers": {"other": {"allow": True}}}
    status, said = gthread.ask("POST", path, body)
    assert (status, json.loads(said)) == (422, {"answers": {"other": "refused"}})
    assert run_of(gthread, id)["interrupts"]
    gthread.ask("POST", f"/runs/{id}/cancel")


# -- what is refused ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b"{", {}, (400, "bad_json")),
        (b"\xff\xfe", {}, (400, "bad_json")),
        (b'{"options": {"a": ' + b"[" * 90000, {}, (400, "bad_json")),
        ({}, {}, (422, "invalid")),
        ({"prompt": 7}, {}, (422, "invalid")),
        ({"prompt": "  "}, {}, (422, "invalid")),
        ({"prompt": "hello", "admin": True}, {}, (422, "invalid")),
        ({"prompt": "hello", "conversation": "x" * 1000}, {}, (422, "invalid")),
        ({"prompt": "x" * 300_000}, {}, (413, "too_large")),
        (None, {}, (415, "not_json")),
        ({"prompt": "hello"}, {"Content-Type": "text/plain"}, (415, "not_json")),
        ({"prompt": "hello"}, {"Sec-Fetch-Site": "cross-site"}, (403, "cross_site")),
        ({"prompt": "hello"}, {"Sec-Fetch-Site": "same-site"}, (403, "cross_site")),
        ({"prompt": "hello"}, {"Origin": "http://b.test"}, (403, "cross_site")),
        ({"prompt": "hello"}, {"user": ""}, (403, "forbidden")),
    ],
)
def test_refused(gthread, fake, body, headers, expected):
    """Bodies that are too large or not JSON, other sites and strangers are refused."""
    before = gthread.wait_until_free()["runs"]
    answer = gthread.ask("POST", "/runs", body, provider=fake.base_url, **headers)
    assert error_of(answer) == expected
    assert gthread.state()["runs"] == before
    assert not fake.requests


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/runs"),
        ("POST", "/runs/abc"),
        ("GET", "/runs/abc/cancel"),
        ("GET", "/runs/abc/answers"),
        ("GET", "/runs/abc/calls/c/cancel"),
        ("PUT", "/runs/abc/events"),
    ],
)
def test_methods(gthread, method, path):
    """Issue 8: what changes something is POST, and nothing else."""
    assert error_of(gthread.ask(method, path)) == (405, "method")


def test_what_can_be_done_instead(gthread):
    """A refused method comes with those that there are, as HTTP wants it."""
    with closing(HTTPConnection("127.0.0.1", gthread.port, timeout=LONG)) as client:
        for path, allowed in (("/runs", "GET, POST"), ("/runs/abc/cancel", "POST")):
            client.request("DELETE", path)
            response = client.getresponse()
            response.read()
            assert (response.status, response.headers["Allow"]) == (405, allowed)


def test_other_paths(gthread):
    """An unknown path gives 404."""
    for path in ("/runs/a/b", "/runs//events", "/runs/%2e%2e/events", "/runsabc"):
        assert error_of(gthread.ask("GET", path)) == (404, "not_found")


# -- other settings ----------------------------------------------------------------


@pytest.mark.slow
def test_detached_and_lagging(fake):
    """With ``detach`` a run continues alone; a late client learns what it missed."""
    settings = {"ON_DISCONNECT": "detach", "BUFFER": "20"}
    with Server("gunicorn-gthread", **settings) as server:
        with server.stream("long", fake) as client:
            id = client.until("run")[2]["id"]
        view = wait_for(server, id, lambda view: not view["is_live"])
        assert view["stop_reason"] == "end_turn"
        with server.follow(id, last=1) as client:
            (_, _, lagged), *rest = list(client.events())[1:]
        assert lagged["missed"] == view["events"] - 21
        assert [n for n, _, _ in rest][-1] == view["events"] + 1


@pytest.mark.slow
def test_heartbeats(fake):
    """In silence comments are sent, so that proxies keep the connection."""
    with Server("gunicorn-gthread", HEARTBEAT="0.05") as server:
        with server.stream("silence", fake) as client:
            beats = 0
            for event in client.events():
                beats += event is None
                if beats == 3:
                    break
        server.wait_until_free()
