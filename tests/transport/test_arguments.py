"""What users give, and what it cannot be."""

import socket
import threading
from pathlib import Path

import pytest
import requests
from hostile import Hostile, framed, one_shot

from syncagent import CancelToken, exceptions
from syncagent.transport import CancellableSession, Timeouts, Transport


@pytest.mark.parametrize("verify", [None, True])
def test_nothing_that_is_false_by_accident_means_no_check(server, verify):
    """Only verify=False does, and that needs permission."""
    session = requests.Session()
    session.verify = verify
    for transport in (one_shot(verify=verify), Transport(session=session, retries=0)):
        with pytest.raises(exceptions.ConnectionFailed, match="not trusted"):
            transport.post(server.url("ok", "https"), json={})


@pytest.mark.parametrize("verify", ["", 0, b"", [], 1, 5])
def test_what_verify_cannot_be(server, verify):
    """It is said, before anything is sent."""
    with pytest.raises(exceptions.ConfigurationError, match="verify takes"):
        one_shot(verify=verify).post(server.url("ok", "https"), json={})


def test_a_path_may_be_a_path(server, certificates, tmp_path):
    """As objects, too; and what it trusts is not trusted by others."""
    path = tmp_path / "authority.pem"
    path.write_bytes(Path(certificates.authority).read_bytes())
    assert one_shot(verify=path).post(server.url("ok", "https"), json={}).status == 200
    with pytest.raises(exceptions.ConnectionFailed, match="not trusted"):
        one_shot().post(server.url("ok", "https"), json={})


def test_a_file_that_has_no_certificate(server, certificates, tmp_path):
    """It is the file's fault, not the server's."""
    path = tmp_path / "nothing.pem"
    path.write_text("nothing")
    for setting in ({"verify": str(path)}, {"cert": str(path)}):
        with pytest.raises(exceptions.ConfigurationError, match=r"nothing\.pem"):
            one_shot(**setting).post(server.url("ok", "https"), json={})


def test_a_server_that_wants_a_certificate(server, certificates):
    """The advice is to give one."""
    url = f"https://127.0.0.1:{server.ports['strict']}/ok"
    with pytest.raises(exceptions.TransportError, match="cert="):
        one_shot(verify=certificates.authority).post(url, json={})


@pytest.mark.parametrize(
    "url", ["https://api..example.com/", f"https://{'a' * 70}.com/"]
)
def test_a_mistyped_host_is_a_mistyped_host(url):
    """And no word of keys."""
    with pytest.raises(exceptions.ConfigurationError, match="address") as error:
        one_shot().post(url, json={})
    assert "key" not in str(error.value)


@pytest.mark.parametrize(
    ("status", "retryable"), [(407, False), (403, False), (502, True), (429, True)]
)
def test_a_proxy_that_does_not_let_us_through(status, retryable):
    """What it says decides whether to ask again; 407 asks for credentials."""
    with Hostile(framed(b"", "", f"{status} no")) as proxy:
        transport = one_shot(proxies={"https": proxy.url()})
        with pytest.raises(exceptions.ConnectionFailed, match=str(status)) as error:
            transport.post("https://model.example/", json={})
    assert error.value.retryable is retryable
    assert ("credentials" in str(error.value)) is (status == 407)


@pytest.mark.parametrize(
    "setting",
    [
        {"max_response_bytes": None},
        {"max_event_bytes": -1},
        {"max_event_lines": 0},
        {"proxies": "http://127.0.0.1:1"},
        {"session": "x"},
        {"cert": ("a",)},
        {"cert": ["a", "b"]},
        {"timeout": 10**400},
        {"retries": 1.5},
        {"retries": -1},
        {"session": CancellableSession(CancelToken())},
        {"session": requests.Session(), "resolver": socket.getaddrinfo},
    ],
    ids=lambda setting: "-".join(setting),
)
def test_settings_that_cannot_be(setting):
    """It is said at once."""
    with pytest.raises((TypeError, exceptions.ConfigurationError)) as error:
        Transport(**setting)
    assert next(iter(setting)).partition("_")[0] in str(error.value).lower()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", None),
        ("url", b"http://127.0.0.1:1/"),
        ("token", threading.Event()),
        ("auth", "key"),
        ("data", iter([b"x"])),
        ("data", "text"),
    ],
)
def test_arguments_that_cannot_be(name, value):
    """It is said at once, and with the name of the argument."""
    options = {"url": "http://127.0.0.1:1/", "data": b"", name: value}
    for call in (Transport().post, Transport().stream):
        with pytest.raises(TypeError, match=name):
            call(options.pop("url"), **options)
        options["url"] = "http://127.0.0.1:1/" if name != "url" else value


def test_the_total_time_begins_with_the_first_event_asked_for(server):
    """Not when the stream is made."""
    transport = one_shot(timeout=Timeouts(total=0.3))
    stream = transport.stream(server.url("chunked/e/end"), json={})
    threading.Event().wait(0.4)
    assert len(list(stream)) == 1


def test_an_event_that_is_too_large_says_where(server):
    """Like every other error of a call."""
    transport = one_shot(max_event_bytes=100)
    with pytest.raises(exceptions.ResponseTooLarge) as error:
        list(transport.stream(server.url("chunked/big/end"), json={}))
    assert error.value.phase == "first event"
    assert error.value.url == server.url("chunked/big/end")


def test_timeouts_of_a_session_are_as_in_requests(server):
    """Also as urllib3 has them, and to the fraction of a second."""
    session = CancellableSession(CancelToken())
    for timeout in (requests.adapters.TimeoutSauce(connect=3, read=0.1), (None, 0.1)):
        with pytest.raises(requests.ReadTimeout):
            session.get(server.url("silent"), timeout=timeout)
