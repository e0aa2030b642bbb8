"""The listener lets one browser end a login, and nobody else."""

import socket
from contextlib import closing

import pytest
import requests

from syncagent.cancel import CancelToken
from syncagent.exceptions import ConfigurationError
from syncagent.mcp.oauth.redirects import RedirectListener, query_of


@pytest.fixture
def listener():
    with RedirectListener("the-state") as listener:
        listener.start()
        yield listener


def send(listener, request):
    """Send raw bytes; return the first line of the answer."""
    port = int(listener.uri.split(":")[2].split("/")[0])
    with closing(socket.create_connection(("127.0.0.1", port), timeout=10)) as sock:
        sock.sendall(request)
        return sock.makefile("rb").readline().split(b" ", 1)[-1].strip()


def test_the_right_state_ends_the_wait(listener):
    """The browser is told that the window can be closed; nothing is repeated."""
    answer = requests.get(f"{listener.uri}?code=c%26<b>&state=the-state", timeout=10)
    assert listener.wait(CancelToken(timeout=10)) == {
        "code": "c&<b>",
        "state": "the-state",
    }
    assert "close this window" in answer.text
    assert "<b>" not in answer.text
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/callback?code=c&state=wrong", b"400 Bad Request"),
        (b"/callback?code=c", b"400 Bad Request"),
        (b"/callback?code=c&state=the-state&state=the-state", b"400 Bad Request"),
        (b"/callback?state=\xff\xfe", b"400 Bad Request"),
        (b"/callback?" + b"&" * 60 + b"a=1" * 60, b"400 Bad Request"),
        (b"/favicon.ico", b"404 Not Found"),
        (b"/?code=c&state=the-state", b"404 Not Found"),
    ],
)
def test_other_requests_are_refused_and_the_wait_goes_on(listener, target, status):
    """Another program on this machine can neither end a login nor spoil it."""
    assert send(listener, b"GET " + target + b" HTTP/1.1\r\n\r\n") == status
    good = b"GET /callback?error=e&state=the-state HTTP/1.1\r\n\r\n"
    assert send(listener, good) == b"200 OK"
    assert listener.wait(CancelToken(timeout=10))["error"] == "e"


@pytest.mark.parametrize(
    "request_bytes",
    [b"POST /callback?code=c&state=the-state HTTP/1.1\r\n\r\n", b"\r\n\r\n", b"x\n\n"],
)
def test_what_is_no_get_is_refused(listener, request_bytes):
    """With a status, not with a traceback."""
    assert send(listener, request_bytes) == b"404 Not Found"


def test_silent_and_greedy_connections_delay_nobody(listener):
    """Browsers open connections ahead of time; a request has a largest size."""
    port = int(listener.uri.split(":")[2].split("/")[0])
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    greedy = socket.create_connection(("127.0.0.1", port))
    try:
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                greedy.sendall(b"a" * 65536)
        good = b"GET /callback?code=c&state=the-state HTTP/1.1\r\n\r\n"
        assert send(listener, good) == b"200 OK"
    finally:
        for sock in (*silent, greedy):
            sock.close()


def test_a_request_may_come_in_pieces(listener):
    """As networks deliver it."""
    port = int(listener.uri.split(":")[2].split("/")[0])
    with closing(socket.create_connection(("127.0.0.1", port), timeout=10)) as sock:
        for byte in b"GET /callback?code=c&state=the-state HTTP/1.1\r\n\r\n":
            sock.sendall(bytes([byte]))
        assert sock.makefile("rb").readline().startswith(b"HTTP/1.1 200")


def test_it_listens_at_the_uri_that_was_registered():
    """localhost is this machine, too; other hosts are refused."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    uri = f"http://localhost:{port}/back/here"
    with RedirectListener("s", uri=uri) as listener:
        listener.start()
        assert listener.uri == uri
        assert requests.get(f"{uri}?code=c&state=s", timeout=10).status_code == 200
    for wrong in ("http://example.com/x", "https://127.0.0.1/x", "file:///x"):
        with pytest.raises(ConfigurationError, match="redirect="):
            RedirectListener("s", uri=wrong)


def test_a_parameter_that_comes_twice_counts_as_missing():
    """Two codes cannot both be right."""
    assert query_of("/x?a=1&b=2&a=3") == {"b": "2"}
    assert query_of("http://[/?a=1") == {}
