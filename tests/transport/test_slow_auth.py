"""Credentials that may block, and errors that are explained before a retry."""

import gc
import threading
import weakref

import pytest
import requests
from support.interrupting import interrupted
from support.raw_server import RawServer
from support.threads import LONG, together

from syncagent import CancelToken
from syncagent.exceptions import (
    AuthenticationFailed,
    ProviderUnavailable,
    RequestRejected,
)
from syncagent.testing import FakeClock, Gate
from syncagent.transport import Retries, Timeouts, Transport, close_idle
from syncagent.transport.detached import _running, call_detached
from syncagent.transport.exchange import Exchange
from syncagent.transport.prepared import Request
from syncagent.transport.slow_auth import NoCredentials, SlowAuth, sign

SOON = Retries(limit=2, first_delay=0.001)


@pytest.fixture(autouse=True)
def nothing_left():
    """No connection and no shared call outlives its test."""
    yield
    close_idle()
    assert not _running


class Counting(SlowAuth):
    """Number the keys by refreshes."""

    def __init__(self):
        super().__init__()
        self.refreshed = 0

    def ask(self):
        return f"key-number-{self.refreshed}"

    def add(self, request, values):
        request.headers["Authorization"] = values
        return request

    def refresh(self):
        self.refreshed += 1
        return True

    @property
    def secrets(self):
        return ()


def prepared():
    """Return a request without credentials."""
    return requests.Request("POST", "http://127.0.0.1:1/", data=b"{}").prepare()


def refused_with(auth):
    """Return a request with the credentials of now."""
    request = prepared()
    number = sign(auth, request, Exchange(CancelToken()))
    route = {"proxies": {}}
    return Request(request, route, open_headers={}, open_url="", renewals=number)


def test_a_renewal_that_was_done_is_not_done_again():
    """A thread may look before another's renewal ends, and begin its own after it."""
    auth = Counting()
    auth.renew(0)
    auth.renew(0)
    assert (auth.refreshed, auth.renewals) == (1, 1)


def test_an_interrupt_at_any_moment_keeps_the_credentials_usable():
    """Ctrl+C before a renewal has begun makes no other thread wait for it."""
    hits = 0
    for step in range(1, 1200, 3):
        auth = Counting()
        refused = refused_with(auth)

        def renew(auth=auth, refused=refused):
            sign(auth, prepared(), Exchange(CancelToken()), refused)

        hits += interrupted(renew, step)
        token = CancelToken(timeout=LONG)
        assert sign(auth, prepared(), Exchange(token), refused) == 1
        assert auth.refreshed == auth.renewals == 1
    assert hits > 20  # early releases of 3.13 trace few of them


def test_a_renewal_is_shared_and_not_repeated():
    """By threads that wait for it, and by one that comes later."""
    auth, gate = Counting(), Gate()
    refused, refresh = refused_with(auth), auth.refresh

    def slow_refresh():
        gate.stop_here()
        return refresh()

    auth.refresh = slow_refresh

    def renew():
        request = prepared()
        assert sign(auth, request, Exchange(CancelToken()), refused) == 1
        assert request.headers["Authorization"] == "key-number-1"

    together(*[renew] * 10, lambda: (gate.wait_reached(), gate.open()))
    renew()
    assert auth.refreshed == 1


def test_a_failed_renewal_is_everybodys_and_not_kept():
    """Each thread has an error of its own, with the same cause."""
    auth, gate, errors = Counting(), Gate(), []
    refused, refresh = refused_with(auth), auth.refresh

    def failing_refresh():
        gate.stop_here()
        raise NoCredentials("no network") from OSError("cable")

    auth.refresh = failing_refresh

    def renew():
        with pytest.raises(AuthenticationFailed, match="no network") as caught:
            sign(auth, prepared(), Exchange(CancelToken()), refused)
        errors.append(caught.value)

    waiting = threading.Barrier(6)

    def wait_and_renew():
        waiting.wait(LONG)
        renew()

    def open_gate():
        waiting.wait(LONG)
        gate.wait_reached()
        gate.open()

    together(*[wait_and_renew] * 5, open_gate)
    assert len(set(map(id, errors))) == 5
    assert all(isinstance(error.__cause__, OSError) for error in errors)
    auth.refresh = refresh
    assert sign(auth, prepared(), Exchange(CancelToken()), refused) == 1


def test_the_connection_has_a_clock_of_its_own():
    """A slow function leaves the connection all of the connect timeout."""
    with FakeClock() as clock:
        exchange = Exchange(CancelToken(), timeouts=Timeouts(connect=10))

        class Slow(Counting):
            def ask(self):
                clock.advance(9)
                return super().ask()

        sign(Slow(), prepared(), exchange)
        exchange.enter("resolve")
        due, reason = exchange._alarm._due
        assert (due - clock.now(), reason) == (10, "resolve")
        exchange.close()


def test_an_error_without_credentials_is_in_no_cycle():
    """It is freed with its last reference."""

    class Failing(Counting):
        def ask(self):
            raise NoCredentials("none") from OSError("cable")

    def fail():
        try:
            sign(Failing(), prepared(), Exchange(CancelToken()))
        except AuthenticationFailed as error:
            return weakref.ref(error)
        raise AssertionError("no error")

    gc.disable()
    try:
        assert fail()() is None
    finally:
        gc.enable()


def test_a_call_without_a_thread_fails(monkeypatch):
    """The system may refuse one."""

    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(LookupError, match="it needs a thread: can't start"):
        call_detached(
            lambda: None, CancelToken(), name="x", refusal=LookupError, key="x"
        )


def explaining(error):
    """Take the body for the class of the error."""
    if "never" in error.body:
        return RequestRejected("never", status=error.status, body=error.body)
    error.retryable = True
    return error


def post(transport, url, stream):
    """Make a request in one of two ways."""
    if not stream:
        return transport.post(url, json={}, explain=explaining)
    with transport.stream(url, json={}, explain=explaining) as events:
        return list(events)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("status", "body", "requests_sent", "expected"),
    [
        (503, b"never", 1, RequestRejected),
        (503, b"later", 3, ProviderUnavailable),
        (400, b"later", 3, RequestRejected),
    ],
)
def test_an_error_is_explained_before_a_retry(
    stream, status, body, requests_sent, expected
):
    """The explanation decides, and not the status."""
    with RawServer((status, {}, body)) as server:
        with pytest.raises(expected):
            post(Transport(retries=SOON), server.url, stream)
    assert len(server.requests) == requests_sent


def test_a_stream_tells_whether_its_request_has_failed():
    """Callers that decode the events find errors of their own."""
    ok = (200, {"Content-Type": "text/event-stream"}, b"data: 1\n\ndata: 2\n\n")
    with RawServer((400, {}, b"no"), ok) as server:
        with Transport(retries=0).stream(server.url, json={}) as events:
            with pytest.raises(RequestRejected):
                next(events)
            assert events.has_failed
        with Transport(retries=0).stream(server.url, json={}) as events:
            next(events)
            assert not events.has_failed
