"""Responses of any method and status, read as bytes or as events."""

import gc
import json
import threading

import pytest
from harness import advance_until, new_id
from hostile import SSE, Hostile, framed, head, one_shot
from support.threads import LONG, meanwhile

from syncagent import Cancelled, CancelToken, exceptions
from syncagent.cancel import Alarm
from syncagent.testing import FakeClock
from syncagent.transport import Timeouts, Transport
from syncagent.transport.slow_auth import SlowAuth

JSON = "Content-Type: application/json\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
QUIET = Timeouts(first_event=None, stall=None, total=None)


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def open_at(server, method="POST", transport=None, **options):
    """Open a response of a hostile server."""
    return (transport or one_shot()).open(method, server.url(), **options)


def connection_of(transport, server, scheme="http"):
    with transport.open("GET", server.url("echo", scheme)) as response:
        return json.loads(response.read())["connection"]


# -- heads and bodies ------------------------------------------------------------------


def test_a_json_response():
    """Status, headers and media type come first, then the whole body."""
    kind = "Content-Type: Application/JSON; charset=utf-8\r\nMcp-Session-Id: s1\r\n"
    with Hostile(framed(b'{"a": 1}', kind)) as server:
        with open_at(server, json={"b": 2}) as response:
            assert response.status == 200
            assert response.headers["mcp-session-id"] == "s1"
            assert response.media_type == "application/json"
            assert not response.is_event_stream
            assert response.read() == b'{"a": 1}' == response.read()
            assert (response.last_event_id, response.retry) == ("", None)


def test_a_stream_of_events():
    """The same request may be answered by events; ids and delay outlive the stream."""
    body = chunk(b"id: 1\nretry: 20\ndata:\n\n") + chunk(b"data: a\n\nid: 2\n\n")
    with Hostile(head(SSE + CHUNKED) + body + b"0\r\n\r\n") as server:
        with open_at(server, json={}) as response:
            assert response.is_event_stream
            events = [(event.data, event.id) for event in response.events()]
            assert events == [("", "1"), ("a", "1")]
            assert (response.last_event_id, response.retry) == ("2", 20)


@pytest.mark.parametrize("status", ["202 Accepted", "204 No Content"])
def test_no_body(status):
    """A response without a body costs its connection nothing, read or not."""
    answer = head("", status) if "204" in status else framed(b"", "", status)
    with Hostile(answer) as server:
        for _ in range(2):
            with open_at(server, json={}) as response:
                assert response.status == int(status[:3])
            with open_at(server, json={}) as response:
                assert response.read() == b""
        assert len(server.connections) == 1


def test_an_error_is_a_response_like_any_other():
    """Its body is whole, however long, and its headers are there."""
    body = b"x" * 100_000
    with Hostile(framed(body, "X-Why: gone\r\n", "404 Not Found")) as server:
        with open_at(server, "DELETE") as response:
            assert (response.status, response.headers["x-why"]) == (404, "gone")
            assert response.read() == body
    with Hostile(framed(b"", "Retry-After: 0\r\n", "503 Busy")) as server:
        with open_at(server, transport=Transport(retries=3), json={}) as response:
            assert response.status == 503
        assert len(server.heads) == 1


class Numbered(SlowAuth):
    """Credentials that could be renewed."""

    def ask(self):
        return f"Bearer number-{self.renewals}"

    def add(self, request, values):
        request.headers["Authorization"] = values
        return request

    def refresh(self):
        return True

    @property
    def secrets(self):
        return ()


@pytest.mark.parametrize("auth", [None, Numbered()])
def test_a_refusal_is_the_callers_business(auth):
    """401 is no reason to send a request again: its header says what to do."""
    challenge = 'WWW-Authenticate: Bearer resource_metadata="http://x/"\r\n'
    with Hostile(framed(b"{}", JSON + challenge, "401 Unauthorized")) as server:
        with open_at(server, auth=auth, json={}) as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"].startswith("Bearer resource")
            with pytest.raises(exceptions.ProtocolError, match="401 with application"):
                list(response.events())
        assert len(server.heads) == 1
        assert auth is None or "Bearer number-0" in server.heads[0]
    assert auth is None or auth.renewals == 0


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_methods(method):
    """A request without a body has none, and a GET no length either."""
    with Hostile(framed(b"{}")) as server:
        open_at(server, json={}).close()  # another request to the same address
        with open_at(server, method, headers={"accept": "text/event-stream"}) as opened:
            assert opened.read() == b"{}"
        [_, sent] = server.heads
    assert sent.startswith(f"{method} / HTTP/1.1\r\n")
    fields = dict(line.lower().split(": ") for line in sent.splitlines()[1:])
    assert fields["accept"] == "text/event-stream"
    assert "content-type" not in fields
    assert fields.get("content-length") == (None if method == "GET" else "0")


def test_headers_of_a_post():
    """By default both kinds are accepted, and nothing is compressed or held back."""
    with Hostile(framed(b"", "Set-Cookie: a=b\r\n")) as server:
        transport = one_shot()
        open_at(server, transport=transport, json={}).close()
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        open_at(server, transport=transport, data=b"a=1", headers=form).close()
        first, second = server.heads
    assert "Accept: application/json, text/event-stream\r\n" in first
    assert "Accept-Encoding: identity\r\n" in first
    assert "Content-Type: application/json\r\n" in first
    assert "Content-Type: application/x-www-form-urlencoded\r\n" in second
    assert "cookie" not in second.lower()


def test_redirects_are_refused():
    """The token of a server goes to no other; 304 without an address is a status."""
    with Hostile(framed(b"", "Location: http://evil/\r\n", "307 x")) as server:
        with pytest.raises(exceptions.RedirectRefused) as refused:
            open_at(server, json={})
        assert refused.value.location == "evil"
    with Hostile(head("", "304 Not Modified")) as server:
        with open_at(server, "GET") as response:
            assert response.status == 304


def test_requests_that_are_never_sent():
    """An unknown method, plain HTTP to another machine, a limit of nothing."""
    for wrong in ("get", "CONNECT", "GET / HTTP/1.1\r\nX: y"):
        with pytest.raises(exceptions.ConfigurationError, match="must be one of"):
            one_shot().open(wrong, "http://127.0.0.1:1/")
    with pytest.raises(exceptions.ConfigurationError, match="https"):
        one_shot().open("GET", "http://example.com/")
    with pytest.raises(exceptions.ConfigurationError, match="max_bytes"):
        one_shot().open("GET", "http://127.0.0.1:1/", max_bytes=0)


def test_a_body_is_read_in_one_way():
    """Bytes or events; and a response that is over has nothing to read."""
    with Hostile(framed(b"data: a\n\n", SSE)) as server:
        with open_at(server, json={}) as response:
            assert response.read() == b"data: a\n\n"
            with pytest.raises(RuntimeError, match="not both"):
                list(response.events())
        with open_at(server, json={}) as response:
            response.finish()
            with pytest.raises(RuntimeError, match="is over"):
                response.read()


# -- failures --------------------------------------------------------------------------


def test_a_huge_body_is_refused():
    """The limit is that of the call, or of the transport."""
    with Hostile(framed(bytes(2000), JSON)) as server:
        limit = {"max_bytes": 1999}
        for settings, options in (({"max_response_bytes": 1999}, {}), ({}, limit)):
            transport = one_shot(**settings)
            with open_at(server, transport=transport, json={}, **options) as response:
                with pytest.raises(exceptions.ResponseTooLarge, match="1999"):
                    response.read()


def test_a_stream_of_events_has_no_limit_of_its_own(server):
    """A stream may live for days; each event has its limit."""
    transport = one_shot(max_response_bytes=1000, max_event_bytes=500_000)
    with transport.open("GET", server.url("many/1000/10")) as response:
        assert sum(1 for _ in response.events()) == 1000
    with transport.open("GET", server.url("chunked/e/big/stall")) as response:
        with pytest.raises(exceptions.ResponseTooLarge, match="500000"):
            list(response.events())


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_a_cut_stream_is_broken(server, transport, framing):
    """Its events were delivered, and the client knows where to go on."""
    seen = []
    with transport.open("GET", server.url(f"{framing}/e/e/h/cut")) as response:
        with pytest.raises(exceptions.StreamBroken):
            seen.extend(response.events())
    assert len(seen) == 2


@pytest.mark.parametrize(
    "answer",
    [
        [framed(b'{"a": 1}', JSON)[:-2], None],
        [head(JSON + CHUNKED), b'8\r\n{"a"', None],
        [head(JSON), b'{"a"', None],
    ],
    ids=["length", "chunked", "close"],
)
def test_a_cut_body_is_broken(answer):
    """Half an answer is none."""
    with Hostile(answer) as server:
        with open_at(server, json={}) as response:
            with pytest.raises(exceptions.StreamBroken):
                response.read()


def test_a_server_that_hangs_up():
    """Without a response the error says so at once; the request was sent once."""
    with Hostile(None) as server:
        with pytest.raises(exceptions.ConnectionFailed) as failed:
            open_at(server, transport=Transport(retries=3), json={})
        assert failed.value.phase == "headers"
        assert len(server.heads) == 1


def test_session_ids_are_secret():
    """No error of the transport shows one, even if the server repeats it."""
    with Hostile(framed(b"no session 8ee9-1234-5678", "", "404 x")) as server:
        session = {"Mcp-Session-Id": "8ee9-1234-5678"}
        with open_at(server, headers=session, json={}) as response:
            with pytest.raises(exceptions.ProtocolError, match="no session") as error:
                list(response.events())
    assert "8ee9" not in str(error.value) + error.value.body


# -- connections -----------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_connection_is_used_again(server, transport, scheme):
    """After JSON, after events read to their end, and after those that suffice."""
    first = connection_of(transport, server, scheme)
    with transport.open("GET", server.url("chunked/e/end", scheme)) as response:
        assert len(list(response.events())) == 1
    with transport.open("GET", server.url("chunked/e/c/end", scheme)) as response:
        next(response.events())
        response.finish()
    with transport.open("GET", server.url("status/202/length/e/end", scheme)) as opened:
        opened.finish()
    assert connection_of(transport, server, scheme) == first


def test_a_stream_that_is_left_is_closed(server, transport):
    """Its connection belongs to nobody else; finish() waits for its end no longer."""
    first = connection_of(transport, server)
    for leave in ("close", "finish"):
        identity = new_id()
        url = server.url("chunked/e/stall", id=identity)
        with transport.open("GET", url) as response:
            next(response.events())
            getattr(response, leave)()
            server.wait_for(gone=identity)
    assert connection_of(transport, server) != first


def test_a_forgotten_response_hangs_up(server, transport):
    """No collector has to come by."""
    identity = new_id()
    response = transport.open("GET", server.url("chunked/e/stall", id=identity))
    next(response.events())
    gc.disable()
    try:
        del response
        server.wait_for(gone=identity)
    finally:
        gc.enable()


# -- time ------------------------------------------------------------------------------


def test_comments_only_for_a_month(server, transport):
    """Without limits a stream is awaited for as long as its server likes."""
    with FakeClock() as clock:
        url, seen = server.url("chunked/c/c/wait/c/e/wait/e/end"), []
        with transport.open("GET", url, timeouts=QUIET) as response:

            def read():
                for event in response.events():
                    seen.append(event.data)

            with meanwhile(read):
                for expected in (0, 1):
                    clock.advance(30 * 86400)
                    assert len(seen) == expected
                    server.go_on()
                    advance_until(clock, lambda n=expected: len(seen) > n, 86400)
        assert len(seen) == 2


def test_comments_are_no_events(server, transport):
    """The stall timeout passes although the server sends comments."""
    with FakeClock() as clock:
        timeouts, ended = Timeouts(stall=30, total=None), threading.Event()
        url = server.url("chunked/e/comments", id=new_id())
        with transport.open("GET", url, timeouts=timeouts) as response:

            def read():
                with pytest.raises(exceptions.StallTimeout, match="30 s"):
                    list(response.events())
                ended.set()

            with meanwhile(read):
                advance_until(clock, ended.is_set)


def pass_time(clock, seconds):
    """Let fake time pass, and every alarm ring that is due."""
    rang = threading.Event()
    last = CancelToken(timeout=seconds)
    last.on_cancel(lambda *_: rang.set())
    clock.advance(seconds)
    assert rang.wait(LONG)


def test_the_callers_time_is_its_own(server, transport):
    """Neither before the first read nor between events does a timeout pass."""
    with FakeClock() as clock:
        url = server.url("chunked/e/e/end")
        short = Timeouts(headers=5, first_event=5, stall=5, total=None)
        with transport.open("GET", url, timeouts=short) as response:
            pass_time(clock, 3600)
            for _ in response.events():
                pass_time(clock, 3600)
        with transport.open("GET", url, timeouts=short) as response:
            pass_time(clock, 3600)
            assert response.read()


def test_a_rule_of_the_callers_own(server, transport):
    """An alarm on a child token ends a silent stream, unless it is set anew."""
    with FakeClock() as clock:
        token = CancelToken()
        child, ended = token.child(), threading.Event()
        alarm = Alarm(child)
        alarm.set(30, "idle")
        identity = new_id()
        url = server.url("chunked/e/comments", id=identity)

        def read():
            with pytest.raises(Cancelled, match="idle") as stop:
                with transport.open("GET", url, token=child, timeouts=QUIET) as opened:
                    list(opened.events())
            assert stop.value.origin == "deadline"
            ended.set()

        with meanwhile(read):
            server.wait_for(reached=identity)
            for _ in range(10):
                clock.advance(20)
                alarm.set(30, "idle")
            assert not child.cancelled
            advance_until(clock, ended.is_set)
        assert not token.cancelled


def test_a_request_after_a_cancel(server, transport):
    """A last word needs a token of its own: the run's is cancelled, and stays so."""
    run = CancelToken()
    identity = new_id()
    url = server.url("chunked/e/stall", id=identity)
    with pytest.raises(Cancelled) as stop:
        with transport.open("POST", url, token=run, json={}) as response:
            for _ in response.events():
                run.cancel("enough")
    assert stop.value.origin == "user"
    server.wait_for(gone=identity)
    with pytest.raises(Cancelled):
        transport.open("POST", server.url("ok"), token=run, json={})
    last = CancelToken(timeout=2)
    with transport.open("POST", server.url("ok"), token=last, json={}) as response:
        assert (response.status, response.read()) == (200, b"{}")
    assert run.cancelled


def test_a_last_word_has_a_budget(server, transport):
    """A server that never takes it costs two seconds, and no more."""
    with FakeClock() as clock:
        run, identity = CancelToken(), new_id()
        run.cancel()

        def say():
            url = server.url("silent", id=identity)
            with pytest.raises(Cancelled) as stop:
                transport.open("POST", url, token=CancelToken(timeout=2), json={})
            assert stop.value.origin == "deadline"

        with meanwhile(say):
            server.wait_for(reached=identity)
            clock.advance(2)
        server.wait_for(gone=identity)


# -- other threads ---------------------------------------------------------------------


@pytest.mark.parametrize("way", ["events", "read"])
def test_another_thread_may_close_it(server, transport, way):
    """The one that reads is told, and the token is not touched."""
    token, identity = CancelToken(), new_id()
    url = server.url("chunked/e/stall", id=identity)
    response = transport.open("GET", url, token=token)

    def read():
        with pytest.raises(Cancelled) as stop:
            list(getattr(response, way)())
        assert stop.value.origin == "closed"

    with meanwhile(read):
        server.wait_for(reached=identity)
        response.close()
    server.wait_for(gone=identity)
    assert not token.cancelled


def test_a_close_between_events_is_no_end(server, transport):
    """A reader that was not inside at that moment learns of it, too."""
    response = transport.open("GET", server.url("chunked/e/e/end"))
    events = response.events()
    assert next(events).data
    with meanwhile(response.close):
        pass
    with pytest.raises(Cancelled) as stop:
        next(events)
    assert stop.value.origin == "closed"
    response.close()


def test_a_close_after_the_end_changes_nothing(server, transport):
    """All was read: there is nothing to be told."""
    with transport.open("GET", server.url("ok")) as response:
        body = response.read()
    assert response.read() == body == b"{}"
    with transport.open("GET", server.url("chunked/e/end")) as response:
        assert len(list(response.events())) == 1
    assert list(response.events()) == []


@pytest.mark.parametrize("other", ["close", "cancel"])
def test_the_last_moment_of_a_response_can_be_cut_short(server, transport, other):
    """finish() ends at once and raises nothing: its caller has the answer."""
    with FakeClock():  # the moment itself never passes
        token, identity = CancelToken(), new_id()
        url = server.url("chunked/e/stall", id=identity)
        response = transport.open("GET", url, token=token)
        next(response.events())
        ended = threading.Event()
        with meanwhile(lambda: (response.finish(), ended.set())):
            server.wait_for(reached=identity)
            assert not ended.wait(0.01)
            (response.close if other == "close" else token.cancel)()
            assert ended.wait(LONG)
        server.wait_for(gone=identity)


@pytest.mark.parametrize("number", [30, pytest.param(2000, marks=pytest.mark.stress)])
def test_a_close_at_any_moment(server, transport, number):
    """Whatever the reader is doing then, it gets Cancelled, and no other outcome."""
    for turn in range(number):
        url = server.url("chunked/flow", id="quiet-" + new_id())
        response, begun, seen = transport.open("GET", url), threading.Event(), []

        def read(response=response, begun=begun, seen=seen, turn=turn):
            with pytest.raises(Cancelled) as stop:
                for event in response.events():
                    seen.append(event)
                    if len(seen) > turn % 50:
                        begun.set()
            assert stop.value.origin == "closed"

        with meanwhile(read):
            assert begun.wait(LONG)
            response.close()
