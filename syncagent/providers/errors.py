"""Errors that providers report, by a status or inside of a response."""

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
    "api_key_invalid": AuthenticationFailed,
    "unauthenticated": AuthenticationFailed,
    "permission_denied": AuthenticationFailed,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "resource_exhausted": RateLimited,
    "insufficient_quota": RateLimited,
    "context_length_exceeded": ContextTooLong,
    "too_many_prompt_tokens": ContextTooLong,  # Perplexity
    "exceed_context_size_error": ContextTooLong,
    "overloaded_error": ProviderUnavailable,
    "api_error": ProviderUnavailable,
    "server_error": ProviderUnavailable,
    "internal": ProviderUnavailable,
    "unavailable": ProviderUnavailable,
    "timeout_error": ProviderUnavailable,
    "tool_use_failed": ProviderUnavailable,  # Groq: the model wrote an invalid call
    "billing_error": RequestRejected,
    "content_filter": RequestRejected,
    "request_too_large": RequestRejected,
    "invalid_prompt": RequestRejected,
    "invalid_image": RequestRejected,
    "invalid_image_format": RequestRejected,
    "invalid_image_url": RequestRejected,
    "image_too_large": RequestRejected,
    "image_parse_error": RequestRejected,
    "invalid_request_error": RequestRejected,
    "not_found_error": RequestRejected,
    "invalid_argument": RequestRejected,
    # AWS
    "accessdeniedexception": AuthenticationFailed,
    "expiredtokenexception": AuthenticationFailed,
    "invalidsignatureexception": AuthenticationFailed,
    "unrecognizedclientexception": AuthenticationFailed,
    "throttlingexception": RateLimited,
    "internalserverexception": ProviderUnavailable,
    "modelerrorexception": ProviderUnavailable,
    "modelnotreadyexception": ProviderUnavailable,
    "modeltimeoutexception": ProviderUnavailable,
    "serviceunavailableexception": ProviderUnavailable,
    "validationexception": RequestRejected,
}
#: The number of characters of the provider's text that a message quotes.
_MAX_MESSAGE: Final = 300
#: The number of characters of a response that an error carries.
_MAX_BODY: Final = 4000
#: Codes of errors that no retry cures.
_PERMANENT: Final = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_error",
        "exceeded_current_quota_error",  # Moonshot
        "1113",  # Z.ai: the account is empty
    }
)
#: Statuses below 500 of errors that a retry may cure, apart from 429; AWS sends 424.
_TEMPORARY: Final = frozenset({408, 409, 424})

_TOO_LONG: Final = re.compile(
    r"context.{0,20}(?:length|window)|prompt (?:is )?too long"
    r"|too many (?:input )?tokens|maximum (?:context|prompt length)"
    r"|input.{0,40}exceeds|exceeds? (?:the )?(?:available )?context"
    r"|input is too long for requested model|exceeded model token limit"
    r"|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)
_WRONG_KEY: Final = re.compile(
    r"incorrect api key|invalid (?:x-)?api[- ]key|api key not valid|api_key_invalid"
    r"|(?:UnrecognizedClient|InvalidSignature|ExpiredToken)Exception"
    r"|security token included in the request is (?:invalid|expired)",
    re.IGNORECASE,
)
#: The code in a body that was cut off, or the type of an AWS error, which is in the
#: message.
_CODE: Final = re.compile(
    r"""["'](?:code|type|status|reason)["']\s*:\s*["'](\w+)["']|\b([A-Z]\w+Exception)\b"""
)
_STATUS: Final = re.compile(r"[45][0-9]{2}")
#: Google's, in ``details`` of an error. The fields may be in JSON or in a repr.
_RETRY_DELAY: Final = re.compile(
    r"""["']retryDelay["']\s*:\s*["'](\d+(?:\.\d+)?)s["']"""
)
_DAILY_QUOTA: Final = re.compile(r"""["']quotaId["']\s*:\s*["']\w*PerDay""")


def explain(error: ProviderError) -> ProviderError:
    """Return the error that the body of *error* describes.

    :param error: its class follows from its status.
    """
    if error.status is None:
        return error
    try:
        body = msgspec.json.decode(error.body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        body = error.body  # perhaps it was cut off
    if isinstance(body, list) and body:  # Gemini's, in place of a stream
        body = body[0]
    if error.status == 200 and isinstance(body, dict) and body.get("error"):
        # The provider sent this error in place of the stream.
        inner = body.get("request_id")
        request_id = error.request_id or (inner if isinstance(inner, str) else None)
        explained = error_in_response(body["error"], request_id)
        explained.url = error.url
        return explained
    code, message = _parts(body.get("error", body) if isinstance(body, dict) else body)
    if not code:
        found = _CODE.findall(f"{error} {error.body}")
        code = _best_code([name or kind for name, kind in found])
    error_class = _class_of(code, message, type(error), error.status)
    # The status may say that an error is final, while the body says that it may pass.
    is_temporary = issubclass(error_class, (RateLimited, ProviderUnavailable))
    may_pass = error.retryable or (is_temporary and type(error) is RequestRejected)
    retryable = may_pass and not _is_final(code, error.status, error.body)
    if error_class is not type(error):
        error = recast(error, error_class, retryable=retryable)
    error.retryable = retryable
    if error.retry_after is None:
        error.retry_after = _retry_delay(error.body)
        if error.retry_after is not None and retryable:
            error.args = (f"{error}; it asks to wait {error.retry_after:.10g} s",)
    return error


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


def error_in_response(error: object, request_id: str | None = None) -> ProviderError:
    """Return our error for one inside of a response with status 200.

    The message quotes the provider unmasked: the model knows the secrets, and masks
    them.

    :param request_id: the provider's id of the request, if the response has one.
    """
    code, message = _parts(error)
    body, number = _text(error), _number(error)
    error_class = _class_of(code, message, ProviderUnavailable, number)
    text = excerpt(message or code or "no message", _MAX_MESSAGE)
    return error_class(
        f"the provider reported an error: {text}{_advice(error_class)}",
        status=200,
        request_id=request_id,
        retry_after=_retry_delay(body),
        body=excerpt(body),
        retryable=issubclass(error_class, (RateLimited, ProviderUnavailable))
        and not _is_final(code, number, body),
    )


def excerpt(text: str, size: int = _MAX_BODY) -> str:
    """Return the beginning of *text*, with dots if it was cut."""
    return text if len(text) <= size else f"{text[:size]}..."


def _class_of(
    code: str, message: str, default: type[ProviderError], status: int | None
) -> type[ProviderError]:
    """Return the class of an error.

    :param default: the class for the status; ProviderUnavailable for an error inside of
        a response.
    :param status: the status of the response, or the number in an error inside of it.
    """
    named = _CLASSES.get(code.lower())
    may_be_long = default is RequestRejected or status in (None, 400, 403, 413)
    mentions_length = named in (None, RequestRejected) and _TOO_LONG.search(message)
    if may_be_long and (named is ContextTooLong or mentions_length):
        return ContextTooLong
    is_about_key = _WRONG_KEY.search(f"{code} {message}") is not None
    if is_about_key and (status is None or status in (400, 401, 403)):
        return AuthenticationFailed
    # Some providers send 400 for every error.
    is_vague = status == 400 and named not in (None, ContextTooLong)
    if status is not None and default is not ProviderUnavailable and not is_vague:
        return default
    if named is not None:
        return named
    if status in (401, 403):
        return AuthenticationFailed
    if status == 429:
        return RateLimited
    if status is not None and 400 <= status < 500 and status not in _TEMPORARY:
        return RequestRejected
    return default


def _is_final(code: str, status: int | None, body: str) -> bool:
    is_unpaid = status == 402 or code.lower() in _PERMANENT
    return is_unpaid or _DAILY_QUOTA.search(body) is not None


def _retry_delay(body: str) -> float | None:
    """Return the seconds that a body asks to wait."""
    found = _RETRY_DELAY.search(body)
    return None if found is None else float(found[1])


def _advice(error_class: type[ProviderError]) -> str:
    if error_class is ContextTooLong:
        return "; shorten the conversation, or use a model with a larger context window"
    return ""


def _best_code(codes: list[str]) -> str:
    """Return the first known code, or else the first."""
    known = [c for c in codes if c.lower() in _CLASSES or c.lower() in _PERMANENT]
    return next(iter([*known, *codes]), "")


def _parts(error: Any) -> tuple[str, str]:
    """Return the code of an error and its message."""
    if not isinstance(error, dict):
        return "", _text(error)
    values = [error.get(name) for name in ("code", "type", "status", "__type")]
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():  # Google's
        values.append(detail.get("reason") if isinstance(detail, dict) else None)
    codes = [value for value in values if isinstance(value, str) and value]
    message, cause = _text(error.get("message") or ""), _cause(error.get("metadata"))
    return _best_code(codes), f"{message}: {cause}" if cause else message


def _cause(metadata: Any) -> str:
    """Return the upstream provider's text, which OpenRouter puts into ``metadata``."""
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str):
        try:
            raw = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            pass
    if isinstance(raw, dict):
        inner = raw.get("error", raw)
        raw = (inner.get("message") if isinstance(inner, dict) else inner) or raw
    return _text(raw or "")


def _text(value: Any) -> str:
    """Return *value*, which came as JSON, as text."""
    try:
        return str(value)
    except RecursionError:  # it was just flat enough to be decoded
        return "a deeply nested value"


def _number(error: object) -> int | None:
    """Return the HTTP status that an error inside of a response names."""
    if isinstance(error, dict):
        for value in (error.get("status"), error.get("code")):
            if isinstance(value, str) and _STATUS.fullmatch(value):
                value = int(value)
            if isinstance(value, int) and 400 <= value < 600:
                return value
    return None
