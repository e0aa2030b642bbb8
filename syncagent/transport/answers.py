"""What a server answers: read under its exchange, and refused if it is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
import requests

from .._redaction import MASK, redact
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
from ..retry import parse_retry_after
from .exchange import Exchange
from .failures import shown

#: How much is asked of a body at once, in bytes; what comes is what is there.
_PIECE: Final = 64 * 1024
#: How much of what a server says about an error is kept, in characters.
_EXCERPT: Final = 4000
#: How much of that a message shows.
_SHORT_EXCERPT: Final = 300
#: How long to wait for it, in seconds: the status is worth more.
_EXCERPT_SECONDS: Final = 5.0
#: How long to wait for the formal end of an answer that is complete, in seconds, so
#: that its connection can be used again.
_LINGER: Final = 0.2

_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-amzn-requestid", "cf-ray")
_RETRYABLE: Final = frozenset({408, 409, 429})

_Error = TypeVar("_Error", bound=ProviderError)


class Reply(msgspec.Struct, frozen=True):
    """A complete answer that is no stream."""

    #: Where it came from, without query and credentials.
    url: str
    status: int
    #: Names in small letters.
    headers: dict[str, str]
    body: bytes
    #: The server's own name for the request, for its support.
    request_id: str | None = None

    def json(self) -> Any:
        """Return what the body means as JSON.

        :raises ProtocolError: it is none.
        """
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProtocolError(
                f"{self.url}: the server answered {self.status} with something that "
                f"is not JSON ({error}); is the address right?",
                status=self.status,
                url=self.url,
                request_id=self.request_id,
                body=redact(self.body.decode("utf-8", "replace"))[:_EXCERPT],
            ) from None


class Answer:
    """An answer that has begun: its head is there, its body comes bit by bit.

    :param response: as :mod:`requests` has it, with nothing of its body read.
    :param exchange: what it came for.
    :param url: where from.
    :param max_bytes: the size of the body above which it is an error.
    :param secrets: yields what must not be repeated, should the server do so.
    """

    def __init__(
        self,
        response: requests.Response,
        exchange: Exchange,
        *,
        url: str,
        max_bytes: int,
        secrets: Callable[[], Iterable[str]],
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._raw = response.raw
        self._exchange = exchange
        self._url = url
        self._left = max_bytes
        self._max_bytes = max_bytes
        self._secrets = secrets
        #: Does HTTP itself say where the body ends?
        self.is_framed = self._raw.chunked or self._raw.length_remaining is not None

    @property
    def request_id(self) -> str | None:
        """The server's own name for the request."""
        found = (self.headers.get(name) for name in _REQUEST_IDS)
        return next((name for name in found if name), None)

    @property
    def is_event_stream(self) -> bool:
        """Does it say that it is one?"""
        kind = self.headers.get("content-type", "")
        return kind.partition(";")[0].strip().lower() == "text/event-stream"

    def read(self) -> bytes:
        """Return what has come of the body, at least a byte; nothing at its end.

        Cancellation: ends at once.

        :raises ResponseTooLarge: there is more of it than may be.
        """
        piece: bytes = self._raw.read1(_PIECE, decode_content=True) or b""
        self._left -= len(piece)
        if self._left < 0:
            raise ResponseTooLarge(
                f"{shown(self._url)}: the answer has more than {self._max_bytes} "
                "bytes; raise max_response_bytes if that is right",
                phase=self._exchange.phase,
                url=shown(self._url),
            )
        return piece

    def reply(self) -> Reply:
        """Return it whole.

        Cancellation: ends at once.
        """
        return Reply(
            shown(self._url),
            self.status,
            {name.lower(): value for name, value in self.headers.items()},
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
        return b"".join(pieces)

    def raise_for_status(self) -> None:
        """Raise what the status means, unless it is that of success."""
        if 200 <= self.status < 300:
            return
        if 300 <= self.status < 400 and "location" in self.headers:
            raise self._redirected(self.headers["location"])
        raise self._refused()

    def not_a_stream(self, beginning: bytes) -> ProtocolError:
        """Return the error for an answer that begins like something else."""
        kind = self.headers.get("content-type", "nothing in particular")
        return self._error(
            ProtocolError,
            f"answered {self.status} with {kind} in place of a stream of events; is "
            "the address right, and does it stream?",
            beginning,
        )

    def broken(self, *, has_begun: bool) -> StreamBroken:
        """Return the error for a stream that has ended before its end."""
        what = "before it was complete" if has_begun else "before its first event"
        return StreamBroken(
            f"{shown(self._url)}: the server ended the stream {what}; it was cut off "
            "on its side, or on the way. What came was delivered",
            phase=self._exchange.phase,
            url=shown(self._url),
            retryable=True,
        )

    def _redirected(self, location: str) -> RedirectRefused:
        host = urlsplit(location).hostname or urlsplit(self._url).hostname or ""
        return RedirectRefused(
            f"{shown(self._url)}: the server answered {self.status} and points to "
            f"{host}; keys and prompts are not sent there unasked. If it is right, "
            "use that address",
            location=host,
            phase=self._exchange.phase,
            url=shown(self._url),
        )

    def _refused(self) -> ProviderError:
        return self._error(
            _error_for(self.status), f"answered {self.status} {_name(self.status)}"
        )

    def _error(self, kind: type[_Error], said: str, beginning: bytes = b"") -> _Error:
        body = self._excerpt(beginning)
        identity = f" (request {self.request_id})" if self.request_id else ""
        retry_after = parse_retry_after(self.headers)
        wait = "" if retry_after is None else f"; it asks to wait {retry_after:g} s"
        short = " ".join(body[:_SHORT_EXCERPT].split())
        return kind(
            f"{shown(self._url)}: the server {said}{identity}{wait}"
            + (f": {short}" if short else ""),
            status=self.status,
            url=shown(self._url),
            request_id=self.request_id,
            retry_after=retry_after,
            body=body,
            retryable=self.status in _RETRYABLE or self.status >= 500,
        )

    def _excerpt(self, beginning: bytes) -> str:
        """Return the beginning of the body, as far as it comes, without secrets."""
        self._exchange.enter("error body")
        self._exchange.limit(_EXCERPT_SECONDS)
        text = bytearray(beginning)
        try:
            while len(text) < 4 * _EXCERPT and (piece := self.read()):
                text += piece
        except (Exception, Cancelled):
            pass  # whoever waits for this attempt asks the token; else: what has come
        said = text.decode("utf-8", "replace")
        for secret in self._secrets():
            said = said.replace(secret, MASK)
        return redact(said)[:_EXCERPT]

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
