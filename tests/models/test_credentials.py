"""Keys that change: functions and auth objects, asked for each attempt."""

import contextvars
import io
import os
import pickle
import signal
import threading

import pytest
from requests.auth import AuthBase, HTTPBasicAuth, HTTPDigestAuth
from support.processes import in_child
from support.raw_server import RawServer
from support.threads import LONG, together

from syncagent import Agent, Cancelled, CancelToken
from syncagent.exceptions import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectTimeout,
    ProviderUnavailable,
)
from syncagent.models import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from syncagent.models.endpoints import ENDPOINTS
from syncagent.testing import (
    FakeClock,
    FakeServer,
    Gate,
    Status,
    cancel_everywhere,
    say,
)
from syncagent.testing.leaks import no_leaks
from syncagent.transport import Retries, Timeouts, close_idle
from syncagent.usage import Usage

CLASSES = [OpenAIChat, OpenAIResponses, Anthropic, Gemini]
SOON = Retries(limit=2, first_delay=0.001)
OLD, NEW = "old-0123456789abcdef", "new-fedcba9876543210"


@pytest.fixture(params=CLASSES, ids=lambda kind: kind.__name__)
def kind(request):
    """Each of the classes."""
    return request.param


@pytest.fixture(params=[True, False], ids=["stream", "whole"])
def stream(request):
    """Both ways to receive a response."""
    return request.param


@pytest.fixture(autouse=True)
def nothing_idle():
    """No connection outlives its test."""
    yield
    close_idle()


class Rotating:
    """Return the keys of a list, one after the other; the last one for ever."""

    def __init__(self, *keys):
        self._keys = list(keys)
        self.asked = 0
        self.threads = set()

    def __call__(self):
        self.asked += 1
        self.threads.add(threading.current_thread().name)
        return self._keys[min(self.asked, len(self._keys)) - 1]


class Refreshable:
    """Return the same key until it is refreshed."""

    def __init__(self, *keys):
        self._keys = keys
        self.refreshed = 0
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return self._keys[min(self.refreshed, len(self._keys) - 1)]

    def refresh(self):
        self.refreshed += 1


def key_of(seen):
    """Return the key of a request, without the scheme."""
    names = ("authorization", "x-api-key", "x-goog-api-key")
    return next(seen[name] for name in names if name in seen).removeprefix("Bearer ")


def checking(*good):
    """Return a server that takes these keys only."""

    def decide(seen):
        is_good = key_of(seen.headers) in good
        return "ok" if is_good else say("", acts=[Status(401, "expired")])

    return FakeServer(decide)


def keys_seen(server):
    """Return the keys of all requests, in order."""
    return [key_of(seen.headers) for seen in server.requests]


def text_of(model, **settings):
    """Return the text of a response."""
    return model.respond("hi", **settings).message.text


# -- asked for each attempt ------------------------------------------------------------


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


# -- after a 401 -----------------------------------------------------------------------


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


# -- cancel, timeout, fork -------------------------------------------------------------


class Hanging:
    """A function that hangs at a gate."""

    def __init__(self):
        self.gate = Gate()

    def __call__(self):
        self.gate.stop_here(LONG)
        return OLD


@pytest.fixture
def hanging():
    """Such a function; it ends with the test."""
    source = Hanging()
    yield source
    source.gate.open()


@pytest.mark.parametrize("argument", ["api_key", "auth", "headers"])
def test_a_cancel_leaves_a_hanging_function_behind(argument, hanging):
    """Promise 2: the call ends while the function still hangs; no thread stays."""
    value = hanging if argument == "api_key" else lambda *_: hanging()
    settings = {argument: {"X-Token": value} if argument == "headers" else value}
    if argument == "headers":
        settings["api_key"] = OLD
    model = OpenAIChat("m", base_url="http://127.0.0.1:1/v1", **settings)
    token = CancelToken()

    def call():
        with pytest.raises(Cancelled):
            text_of(model, token=token)

    with no_leaks():
        together(call, lambda: (hanging.gate.wait_reached(), token.cancel()))
        names = [thread.name for thread in threading.enumerate()]
        assert "syncagent-credentials" in names
        hanging.gate.open()


def test_a_signal_handler_can_cancel_it(hanging):
    """The main thread waits for the function, and handles signals."""
    token = CancelToken()
    model = OpenAIChat("m", base_url="http://127.0.0.1:1/v1", api_key=hanging)
    before = signal.signal(signal.SIGUSR1, lambda *_: token.cancel("", "signal"))

    def send():
        hanging.gate.wait_reached()
        os.kill(os.getpid(), signal.SIGUSR1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(Cancelled, match="signal"):
            text_of(model, token=token)
    finally:
        sender.join(LONG)
        signal.signal(signal.SIGUSR1, before)


def test_ctrl_c_ends_it(hanging):
    """The exception of the handler comes out as it is."""

    class Enough(Exception):
        pass

    def handle(*_):
        raise Enough

    model = OpenAIChat("m", base_url="http://127.0.0.1:1/v1", api_key=hanging)
    before = signal.signal(signal.SIGUSR1, handle)

    def send():
        hanging.gate.wait_reached()
        os.kill(os.getpid(), signal.SIGUSR1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(Enough):
            text_of(model)
    finally:
        sender.join(LONG)
        signal.signal(signal.SIGUSR1, before)


def test_a_hanging_function_is_a_timeout(hanging):
    """The connect timeout counts, and names the phase."""
    with FakeClock() as clock:
        settings = {"timeout": Timeouts(connect=10), "retries": 0}
        model = OpenAIChat(
            "m", base_url="http://127.0.0.1:1/v1", api_key=hanging, **settings
        )

        def call():
            with pytest.raises(ConnectTimeout, match="no credentials within") as error:
                text_of(model)
            assert error.value.phase == "credentials"
            assert error.value.usage == Usage()

        together(call, lambda: (hanging.gate.wait_reached(), clock.advance(10)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_a_function_is_asked(hanging):
    """The child asks for itself, also for a renewal that runs in the parent."""
    source = Refreshable(OLD, NEW)
    is_parent, parent = Gate(), os.getpid()

    def refresh():
        source.refreshed += 1
        if os.getpid() == parent:
            is_parent.stop_here(LONG)

    source.refresh = refresh
    with checking(NEW) as server:
        model = OpenAIChat("m", base_url=server.base_url, api_key=source, retries=0)
        answers = []
        caller = threading.Thread(target=lambda: answers.append(text_of(model)))
        caller.start()
        is_parent.wait_reached()
        source.refreshed = 0
        assert in_child(lambda: text_of(model)) == "ok"
        source.refreshed = 1
        is_parent.open()
        caller.join(LONG)
    assert answers == ["ok"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["inside", "thread", "meanwhile"])
def test_a_sweep_with_a_function(way):
    """Wherever the run is cancelled, in the credentials, too."""
    with FakeServer(lambda seen: "ok") as server:

        def make_agent():
            model = OpenAIChat("m", base_url=server.base_url, api_key=lambda: OLD)
            return Agent(model)

        swept = cancel_everywhere(make_agent, "Do it.", way=way)
    assert "credentials" in swept.phases


# -- trouble ---------------------------------------------------------------------------


def no_requests(model, match):
    """Expect that a model has no credentials; return the error."""
    with pytest.raises(AuthenticationFailed, match=match) as caught:
        text_of(model)
    return caught.value


def test_an_exception_of_the_function_is_the_cause(kind):
    """The message says what failed; the cause has the user's own frames only."""

    def fetch():
        raise KeyError("TOKEN_FILE")

    with FakeServer() as server:
        model = kind("m", base_url=server.base_url, api_key=fetch, retries=SOON)
        error = no_requests(
            model, r"not sent: the api_key function raised KeyError: 'TOKEN_FILE'"
        )
    assert isinstance(error.__cause__, KeyError)
    assert error.__cause__.__traceback__.tb_frame.f_code is fetch.__code__
    assert error.__cause__.__traceback__.tb_next is None
    assert error.url.startswith(server.base_url)
    assert error.provider == kind.default_endpoint
    assert error.usage == Usage()
    assert server.requests == []


def test_an_exception_of_refresh_is_a_cause_as_well():
    """The request is not sent again."""
    source = Refreshable(OLD, NEW)

    def refresh():
        raise OSError("no network")

    source.refresh = refresh
    with checking(NEW) as server:
        model = OpenAIChat("m", base_url=server.base_url, api_key=source)
        error = no_requests(model, r"refresh\(\) raised OSError: no network")
    assert isinstance(error.__cause__, OSError)
    assert keys_seen(server) == [OLD]


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (None, "NoneType in place of a str"),
        (b"bytes-0123456789", "bytes in place of a str"),
        ("", "an empty string"),
        ("  ", "an empty string"),
        ("line-0123456789\n", "a line break or a control character"),
        ("two-01234\r\nX: y-56789", "a line break or a control character"),
        ("esc-0123456789\x1b", "a line break or a control character"),
    ],
)
@pytest.mark.parametrize("argument", ["api_key", "headers"])
def test_a_value_that_cannot_be_sent(argument, value, match):
    """An error at once, that never shows it."""
    settings = {"api_key": lambda: value}
    if argument == "headers":
        settings = {"api_key": OLD, "headers": {"X-Token": lambda: value}}
    with FakeServer() as server:
        model = OpenAIChat("m", base_url=server.base_url, **settings)
        error = no_requests(model, match)
    assert argument in str(error)
    assert "0123456789" not in repr(error) + repr(vars(error))


def test_an_auth_object_must_return_the_request():
    """None is the usual mistake."""
    model = OpenAIChat("m", base_url="http://127.0.0.1:1/v1", auth=lambda request: None)
    no_requests(model, "the auth object returned NoneType in place of the request")


def test_wrong_arguments():
    """They are refused when the model is made, and never shown."""
    with pytest.raises(ConfigurationError, match="not both"):
        OpenAIChat("m", api_key=OLD, auth=HTTPBasicAuth("a", "b"))
    with pytest.raises(TypeError, match="auth must be an object") as wrong_auth:
        OpenAIChat("m", auth=("name", OLD))
    with pytest.raises(TypeError, match="api_key must be a str") as wrong_key:
        OpenAIChat("m", api_key=OLD.encode())
    with pytest.raises(TypeError, match="X-Key") as wrong_header:
        OpenAIChat("m", api_key=OLD, headers={"X-Key": OLD.encode()})
    with pytest.raises(ConfigurationError, match="HTTPDigestAuth"):
        auth = HTTPDigestAuth("a", "b")
        OpenAIChat("m", auth=auth, headers={"X-Key": lambda: OLD})
    for caught in (wrong_auth, wrong_key, wrong_header):
        assert OLD not in str(caught.value)


# -- headers and auth objects ----------------------------------------------------------


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


# -- nothing is shown ------------------------------------------------------------------


def test_rotated_values_are_masked_in_errors(kind):
    """A server may quote the key before the newest one."""
    with FakeServer(
        [
            say("", acts=[Status(503, "busy")]),
            say("", acts=[Status(400, f"{OLD} was better than {NEW}")]),
        ]
    ) as server:
        settings = {"base_url": server.base_url, "retries": SOON}
        with pytest.raises(Exception, match="was better than") as caught:
            text_of(kind("m", api_key=Rotating(OLD, NEW), **settings))
    shown = f"{caught.value} {caught.value.body} {caught.value!r}"
    assert OLD not in shown
    assert NEW not in shown


def test_rotated_values_are_masked_in_recordings():
    """Recordings ask for the secrets as they write."""
    keys, file = Rotating(OLD, NEW), io.BytesIO()
    with FakeServer([f"I have seen {OLD}.", f"And {OLD}, and {NEW}."]) as server:
        model = OpenAIChat("m", base_url=server.base_url, api_key=keys, stream=False)
        agent = Agent(model)
        agent.run("hi", record=file)
        agent.run("again", record=file)
    recorded = file.getvalue().decode()
    assert "And ***, and ***." in recorded
    assert OLD not in recorded
    assert NEW not in recorded


def test_only_the_last_few_values_are_kept():
    """A model may live for years."""
    keys = Rotating(*(f"key-number-{n:04}" for n in range(50)))
    with FakeServer(lambda seen: "ok") as server:
        model = OpenAIChat("m", base_url=server.base_url, api_key=keys)
        for _ in range(50):
            text_of(model)
    assert len(model.secrets) <= 20
    assert "key-number-0049" in model.secrets
    assert "key-number-0045" in model.secrets


@pytest.mark.parametrize(
    "settings",
    [
        {"api_key": lambda: OLD},
        {"auth": Signing(OLD)},
        {"endpoint": ENDPOINTS["ollama"], "headers": {"X-Gateway-Key": OLD}},
    ],
)
def test_neither_pickled_nor_shown(settings):
    """As constant keys."""
    model = OpenAIChat("m", **settings)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(model)
    assert OLD not in repr(model) + repr(vars(model))


def test_an_error_of_the_server_is_retried_with_a_function(kind):
    """Other errors than 401 follow the usual rules."""
    with FakeServer(lambda seen: say("", acts=[Status(503)])) as server:
        settings = {"base_url": server.base_url, "retries": SOON}
        with pytest.raises(ProviderUnavailable):
            text_of(kind("m", api_key=lambda: OLD, **settings))
    assert len(server.requests) == 3
