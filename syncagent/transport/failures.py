"""What went wrong, in the words of this package: the one place of translation.

Nothing here decides whether a call was cancelled: the token was asked before.

Errors of :mod:`requests` and :mod:`urllib3` hold the request, and with it the key; so
do the frames of their tracebacks. Neither stays reachable from our errors: only the
system's own error does, without its traceback.
"""

from __future__ import annotations

import errno
import http.client
import re
import socket
import ssl
import traceback
from collections.abc import Iterator
from typing import Final

import requests
import urllib3.exceptions as urllib3_errors

from ..exceptions import (
    ConfigurationError,
    ConnectionFailed,
    ConnectTimeout,
    FirstEventTimeout,
    HeadersTimeout,
    RequestTimeout,
    SendTimeout,
    StallTimeout,
    StreamBroken,
    SyncAgentError,
    TotalTimeout,
)
from ..timeouts import Timeouts
from .exchange import TIMEOUT_OF

_TIMEOUTS: Final[dict[str, type[RequestTimeout]]] = {
    "connect": ConnectTimeout,
    "send": SendTimeout,
    "headers": HeadersTimeout,
    "first_event": FirstEventTimeout,
    "stall": StallTimeout,
}

#: What the libraries raise for a request that cannot be made at all.
_NEVER_SENT: Final = (
    requests.exceptions.InvalidProxyURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema,
    urllib3_errors.LocationParseError,
    UnicodeError,
)
_LIBRARY: Final = (requests.RequestException, urllib3_errors.HTTPError)
_SYSTEM: Final = (OSError, http.client.HTTPException)
_DECODING: Final = (
    requests.exceptions.ContentDecodingError,
    urllib3_errors.DecodeError,
)
_PROXY: Final = (requests.exceptions.ProxyError, urllib3_errors.ProxyError)


def shown(url: str) -> str:
    """Return *url* without what may be secret: credentials, query and fragment."""
    scheme, _, rest = url.partition("://")
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def timed_out(phase: str, timeouts: Timeouts, url: str) -> RequestTimeout:
    """Return the error for a phase that has taken longer than it may."""
    name = TIMEOUT_OF[phase]
    return _TIMEOUTS[name](
        f"{shown(url)}: no {_AWAITED[name]} within {getattr(timeouts, name):g} s "
        f"(phase: {phase}); if the server may take longer, raise timeout {name}",
        phase=phase,
        url=shown(url),
        retryable=True,
    )


_AWAITED: Final = {
    "connect": "connection",
    "send": "room for the request",
    "headers": "answer",
    "first_event": "first event",
    "stall": "further event",
}


def took_too_long(phase: str, timeouts: Timeouts, url: str) -> TotalTimeout:
    """Return the error for a call that has taken longer than it may as a whole."""
    return TotalTimeout(
        f"{shown(url)}: the call took more than {timeouts.total:g} s with all its "
        f"retries, and was at: {phase}; if it may take longer, raise timeout total",
        phase=phase,
        url=shown(url),
    )


def translate(error: BaseException, phase: str, url: str) -> SyncAgentError | None:
    """Return our error for one of the libraries below; ``None`` if it is none."""
    if isinstance(error, _NEVER_SENT) or _is_about_a_header(error):
        return ConfigurationError(_never_sent(error, url))
    if not isinstance(error, (*_LIBRARY, *_SYSTEM)):
        return None
    if phase == "" and not isinstance(error, _LIBRARY):
        return ConfigurationError(f"{shown(url)}: {error}")  # no such certificate
    failure = _failure(error, phase, url)
    cause = _system_error(error)
    if cause is not None:
        failure.__cause__ = cause.with_traceback(None)
        cause.__context__ = cause.__cause__ = None
    return failure


def free(error: BaseException | None) -> None:
    """Free what the frames below *error* hold, if it is a library's, and not ours.

    The libraries' exceptions refer to frames which refer to the exceptions, so that
    only the collector would ever close a socket, or forget a key, that is in there.
    """
    if isinstance(error, (*_LIBRARY, *_SYSTEM)):
        for link in list(_chain(error)):
            traceback.clear_frames(link.__traceback__)


def _never_sent(error: BaseException, url: str) -> str:
    if isinstance(error, UnicodeError):
        # Its own text and data would show the header, which may be the key.
        return (
            f"{shown(url)}: the request has a header that cannot be sent, with a "
            "character beyond Latin-1; was a key pasted with something else?"
        )
    if _is_about_a_header(error):
        return (
            f"{shown(url)}: the request has a header that cannot be sent: names and "
            "values are strings, without line breaks or space at the beginning"
        )
    return f"{shown(url)}: the request cannot be sent to this address, or this proxy"


def _is_about_a_header(error: BaseException) -> bool:
    # The second is http.client's, for what requests lets pass.
    return isinstance(error, requests.exceptions.InvalidHeader) or (
        isinstance(error, ValueError) and str(error).startswith("Invalid header ")
    )


def _failure(
    error: BaseException, phase: str, url: str
) -> ConnectionFailed | StreamBroken | ConnectTimeout:
    chain = list(_chain(error))
    cause = _system_error(error)
    why, retryable = _explain(cause)
    said = f"{shown(url)}: {_where(chain, phase)}: {why}"
    kind: type[ConnectionFailed | StreamBroken | ConnectTimeout]
    if any(isinstance(link, _DECODING) for link in chain):
        kind = StreamBroken
        said = f"{shown(url)}: the answer is not in the encoding that it claims"
    elif TIMEOUT_OF.get(phase) == "connect" and isinstance(cause, TimeoutError):
        kind = ConnectTimeout
    elif phase in _BEFORE_AN_ANSWER:
        kind = ConnectionFailed
    else:
        kind = StreamBroken
    return kind(said, phase=phase, url=shown(url), retryable=retryable)


_BEFORE_AN_ANSWER: Final = frozenset(
    {"", "resolve", "connect", "handshake", "send", "headers"}
)


def _where(chain: list[BaseException], phase: str) -> str:
    if any(isinstance(link, _PROXY) for link in chain):
        return "the proxy could not be used"
    if TIMEOUT_OF.get(phase) == "connect":
        return "could not connect"
    if phase in _BEFORE_AN_ANSWER:
        return "the connection broke before an answer came"
    return "the connection broke in the middle of the answer"


def _explain(cause: BaseException | None) -> tuple[str, bool]:
    """Say what *cause* means, and whether it may pass."""
    if isinstance(cause, socket.gaierror):
        said = f"the name cannot be looked up ({cause.strerror or cause})"
        return said, cause.errno == socket.EAI_AGAIN
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({cause.verify_message}); give the "
            "authority's certificate as verify= or in REQUESTS_CA_BUNDLE"
        ), False
    if isinstance(cause, ssl.SSLError):
        is_cut = isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
        return f"TLS failed ({cause.reason or cause}); is this an https server?", is_cut
    if isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE):
        return f"{cause.strerror}; raise the limit (ulimit -n), or close more", False
    if cause is None:
        return "it ended too early", True
    return str(cause) or type(cause).__name__, True


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield *error* and those that it was made from, the outermost first."""
    seen: list[BaseException] = []
    found: list[object] = [error]
    while found:
        link = found.pop()
        if isinstance(link, BaseException) and link not in seen:
            seen.append(link)
            yield link
            found += [link.__context__, link.__cause__, *link.args]
            found.append(getattr(link, "reason", None))


def _system_error(error: BaseException) -> BaseException | None:
    """Return the innermost error in *error* that is the system's, not a library's."""
    inner = [
        link
        for link in _chain(error)
        if isinstance(link, _SYSTEM) and not isinstance(link, _LIBRARY)
    ]
    return inner[-1] if inner else None
