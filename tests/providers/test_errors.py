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


RETRY_INFO = {
    "error": {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
            {
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": "34.4s",
            },
        ],
    }
}
DAILY = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}


def limited(body):
    """Return the error of the transport for a status of 429."""
    return exceptions.RateLimited("no", status=429, body=body, retryable=True)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(RETRY_INFO),
        json.dumps([RETRY_INFO]),
        json.dumps(RETRY_INFO, indent=2),
        json.dumps(RETRY_INFO)[:-4],
    ],
)
def test_a_wait_that_the_body_asks_for(body):
    """B9: in an object, in a list of one, and in a body that was cut off."""
    error = explain(limited(body))
    assert type(error) is exceptions.RateLimited
    assert error.retry_after == 34.4
    assert error.retryable
    assert "wait 34.4 s" in str(error)
    assert error_in_response(RETRY_INFO["error"]).retry_after == 34.4


def test_a_header_counts_more_than_the_body():
    """B9: both ask for a wait."""
    error = limited(json.dumps(RETRY_INFO))
    error.retry_after = 2.0
    assert explain(error).retry_after == 2.0


def test_a_quota_for_the_day_is_not_tried_again():
    """B9: it is used up until tomorrow, whatever delay the provider adds."""
    details = [*RETRY_INFO["error"]["details"], DAILY]
    body = {"error": {**RETRY_INFO["error"], "details": details}}
    assert not explain(limited(json.dumps(body))).retryable
    assert not error_in_response(body["error"]).retryable


@pytest.mark.parametrize(
    "code",
    [
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_error",
        "exceeded_current_quota_error",
        "1113",
    ],
)
def test_an_empty_account_is_final(code):
    """B10: also if the body was cut off after the code."""
    body = json.dumps({"error": {"message": "m", "code": code, "param": None}})
    for text in (body, body[:-3]):
        assert not explain(limited(text)).retryable, text
    assert not error_in_response({"code": 402, "message": "no credits"}).retryable
    unpaid = exceptions.RequestRejected("no", status=402, body="", retryable=True)
    assert not explain(unpaid).retryable


def test_a_bad_call_of_the_model_is_tried_again():
    """Groq's server could not read the model's call: another attempt may work."""
    bad = {"code": "tool_use_failed", "type": "invalid_request_error", "message": "m"}
    error = exceptions.RequestRejected(
        "no", status=400, body=json.dumps({"error": {**bad, "failed_generation": ""}})
    )
    for each in (explain(error), error_in_response(bad)):
        assert type(each) is exceptions.ProviderUnavailable
        assert each.retryable


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"code": "content_filter", "status": 400}, exceptions.RequestRejected),
        ({"status": 400, "message": "no"}, exceptions.RequestRejected),
        ({"code": "429", "message": "no"}, exceptions.RateLimited),
        ({"code": 402, "message": "no"}, exceptions.RequestRejected),
        ({"code": 424, "message": "no"}, exceptions.ProviderUnavailable),
        ({"code": 502, "message": "no"}, exceptions.ProviderUnavailable),
        ({"code": "invalid_api_key", "message": "no"}, exceptions.AuthenticationFailed),
        ({"message": "invalid x-api-key"}, exceptions.AuthenticationFailed),
        ({"code": "too_many_prompt_tokens"}, exceptions.ContextTooLong),
        ({"message": "Prompt too long"}, exceptions.ContextTooLong),
    ],
)
def test_inside_of_a_response(said, expected):
    """B11: a number in there decides, and the status stays that of the response."""
    error = error_in_response(said)
    assert type(error) is expected
    assert error.status == 200
    temporary = (exceptions.RateLimited, exceptions.ProviderUnavailable)
    assert error.retryable is (expected in temporary)


@pytest.mark.parametrize(
    "raw",
    [
        "the GPU is on fire",
        json.dumps({"error": {"message": "the GPU is on fire", "type": "x"}}),
        json.dumps({"message": "the GPU is on fire"}),
        {"error": "the GPU is on fire"},
    ],
)
def test_the_cause_behind_a_router(raw):
    """B12: "Provider returned error" alone says nothing."""
    metadata = {"raw": raw, "provider_name": "Other"}
    said = {"code": 502, "message": "Provider returned error", "metadata": metadata}
    error = error_in_response(said)
    assert str(error).endswith("Provider returned error: the GPU is on fire")


def test_the_cause_decides_as_well():
    """The router's own code is that of any trouble."""
    raw = json.dumps({"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}})
    said = {"code": 400, "message": "Provider returned error", "metadata": {"raw": raw}}
    assert type(error_in_response(said)) is exceptions.ContextTooLong


WRONG_KEYS = [
    {
        "code": "Client specified an invalid argument",
        "error": "Incorrect API key provi",
    },
    {"error": {"message": "Incorrect API key provided: ab***yz.", "code": None}},
    {"error": {"status": "INVALID_ARGUMENT", "message": "API key not valid. Please"}},
    {"error": {"code": 400, "details": [{"reason": "API_KEY_INVALID"}]}},
    {"type": "error", "error": {"type": "x", "message": "invalid x-api-key"}},
    {"__type": "UnrecognizedClientException", "message": "no"},
    {"message": "The security token included in the request is expired"},
]


@pytest.mark.parametrize("body", WRONG_KEYS)
def test_a_wrong_key_by_any_status(body):
    """B22: some providers answer 400."""
    error = exceptions.RequestRejected("no", status=400, body=json.dumps(body))
    assert type(explain(error)) is exceptions.AuthenticationFailed


@pytest.mark.parametrize(
    ("status", "name", "expected"),
    [
        (400, "ExpiredTokenException", exceptions.AuthenticationFailed),
        (400, "ThrottlingException", exceptions.RateLimited),
        (400, "ModelErrorException", exceptions.ProviderUnavailable),
        (400, "ValidationException", exceptions.RequestRejected),
    ],
)
def test_aws_names_the_error_in_a_header(status, name, expected):
    """The transport puts the name into the message."""
    error = exceptions.RequestRejected(
        f"the server answered {status} Bad Request {name}: no",
        status=status,
        body='{"message": "no"}',
    )
    explained = explain(error)
    assert type(explained) is expected
    temporary = (exceptions.RateLimited, exceptions.ProviderUnavailable)
    assert explained.retryable is (expected in temporary)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum prompt length is 131072 but the request contains 207133",
        "Input is too long for requested model.",
        "Please reduce the length of the messages or completion.",
        "Prompt contains 9 tokens, too large for model with 8 maximum context length",
        "request (9 tokens) exceeds the available context size (8 tokens)",
        "Your request exceeded model token limit: 8",
    ],
)
def test_words_for_too_long(message):
    """B23: of xAI, Bedrock, Groq, Mistral, llama.cpp and Moonshot."""
    assert type(explain(told(400, message=message))) is exceptions.ContextTooLong


@pytest.mark.parametrize(
    "said", [None, 7, "words", [], {}, {"message": None}, {"code": True}, {"type": {}}]
)
def test_whatever_an_error_looks_like(said):
    """It is one."""
    assert isinstance(error_in_response(said), exceptions.ProviderError)


@pytest.mark.parametrize("field", [None, "message", "metadata"])
def test_a_value_that_is_nested_too_deeply_for_a_text(field):
    """It may still be flat enough for the decoder."""
    value = []
    for _ in range(100_000):
        value = [value]
    inner = {"raw": value} if field == "metadata" else value
    error = error_in_response(inner if field is None else {field: inner})
    assert type(error) is exceptions.ProviderUnavailable
    assert "deeply nested" in str(error)
