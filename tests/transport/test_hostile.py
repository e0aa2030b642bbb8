"""The worst of servers, proxies and users; each of these was a defect once."""

import gzip
import logging
import pickle
import socket
import ssl
import threading
import traceback
from pathlib import Path

import pytest
import requests
from crew import LONG, together
from hostile import SSE, Hostile, framed, head
from requests.auth import AuthBase, HTTPDigestAuth

from syncagent import Cancelled, CancelToken, exceptions
from syncagent.timeouts import Timeouts
from syncagent.transport import CancellableSession, Transport
from syncagent.transport.redactor import shown

KEY = "topsecret/0123456789"


def one_shot(**settings):
    return Transport(**{"retries": 0, **settings})


# -- answers that are not what they seem -----------------------------------------------


def test_announcements_are_no_answers():
    """103 and its like are skipped, and never shift answers to the next call."""

    def answer(number, _):
        early = head("Link: </x>\r\n", "103 Early Hints") * 3
        return [early, framed(b'"answer %d"' % number)]

    with Hostile(answer) as server:
        replies = [one_shot().post(server.url(), json={}).json() for _ in range(3)]
    assert replies == ["answer 1", "answer 2", "answer 3"]


def test_another_protocol_is_an_error():
    """101 is no answer, and its connection is not used again."""

    def answer(number, _):
        return head("Upgrade: x\r\n", "101 Switching") if number == 1 else framed(b"{}")

    with Hostile(answer) as server:
        with pytest.raises(exceptions.ProtocolError) as error:
            one_shot().post(server.url(), json={})
        assert error.value.status == 101
        assert one_shot().post(server.url(), json={}).json() == {}


@pytest.mark.parametrize("coding", ["chunked ", " Chunked\t", "identity, chunked"])
def test_chunked_in_other_words(coding):
    """It is chunked, so a cut stream is a broken one."""
    beginning = head(SSE + f"Transfer-Encoding: {coding}\r\n")
    chunks = b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n"
    with Hostile([beginning, chunks, b"0\r\n\r\n"]) as server:
        assert len(list(one_shot().stream(server.url(), json={}))) == 2
        assert len(server.heads) == 1
        assert one_shot().post(server.url(), json={}).body == b"data: 1\n\ndata: 2\n\n"
    with Hostile([beginning, chunks[:-6], None]) as server:
        with pytest.raises(exceptions.StreamBroken):
            list(one_shot().stream(server.url(), json={}))


def test_an_unknown_transfer_coding_is_refused():
    """What cannot be decoded is not taken for the answer."""
    with Hostile([head("Transfer-Encoding: gzip, chunked\r\n"), None]) as server:
        with pytest.raises(exceptions.ConnectionFailed, match="gzip, chunked"):
            one_shot().post(server.url(), json={})


def test_what_is_said_unasked_answers_nobody(certificates):
    """With TLS, bytes beyond an answer are not the answer to the next request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates.server)

    def answer(number, _):
        whole = framed(b'"right"')
        return [whole[:-7], whole[-7:] + framed(b'"smuggled"')]

    with Hostile(answer, context) as server:
        transport = one_shot(verify=certificates.authority)
        replies = [transport.post(server.url(), json={}).json() for _ in range(3)]
    assert replies == ["right"] * 3


@pytest.mark.parametrize(
    "location", ["http://[::1", "https://[bad/x", "//[", "http://"]
)
def test_a_location_that_nobody_can_read(location):
    """It is a redirect, whatever it points to."""
    with Hostile(framed(b"", f"Location: {location}\r\n", "307 x")) as server:
        with pytest.raises(exceptions.RedirectRefused):
            one_shot().post(server.url(), json={})


def test_contradictory_lengths_are_the_servers_fault():
    """Not the user's headers'."""
    with Hostile([head("Content-Length: 5, 6\r\n"), b"hello", None]) as server:
        with pytest.raises(exceptions.ConnectionFailed, match="before an answer"):
            one_shot().post(server.url(), json={})


def test_deep_json_is_not_json():
    """It ends as an error of ours."""
    with Hostile(framed(b"[" * 200_000)) as server:
        reply = one_shot().post(server.url(), json={})
    with pytest.raises(exceptions.ProtocolError, match="not JSON"):
        reply.json()


@pytest.mark.parametrize(
    "body",
    [b'  \r\n{"error": 1}', b'\xef\xbb\xbf{"error": 1}', b"upstream connect error"],
)
@pytest.mark.parametrize("is_end", [None, lambda event: False])
def test_an_answer_without_events_is_shown(body, is_end):
    """Whatever it begins with: it is no stream, and the error shows it."""
    with Hostile(framed(body, "Content-Type: text/plain\r\n")) as server:
        with pytest.raises(exceptions.ProtocolError) as error:
            list(one_shot().stream(server.url(), json={}, is_end=is_end))
    assert body.decode().split()[-1] in error.value.body


def test_an_error_that_is_labelled_as_a_stream_is_shown():
    """A JSON body is no stream, whatever its label."""
    with Hostile(framed(b'{"error": "overloaded"}', SSE)) as server:
        with pytest.raises(exceptions.ProtocolError, match="overloaded"):
            list(one_shot().stream(server.url(), json={}))


def test_no_http_at_all():
    """The error says so, briefly."""
    with Hostile([b"SSH-2.0-OpenSSH" + b"x" * 50_000 + b"\r\n", None]) as server:
        with pytest.raises(exceptions.ConnectionFailed, match="SSH") as error:
            one_shot().post(server.url(), json={})
    assert len(str(error.value)) < 600


def test_a_bomb_does_not_hold_up_a_cancel():
    """While there is more to unpack, nobody looks at the socket: but at the token."""
    bomb = gzip.compress(gzip.compress(b"\n" * 200_000_000))
    headers = SSE + "Content-Encoding: gzip, gzip\r\n"
    token, there = CancelToken(), threading.Event()

    def call():
        stream = one_shot().stream(
            server.url(),
            json={},
            token=token,
            on_phase=lambda phase: phase == "first event" and there.set(),
        )
        with pytest.raises(Cancelled):
            list(stream)

    with Hostile(framed(bomb, headers)) as server:
        together(call, lambda: (there.wait(LONG), token.cancel()), timeout=5)


# -- what belongs to others ------------------------------------------------------------


def test_hooks_of_credentials_are_theirs_alone():
    """What one call's credentials register is not there for the next call's."""
    seen = []

    class Hooking(AuthBase):
        def __init__(self, name):
            self.name = name

        def __call__(self, request):
            request.headers["x-api-key"] = self.name
            request.register_hook("response", self.see)
            return request

        def see(self, response, **_):
            seen.append((self.name, response.request.headers["x-api-key"]))

    with Hostile(framed(b"{}")) as server:
        for name in "abc":
            one_shot().post(server.url(), json={}, auth=Hooking(name))
    assert seen == [("a", "a"), ("b", "b"), ("c", "c")]


def test_digest_authentication():
    """It is sent again with the credentials, and that is the answer."""
    challenge = 'WWW-Authenticate: Digest realm="r", nonce="n", qop="auth"\r\n'

    def answer(number, said):
        if "Digest" not in said:
            return framed(b"no", challenge, "401 no")
        return framed(b'"yes"')

    with Hostile(answer) as server:
        auth = HTTPDigestAuth("me", "secret")
        assert one_shot().post(server.url(), json={}, auth=auth).json() == "yes"
        with pytest.raises(exceptions.AuthenticationFailed):
            one_shot().post(server.url(), json={})


def hooked(hook):
    session = requests.Session()
    session.hooks["response"].append(hook)
    return Transport(session=session)


def test_an_exception_of_a_hook_is_the_hooks_own():
    """raise_for_status() in a hook is what it is elsewhere, and is not retried."""
    with Hostile(framed(b"no", "", "401 no")) as server:
        with pytest.raises(requests.HTTPError):
            hooked(lambda r, **_: r.raise_for_status()).post(server.url(), json={})
        assert len(server.heads) == 1


def test_a_hook_may_read_the_body():
    """It is still there afterwards."""
    with Hostile(framed(b"data: 1\n\n", SSE)) as server:
        transport = hooked(lambda response, **_: response.text and None)
        assert transport.post(server.url(), json={}).body == b"data: 1\n\n"
        assert len(list(transport.stream(server.url(), json={}))) == 1


@pytest.mark.parametrize(
    "error",
    [OSError("disk full"), UnicodeEncodeError("a", "b", 0, 1, "c"), KeyError(1)],
)
@pytest.mark.parametrize("where", ["on_phase", "is_end", "auth", "resolver", "hook"])
def test_an_exception_of_a_callback_goes_through(where, error):
    """Whatever it is, it is nobody's connection that broke, and not retried."""

    def fail(*_, **__):
        raise error

    options = {where: fail} if where in ("on_phase", "is_end", "auth") else {}
    with Hostile([head(SSE), b"data: 1\n\n", None]) as server:
        transport = Transport(retries=2)
        if where == "resolver":
            if isinstance(error, (OSError, UnicodeError)):
                return  # those are a resolver's way to say that there is no such name
            transport = Transport(resolver=fail)
        elif where == "hook":
            transport = hooked(fail)
        with pytest.raises(type(error)) as raised:
            list(transport.stream(server.url(), json={}, **options))
        assert raised.value is error
        assert len(server.heads) <= 1


def test_an_exception_of_is_end_after_the_end():
    """It is not swallowed because the answer is complete."""

    def is_end(event):
        if event.data == "2":
            raise ValueError("oops")
        return True

    with Hostile([head(SSE), b"data: 1\n\ndata: 2\n\n", None]) as server:
        with pytest.raises(ValueError, match="oops"):
            list(one_shot().stream(server.url(), json={}, is_end=is_end))


def test_what_the_caller_was_handling_is_left_alone():
    """An error inside of an except block is explained by itself, not by that."""
    mine = FileNotFoundError(2, "No such file")
    try:
        raise mine
    except FileNotFoundError:
        with pytest.raises(exceptions.ConnectionFailed, match="refused") as error:
            one_shot().post("http://127.0.0.1:1/", json={})
    assert isinstance(error.value.__cause__, ConnectionRefusedError)
    assert mine.__traceback__ is not None
    assert mine.__traceback__.tb_frame.f_locals["mine"] is mine


# -- certificates and ways -------------------------------------------------------------


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


# -- keys ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://h.example/v1/x?key=1#f", "https://h.example/v1/x"),
        ("https://me:pw@h.example:8/v1", "https://h.example:8/v1"),
        ("me:pw@proxy.example:3128", "proxy.example:3128"),
        ("https://me:pw/x@h.example/", "https://h.example/"),
        ("https://me:p?w#x@h.example/", "https://h.example/"),
        (
            "https://h.example/run/@cf/meta/llama",
            "https://h.example/run/@cf/meta/llama",
        ),
        ("http://[::1]:80/@x", "http://[::1]:80/@x"),
        ("https://h.example:80/@x", "https://h.example:80/@x"),
        ("https://h.example/?next=http://me:pw@x/", "https://h.example/"),
        ("me:pw@h/?next=http://x/", "h/"),
    ],
)
def test_what_is_shown_of_an_address(url, expected):
    """Neither credentials nor query, however they are written; the rest stays."""
    assert shown(url) == expected


def repeat(said):
    """Return all ways in which a server may repeat what it was told."""
    key = said.partition("x-api-key: ")[2].partition("\r\n")[0]
    yield framed(f'{{"bad": "{key}"}}'.encode(), "", "401 no")
    yield framed(f'{{"bad": "{key}"}}'.replace("/", r"\/").encode(), "", "401 no")
    yield framed(key.replace("/", "%2F").encode(), "", "401 no")
    yield framed(b"", f"x-request-id: {key}\r\n", "500 no")
    yield framed(b"", f"Location: https://{key}.example/\r\n", "307 no")
    yield framed(b"{}", f"Content-Type: {key}\r\n")
    yield f"{key} {said.splitlines()[0]}\r\n\r\n".encode()
    yield framed(b"", "", f"400 {key}")


@pytest.mark.parametrize("way", range(8))
def test_a_server_that_repeats_the_key(way, caplog):
    """In whatever form and place: it is not shown, carried, pickled or logged."""
    caplog.set_level(logging.DEBUG, "syncagent")
    with Hostile(lambda _, said: [list(repeat(said))[way], None]) as server:
        with pytest.raises(exceptions.SyncAgentError) as error:
            headers = {"x-api-key": KEY}
            list(
                one_shot().stream(server.url(f"/?key={KEY}"), json={}, headers=headers)
            )
    shown_text = "".join(traceback.format_exception(error.value))
    for text in (shown_text, str(vars(error.value)), caplog.text):
        for form in (KEY, KEY.replace("/", r"\/"), KEY.replace("/", "%2F")):
            assert form not in text
    assert KEY not in pickle.dumps(error.value).decode("latin-1")


def test_credentials_of_a_proxy_are_not_repeated():
    """Not from its address, and not from what it says."""
    with Hostile(framed(b"", "", "407 hunter2pass is wrong")) as proxy:
        address = proxy.url().replace("//", "//me:hunter2pass@")
        with pytest.raises(exceptions.ConnectionFailed) as error:
            one_shot(proxies={"https": address}).post("https://a.example/", json={})
    assert "hunter2pass" not in "".join(traceback.format_exception(error.value))
    with pytest.raises(exceptions.ConfigurationError) as refused:
        proxies = {"http": "me:hunter2pass@proxy.example:3128"}
        one_shot(proxies=proxies).post("http://127.0.0.1:1/", json={})
    assert "hunter2pass" not in str(refused.value)


def test_words_that_are_no_secret_stay():
    """The name of a scheme is not masked."""
    body = b'{"error": "Missing Bearer token, use Bearer auth"}'
    with Hostile(framed(body, "", "401 no")) as server:
        with pytest.raises(exceptions.AuthenticationFailed) as error:
            headers = {"Authorization": f"Bearer {KEY}"}
            one_shot().post(server.url(), json={}, headers=headers)
    assert error.value.body == body.decode()


# -- users -----------------------------------------------------------------------------


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
    ids=str,
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
