"""What a server answers: read under its exchange, and refused if it is an error."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec
import requests

from ..exceptions import (
    AuthenticationFailed,
    Cancelled,
    ProtocolError,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    RedirectRefused,
    RequestRejected,
    ResponseTooLarge,
    StreamBroken,
)
from .exchange import Exchange
from .redactor import Redactor, shown
from .retries import parse_retry_after

#: How much is asked of a body at once, in bytes; what comes is what is there.
_PIECE: Final = 64 * 1024
#: How much of what a server says about an error is kept, in characters.
_EXCERPT: Final = 4000
#: How long to wait for it, in seconds: the status is worth more.
_EXCERPT_SECONDS: Final = 5.0
#: How long to wait for the formal end of an answer that is complete, in seconds, so
#: that its connection can be used again.
_LINGER: Final = 0.2

_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-amzn-requestid", "cf-ray")
_RETRYABLE: Final = frozenset({408, 409, 429})

_Error = TypeVar("_Error", bound=ProviderError)


class WholeResponse(msgspec.Struct, frozen=True):
    """A complete answer that is no stream."""

    #: Where it came from, without query and credentials.
    url: str
    status: int
    #: Names in any case, as :mod:`requests` has it.
    headers: Mapping[str, str]
    body: bytes
    #: The server's own name for the request, for its support.
    request_id: str | None = None

    def json(self) -> Any:
        """Return what the body means as JSON.

        :raises ProtocolError: it is none.
        """
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            said = str(error)
        # What the body says may repeat the key, which nobody knows any more here.
        raise ProtocolError(
            f"{self.url}: the server answered {self.status} with something that is "
            f"not JSON ({said}); is the address right?",
            status=self.status,
            url=self.url,
            request_id=self.request_id,
        )


class StreamedResponse:
    """An answer that has begun: its head is there, its body comes bit by bit.

    :param response: as :mod:`requests` has it.
    :param exchange: what it came for.
    :param redactor: what makes that which the server says fit to be seen.
    :param max_bytes: the size of the body above which it is an error.
    """

    def __init__(
        self,
        response: requests.Response,
        exchange: Exchange,
        *,
        redactor: Redactor,
        max_bytes: int,
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._raw = response.raw
        self._exchange = exchange
        self._redactor = redactor
        self._url = redactor.url
        self._left = max_bytes
        self._max_bytes = max_bytes
        # By a hook.
        self._read_before = response.content if response._content_consumed else b""
        #: Does HTTP itself say where the body ends?
        self.is_framed = self._raw.chunked or self._raw.length_remaining is not None

    @property
    def request_id(self) -> str | None:
        """The server's own name for the request."""
        found = (self.headers.get(name) for name in _REQUEST_IDS)
        name = next((name for name in found if name), None)
        return None if name is None else self._redactor.quote(name)

    @property
    def kind(self) -> str:
        """What it says that it is, such as ``application/json``."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_event_stream(self) -> bool:
        """Does it say that it is one?"""
        return self.kind == "text/event-stream"

    def read(self) -> bytes:
        """Return what has come of the body, at least a byte; nothing at its end.

        Cancellation: ends at once.

        :raises ResponseTooLarge: there is more of it than may be.
        """
        piece, self._read_before = self._read_before, b""
        piece = piece or self._raw.read1(_PIECE, decode_content=True) or b""
        self._left -= len(piece)
        if self._left < 0:
            raise ResponseTooLarge(
                f"{self._url}: the answer has more than {self._max_bytes} bytes; raise "
                "max_response_bytes if that is right",
                phase=self._exchange.phase,
                url=self._url,
            )
        return piece

    def reply(self) -> WholeResponse:
        """Return it whole.

        Cancellation: ends at once.
        """
        return WholeResponse(
            self._url,
            self.status,
            self.headers,
            self._read_all(),
            self.request_id,
        )

    def _read_all(self) -> bytes:
        self._exchange.enter("body")
        pieces = []
        while piece := self.read():
            pieces.append(piece)
            self._exchange.stop_clock()
            self._exchange.enter("body")
        body = b"".join(pieces)
        if not self.is_framed and self.kind == "application/json" and _is_cut(body):
            raise self.broken("before it was complete")
        return body

    def raise_for_status(self) -> None:
        """Raise what the status means, unless it is that of success."""
        if 200 <= self.status < 300:
            return
        if 300 <= self.status < 400 and "location" in self.headers:
            raise self._redirected(self.headers["location"])
        if self.status < 200:  # no answer follows, or none that could be read
            raise self._error(ProtocolError, f"answered {self.status}", body="")
        said = f"answered {self.status} {_name(self.status)}".rstrip()
        raise self._error(_error_for(self.status), said, body=self._excerpt(b""))

    def not_a_stream(self, beginning: bytes) -> ProtocolError:
        """Return the error for an answer that begins like something else."""
        kind = self._redactor.quote(self.headers.get("content-type", "something else"))
        return self._error(
            ProtocolError,
            f"answered {self.status} with {kind} in place of a stream of events; is "
            "the address right, and does it stream?",
            body=self._excerpt(beginning),
        )

    def broken(self, when: str) -> StreamBroken:
        """Return the error for an answer that has ended before its end."""
        return StreamBroken(
            f"{self._url}: the answer ended {when}; it was cut off by the server, or "
            "on the way",
            phase=self._exchange.phase,
            url=self._url,
            retryable=True,
        )

    def _redirected(self, location: str) -> RedirectRefused:
        host = self._redactor.quote(_host(self._url, location))
        target = self._redactor.quote(shown(location))
        return RedirectRefused(
            f"{self._url}: the server answered {self.status} and points to {host} "
            f"({target}); keys and prompts are not sent there unasked. If it is right, "
            "use that address",
            location=host,
            phase=self._exchange.phase,
            url=self._url,
        )

    def _error(self, kind: type[_Error], said: str, *, body: str) -> _Error:
        identity = f" (request {self.request_id})" if self.request_id else ""
        retry_after = parse_retry_after(self.headers)
        wait = "" if retry_after is None else f"; it asks to wait {retry_after:.10g} s"
        short = self._redactor.quote(body)
        return kind(
            f"{self._url}: the server {said}{identity}{wait}"
            + (f": {short}" if short else ""),
            status=self.status,
            url=self._url,
            request_id=self.request_id,
            retry_after=retry_after,
            body=body,
            retryable=self._is_retryable(),
        )

    def _is_retryable(self) -> bool:
        said = self.headers.get("x-should-retry", "").strip().lower()
        if said in ("true", "false"):  # the server knows best
            return said == "true"
        return self.status in _RETRYABLE or self.status >= 500

    def _excerpt(self, beginning: bytes) -> str:
        """Return the beginning of the body, as far as it comes, without secrets."""
        self._exchange.enter("error body")
        self._exchange.limit(_EXCERPT_SECONDS)
        text, is_whole = bytearray(beginning), False
        try:
            while len(text) < 4 * _EXCERPT and not is_whole:
                piece = self.read()
                text += piece
                is_whole = not piece
        except (Exception, Cancelled):
            pass  # whoever waits for this attempt asks the token; else: what has come
        said = text[: 4 * _EXCERPT].decode("utf-8", "replace")
        clean = self._redactor.clean if is_whole else self._redactor.clean_cut
        return clean(said)[:_EXCERPT]

    def close(self, *, lingers: bool) -> None:
        """Give the connection back if the body is read to its end, else close it.

        :param lingers: read to the end, if that is near.
        """
        if lingers and self.is_framed and not self._raw.isclosed():
            self._exchange.limit(_LINGER)
            try:
                for _ in range(4):
                    if not self.read():
                        break
            except (Exception, Cancelled):
                pass  # then not
        self._raw.close()
        self._raw.release_conn()


def _is_cut(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError:
        return True
    return False


def _host(url: str, location: str) -> str:
    """Return the host that *location*, seen from *url*, is at."""
    try:
        return urlsplit(urljoin(url, location)).hostname or "nowhere"
    except ValueError:
        return "an address that nobody can read"


def _error_for(status: int) -> type[ProviderError]:
    if status in (401, 403):
        return AuthenticationFailed
    if status == 429:
        return RateLimited
    if status in _RETRYABLE or status >= 500:
        return ProviderUnavailable
    return RequestRejected


def _name(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:  # providers have their own, such as 529
        return ""
