"""A server's response: read under its exchange, and refused if it is an error."""

from __future__ import annotations

import sys
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
from .body import Body, ChunkReader
from .exchange import Exchange
from .redactor import Redactor, public_url
from .retries import parse_retry_after
from .user_code import raise_if_from_handler

#: How much of a body is requested at once, in bytes; a read returns what has arrived.
_PIECE: Final = 64 * 1024
#: How much of the body of an error is kept, in characters.
_EXCERPT: Final = 4000
#: How long to wait for it, in seconds: the status matters more.
_EXCERPT_SECONDS: Final = 5.0
#: How long to wait for the formal end of a complete response, in seconds, so that its
#: connection can be reused.
_LINGER: Final = 0.2

_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-amzn-requestid", "cf-ray")
#: The name of an error, where the body has none.
_ERROR_TYPE: Final = "x-amzn-errortype"
_RETRYABLE: Final = frozenset({408, 409, 424, 429})

_Error = TypeVar("_Error", bound=ProviderError)


class WholeResponse(msgspec.Struct, frozen=True):
    """A complete response that is not a stream."""

    #: The address, without query and credentials.
    url: str
    status: int
    #: Case-insensitive, as in :mod:`requests`.
    headers: Mapping[str, str]
    body: bytes
    #: The server's own name for the request, for its support.
    request_id: str | None = None

    def json(self) -> Any:
        """Return the body, decoded from JSON.

        :raises ProtocolError: it is not JSON.
        """
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problem = str(error)
        # Without the body: it may repeat the key, which is unknown here and so could
        # not be masked. Outside the "except": the decoder's error is not linked.
        raise ProtocolError(
            f"{self.url}: the server answered {self.status} with a body that is not "
            f"JSON ({problem}); is the address right?",
            status=self.status,
            url=self.url,
            request_id=self.request_id,
        )


class StreamedResponse:
    """A response that has begun: its head is there, its body arrives in pieces.

    :param response: the same as an object of :mod:`requests`.
    :param exchange: the attempt it belongs to.
    :param redactor: masks credentials in the server's text.
    :param max_bytes: the largest body allowed.
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
        self._remaining = max_bytes
        self._max_bytes = max_bytes
        # A hook may have read the body already.
        self._read_before = response.content if response._content_consumed else b""
        # urllib3 unpacks a compressed body, so only a plain one is read past it.
        body, is_plain = self._raw._fp, "content-encoding" not in self.headers
        self._chunks: ChunkReader | None = None
        if isinstance(body, Body) and body.chunked and is_plain and not body.isclosed():
            self._chunks = ChunkReader(body)
        #: True if HTTP itself says where the body ends. Without it, a connection that
        #: a cancel or a proxy has cut looks like the end of the body.
        self.is_framed = self._raw.chunked or self._raw.length_remaining is not None

    @property
    def request_id(self) -> str | None:
        """The server's own name for the request."""
        values = (self.headers.get(name) for name in _REQUEST_IDS)
        request_id = next((value for value in values if value), None)
        return None if request_id is None else self._redactor.quote(request_id)

    @property
    def kind(self) -> str:
        """The media type, such as ``application/json``."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_event_stream(self) -> bool:
        """True if its media type is that of an event stream."""
        return self.kind == "text/event-stream"

    @property
    def is_empty(self) -> bool:
        """True if the head says that there is no body."""
        return bool(self._raw.length_remaining == 0)

    @property
    def is_success(self) -> bool:
        """True if the status is that of success."""
        return 200 <= self.status < 300

    def allow_any_size(self) -> None:
        """Lift the limit: a stream of events may go on for as long as it likes."""
        self._remaining = sys.maxsize

    def read(self) -> bytes:
        """Return the next piece of the body, at least a byte; empty at its end.

        Cancellation: ends at once.

        :raises ResponseTooLarge: the body is larger than allowed.
        """
        piece = None if self._chunks is None else self._chunks.read()
        if piece is None:
            self._chunks = None
            piece, self._read_before = self._read_before, b""
            piece = piece or self._raw.read1(_PIECE, decode_content=True) or b""
        self._remaining -= len(piece)
        if self._remaining < 0:
            raise ResponseTooLarge(
                f"{self._url}: the response has more than {self._max_bytes} bytes; if "
                "that is expected, raise max_response_bytes",
                phase=self._exchange.phase,
                url=self._url,
            )
        return piece

    def read_whole(self) -> WholeResponse:
        """Read the body to its end and return the complete response.

        Cancellation: ends at once.
        """
        self._exchange.enter("body")
        pieces = []
        while piece := self.read():
            pieces.append(piece)
            # The stall timeout counts anew for each piece.
            self._exchange.restart_clock()
        body = b"".join(pieces)
        if not self.is_framed and self.kind == "application/json":
            try:
                msgspec.json.decode(body, type=msgspec.Raw)
            except msgspec.DecodeError:
                raise self.broken("before it was complete") from None
        return WholeResponse(
            self._url, self.status, self.headers, body, self.request_id
        )

    def raise_for_status(self) -> None:
        """Raise the error that the status means, unless it is that of success."""
        if self.is_success:
            return
        self.refuse_redirect()
        try:
            phrase = HTTPStatus(self.status).phrase
        except ValueError:  # providers have their own, such as 529
            phrase = ""
        kind: type[ProviderError] = RequestRejected
        if self.status in (401, 403):
            kind = AuthenticationFailed
        elif self.status == 429:
            kind = RateLimited
        elif self.status in _RETRYABLE or self.status >= 500:
            kind = ProviderUnavailable
        name = self.headers.get(_ERROR_TYPE, "").partition(":")[0]
        parts = ("answered", str(self.status), phrase, self._redactor.quote(name))
        outcome = " ".join(filter(None, parts))
        raise self._error(kind, outcome, body=self._excerpt(b""))

    def refuse_redirect(self) -> None:
        """Raise if the response points elsewhere, or leaves HTTP."""
        if 300 <= self.status < 400 and "location" in self.headers:
            location = self.headers["location"]
            try:
                target_host = urlsplit(urljoin(self._url, location)).hostname
            except ValueError:
                target_host = "an unreadable address"
            host = self._redactor.quote(target_host or "nowhere")
            target = self._redactor.quote(public_url(location))
            raise RedirectRefused(
                f"{self._url}: the server answered {self.status} and points to {host} "
                f"({target}); redirects are not followed, to keep keys and prompts at "
                "the configured address. If the new one is right, configure it",
                location=host,
                phase=self._exchange.phase,
                url=self._url,
            )
        if self.status < 200:  # no response follows, or none that could be read
            raise self._error(ProtocolError, f"answered {self.status}", body="")

    def not_a_stream(self, beginning: bytes) -> ProtocolError:
        """Return the error for a response that is not a stream of events."""
        kind = self._redactor.quote(self.headers.get("content-type", "something else"))
        return self._error(
            ProtocolError,
            f"answered {self.status} with {kind} in place of a stream of events; is "
            "the address right, and does it stream?",
            body=self._excerpt(beginning),
        )

    def broken(self, when: str) -> StreamBroken:
        """Return the error for a response that has ended too early."""
        return StreamBroken(
            f"{self._url}: the response ended {when}; the server or the network cut it "
            "off",
            phase=self._exchange.phase,
            url=self._url,
            retryable=True,
        )

    def _error(self, kind: type[_Error], outcome: str, *, body: str) -> _Error:
        """Return an error of *kind* with the data that the headers carry."""
        identity = f" (request {self.request_id})" if self.request_id else ""
        retry_after = parse_retry_after(self.headers)
        wait = "" if retry_after is None else f"; it asks to wait {retry_after:.10g} s"
        excerpt = self._redactor.quote(body)
        advice = self.headers.get("x-should-retry", "").strip().lower()
        if advice in ("true", "false"):  # the server knows best
            is_retryable = advice == "true"
        else:
            is_retryable = self.status in _RETRYABLE or self.status >= 500
        return kind(
            f"{self._url}: the server {outcome}{identity}{wait}"
            + (f": {excerpt}" if excerpt else ""),
            status=self.status,
            url=self._url,
            request_id=self.request_id,
            retry_after=retry_after,
            body=body,
            retryable=is_retryable,
        )

    def _excerpt(self, beginning: bytes) -> str:
        """Return the beginning of the body, as far as it arrives, without secrets."""
        self._exchange.enter("error body")
        self._exchange.limit(_EXCERPT_SECONDS)
        text, is_whole = bytearray(beginning), False
        try:
            while len(text) < 4 * _EXCERPT and not is_whole:
                piece = self.read()
                text += piece
                is_whole = not piece
        except (Exception, Cancelled) as error:
            # A cancel is not lost: attempts() asks the token. After any other trouble
            # the part that has arrived will do.
            raise_if_from_handler(error)
        decoded = text[: 4 * _EXCERPT].decode("utf-8", "replace")
        clean = self._redactor.clean if is_whole else self._redactor.clean_cut
        return clean(decoded)[:_EXCERPT]

    def close(self, *, lingers: bool) -> None:
        """Return the connection to the pool if the body was read, else close it.

        :param lingers: read on to the end of the body, if it is near.
        """
        if lingers and self.is_framed and not self._raw.isclosed():
            self._exchange.limit(_LINGER)
            try:
                for _ in range(4):
                    if not self.read():
                        break
            except (Exception, Cancelled) as error:
                raise_if_from_handler(error)  # else the connection is closed instead
        self._raw.close()
        self._raw.release_conn()
