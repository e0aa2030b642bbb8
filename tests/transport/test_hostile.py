"""The worst of servers; each of these answers was a defect once."""

import gzip
import ssl
import threading

import pytest
from hostile import SSE, Hostile, framed, head, one_shot
from support.threads import LONG, together

from syncagent import Cancelled, CancelToken, exceptions


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


@pytest.fixture
def context(certificates):
    """TLS, as a server does it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates.server)
    return context


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_server_that_has_read_enough(context, certificates, is_tls):
    """What it says before it hangs up is the answer, not that it hung up."""
    answer = [framed(b"too long", "", "413 no"), None]
    tls = context if is_tls else None
    with Hostile(answer, tls, takes_body=False) as server:
        transport = one_shot(verify=certificates.authority)
        for _ in range(20):
            with pytest.raises(exceptions.RequestRejected, match="too long"):
                transport.post(server.url(), data=bytes(8 << 20))


def test_what_is_said_unasked_answers_nobody(context, certificates):
    """With TLS, bytes beyond an answer are not the answer to the next request."""

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
        with pytest.raises(exceptions.ConnectionFailed, match="before a response"):
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


@pytest.mark.slow
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
