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
from .exchange import TIMEOUT_OF
from .redactor import Redactor
from .timeouts import Timeouts

_TIMEOUTS: Final[dict[str, type[RequestTimeout]]] = {
    "connect": ConnectTimeout,
    "send": SendTimeout,
    "headers": HeadersTimeout,
    "first_event": FirstEventTimeout,
    "stall": StallTimeout,
}
#: What did not come in time, by phase.
_AWAITED: Final = {
    "resolve": "answer of the name server",
    "connect": "connection",
    "handshake": "answer of the proxy, or end of the TLS handshake,",
    "send": "room for the request",
    "headers": "answer",
    "first event": "first event",
    "stream": "further event",
    "body": "further part of the answer",
}

#: Phases in which the request may still be at fault.
_BEFORE_SENDING: Final = frozenset({"", "resolve", "connect", "handshake", "send"})
_BEFORE_AN_ANSWER: Final = _BEFORE_SENDING | {"headers"}

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

#: What http.client says when a proxy does not let us through.
_TUNNEL: Final = re.compile(r"Tunnel connection failed: (\d+)")


class Failures:
    """Make errors about one call.

    :param redactor: what makes them fit to be seen.
    :param timeouts: those of the call.
    """

    def __init__(self, redactor: Redactor, timeouts: Timeouts) -> None:
        self._redactor = redactor
        self._url = redactor.url
        self._timeouts = timeouts

    def timed_out(self, phase: str) -> RequestTimeout:
        """Return the error for a phase that has taken longer than it may."""
        name = TIMEOUT_OF[phase]
        return _TIMEOUTS[name](
            f"{self._url}: no {_AWAITED[phase]} within "
            f"{getattr(self._timeouts, name):g} s (phase: {phase}); if it may take "
            f"longer, raise timeout {name}",
            phase=phase,
            url=self._url,
            retryable=True,
        )

    def took_too_long(self, phase: str) -> TotalTimeout:
        """Return the error for a call that has taken longer than it may as a whole."""
        return TotalTimeout(
            f"{self._url}: the call took more than {self._timeouts.total:g} s with all "
            f"its retries (phase: {phase or 'none yet'}); if it may take longer, raise "
            "timeout total",
            phase=phase,
            url=self._url,
        )

    def translate(
        self, error: BaseException, phase: str, before: BaseException | None = None
    ) -> SyncAgentError | None:
        """Return our error for one of the libraries below; ``None`` if it is none.

        :param before: what the caller was handling when the call began: it has nothing
            to do with it, although Python links the two.
        """
        never_sent = _why_never_sent(error, phase)
        if never_sent is not None:
            return ConfigurationError(f"{self._url}: {never_sent}")
        if not isinstance(error, (*_LIBRARY, *_SYSTEM)):
            return None
        chain = list(_chain(error, before))
        cause = _system_error(chain)
        failure = self._failure(chain, cause, phase)
        # Others, such as http.client's, repeat what the server has said.
        if isinstance(cause, OSError) and cause.errno is not None:
            failure.__cause__ = cause.with_traceback(None)
            cause.__context__ = cause.__cause__ = None
        return failure

    def _failure(
        self, chain: list[BaseException], cause: BaseException | None, phase: str
    ) -> ConnectionFailed | StreamBroken | ConnectTimeout:
        why, retryable = _explain(cause)
        said = f"{self._url}: {_where(chain, phase)}: {self._redactor.quote(why)}"
        kind: type[ConnectionFailed | StreamBroken | ConnectTimeout]
        if any(isinstance(link, _DECODING) for link in chain):
            kind = StreamBroken
            said = f"{self._url}: the answer is not in the encoding that it claims"
        elif TIMEOUT_OF.get(phase) == "connect" and isinstance(cause, TimeoutError):
            kind = ConnectTimeout
        elif phase in _BEFORE_AN_ANSWER:
            kind = ConnectionFailed
        else:
            kind = StreamBroken
        return kind(said, phase=phase, url=self._url, retryable=retryable)


def free(error: BaseException | None, before: BaseException | None) -> None:
    """Free what the frames below *error* hold, if it is a library's, and not ours.

    The libraries' exceptions refer to frames which refer to the exceptions, so that
    only the collector would ever close a socket, or forget a key, that is in there.

    :param before: what the caller was handling when the call began: it stays whole.
    """
    if isinstance(error, (*_LIBRARY, *_SYSTEM)):
        for link in _chain(error, before):
            traceback.clear_frames(link.__traceback__)


def _why_never_sent(error: BaseException, phase: str) -> str | None:
    """Say why the request cannot be sent at all, if that is what *error* says."""
    if phase not in _BEFORE_SENDING:
        return None
    if isinstance(error, _BAD_ADDRESS):
        return "the request cannot be sent to this address, or through this proxy"
    # The texts of the following would show the header, which may be the key.
    if isinstance(error, UnicodeError):
        return (
            "the request has a header that cannot be sent, with a character beyond "
            "Latin-1; was a key pasted with something else?"
        )
    if isinstance(error, requests.exceptions.InvalidHeader) or (
        # http.client's, for what requests lets pass.
        isinstance(error, ValueError) and str(error).startswith("Invalid header ")
    ):
        return (
            "the request has a header that cannot be sent: names and values are "
            "strings, without line breaks or space at the beginning"
        )
    if phase == "" and isinstance(error, OSError) and not isinstance(error, _LIBRARY):
        return str(error)  # there is no such file with certificates
    return None


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
    if isinstance(cause, ssl.SSLError):
        return _explain_tls(cause)
    if isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE):
        return f"{cause.strerror}; raise the limit (ulimit -n), or close more", False
    tunnel = _TUNNEL.match(str(cause))
    if tunnel is not None:
        status = int(tunnel[1])
        advice = "; give it credentials: http://user:password@..." * (status == 407)
        return f"{cause}{advice}", status in (408, 429) or status >= 500
    if isinstance(cause, http.client.UnknownProtocol):
        return f"the server speaks {cause}, and not HTTP/1", False
    if isinstance(cause, http.client.BadStatusLine) and not isinstance(cause, OSError):
        return f"the server does not speak HTTP, but says {cause}", True
    if cause is None:
        return "it ended too early", True
    return str(cause) or type(cause).__name__, True


def _explain_tls(cause: ssl.SSLError) -> tuple[str, bool]:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({cause.verify_message}); give the "
            "authority's certificate as verify= or in REQUESTS_CA_BUNDLE"
        ), False
    if "CERTIFICATE_REQUIRED" in str(cause.reason):
        return "it wants a certificate of the client; give it as cert=", False
    is_cut = isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
    return f"TLS failed ({cause.reason or cause}); is this an https server?", is_cut


def _chain(
    error: BaseException, before: BaseException | None
) -> Iterator[BaseException]:
    """Yield *error* and those that it was made from, the outermost first."""
    seen: list[object] = [before]
    found: list[object] = [error]
    while found:
        link = found.pop()
        if isinstance(link, BaseException) and link not in seen:
            seen.append(link)
            found += [link.__context__, link.__cause__, *link.args]
            found.append(getattr(link, "reason", None))
            yield link


def _system_error(chain: list[BaseException]) -> BaseException | None:
    """Return the innermost error that is the system's, not a library's."""
    inner = [
        link
        for link in chain
        if isinstance(link, _SYSTEM) and not isinstance(link, _LIBRARY)
    ]
    return inner[-1] if inner else None
