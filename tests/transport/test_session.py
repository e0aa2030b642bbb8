"""A requests session whose every call ends with its token."""

import copy
import gc
import os
import signal
import threading

import pytest
import requests
from harness import new_id, send_again
from requests.adapters import HTTPAdapter
from support.threads import LONG, together

from syncagent import Cancelled, CancelToken
from syncagent.exceptions import ConfigurationError
from syncagent.transport import CancellableAdapter, CancellableSession
from syncagent.transport.adapter import shared_adapter


@pytest.fixture
def session(certificates):
    session = CancellableSession(CancelToken())
    session.verify = certificates.authority
    return session


def cancel_when_stuck(server, session, identity):
    server.wait_for(reached=identity)
    session.token.cancel("enough")


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    "path", ["silent", "chunked/e/stall", "close/e/stall", "length/e/stall"]
)
def test_a_call_ends_with_the_token(server, session, scheme, path):
    """In whatever part of an answer it is stuck."""
    identity = new_id()

    def call():
        with pytest.raises(Cancelled) as stop:
            session.get(server.url(path, scheme, id=identity))
        assert stop.value.reason == "enough"

    together(call, lambda: cancel_when_stuck(server, session, identity))
    server.wait_for(gone=identity)


@pytest.mark.parametrize("framing", ["chunked", "close", "length", "gzip-close"])
def test_a_streamed_body_ends_with_the_token(server, session, framing):
    """Also where the end of a connection would look like the end of the body."""
    identity, has_begun = new_id(), threading.Event()

    def call():
        url = server.url(f"{framing}/e/stall", id=identity)
        with pytest.raises(Cancelled), session.get(url, stream=True) as response:
            for _ in response.iter_content(8):
                has_begun.set()

    def cancel():
        assert has_begun.wait(LONG)
        cancel_when_stuck(server, session, identity)

    together(call, cancel)
    server.wait_for(gone=identity)


def test_no_call_begins_after_a_cancel(session):
    """Promise 6: nothing starts."""
    session.token.cancel()
    with pytest.raises(Cancelled):
        session.get("http://127.0.0.1:1/")


def test_it_is_a_requests_session(server, session):
    """Cookies, redirects, JSON, errors and timeouts are as everybody knows them."""
    assert isinstance(session, requests.Session)
    seen = session.post(
        server.url("echo", **{"Set-Cookie": "a=b"}), json={"x": 1}
    ).json()
    assert seen["body"] == '{"x": 1}'
    assert session.cookies["a"] == "b"
    url = server.url("status/302/length/end", Location=server.url("ok"))
    response = session.get(url)
    assert (response.json(), len(response.history)) == ({}, 1)
    with pytest.raises(requests.HTTPError):
        session.get(server.url("status/404/length/end")).raise_for_status()
    with pytest.raises(requests.ReadTimeout):
        session.get(server.url("silent", id=new_id()), timeout=0.05)
    with pytest.raises(requests.ConnectTimeout):
        session.get(f"http://127.0.0.1:{server.ports['full']}/", timeout=(0.05, None))
    with pytest.raises(requests.ConnectionError):
        session.get("http://127.0.0.1:1/")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        session.get(server.url("chunked/e/cut"))


def test_a_closed_response_gives_its_connection_back(server, session):
    """Read or not, with or without a cancel afterwards, nothing is held."""
    first = session.get(server.url("echo")).json()["connection"]
    assert session.get(server.url("echo")).json()["connection"] == first
    response = session.get(server.url("chunked/e/stall", id="unread"), stream=True)
    server.wait_for(reached="unread")
    response.close()
    server.wait_for(gone="unread")
    assert session.get(server.url("echo")).json()["connection"] != first


def test_a_cancel_leaves_finished_responses_alone(server, session):
    """What has been read stays readable."""
    response = session.get(server.url("echo"))
    session.token.cancel()
    assert response.json()["size"] == 0


def test_sessions_share_connections(server):
    """To make one for every tool costs no connection; closing it closes none."""
    one, other = CancellableSession(CancelToken()), CancellableSession(CancelToken())
    with one:
        first = one.get(server.url("echo")).json()["connection"]
    assert other.get(server.url("echo")).json()["connection"] == first


def test_an_uncancellable_adapter_is_refused(session):
    """Never silently uncancellable; a stock one is replaced by ours."""

    class Foreign(HTTPAdapter):
        pass

    blocking = HTTPAdapter(pool_block=True)
    for adapter in (Foreign(), HTTPAdapter(max_retries=3), blocking):
        with pytest.raises(ConfigurationError, match="CancellableAdapter"):
            session.mount("https://", adapter)
    session.mount("https://", HTTPAdapter())


def test_a_request_that_a_hook_sends_again_ends_with_the_token(server, session):
    """Whoever sends it, it is the session's."""
    url = server.url("turns/1/status/401/length/end/then/silent", id="digest")
    session.hooks["response"].append(send_again)

    def call():
        with pytest.raises(Cancelled):
            session.get(url)

    together(call, lambda: cancel_when_stuck(server, session, "digest"))
    server.wait_for(gone="digest")


def test_a_large_upload_ends_with_the_token(server, session):
    """Sending is a wait like any other."""
    sending = threading.Event()

    def body():
        while True:
            sending.set()
            yield bytes(1_000_000)

    def call():
        with pytest.raises(Cancelled):
            session.post(server.url("unread", id="upload"), data=body())

    together(
        call, lambda: (sending.wait(LONG), cancel_when_stuck(server, session, "upload"))
    )
    server.wait_for(gone="upload")


@pytest.mark.parametrize("framing", ["chunked", "length", "close", "gzip-close"])
def test_what_has_come_before_the_cancel_is_not_given_out(server, session, framing):
    """Bytes in a buffer, or unpacked already, are no reason to go on."""
    url = server.url(f"{framing}/{'e/' * 50}end")
    with session.get(url, stream=True) as response:
        pieces = response.iter_content(8)
        next(pieces)
        session.token.cancel()
        with pytest.raises(Cancelled):
            next(pieces)


def test_a_body_that_is_all_there_is_cancelled_too(server, session):
    """A clean end after a cancel is a cancel."""
    with session.get(server.url("ok"), stream=True) as response:
        session.token.cancel()
        with pytest.raises(Cancelled):
            response.json()


def test_a_cancel_by_a_hook_keeps_no_connection(server, session):
    """Not even as long as the exception is held."""
    identity = new_id()

    def cancel(response, **_):
        server.wait_for(reached=identity)
        session.token.cancel()

    session.hooks["response"].append(cancel)
    with pytest.raises(Cancelled) as held:
        session.get(server.url("chunked/e/stall", id=identity), stream=True)
    server.wait_for(gone=identity)
    assert held.value.origin == "user"


def test_a_response_that_is_dropped_is_as_quiet_as_that_of_requests(server, session):
    """No warning, and the connection is gone."""
    identity = new_id()
    response = session.get(server.url("chunked/e/stall", id=identity), stream=True)
    server.wait_for(reached=identity)
    del response
    gc.collect()
    server.wait_for(gone=identity)


def test_a_copy_has_the_token(server, session):
    """As it has everything else of a session."""
    twin = copy.copy(session)
    assert twin.get(server.url("ok")).json() == {}
    session.token.cancel()
    with pytest.raises(Cancelled):
        twin.get(server.url("ok"))


def test_an_adapter_of_ones_own_is_closed_with_the_session(server):
    """As in requests; only what is shared stays open."""
    identity = new_id()
    with CancellableSession(CancelToken()) as session:
        session.mount("http://", CancellableAdapter())
        session.get(server.url("ok", id=identity))
        assert shared_adapter().poolmanager.pools.keys() == set()


def test_what_a_session_is_made_of():
    """It is said at once."""
    with pytest.raises(TypeError, match="token must be"):
        CancellableSession(threading.Event())


@pytest.mark.parametrize("timeout", [None, 30])
@pytest.mark.parametrize("watchdog", [TimeoutError("dog"), ValueError("dog")])
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("path", ["silent", "chunked/e/stall", "gzip-close/e/stall"])
def test_a_signal_handler_raises(server, session, path, streams, watchdog, timeout):
    """S1: its exception comes out as it is, and the request is not sent again."""
    identity = new_id()

    def handler(number, frame):
        raise watchdog

    def call():
        response = session.get(
            server.url(path, id=identity), stream=streams, timeout=timeout
        )
        with response:
            list(response.iter_content(1))

    def alarm():
        server.wait_for(reached=identity)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=alarm, daemon=True)
    thread.start()
    try:
        with pytest.raises(type(watchdog)) as raised:
            call()
    finally:
        signal.signal(signal.SIGUSR1, before)
        thread.join(LONG)
    assert raised.value is watchdog
    watchdog.__traceback__ = raised = None
    server.wait_for(gone=identity)


def test_a_timeout_of_ones_own_counts(server, session):
    """A short timeout ends a read, also on the main thread, which looks for signals."""
    with pytest.raises(requests.ReadTimeout):
        session.get(server.url("silent", id=new_id()), timeout=0.2)
    with pytest.raises(requests.ConnectionError, match="timed out"):
        session.get(server.url("chunked/e/stall", id=new_id()), timeout=1.2)
