"""Errors that providers report, as a status or inside of a response."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from ..exceptions import (
    AuthenticationFailed,
    ContextTooLong,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
)

#: Our classes for the ``type`` or ``code`` that providers put into an error.
_CLASSES: Final[dict[str, type[ProviderError]]] = {
    "authentication_error": AuthenticationFailed,
    "permission_error": AuthenticationFailed,
    "invalid_api_key": AuthenticationFailed,
    "unauthenticated": AuthenticationFailed,
    "permission_denied": AuthenticationFailed,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "resource_exhausted": RateLimited,
    "insufficient_quota": RateLimited,
    "context_length_exceeded": ContextTooLong,
    "overloaded_error": ProviderUnavailable,
    "api_error": ProviderUnavailable,
    "server_error": ProviderUnavailable,
    "internal": ProviderUnavailable,
    "unavailable": ProviderUnavailable,
    "timeout_error": ProviderUnavailable,
    "billing_error": RequestRejected,
    "request_too_large": RequestRejected,
    "invalid_prompt": RequestRejected,
    "invalid_image": RequestRejected,
    "invalid_image_format": RequestRejected,
    "invalid_image_url": RequestRejected,
    "image_too_large": RequestRejected,
    "image_parse_error": RequestRejected,
    "exceed_context_size_error": ContextTooLong,
    "invalid_request_error": RequestRejected,
    "not_found_error": RequestRejected,
    "invalid_argument": RequestRejected,
}
#: How much of the provider's text a message quotes, in characters.
_MAX_MESSAGE: Final = 300
#: How much of a response an error carries, in characters.
_MAX_BODY: Final = 4000
#: Codes of errors that a retry cannot cure.
_PERMANENT: Final = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_error"}
)

_TOO_LONG: Final = re.compile(
    r"context.{0,20}(?:length|window)|prompt is too long|too many (?:input )?tokens"
    r"|maximum context|input.{0,40}exceeds|exceeds? (?:the )?context"
    r"|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)


def explain(error: ProviderError) -> ProviderError:
    """Return the error that the body of *error* describes; its class is by status."""
    if error.status is None:
        return error
    try:
        body = msgspec.json.decode(error.body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        body = error.body
    if isinstance(body, list) and body:  # Gemini's, in place of a stream
        body = body[0]
    if error.status == 200 and isinstance(body, dict) and body.get("error"):
        # The provider sent this error in place of the stream.
        explained = error_in_response(body["error"])
        explained.url, explained.request_id = error.url, error.request_id
        return explained
    code, message = _parts(body.get("error", body) if isinstance(body, dict) else body)
    error_class = _class_of(code, message, type(error), error.status)
    retryable = error.retryable and code not in _PERMANENT
    if error_class is type(error):
        error.retryable = retryable
        return error
    return recast(error, error_class, retryable=retryable)


def recast(
    error: ProviderError, error_class: type[ProviderError], *, retryable: bool = False
) -> ProviderError:
    """Return *error* as an instance of another class, with all its data."""
    return error_class(
        str(error) + _advice(error_class),
        status=error.status,
        url=error.url,
        request_id=error.request_id,
        retry_after=error.retry_after,
        body=error.body,
        retryable=retryable,
        provider=error.provider,
    )


def error_in_response(error: object) -> ProviderError:
    """Return our error for one that came inside of a response with status 200.

    It quotes the provider as it is: the model knows the secrets, and masks them.
    """
    code, message = _parts(error)
    number = error.get("code") if isinstance(error, dict) else None
    status = number if isinstance(number, int) and 400 <= number < 600 else None
    error_class = _class_of(code, message, ProviderUnavailable, status)
    text = excerpt(message or code or "no message", _MAX_MESSAGE)
    return error_class(
        f"the provider reported an error: {text}{_advice(error_class)}",
        status=status,
        body=excerpt(str(error)),
        retryable=issubclass(error_class, (RateLimited, ProviderUnavailable))
        and code not in _PERMANENT,
    )


def excerpt(text: str, size: int = _MAX_BODY) -> str:
    """Return the beginning of *text*, with dots if it was cut."""
    return text if len(text) <= size else f"{text[:size]}..."


def _class_of(
    code: str, message: str, default: type[ProviderError], status: int | None
) -> type[ProviderError]:
    named = _CLASSES.get(code.lower())
    may_be_long = default is RequestRejected or status in (None, 400, 413)
    mentions_length = named in (None, RequestRejected) and _TOO_LONG.search(message)
    if may_be_long and (named is ContextTooLong or mentions_length):
        return ContextTooLong
    if status is not None and default is not ProviderUnavailable:
        return default
    if named is not None:
        return named
    if status in (401, 403):
        return AuthenticationFailed
    if status == 429:
        return RateLimited
    if status is not None and 400 <= status < 500 and status not in (408, 409):
        return RequestRejected
    return default


def _advice(error_class: type[ProviderError]) -> str:
    if error_class is ContextTooLong:
        return "; shorten the conversation, or use a model with a larger context window"
    return ""


def _parts(error: Any) -> tuple[str, str]:
    """Return the code of an error and its message."""
    if not isinstance(error, dict):
        return "", str(error)
    values = [error.get(name) for name in ("code", "type", "status")]
    codes = [value for value in values if isinstance(value, str) and value]
    known = [code for code in codes if code.lower() in _CLASSES]
    return next(iter([*known, *codes]), ""), str(error.get("message") or "")
