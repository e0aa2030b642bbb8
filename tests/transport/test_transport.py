"""Requests and their answers: whole, cut, and reused."""

import gc
import json

import pytest
from harness import advance_until, new_id
from hostile import SSE, Hostile, framed, head, one_shot
from support.threads import together

from syncagent import Cancelled, CancelToken
from syncagent.exceptions import (
    ProtocolError,
    ProviderUnavailable,
    ResponseTooLarge,
    StreamBroken,
)
from syncagent.testing import FakeClock

SCHEMES = ["http", "https"]
#: Less than any timeout.
SOME_SECONDS = 170.0
FRAMINGS = ["chunked", "length", "close", "gzip-chunked", "gzip-close"]


def is_done(event):
    return event.data == "[DONE]"


def data_of(stream):
    return [event.data for event in stream]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("framing", ["chunked", "length", "gzip-chunked"])
def test_events_come_and_end(server, transport, scheme, framing):
    """The events of an answer, then its end, as HTTP says where that is."""
    url = server.url(f"{framing}/e/c/e/end", scheme)
    with transport.stream(url, json={}) as stream:
        assert data_of(stream) == ['{"number": 0}', '{"number": 2}']
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("framing", FRAMINGS)
def test_an_event_is_delivered_with_its_last_byte(server, transport, scheme, framing):
    """The server waits until the client has the event before it says another word."""
    url = server.url(f"{framing}/e/wait/e/wait/done/end", scheme)
    stream = transport.stream(url, json={}, is_end=is_done)
    assert next(stream).data == '{"number": 0}'
    server.go_on()
    assert next(stream).data == '{"number": 2}'
    server.go_on()
    assert next(stream).data == "[DONE]"
    stream.close()


def test_an_event_is_delivered_in_the_middle_of_a_chunk(server, transport):
    """Where a server cuts its chunks says nothing about where events end."""
    with transport.stream(server.url("chunked/e/m/wait/cut"), json={}) as stream:
        assert next(stream).data == '{"number": 0}'
        assert next(stream).data == '{"number": 1}'
    server.go_on()


# -- complete or not -------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("tail", ["cut", "h/cut"])
def test_a_cut_stream_is_broken(server, transport, scheme, framing, tail):
    """Without the end that its protocol has it is no answer; what came is delivered."""
    events = []
    with pytest.raises(StreamBroken, match=r"in the middle|before it was") as broken:
        url = server.url(f"{framing}/e/e/{tail}", scheme)
        events.extend(transport.stream(url, json={}))
    assert data_of(events) == ['{"number": 0}', '{"number": 1}']
    assert broken.value.phase == "stream"
    assert broken.value.retryable


@pytest.mark.parametrize("framing", FRAMINGS)
def test_an_end_that_the_protocol_did_not_say_is_none(server, transport, framing):
    """If there is an event for it, nothing else counts as the end."""
    url = server.url(f"{framing}/e/end")
    with pytest.raises(StreamBroken, match="before it was complete"):
        data_of(transport.stream(url, json={}, is_end=is_done))


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("tail", ["end", "cut", "h/cut", "e/end"])
def test_what_follows_the_last_event_does_no_harm(server, transport, framing, tail):
    """Once the protocol has said that this was all, a broken connection is nothing."""
    url = server.url(f"{framing}/e/done/{tail}")
    events = data_of(transport.stream(url, json={}, is_end=is_done))
    assert events[:2] == ['{"number": 0}', "[DONE]"]
    assert len(events) == 2 + (tail == "e/end")


def test_a_server_that_does_not_hang_up(server, transport):
    """After the last event nobody waits for long."""
    with FakeClock() as clock:
        url = server.url("chunked/e/done/stall", id="chatty")
        stream = transport.stream(url, json={}, is_end=is_done)
        assert next(stream).data == '{"number": 0}'
        assert next(stream).data == "[DONE]"
        server.wait_for(reached="chatty")
        began, left = clock.now(), []
        together(
            lambda: left.append(data_of(stream)),
            lambda: advance_until(clock, lambda: left, step=0.1),
        )
        server.wait_for(gone="chatty")
        assert clock.now() - began < SOME_SECONDS


@pytest.mark.parametrize("path", ["chunked/end", "length/c/end", "close/cut"])
def test_an_answer_without_events_is_broken(server, transport, path):
    """If an end was to come, its absence is told as such."""
    with pytest.raises(StreamBroken, match="before its first event"):
        data_of(transport.stream(server.url(path), json={}, is_end=is_done))


@pytest.mark.parametrize("kind", ["application/json", "text/html; charset=utf-8"])
@pytest.mark.parametrize("status", ["200", "201"])
def test_something_else_than_a_stream(server, transport, kind, status):
    """JSON or a page in place of events is an error that shows what came."""
    path = f"status/{status}/length/json/end"
    with pytest.raises(ProtocolError, match="in place of a stream") as error:
        list(transport.stream(server.url(path, **{"Content-Type": kind}), json={}))
    assert error.value.body == '{"error": {"message": "no"}}'
    assert error.value.status == int(status)


def test_events_under_another_name(server, transport):
    """A server may not know the right content type, as long as it sends events."""
    url = server.url("chunked/e/end", **{"Content-Type": "text/plain"})
    assert data_of(transport.stream(url, json={})) == ['{"number": 0}']


# -- requests --------------------------------------------------------------------------


def test_what_is_sent(server, transport):
    """A body as an object or as bytes, headers, and what a stream asks for."""
    reply = transport.post(
        server.url("echo"), json={"a": [1, "ü"]}, headers={"X-A": "b"}
    )
    known = reply.json()
    assert known["body"].encode("latin-1").decode() == '{"a":[1,"ü"]}'
    assert known["headers"]["content-type"] == "application/json"
    assert known["headers"]["x-a"] == "b"
    assert known["headers"]["user-agent"].startswith("syncagent/")
    assert reply.headers["content-type"] == "application/json"
    assert transport.post(server.url("echo"), data=b"raw").json()["body"] == "raw"
    with pytest.raises(TypeError, match="not both"):
        transport.post(server.url("echo"), json={}, data=b"")


def test_streams_are_not_to_be_compressed(server, transport):
    """What compresses on the way also holds back."""
    with pytest.raises(ProtocolError) as error:  # it is no stream, but it shows
        list(transport.stream(server.url("echo"), json={}))
    headers = json.loads(error.value.body)["headers"]
    assert headers["accept-encoding"] == "identity"
    assert headers["accept"] == "text/event-stream"


@pytest.mark.parametrize("framing", FRAMINGS)
def test_an_answer_that_is_no_stream(server, transport, framing):
    """It is read whole, decoded, whatever its framing."""
    reply = transport.post(server.url(f"{framing}/e/e/end"), json={})
    assert reply.body == b'data: {"number": 0}\n\ndata: {"number": 1}\n\n'
    assert reply.status == 200


@pytest.mark.parametrize("framing", ["chunked", "length", "gzip-chunked"])
def test_an_answer_that_is_cut(server, transport, framing):
    """Where HTTP says that something is missing, it is."""
    with pytest.raises(StreamBroken):
        transport.post(server.url(f"{framing}/e/cut"), json={})


def test_an_answer_that_is_not_json(server, transport):
    """The error says so; what it is instead is in the reply."""
    reply = transport.post(server.url("length/e/end"), json={})
    with pytest.raises(ProtocolError, match="not JSON") as error:
        reply.json()
    assert (error.value.status, error.value.url) == (200, reply.url)
    assert reply.body.startswith(b'data: {"number": 0}')


def test_the_request_is_made_when_the_first_event_is_asked_for(server, transport):
    """A stream that nobody reads costs nothing."""
    stream = transport.stream("http://127.0.0.1:1/", json={})
    assert stream.status is None
    assert stream.request_id is None
    assert stream.headers == {}
    stream.close()
    assert list(stream) == []


# -- connections -----------------------------------------------------------------------


def connection_of(transport, server, scheme="http"):
    return transport.post(server.url("echo", scheme), json={}).json()["connection"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_connection_is_used_again(server, transport, scheme):
    """After answers, streams, errors, and streams that are left at their end."""
    first = connection_of(transport, server, scheme)
    transport.post(server.url("chunked/e/end", scheme), json={})
    list(transport.stream(server.url("chunked/e/end", scheme), json={}))
    with pytest.raises(ProviderUnavailable):
        transport.post(server.url("status/500/length/e/end", scheme), json={})
    url = server.url("chunked/e/done/end", scheme)
    with transport.stream(url, json={}, is_end=is_done) as stream:
        for event in stream:
            if is_done(event):
                break
    assert connection_of(transport, server, scheme) == first


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_connection_is_not_used_again(server, transport, scheme):
    """After a cancel, and when an answer was left before its end."""
    first = connection_of(transport, server, scheme)
    with transport.stream(server.url("chunked/e/e/end", scheme), json={}) as stream:
        next(stream)
    second = connection_of(transport, server, scheme)
    assert second != first
    token = CancelToken()
    stream = transport.stream(
        server.url("chunked/e/e/end", scheme), token=token, json={}
    )
    next(stream)
    token.cancel()
    with pytest.raises(Cancelled):
        next(stream)
    assert connection_of(transport, server, scheme) not in (first, second)


def test_a_dropped_stream_closes_its_connection(server, transport):
    """Nobody has to call close(): what is collected hangs up."""
    stream = transport.stream(server.url("chunked/e/stall", id="dropped"), json={})
    next(stream)
    server.wait_for(reached="dropped")
    gc.disable()
    try:
        del stream
        server.wait_for(gone="dropped")
    finally:
        gc.enable()


def test_a_cancelled_token_makes_no_request(server, transport):
    """Promise 6: nothing starts."""
    token, phases = CancelToken(), []
    token.cancel()
    options = {"token": token, "json": {}, "on_phase": phases.append}
    with pytest.raises(Cancelled):
        transport.post("http://127.0.0.1:1/", **options)
    with pytest.raises(Cancelled):
        next(transport.stream("http://127.0.0.1:1/", **options))
    assert phases == []


def test_phases_are_told_in_order(server, transport):
    """Who wants to know where a call is learns it."""
    phases = []
    url = server.url("chunked/e/e/end", "https")
    list(transport.stream(url, json={}, on_phase=phases.append))
    new = ["resolve", "connect", "handshake", "send", "headers"]
    assert phases == [*new, "first event", "stream"]
    phases.clear()
    transport.post(server.url("ok", "https"), json={}, on_phase=phases.append)
    assert phases == ["send", "headers", "body"]


@pytest.mark.parametrize(
    "stop", [KeyboardInterrupt, SystemExit, MemoryError, ValueError]
)
def test_other_exceptions_go_through(server, transport, stop):
    """What is raised into the call, or by those it calls, is not its failure."""

    def raise_it(phase):
        if phase == "headers":
            raise stop

    with pytest.raises(stop):
        transport.post(server.url("ok"), json={}, on_phase=raise_it)
    assert transport.post(server.url("ok"), json={}).status == 200


def test_a_cancel_holds_back_what_is_in_our_hands(server, transport):
    """Of many events that came at once none is delivered after it."""
    token, seen = CancelToken(), []
    with pytest.raises(Cancelled):
        for event in transport.stream(
            server.url("many/1000/1000"), token=token, json={}
        ):
            seen.append(event)
            token.cancel()
    assert len(seen) == 1


def test_another_thread_may_close_a_stream(server, transport):
    """The one that reads is told, and the token is not touched."""
    token, identity = CancelToken(), new_id()
    stream = transport.stream(
        server.url("chunked/e/stall", id=identity), token=token, json={}
    )

    def read():
        with pytest.raises(Cancelled) as stop:
            list(stream)
        assert stop.value.origin == "closed"

    together(read, lambda: (server.wait_for(reached=identity), stream.close()))
    server.wait_for(gone=identity)
    assert not token.cancelled


@pytest.mark.parametrize("rest", [b"data: b", b"data: b\n", b"event: x\r"])
def test_an_event_that_has_begun_must_end(rest):
    """HTTP may call it complete; it is not."""
    with Hostile(framed(b"data: a\n\n" + rest, SSE)) as server:
        with pytest.raises(StreamBroken):
            list(one_shot().stream(server.url()))


def test_a_comment_at_the_end_is_no_event():
    """Nor is a line that is empty."""
    with Hostile(framed(b"data: a\n\n: bye\n", SSE)) as server:
        assert len(list(one_shot().stream(server.url()))) == 1


def test_json_that_ends_with_its_connection_must_be_whole():
    """Only the text itself can tell that."""
    kind = head("Content-Type: application/json\r\n")
    with Hostile([kind, b'{"a": [1, 2', None]) as server:
        with pytest.raises(StreamBroken, match="before it was complete"):
            one_shot().post(server.url())
    with Hostile([kind, b'{"a": [1, 2]}', None]) as server:
        assert one_shot().post(server.url()).json() == {"a": [1, 2]}


def test_a_request_without_content(server):
    """It has none, as in requests; the headers of the answer are as there, too."""
    reply = one_shot().post(server.url("echo"))
    assert (reply.json()["size"], reply.headers["content-TYPE"]) == (
        0,
        "application/json",
    )


@pytest.mark.parametrize("path", ["length/big/end", "gzip-length/big/end"])
@pytest.mark.parametrize("size", [999, 1_000_000])
def test_an_answer_has_a_size_that_it_may_have(server, path, size):
    """Unpacked; be it read as a whole or as a stream."""
    transport = one_shot(max_response_bytes=size)
    with pytest.raises(ResponseTooLarge, match=f"more than {size} bytes"):
        transport.post(server.url(path))
    with pytest.raises(ResponseTooLarge, match=f"more than {size} bytes"):
        list(transport.stream(server.url(path)))


def test_the_phase_is_that_of_a_stream_once_it_has_begun(server):
    """Also while the first events are with the caller."""
    phases = []
    stream = one_shot().stream(server.url("chunked/e/end"), on_phase=phases.append)
    next(stream)
    assert phases[-1] == "stream"
    stream.close()
