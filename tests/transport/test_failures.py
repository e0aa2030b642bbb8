"""Errors say what happened, why and what to do, and never show a key."""

import errno
import gc
import json
import pickle
import socket
import threading
import traceback
import types

import pytest
from harness import advance_until
from requests.auth import AuthBase
from support.processes import run_script
from support.threads import LONG, together

from syncagent import exceptions
from syncagent.testing import FakeClock
from syncagent.transport import Transport

KEY = "sk-live-0123456789abcdefghij"


class Bearer(AuthBase):
    """A key as models will send it."""

    def __init__(self, key=KEY):
        self._key = key

    def __call__(self, request):
        request.headers["Authorization"] = f"Bearer {self._key}"
        return request


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, exceptions.RequestRejected),
        (401, exceptions.AuthenticationFailed),
        (403, exceptions.AuthenticationFailed),
        (404, exceptions.RequestRejected),
        (413, exceptions.RequestRejected),
        (408, exceptions.ProviderUnavailable),
        (409, exceptions.ProviderUnavailable),
        (429, exceptions.RateLimited),
        (500, exceptions.ProviderUnavailable),
        (529, exceptions.ProviderUnavailable),
        (300, exceptions.RequestRejected),
    ],
)
@pytest.mark.parametrize("call", ["post", "stream"])
def test_what_a_status_means(server, transport, call, status, expected):
    """Its own error, with all that the server said about it."""
    headers = {"x-request-id": "req-7", "Retry-After": "1"}
    url = server.url(f"status/{status}/length/json/end", **headers)
    with pytest.raises(expected) as error:
        list(getattr(transport, call)(url, json={}))
    failure = error.value
    assert (failure.status, failure.request_id) == (status, "req-7")
    assert failure.retry_after == 1
    assert failure.body == '{"error": {"message": "no"}}'
    assert failure.url == url.partition("?")[0]
    for said in (str(status), "req-7", "no"):
        assert said in str(failure)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("https://evil.example/v1?key=1", "evil.example"),
        ("//evil.example/", "evil.example"),
        ("/elsewhere", "127.0.0.1"),
    ],
)
def test_redirects_are_refused(server, transport, status, location, host):
    """Key and prompt go where they were meant to go; the error names the other host."""
    url = server.url(f"status/{status}/length/end", Location=location)
    with pytest.raises(exceptions.RedirectRefused, match=host) as error:
        transport.post(url, json={}, auth=Bearer())
    assert error.value.location == host
    assert not error.value.retryable


def test_a_long_error_is_cut(server, transport):
    """The beginning is kept; the message shows less of it."""
    with pytest.raises(exceptions.ProviderError) as error:
        transport.post(server.url("status/500/length/big/end"), json={})
    assert len(error.value.body) == 4000
    assert len(str(error.value)) < 600


def test_a_stalled_error_is_told_without_its_end(server, transport):
    """The status counts, not the rest of a page that never comes."""
    url, errors = server.url("status/503/length/h/stall", id="stalled-error"), []

    def call():
        with pytest.raises(exceptions.ProviderUnavailable) as error:
            transport.post(url, json={})
        errors.append(error.value)

    def pass_time():
        server.wait_for(reached="stalled-error")
        advance_until(clock, lambda: errors)

    with FakeClock() as clock:
        together(call, pass_time)
    assert errors[0].body == "data: ha"


# -- keys ------------------------------------------------------------------------------


def text_in(error):
    """Return all text that can be reached from an error, but for its own traceback."""
    seen, found, texts = set(), [error.with_traceback(None)], []
    while found:
        item = found.pop()
        if id(item) in seen or isinstance(item, (type, types.ModuleType)):
            continue
        seen.add(id(item))
        if isinstance(item, (bytes, bytearray)):
            item = item.decode("latin-1")
        if isinstance(item, str):
            texts.append(item)
        else:
            found.extend(gc.get_referents(item))
    return " ".join(texts)


def fail(call, url, **options):
    """Make a request that fails, with a key, and return its error."""
    transport = Transport(retries=0)
    with pytest.raises(exceptions.SyncAgentError) as error:
        list(getattr(transport, call)(url, json={}, auth=Bearer(), **options))
    return error.value


@pytest.mark.parametrize("call", ["post", "stream"])
@pytest.mark.parametrize(
    "path",
    [
        "status/401/length/echo/end",
        "status/500/chunked/echo/end",
        "status/307/length/end?Location=https%3A%2F%2Felse.where",
        "chunked/cut",
        "cut",
        "port/1",
        "port/silent",
        "header",
    ],
)
def test_no_error_shows_the_key(server, call, path):
    """Not its text, not what it carries, not what caused it, not pickled."""
    options = {}
    url = server.url(path)
    if path == "port/1":
        url = f"http://127.0.0.1:1/v1?key={KEY}"
    elif path == "port/silent":
        url = f"https://127.0.0.1:{server.ports['http']}/?key={KEY}"
    elif path == "header":
        options["headers"] = {"X-Bad": f"{KEY}\n"}
    error = fail(call, url, **options)
    assert KEY not in "".join(traceback.format_exception(error))
    assert KEY not in pickle.dumps(error).decode("latin-1")
    assert KEY not in text_in(error)


def test_a_key_that_cannot_be_sent(server):
    """A key pasted with something odd is not shown by the error either."""
    transport = Transport(retries=0)
    with pytest.raises(exceptions.ConfigurationError, match="Latin-1") as error:
        transport.post(server.url("ok"), json={}, auth=Bearer(f"{KEY}…"))
    assert KEY not in "".join(traceback.format_exception(error.value))
    assert error.value.__context__ is None


def test_errors_survive_pickling(server, transport):
    """With all they carry."""
    with pytest.raises(exceptions.ProviderError) as error:
        transport.post(server.url("status/429/length/json/end"), json={})
    again = pickle.loads(pickle.dumps(error.value))
    assert vars(again) == vars(error.value)
    assert str(again) == str(error.value)


# -- what can be wrong with a connection -----------------------------------------------


def test_a_certificate_that_nobody_trusts(server):
    """The error says how to trust it; to try again would be useless."""
    with pytest.raises(
        exceptions.ConnectionFailed, match="REQUESTS_CA_BUNDLE"
    ) as error:
        Transport().post(server.url("ok", "https"), json={})
    assert not error.value.retryable
    assert error.value.phase == "handshake"


def test_a_certificate_for_somebody_else(server, certificates):
    """A name that the certificate does not have is not trusted either."""
    transport = Transport(
        verify=certificates.authority,
        resolver=lambda host, port, family, kind: socket.getaddrinfo("127.0.0.1", port),
    )
    with pytest.raises(exceptions.ConnectionFailed, match="not trusted"):
        transport.post(f"https://other.example:{server.ports['https']}/ok", json={})


def test_a_server_that_speaks_no_tls(server):
    """https:// to a plain server is told as such."""
    with pytest.raises(exceptions.ConnectionFailed, match="is this an https server"):
        Transport(retries=0).post(
            f"https://127.0.0.1:{server.ports['http']}/ok", json={}
        )


def test_a_name_that_does_not_exist():
    """A look-up that fails for good is not tried again."""

    def resolver(*_):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(
        exceptions.ConnectionFailed, match="cannot be looked up"
    ) as error:
        Transport(resolver=resolver).post("https://nowhere.example/", json={})
    assert not error.value.retryable
    assert isinstance(error.value.__cause__, socket.gaierror)


def test_an_answer_in_the_wrong_encoding(server, transport):
    """It claims to be compressed, and is not."""
    url = server.url("chunked/e/end", **{"Content-Encoding": "gzip"})
    with pytest.raises(exceptions.StreamBroken, match="encoding"):
        list(transport.stream(url, json={}))


@pytest.mark.parametrize(
    "url", ["", "no address", "ftp://x/", "https://", "http://[::1", "https://:0/"]
)
def test_what_is_no_address(transport, url):
    """It is said before anything is done."""
    with pytest.raises((exceptions.ConfigurationError, exceptions.ConnectionFailed)):
        transport.post(url, json={})


def test_no_descriptor_is_left(server):
    """A full table of descriptors is told as such, and nothing is lost by it."""
    ended = run_script("transport/descriptors_script", server.url("ok"))
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "failed": "ConnectionFailed",
        "advice": True,
        "errno": errno.EMFILE,
        "spare": 2,  # the socket and its duplicate
        "kept": 1,  # the connection, for the next call
        "works_again": True,
    }


def test_a_garbled_answer():
    """Bytes that are no HTTP at all are a broken connection, not a crash."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            sock, _ = listener.accept()
            with sock:
                sock.recv(65536)
                sock.sendall(b"\x00\xff garbage \r\n\r\n" * 10)

        thread = threading.Thread(target=answer)
        thread.start()
        port = listener.getsockname()[1]
        with pytest.raises(exceptions.ConnectionFailed):
            Transport(retries=0).post(f"http://127.0.0.1:{port}/", json={})
        thread.join(LONG)
