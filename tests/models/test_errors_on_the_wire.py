"""How often a request is sent, and what its error carries, by what the body says."""

import json

import pytest
from support.raw_server import RawServer
from support.threads import together

from syncagent.exceptions import (
    AuthenticationFailed,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
    StreamBroken,
)
from syncagent.models import Anthropic, Gemini, OpenAIChat
from syncagent.testing import FakeClock
from syncagent.transport import Retries

JSON = {"Content-Type": "application/json"}
EVENTS = {"Content-Type": "text/event-stream"}
SOON = Retries(limit=2, first_delay=0.001)


def fail(kind, server, *, retries=SOON, **settings):
    """Make a request that fails; return the error."""
    settings = {"base_url": server.url, "api_key": "key-0123456789", **settings}
    with pytest.raises((ProviderError, StreamBroken)) as caught:
        kind("m", retries=retries, **settings).respond("hi")
    return caught.value


def inside(error, stream, **headers):
    """Return a response of status 200 with an error in it."""
    text = json.dumps(error)
    if stream:
        return 200, {**EVENTS, **headers}, f"data: {text}\n\n".encode()
    return 200, {**JSON, **headers}, text.encode()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, {"code": "insufficient_quota", "type": "insufficient_quota"}),
        (429, {"code": "billing_hard_limit_reached"}),
        (402, {"code": 402, "message": "no credits"}),
        (429, {"details": [{"violations": [{"quotaId": "RequestsPerDay"}]}]}),
    ],
)
def test_a_final_error_is_sent_once(kind, stream, status, error):
    """B10: the body is read before the decision to retry."""
    with RawServer((status, JSON, {"error": error})) as server:
        caught = fail(kind, server, stream=stream)
    assert len(server.requests) == 1
    assert not caught.retryable
    assert caught.status == status


def test_a_temporary_error_is_still_sent_again(kind, stream):
    """A plain 429 may pass."""
    with RawServer((429, JSON, {"error": {"message": "slow down"}})) as server:
        caught = fail(kind, server, stream=stream)
    assert len(server.requests) == 3
    assert type(caught) is RateLimited


def test_the_server_knows_best(kind):
    """Its own advice counts, in a header."""
    headers = {**JSON, "x-should-retry": "false"}
    with RawServer((429, headers, {"error": {"message": "slow down"}})) as server:
        fail(kind, server)
    assert len(server.requests) == 1


def test_a_delay_in_the_body_is_waited_for():
    """B9: no request is sent before that time."""
    error = {"error": {"code": 429, "details": [{"retryDelay": "34.4s"}]}}
    with RawServer((429, JSON, [error])) as server, FakeClock() as clock:
        model = Gemini("m", base_url=server.url, api_key="k", retries=1)

        def call():
            with pytest.raises(RateLimited):
                model.respond("hi")

        def watch():
            clock.wait_for_sleepers()
            clock.advance(34.3)
            clock.wait_for_sleepers()
            assert len(server.requests) == 1
            clock.advance(1.0)

        together(call, watch)
    assert len(server.requests) == 2


def test_a_delay_that_is_too_long_is_not_waited_for():
    """B9: the limit of the retries counts."""
    error = {"error": {"code": 429, "details": [{"retryDelay": "34.4s"}]}}
    with RawServer((429, JSON, [error])) as server:
        caught = fail(Gemini, server, retries=Retries(limit=2, max_retry_after=34))
    assert len(server.requests) == 1
    assert caught.retry_after == 34.4


def test_a_bad_call_is_sent_again():
    """Groq's 400 for a call that its server could not read."""
    bad = {"error": {"code": "tool_use_failed", "type": "invalid_request_error"}}
    with RawServer((400, JSON, bad)) as server:
        caught = fail(OpenAIChat, server)
    assert len(server.requests) == 3
    assert type(caught) is ProviderUnavailable
    assert caught.status == 400


@pytest.mark.parametrize(
    ("status", "name", "expected", "requests"),
    [
        (429, "ThrottlingException", RateLimited, 3),
        (503, "ServiceUnavailableException", ProviderUnavailable, 3),
        (424, "ModelErrorException", ProviderUnavailable, 3),
        (408, "ModelTimeoutException", ProviderUnavailable, 3),
        (403, "AccessDeniedException", AuthenticationFailed, 1),
        (400, "UnrecognizedClientException", AuthenticationFailed, 1),
        (400, "ValidationException", RequestRejected, 1),
    ],
)
def test_errors_of_aws(status, name, expected, requests):
    """Their names are in a header."""
    headers = {**JSON, "x-amzn-errortype": f"{name}:http://internal.example/"}
    with RawServer((status, headers, {"message": "no"})) as server:
        caught = fail(OpenAIChat, server)
    assert type(caught) is expected
    assert name in str(caught)
    assert len(server.requests) == requests


def test_a_content_filter_inside_a_response_is_final(kind, stream):
    """B11: Azure sends it with status 200."""
    error = {"error": {"code": "content_filter", "status": 400, "message": "no"}}
    if kind is Anthropic:
        error["type"] = "error"
    with RawServer(inside(error, stream)) as server:
        caught = fail(kind, server, stream=stream)
    assert type(caught) is RequestRejected
    assert len(server.requests) == 1


def test_an_error_inside_a_response_says_where_it_came_from(kind, stream):
    """B12: address, status and request; and it is sent again, as nothing came."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    headers = {"x-request-id": "req_0815"}
    with RawServer(inside(error, stream, **headers)) as server:
        caught = fail(kind, server, stream=stream)
    assert type(caught) is ProviderUnavailable
    assert caught.url.startswith(server.url)
    assert caught.status == 200
    assert caught.request_id == "req_0815"
    assert str(caught).startswith(f"{kind.default_endpoint}: the provider reported")
    assert "(request req_0815)" in str(caught)
    assert len(server.requests) == 3


def test_an_error_in_place_of_a_stream_is_sent_again(kind):
    """Nothing was delivered: it is like a status."""
    error = {"error": {"type": "overloaded_error", "message": "busy"}}
    headers = {**JSON, "request-id": "req_0815"}
    with RawServer((200, headers, error)) as server:
        caught = fail(kind, server)
    assert type(caught) is ProviderUnavailable
    assert (caught.status, caught.request_id) == (200, "req_0815")
    assert len(server.requests) == 3


def test_a_stream_that_ends_early_says_where(kind):
    """B12: the decoder does not know the address, the error does."""
    with RawServer((200, EVENTS, b": nothing\n\n")) as server:
        caught = fail(kind, server, retries=0)
    assert isinstance(caught, StreamBroken)
    assert caught.url.startswith(server.url)


@pytest.mark.parametrize("where", ["status", "inside"])
def test_a_wrong_key_names_the_variable(kind, stream, where):
    """B22: wherever the provider says so."""
    error = {"type": "error", "error": {"message": "Incorrect API key provided: k."}}
    response = (400, JSON, error) if where == "status" else inside(error, stream)
    with RawServer(response) as server:
        caught = fail(kind, server, stream=stream)
    assert type(caught) is AuthenticationFailed
    assert "_API_KEY" in str(caught)
    assert len(server.requests) == 1


def test_the_request_id_in_an_event_of_anthropic(stream):
    """B12: it is in the body, where a proxy may have dropped the header."""
    error = {"type": "error", "error": {"type": "api_error", "message": "oops"}}
    error["request_id"] = "req_011CS"
    with RawServer(inside(error, stream)) as server:
        caught = fail(Anthropic, server, retries=0, stream=stream)
    assert (caught.request_id, caught.status) == ("req_011CS", 200)
    assert caught.url.endswith("/v1/messages")
