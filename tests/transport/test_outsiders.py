"""What belongs to others: hooks, callbacks, and what the caller was doing."""

import pytest
import requests
from hostile import SSE, Hostile, framed, head, one_shot
from requests.auth import AuthBase, HTTPDigestAuth

from syncagent import exceptions
from syncagent.transport import Transport

CHUNKED = "Transfer-Encoding: chunked\r\n"


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


def test_what_the_caller_handles_between_two_events_is_left_alone():
    """It is another time to look at what is none of the call's business."""
    with Hostile([head(SSE + CHUNKED), b"9\r\ndata: 1\n\n\r\n", None]) as server:
        stream = one_shot().stream(server.url(), json={})
        next(stream)
        mine = FileNotFoundError(2, "No such file")
        try:
            raise mine
        except FileNotFoundError:
            with pytest.raises(exceptions.StreamBroken, match="middle") as error:
                next(stream)
    assert error.value.__cause__ is not mine
    assert mine.__traceback__.tb_frame.f_locals["mine"] is mine
