"""What is wrong with an error that a provider tells, in words and in a stream."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from .._redaction import redact
from ..exceptions import (
    AuthenticationFailed,
    ContextTooLong,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
)

#: Words that providers use for kinds of errors, in ``type`` or ``code``.
_KINDS: Final[dict[str, type[ProviderError]]] = {
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
#: No use to try these again, whatever their kind.
_FINAL: Final = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_error"}
)

_TOO_LONG: Final = re.compile(
    r"context.{0,20}(?:length|window)|prompt is too long|too many (?:input )?tokens"
    r"|maximum context|input.{0,40}exceeds|exceeds? (?:the )?context"
    r"|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)


def explain(error: ProviderError) -> ProviderError:
    """Return what *error*, made of a status alone, means by what its body says."""
    if error.status is None:
        return error
    told = _told(error.body)
    if error.status == 200 and isinstance(told, dict) and told.get("error"):
        # A stream was asked for, and this is why there is none.
        error_told = error_in_answer(told["error"])
        error_told.url, error_told.request_id = error.url, error.request_id
        return error_told
    kind, message = _parts(told.get("error", told) if isinstance(told, dict) else told)
    found = _class_of(kind, message, type(error), error.status)
    retryable = error.retryable and kind not in _FINAL
    if found is type(error):
        error.retryable = retryable
        return error
    return retold(error, found, retryable=retryable)


def retold(
    error: ProviderError, kind: type[ProviderError], *, retryable: bool = False
) -> ProviderError:
    """Return *error* as one of another *kind*, with all that it carries."""
    return kind(
        str(error) + _advice(kind),
        status=error.status,
        url=error.url,
        request_id=error.request_id,
        retry_after=error.retry_after,
        body=error.body,
        retryable=retryable,
    )


def error_in_answer(error: object) -> ProviderError:
    """Return what an error means that comes inside of an answer with status 200."""
    kind, message = _parts(error)
    status = _status(error)
    found = _class_of(kind, message, ProviderUnavailable, status)
    said = redact(message or kind or "without a word")[:300]
    return found(
        f"the provider broke off with an error: {said}{_advice(found)}",
        status=status,
        body=redact(str(error))[:4000],
        retryable=issubclass(found, (RateLimited, ProviderUnavailable))
        and kind not in _FINAL,
    )


def _class_of(
    kind: str, message: str, otherwise: type[ProviderError], status: int | None
) -> type[ProviderError]:
    named = _KINDS.get(kind.lower())
    may_be_long = otherwise is RequestRejected or status in (None, 400, 413)
    is_about_it = named in (None, RequestRejected) and _TOO_LONG.search(message)
    if may_be_long and (named is ContextTooLong or is_about_it):
        return ContextTooLong
    if status is not None and otherwise is not ProviderUnavailable:
        return otherwise
    found = named
    if found is not None:
        return found
    if status in (401, 403):
        return AuthenticationFailed
    if status == 429:
        return RateLimited
    if status is not None and 400 <= status < 500 and status not in (408, 409):
        return RequestRejected
    return otherwise


def _advice(kind: type[ProviderError]) -> str:
    if kind is ContextTooLong:
        return "; shorten the conversation, or use a model that can take more"
    return ""


def _told(body: str) -> Any:
    """Return what the body of an error tells, as JSON or as words."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return body
    return told[0] if isinstance(told, list) and told else told  # Gemini's, of a stream


def _parts(error: Any) -> tuple[str, str]:
    if not isinstance(error, dict):
        return "", str(error)
    words = [error.get(name) for name in ("code", "type", "status")]
    kinds = [word for word in words if isinstance(word, str) and word]
    known = [word for word in kinds if word.lower() in _KINDS]
    return next(iter([*known, *kinds]), ""), str(error.get("message") or "")


def _status(error: Any) -> int | None:
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else None
