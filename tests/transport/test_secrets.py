"""No key is shown, whatever a server does with it."""

import logging
import pickle
import traceback

import pytest
from hostile import Hostile, framed, one_shot

from syncagent import exceptions
from syncagent.transport.redactor import shown

KEY = "topsecret/0123456789"


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
