"""What is wrong, by what a provider says about it."""

import json

import pytest

from syncagent import exceptions
from syncagent.providers.errors import error_in_response, explain


def told(status, kind="", message="", of=exceptions.RequestRejected):
    body = json.dumps({"error": {"type": kind, "message": message}})
    return of("no", status=status, body=body, retryable=status == 429)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (told(400, message="prompt is too long: 1 > 0"), exceptions.ContextTooLong),
        (told(400, "context_length_exceeded"), exceptions.ContextTooLong),
        (
            told(400, "invalid_request_error", "exceeds the context window"),
            exceptions.ContextTooLong,
        ),
        (
            told(400, message="max_tokens: 9 > 8, the maximum number of output tokens"),
            exceptions.RequestRejected,
        ),
        (
            told(429, "rate_limit_error", "reduce the prompt", exceptions.RateLimited),
            exceptions.RateLimited,
        ),
        (
            told(200, "invalid_api_key", "wrong", exceptions.ProtocolError),
            exceptions.AuthenticationFailed,
        ),
    ],
)
def test_by_what_is_said(error, expected):
    """A word for it counts more than a sentence about it."""
    assert type(explain(error)) is expected


def test_no_money_is_not_tried_again():
    """Waiting does not help."""
    error = told(429, "insufficient_quota", of=exceptions.RateLimited)
    assert error.retryable
    assert not explain(error).retryable
    assert not error_in_response({"code": "insufficient_quota"}).retryable


@pytest.mark.parametrize(
    "said", [None, 7, "words", [], {}, {"message": None}, {"code": True}, {"type": {}}]
)
def test_whatever_an_error_looks_like(said):
    """It is one."""
    assert isinstance(error_in_response(said), exceptions.ProviderError)
