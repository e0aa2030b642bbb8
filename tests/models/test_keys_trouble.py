"""Functions for keys that fail, and values that are never shown."""

import io
import pickle
from traceback import TracebackException

import pytest
from requests.auth import HTTPBasicAuth, HTTPDigestAuth
from support.keys import (
    NEW,
    OLD,
    SOON,
    Refreshable,
    Rotating,
    checking,
    keys_seen,
    text_of,
)
from support.raw_server import RawServer
from support.threads import LONG

from syncagent import Agent
from syncagent.exceptions import (
    AuthenticationFailed,
    ConfigurationError,
    ProviderUnavailable,
    RequestRejected,
)
from syncagent.models import OpenAIChat
from syncagent.models.endpoints import ENDPOINTS
from syncagent.testing import (
    FakeServer,
    Status,
    say,
)
from syncagent.transport import Timeouts
from syncagent.usage import Usage


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


def test_a_value_that_is_still_in_use_is_kept():
    """Beside one that changes all the time, such as the signature of a request."""
    keys = Rotating(*(f"key-number-{n:04}" for n in range(50)))
    with FakeServer(lambda seen: "ok") as server:
        settings = {"api_key": keys, "headers": {"X-Token": lambda: OLD}}
        model = OpenAIChat("m", base_url=server.base_url, **settings)
        for _ in range(50):
            text_of(model)
            assert OLD in model.secrets


@pytest.mark.parametrize("place", ["function", "refresh"])
def test_a_function_that_uses_its_own_model(place):
    """It would wait for itself, or start a thread after the other."""
    source = Refreshable(OLD)

    def use_model():
        text_of(model)
        return OLD

    source.refresh = use_model
    key = use_model if place == "function" else source
    with checking(NEW) as server:
        timeout = Timeouts(connect=LONG)
        settings = {"base_url": server.base_url, "timeout": timeout}
        model = OpenAIChat("m", api_key=key, **settings)
        with pytest.raises(AuthenticationFailed, match="uses the model that needs"):
            text_of(model)
        assert len(server.requests) == (place == "refresh")


def test_an_exception_without_a_text():
    """It is the cause all the same, and does not come out as it is."""

    class Silent(Exception):
        def __str__(self):
            raise Silent

    def fail():
        raise Silent

    model = OpenAIChat("m", base_url="http://127.0.0.1:1/v1", api_key=fail)
    with pytest.raises(AuthenticationFailed, match="raised Silent") as caught:
        text_of(model)
    assert isinstance(caught.value.__cause__, Silent)


@pytest.mark.parametrize("url", [None, "http://away.example/v1", "ftp://away.example"])
def test_secret_headers_are_no_local_variables(url):
    """Tools that report errors show these."""
    with RawServer((400, {}, {"error": "no"})) as server:
        settings = {"api_key": OLD, "headers": {"X-Gateway-Key": NEW}}
        model = OpenAIChat("m", base_url=url or server.url, **settings)
        with pytest.raises((RequestRejected, ConfigurationError)) as caught:
            text_of(model)
    error = caught.value
    trace = error.__traceback__.tb_next  # without the frame of this test
    shown = TracebackException(type(error), error, trace, capture_locals=True)
    text = "".join(shown.format())
    assert "_attempts" in text
    assert OLD not in text
    assert NEW not in text


@pytest.mark.parametrize(
    "settings",
    [
        {"api_key": lambda: OLD},
        {"auth": HTTPBasicAuth("me", OLD), "headers": {"X": lambda: OLD}},
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
