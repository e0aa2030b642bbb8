"""No key is shown, whatever a server does with it."""

import logging
import pickle
import time
import traceback

import pytest
from hostile import Hostile, framed, head, one_shot
from hypothesis import given, settings
from hypothesis import strategies as st

from syncagent import exceptions
from syncagent._redaction import mask_parts
from syncagent.transport.redactor import Redactor, public_url

KEY = "topsecret/0123456789"
PLAIN = "canaryZQWERTYUIOPASDFGH"


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
    assert public_url(url) == expected


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


@pytest.mark.parametrize("name", ["x-api-key", "Authorization", "Cookie", "api-key"])
def test_a_key_in_a_header(name):
    """Whichever of the usual ones."""
    with Hostile(lambda _, said: framed(said.encode(), "", "401 no")) as server:
        with pytest.raises(exceptions.AuthenticationFailed) as error:
            one_shot().post(server.url(), headers={name: f"Bearer {KEY}"})
    assert KEY not in error.value.body


@pytest.mark.parametrize("name", ["key", "token", "api_key"])
def test_a_key_in_an_address(name):
    """It is in no header at all, and the server says nothing but the key."""

    def answer(_, said):
        return framed(said.split()[1].partition("=")[2].encode(), "", "401 no")

    with Hostile(answer) as server:
        with pytest.raises(exceptions.AuthenticationFailed) as error:
            one_shot().post(server.url(f"/?{name}={PLAIN}"))
    assert error.value.body == "***"


def test_somebody_elses_key():
    """What looks like a key is masked, whoever's it is."""
    key = "sk-ant-api03-0123456789abcdef"
    with Hostile(framed(f"not {key}, but yours".encode(), "", "401 no")) as server:
        with pytest.raises(exceptions.AuthenticationFailed) as error:
            one_shot().post(server.url())
    assert error.value.body == "not ***, but yours"


ODD_KEY = "zK9q4WcYtR1mVb7XsLd2Hf8Jp5Ng3e-88"


@settings(deadline=None)
@given(st.text(), st.text(), st.text(min_size=6), st.booleans())
def test_no_text_hides_a_key(before, after, key, is_bearer):
    """L12: whatever is around it, and whatever it looks like."""
    redactor = Redactor("https://h.example/")
    redactor.secrets = lambda: [f"Bearer {key}", key] if is_bearer else [key]
    masked = redactor.clean(f"{before}{key}{after}")
    if "*" not in key:
        outside = redactor.clean(before) + redactor.clean(after)
        assert key not in masked or key in outside


@pytest.mark.parametrize(
    "unit",
    [
        *("...", "....a", "*", "x", " [...] ", ODD_KEY[:8], ODD_KEY[-8:], ODD_KEY[:9]),
        *(ODD_KEY[:3] + "...", "..." + ODD_KEY[-3:], ODD_KEY[:-1], ODD_KEY[1:]),
    ],
)
def test_parts_of_a_key_are_found_in_linear_time(unit):
    """L12: no text of a server keeps us busy."""
    text = unit * (200_000 // len(unit))
    begin = time.perf_counter()
    mask_parts(text, [ODD_KEY, f"Bearer {ODD_KEY}"])
    assert time.perf_counter() - begin < 4


@pytest.mark.parametrize(
    "text",
    [
        "Wait ... and see. It was ****ed up, xxx.",
        "The key begins with zK and ends with 88; see zK9.",
        "topsecret is a word, 0123456 a number, and secret/01 half a path",
    ],
)
def test_ordinary_text_beside_a_key_stays(text):
    """L12: dots alone are not the middle of a key."""
    assert mask_parts(text, [KEY, ODD_KEY]) == text


@pytest.mark.parametrize("size", [4, 12, len(PLAIN) - 1])
def test_half_a_key_at_the_end_of_what_came(size):
    """A body that is cut off in the middle of the key shows no part of it."""
    body = f"Incorrect API key provided: {PLAIN[:size]}".encode()
    cut = [head("Content-Length: 500\r\n", "401 no"), body, None]
    with Hostile(cut) as server:
        with pytest.raises(exceptions.AuthenticationFailed) as error:
            one_shot().post(server.url(), headers={"x-api-key": PLAIN})
    assert error.value.body == "Incorrect API key provided: "


def test_half_a_key_at_the_end_of_what_is_kept():
    """Masking makes a text shorter; what is behind the cut stays behind it."""
    with Hostile(framed(PLAIN.encode() * 2000, "", "401 no")) as server:
        with pytest.raises(exceptions.AuthenticationFailed) as error:
            one_shot().post(server.url(), headers={"x-api-key": PLAIN})
    assert set(error.value.body) == {"*"}


def test_long_addresses_take_no_time():
    """Not even those that could be credentials at every character."""
    assert public_url(":" * 1_000_000) == ":" * 1_000_000
    assert public_url("a:" * 500_000 + "/@x").endswith("x")
