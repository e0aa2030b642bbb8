"""Errors of the libraries below as errors of this package: the one translation.

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
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import requests
import urllib3.exceptions as urllib3_errors

from ..cancel.handler_errors import handler_traceback, raised_by_signal_handler
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
from .exchange import TIMEOUT_OF
from .redactor import Redactor
from .timeouts import Timeouts
from .user_code import UserCodeError

_TIMEOUTS: Final[dict[str, type[RequestTimeout]]] = {
    "connect": ConnectTimeout,
    "send": SendTimeout,
    "headers": HeadersTimeout,
    "first_event": FirstEventTimeout,
    "stall": StallTimeout,
}
#: The thing that was late, by phase.
_AWAITED: Final = {
    "credentials": "credentials",
    "resolve": "answer of the name server",
    "connect": "connection",
    "handshake": "answer of the proxy, or end of the TLS handshake,",
    "send": "room for the request",
    "headers": "response",
    "first event": "first event",
    "stream": "further event",
    "body": "further part of the response",
}

#: Phases in which the request may still be at fault.
_BEFORE_SENDING: Final = frozenset(
    {"", "credentials", "resolve", "connect", "handshake", "send"}
)
_BEFORE_A_RESPONSE: Final = _BEFORE_SENDING | {"headers"}

_BAD_ADDRESS: Final = (
    requests.exceptions.InvalidProxyURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema,
    urllib3_errors.LocationParseError,
)
_LIBRARY: Final = (requests.RequestException, urllib3_errors.HTTPError)
_SYSTEM: Final = (OSError, http.client.HTTPException)
_DECODING: Final = (
    requests.exceptions.ContentDecodingError,
    urllib3_errors.DecodeError,
)
_PROXY: Final = (requests.exceptions.ProxyError, urllib3_errors.ProxyError)

#: The message of http.client if a proxy refuses the tunnel.
_TUNNEL: Final = re.compile(r"Tunnel connection failed: (\d+)")


class Failures:
    """Make errors about one call.

    :param redactor: masks credentials in their messages.
    :param timeouts: the timeouts of the call.
    """

    def __init__(self, redactor: Redactor, timeouts: Timeouts) -> None:
        self._redactor = redactor
        self._url = redactor.url
        self._timeouts = timeouts

    def timed_out(self, phase: str) -> RequestTimeout:
        """Return the error for a phase that has exceeded its timeout."""
        name = TIMEOUT_OF[phase]
        return _TIMEOUTS[name](
            f"{self._url}: no {_AWAITED[phase]} within "
            f"{getattr(self._timeouts, name):g} s (phase: {phase}); to allow more "
            f"time, raise timeout {name}",
            phase=phase,
            url=self._url,
            retryable=True,
        )

    def took_too_long(self, phase: str) -> TotalTimeout:
        """Return the error for a call that has exceeded its total timeout."""
        return TotalTimeout(
            f"{self._url}: the call took more than {self._timeouts.total:g} s with all "
            f"its retries (phase: {phase or 'none yet'}); to allow more time, raise "
            "timeout total",
            phase=phase,
            url=self._url,
        )

    def translate(
        self, error: BaseException, phase: str, before: BaseException | None = None
    ) -> SyncAgentError | None:
        """Return our error for *error*, or ``None`` if no library below raised it.

        :param before: the exception that the caller was handling when the call began:
            Python links the two, although they have nothing to do with each other.
        """
        never_sent = _why_never_sent(error, phase)
        if never_sent is not None:
            return ConfigurationError(f"{self._url}: {never_sent}")
        if not isinstance(error, (*_LIBRARY, *_SYSTEM)):
            return None
        chain = list(_chain(error, before))
        system_errors = [
            link
            for link in chain
            if isinstance(link, _SYSTEM) and not isinstance(link, _LIBRARY)
        ]
        cause = system_errors[-1] if system_errors else None  # the innermost
        failure = self._failure(chain, cause, phase)
        # Only the system's: others, such as http.client's, quote the server.
        if isinstance(cause, OSError) and cause.errno is not None:
            failure.__cause__ = cause.with_traceback(None)
            cause.__context__ = cause.__cause__ = None
        return failure

    def _failure(
        self, chain: list[BaseException], cause: BaseException | None, phase: str
    ) -> ConnectionFailed | StreamBroken | ConnectTimeout:
        why, retryable = _explain(cause)
        is_connecting = TIMEOUT_OF.get(phase) == "connect"
        kind: type[ConnectionFailed | StreamBroken | ConnectTimeout]
        if is_connecting and isinstance(cause, TimeoutError):
            kind = ConnectTimeout
        elif phase in _BEFORE_A_RESPONSE:
            kind = ConnectionFailed
        else:
            kind = StreamBroken
        if any(isinstance(link, _PROXY) for link in chain):
            event = "the proxy could not be used"
        elif is_connecting:
            event = "could not connect"
        elif phase in _BEFORE_A_RESPONSE:
            event = "the connection broke before a response came"
        else:
            event = "the connection broke in the middle of the response"
        message = f"{event}: {self._redactor.quote(why)}"
        if any(isinstance(link, _DECODING) for link in chain):
            kind = StreamBroken
            message = "the response is not in the encoding that it claims"
        return kind(
            f"{self._url}: {message}", phase=phase, url=self._url, retryable=retryable
        )


def find_handler_error(
    error: BaseException | None, before: BaseException | None
) -> Exception | None:
    """Return the exception of a signal handler behind *error*, if there is one.

    A handler may have raised it inside a library, which has wrapped it since, and gave
    the wrapping the traceback of the original: the innermost one is the handler's.
    """
    found: Exception | None = None
    if isinstance(error, (Exception, UserCodeError)):
        for link in _chain(error, before):
            if isinstance(link, Exception) and raised_by_signal_handler(link):
                found = link
    return found


def free_frames(error: BaseException | None, before: BaseException | None) -> None:
    """Clear the frames below *error*, if a library or a signal handler raised it.

    The libraries' exceptions refer to frames that refer to the exceptions: only the
    garbage collector would ever close a socket, or forget a key, in there.

    :param before: the exception that the caller was handling when the call began: it
        stays intact.
    """
    is_below = isinstance(error, (*_LIBRARY, *_SYSTEM))
    if error is None or not (is_below or find_handler_error(error, before)):
        return
    for link in _chain(error, before):
        trace, handler = link.__traceback__, handler_traceback(link)
        # Not the handler's own frames: they show that it is one, to others, too.
        while trace is not None and trace is not handler:
            with suppress(RuntimeError):  # it is still running
                trace.tb_frame.clear()
            trace = trace.tb_next


def _why_never_sent(error: BaseException, phase: str) -> str | None:
    """Return why the request could never be sent, if that is the meaning of *error*."""
    if phase not in _BEFORE_SENDING:
        return None
    if isinstance(error, _BAD_ADDRESS):
        return "the request cannot be sent to this address, or through this proxy"
    # Without the text of the following errors: it would show the header, perhaps a key.
    if isinstance(error, UnicodeError):
        return (
            "a header has a character beyond Latin-1 and cannot be sent; was a key "
            "pasted with something else?"
        )
    if isinstance(error, requests.exceptions.InvalidHeader) or (
        # http.client's, for what requests lets pass.
        isinstance(error, ValueError) and str(error).startswith("Invalid header ")
    ):
        return (
            "a header cannot be sent: names and values must be strings without line "
            "breaks, and without a space at the beginning"
        )
    if phase == "" and isinstance(error, OSError) and not isinstance(error, _LIBRARY):
        return str(error)  # there is no such file with certificates
    return None


def _explain(cause: BaseException | None) -> tuple[str, bool]:
    """Return the meaning of *cause*, and whether a later attempt may succeed."""
    if isinstance(cause, socket.gaierror):
        message = f"the name cannot be looked up ({cause.strerror or cause})"
        return message, cause.errno == socket.EAI_AGAIN
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({cause.verify_message}); pass the "
            "authority's certificate as verify= or in REQUESTS_CA_BUNDLE"
        ), False
    if isinstance(cause, ssl.SSLError):
        if "CERTIFICATE_REQUIRED" in str(cause.reason):
            return "it requires a client certificate; pass it as cert=", False
        is_cut = isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
        return f"TLS failed ({cause.reason or cause}); is this an https server?", is_cut
    if isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE):
        advice = "raise the limit (ulimit -n), or close files and connections"
        return f"{cause.strerror}; {advice}", False
    tunnel = _TUNNEL.match(str(cause))
    if tunnel is not None:
        status = int(tunnel[1])
        advice = "; add credentials: http://user:password@..." * (status == 407)
        return f"{cause}{advice}", status in (408, 429) or status >= 500
    if isinstance(cause, http.client.UnknownProtocol):
        return f"the server speaks {cause}, not HTTP/1", False
    if isinstance(cause, http.client.BadStatusLine) and not isinstance(cause, OSError):
        return f"the server does not speak HTTP; it sent {cause}", True
    if cause is None:
        return "it ended too early", True
    return str(cause) or type(cause).__name__, True


def _chain(
    error: BaseException, before: BaseException | None
) -> Iterator[BaseException]:
    """Yield *error* and the errors behind it, the outermost first."""
    seen: list[object] = [before]
    found: list[object] = [error]
    while found:
        link = found.pop()
        if isinstance(link, BaseException) and link not in seen:
            seen.append(link)
            found += [link.__context__, link.__cause__, *link.args]
            found.append(getattr(link, "reason", None))
            yield link
