"""Keys that change: functions and auth objects, asked for each attempt."""

import contextvars
import threading

import pytest
from requests.auth import AuthBase, HTTPDigestAuth
from support.keys import (
    NEW,
    OLD,
    SOON,
    Refreshable,
    Rotating,
    checking,
    key_of,
    keys_seen,
    text_of,
)
from support.raw_server import RawServer
from support.threads import LONG, together

from syncagent.exceptions import (
    AuthenticationFailed,
)
from syncagent.models import Anthropic, OpenAIChat
from syncagent.models.endpoints import ENDPOINTS
from syncagent.testing import (
    FakeServer,
    Status,
    say,
)


def test_a_function_is_asked_for_each_attempt(kind, stream):
    """A retry has the key of that moment; no function runs on the run's thread."""
    busy, source = say("", acts=[Status(503)]), Rotating("key-one-1", "key-two-2")
    with FakeServer([busy, "ok"]) as server:
        settings = {"base_url": server.base_url, "stream": stream, "retries": SOON}
        assert text_of(kind("m", api_key=source, **settings)) == "ok"
    assert keys_seen(server) == ["key-one-1", "key-two-2"]
    assert source.threads == {"syncagent-credentials"}


def test_a_function_sees_the_context_of_the_caller():
    """Context variables are those of the call."""
    variable = contextvars.ContextVar("variable", default="nobody-0")
    variable.set("somebody-1")
    with FakeServer(["ok"]) as server:
        text_of(OpenAIChat("m", base_url=server.base_url, api_key=variable.get))
    assert keys_seen(server) == ["somebody-1"]


def test_phases_begin_with_the_credentials():
    """They are asked for before the connection is made."""
    phases = []
    with FakeServer(["ok"]) as server:
        model = OpenAIChat("m", base_url=server.base_url, api_key=lambda: OLD)
        text_of(model, on_phase=phases.append)
    assert phases[:3] == ["credentials", "resolve", "connect"]


def test_a_constant_key_needs_no_thread():
    """Its path is the old one."""
    phases = []
    with FakeServer(["ok"]) as server:
        model = OpenAIChat("m", base_url=server.base_url, api_key=OLD)
        text_of(model, on_phase=phases.append)
    assert "credentials" not in phases


@pytest.mark.parametrize(
    ("key", "header", "value"),
    [
        ("key-0123456789", "api-key", "key-0123456789"),
        (
            "eyJhbGciOiJ.eyJzdWIi.c2ln",
            "authorization",
            "Bearer eyJhbGciOiJ.eyJzdWIi.c2ln",
        ),
    ],
)
@pytest.mark.parametrize("is_function", [False, True])
def test_an_endpoint_may_have_headers_of_its_own(key, header, value, is_function):
    """Also by the form of the key: Azure takes keys, and tokens that expire."""
    with RawServer((400, {}, {})) as server:
        model = OpenAIChat(
            "m",
            base_url=server.url,
            api_key=(lambda: key) if is_function else key,
            endpoint=ENDPOINTS["azure-chat"],
        )
        with pytest.raises(Exception, match="400"):
            text_of(model)
    seen = server.requests[0]
    assert seen[header] == value
    assert len({"authorization", "api-key"} & seen.keys()) == 1


def test_a_token_of_the_environment(monkeypatch):
    """Anthropic's goes into another header than its key."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-0123456789")
    with RawServer((400, {}, {})) as server:
        with pytest.raises(Exception, match="400"):
            text_of(Anthropic("m", base_url=server.url))
    assert server.requests[0]["authorization"] == "Bearer token-0123456789"
    assert "x-api-key" not in server.requests[0]


def test_a_refused_key_is_asked_for_once_more(kind, stream):
    """A 401 is no retry: it happens without any, and once."""
    source = Rotating(OLD, NEW)
    with checking(NEW) as server:
        settings = {"base_url": server.base_url, "stream": stream, "retries": 0}
        assert text_of(kind("m", api_key=source, **settings)) == "ok"
    assert keys_seen(server) == [OLD, NEW]
    assert source.asked == 2


def test_refused_twice_is_two_requests(kind, stream):
    """However many keys there are."""
    source = Rotating(*(f"key-number-{n}" for n in range(9)))
    with checking() as server:
        settings = {"base_url": server.base_url, "stream": stream, "retries": SOON}
        with pytest.raises(AuthenticationFailed, match="api_key=") as caught:
            text_of(kind("m", api_key=source, **settings))
    assert keys_seen(server) == ["key-number-0", "key-number-1"]
    assert caught.value.status == 401


def test_the_same_key_is_not_sent_again(kind):
    """Without a refresh() a function that returns the same key knows no better."""
    source = Rotating(OLD)
    with checking(NEW) as server:
        with pytest.raises(AuthenticationFailed, match="expired") as caught:
            text_of(kind("m", base_url=server.base_url, api_key=source))
    assert keys_seen(server) == [OLD]
    assert caught.value.status == 401
    assert source.asked == 2


def test_refresh_is_called_before_the_second_question(kind, stream):
    """The function's own cache would return the old key again."""
    source = Refreshable(OLD, NEW)
    with checking(NEW) as server:
        settings = {"base_url": server.base_url, "stream": stream, "retries": 0}
        model = kind("m", api_key=source, **settings)
        assert [text_of(model), text_of(model)] == ["ok", "ok"]
    assert keys_seen(server) == [OLD, NEW, NEW]
    assert source.refreshed == 1


def test_a_refreshed_key_is_sent_again_even_if_it_is_the_same():
    """The server may know it by now."""
    source = Refreshable(OLD)
    with FakeServer([say("", acts=[Status(401)]), "ok"]) as server:
        model = OpenAIChat("m", base_url=server.base_url, api_key=source, retries=0)
        assert text_of(model) == "ok"
    assert source.refreshed == 1


def test_a_renewal_leaves_all_retries():
    """After it the usual rules hold, with a key for each attempt."""
    source = Rotating("first-key-1", "second-key-2", "third-key-3", "fourth-key-4")
    refused, busy = say("", acts=[Status(401)]), say("", acts=[Status(503)])
    with FakeServer([refused, busy, busy, "ok"]) as server:
        settings = {"base_url": server.base_url, "retries": SOON}
        assert text_of(OpenAIChat("m", api_key=source, **settings)) == "ok"
    assert len(set(keys_seen(server))) == 4


def test_a_constant_key_that_is_refused_is_sent_once(kind):
    """As before."""
    with checking(NEW) as server:
        with pytest.raises(AuthenticationFailed, match="_API_KEY"):
            text_of(kind("m", base_url=server.base_url, api_key=OLD))
    assert keys_seen(server) == [OLD]


class Shared:
    """Return the old key until it is renewed."""

    def __init__(self):
        self.is_renewed = False
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return NEW if self.is_renewed else OLD


class SharedWithRefresh(Shared):
    """One that is renewed by its refresh()."""

    refreshed = 0

    def refresh(self):
        self.refreshed += 1
        self.is_renewed = True


@pytest.mark.slow
@pytest.mark.parametrize("source", [SharedWithRefresh(), Shared()])
def test_many_threads_with_one_expired_key_renew_it_once(source):
    """However they overlap: those that come late find that it was done."""
    number = 100
    # All have sent the old key before the first is refused.
    everyone = threading.Barrier(number)

    def decide(seen):
        if key_of(seen.headers) == NEW:
            return "ok"
        everyone.wait(LONG)
        if not hasattr(source, "refresh"):
            source.is_renewed = True
        return say("", acts=[Status(401)])

    with FakeServer(decide) as server:
        model = OpenAIChat("m", base_url=server.base_url, api_key=source, retries=0)

        def call():
            assert text_of(model) == "ok"

        together(*[call] * number, timeout=60)
    assert keys_seen(server).count(OLD) == number
    assert keys_seen(server).count(NEW) == number
    assert source.asked == number + 1
    assert getattr(source, "refreshed", 1) == 1


def test_headers_for_a_gateway(kind):
    """Constants and functions, beside the key."""
    source = Rotating("token-one-1", "token-two-2")
    headers = {"X-Title": "my app", "X-Gateway-Key": NEW, "X-Gateway-Token": source}
    busy = say("", acts=[Status(503)])
    with FakeServer([busy, "ok"]) as server:
        settings = {"base_url": server.base_url, "retries": SOON}
        model = kind("m", api_key=OLD, headers=headers, **settings)
        assert text_of(model) == "ok"
    assert keys_seen(server) == [OLD, OLD]
    seen = [request.headers for request in server.requests]
    assert [each["x-gateway-token"] for each in seen] == ["token-one-1", "token-two-2"]
    assert {each["x-title"] for each in seen} == {"my app"}
    assert {each["x-gateway-key"] for each in seen} == {NEW}
    assert {OLD, NEW, "token-one-1", "token-two-2"} <= set(model.secrets)
    assert "my app" not in model.secrets


def test_secret_headers_are_masked_in_errors():
    """By name if they are constant, always if a function returned them."""
    headers = {"X-Gateway-Key": NEW, "X-Other": lambda: "other-value-77"}
    body = {"error": f"who is {NEW}, and other-value-77? {OLD} said my app"}
    with RawServer((400, {}, body)) as server:
        settings = {"base_url": server.url, "api_key": OLD}
        model = OpenAIChat("m", headers={**headers, "X-Title": "my app"}, **settings)
        with pytest.raises(Exception, match="my app") as caught:
            text_of(model)
    for secret in (OLD, NEW, "other-value-77"):
        assert secret not in str(caught.value) + caught.value.body


class Signing(AuthBase):
    """Sign requests with a number that grows."""

    def __init__(self, *keys):
        self._keys = Rotating(*keys)
        self.threads = self._keys.threads

    def __call__(self, request):
        request.headers["Authorization"] = f"Bearer {self._keys()}"
        return request


def test_an_auth_object_replaces_the_key(stream, monkeypatch):
    """No key is needed, or looked for; it signs each attempt anew."""
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    auth, busy = Signing("sign-one-1", "sign-two-2"), say("", acts=[Status(503)])
    with FakeServer([busy, "ok"]) as server:
        settings = {"base_url": server.base_url, "stream": stream, "retries": SOON}
        model = OpenAIChat("m", auth=auth, **settings)
        assert text_of(model) == "ok"
    assert keys_seen(server) == ["sign-one-1", "sign-two-2"]
    assert auth.threads == {"syncagent-credentials"}
    assert {"sign-one-1", "sign-two-2"} <= set(model.secrets)


def test_an_auth_object_signs_again_after_a_401():
    """And the request is repeated only if that made a difference."""
    with checking(NEW) as server:
        settings = {"base_url": server.base_url, "retries": 0}
        assert text_of(OpenAIChat("m", auth=Signing(OLD, NEW), **settings)) == "ok"
        with pytest.raises(AuthenticationFailed):
            text_of(OpenAIChat("m", auth=Signing(OLD), **settings))
    assert keys_seen(server) == [OLD, NEW, OLD]


def test_an_auth_object_can_be_refreshed():
    """As a function can."""

    class Cached(Signing):
        key = OLD

        def __call__(self, request):
            request.headers["Authorization"] = f"Bearer {self.key}"
            return request

        def refresh(self):
            self.key = NEW

    with checking(NEW) as server:
        model = OpenAIChat("m", base_url=server.base_url, auth=Cached(), retries=0)
        assert text_of(model) == "ok"
    assert keys_seen(server) == [OLD, NEW]


def test_digest_authentication_works():
    """It needs the thread of the run, and gets it."""
    challenge = {"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth"'}
    ok = b'{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}'
    with RawServer((401, challenge, {}), (200, {}, ok)) as server:
        auth = HTTPDigestAuth("me", "password-0123456789")
        settings = {"base_url": server.url, "stream": False, "retries": 0}
        assert text_of(OpenAIChat("m", auth=auth, **settings)) == "ok"
    assert server.requests[1]["authorization"].startswith("Digest ")
