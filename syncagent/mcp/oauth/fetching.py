"""Requests to authorization servers: small responses, no redirects, no retries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec
from requests.utils import get_environ_proxies, select_proxy

from ...cancel import CancelToken
from ...exceptions import (
    MCPError,
    MCPProtocolError,
    MCPServerLost,
    MCPTimedOut,
    RedirectRefused,
    RequestTimeout,
    ResponseTooLarge,
    TransportError,
)
from ...transport import OpenedResponse, Timeouts, Transport
from ...transport.redactor import public_url
from ...transport.resolver import resolve
from .addresses import AddressRefused, Reach, look_up_within, reach_of
from .challenge import Challenge
from .urls import check_url, is_loopback_host

__all__ = ["Fetched", "Fetcher"]

#: The largest document of an authorization server, in bytes. Real ones have 1 to 5 KB.
MAX_BYTES: Final = 1024 * 1024
_TIMEOUTS: Final = Timeouts(connect=10, send=30, headers=30, stall=30, total=60)
_ACCEPT: Final = {"Accept": "application/json"}
_FORM: Final = {**_ACCEPT, "Content-Type": "application/x-www-form-urlencoded"}
_MCP: Final = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}
_JSON: Final = {**_ACCEPT, "Content-Type": "application/json"}


class Fetched(msgspec.Struct, frozen=True):
    """A response of a server; its body may hold tokens and is never shown."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def object(self) -> dict[str, Any] | None:
        """Return the body as a JSON object, or ``None`` if it is not one."""
        try:
            decoded = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return decoded if isinstance(decoded, dict) else None

    def __repr__(self) -> str:
        return f"Fetched(status={self.status})"


class Fetcher:
    """Make the requests of a login, for one MCP server.

    :param server: the URL of the MCP server.
    :param transport: the caller's own, with its certificates and proxies; addresses
        are checked before each request then, not with it.
    :param allow_private: true to let a public server lead into private networks.
    """

    def __init__(
        self,
        server: str,
        *,
        transport: Transport | None = None,
        allow_private: bool = False,
    ) -> None:
        self.server = public_url(server)
        self._url = server
        self._transport = transport
        self._allow_private = allow_private
        self._limit: Reach | None = None

    def get(self, url: str, what: str, token: CancelToken) -> Fetched:
        """Return the response to a GET of *url*.

        Cancellation: ends at once.

        :param what: the name of the thing at *url*, for messages.
        :raises MCPProtocolError: the URL is not safe, or the response is too large or
            a redirect.
        :raises MCPError: there is no response.
        """
        return self._send("GET", url, what, token, _ACCEPT, b"")

    def post_form(
        self,
        url: str,
        what: str,
        token: CancelToken,
        form: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
    ) -> Fetched:
        """Return the response to a POST of a form; else as :meth:`get`."""
        data = urlencode(form).encode()
        return self._send("POST", url, what, token, {**_FORM, **(headers or {})}, data)

    def post_json(
        self, url: str, what: str, token: CancelToken, content: Mapping[str, Any]
    ) -> Fetched:
        """Return the response to a POST of a JSON object; else as :meth:`get`."""
        return self._send("POST", url, what, token, _JSON, msgspec.json.encode(content))

    def challenge(self, token: CancelToken) -> tuple[int, Challenge]:
        """Return how the MCP server answers a request without a token.

        Cancellation: ends at once.

        :raises MCPError: there is no response.
        """
        message = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        with self._open("POST", self._url, "the server", token, _MCP, message) as head:
            # Without its body, which may be a stream that does not end.
            return head.status, Challenge.of(head.headers)

    def _send(
        self,
        method: str,
        url: str,
        what: str,
        token: CancelToken,
        headers: Mapping[str, str],
        data: bytes,
    ) -> Fetched:
        with self._open(method, url, what, token, headers, data) as response:
            return Fetched(response.status, response.headers, response.read())

    @contextmanager
    def _open(
        self,
        method: str,
        url: str,
        what: str,
        token: CancelToken,
        headers: Mapping[str, str],
        data: bytes,
    ) -> Iterator[OpenedResponse]:
        check_url(url, what, self._url)
        limit = self._reach(token)
        try:
            transport = self._checked_transport(url, limit, token)
            with transport.open(
                method,
                url,
                token=token,
                headers=headers,
                data=data or None,
                timeouts=_TIMEOUTS,
                max_bytes=MAX_BYTES,
            ) as response:
                yield response
        except (RedirectRefused, ResponseTooLarge) as error:
            raise MCPProtocolError(
                f"{self.server}: {what} cannot be used: {error}", server=self.server
            ) from None
        except (TransportError, AddressRefused) as error:
            raise self._failed(error, url, what) from None

    def _failed(self, error: OSError, url: str, what: str) -> MCPError:
        if isinstance(error, AddressRefused) or isinstance(
            error.__cause__, AddressRefused
        ):
            return MCPProtocolError(
                f"{self.server}: the login was stopped, because {what} "
                f"({public_url(url)}) leads into a private network and the server is "
                "outside of it. If you trust the server with that, pass "
                "OAuth(allow_private=True)",
                server=self.server,
            )
        kind = MCPTimedOut if isinstance(error, RequestTimeout) else MCPServerLost
        return kind(
            f"{self.server}: {what} cannot be reached: {error}", server=self.server
        )

    def _reach(self, token: CancelToken) -> Reach:
        """Return how far the metadata of the MCP server may lead."""
        if self._limit is not None:
            return self._limit
        parts = urlsplit(self._url)
        host = parts.hostname or ""
        if self._allow_private or is_loopback_host(host):
            return Reach.LOCAL
        if _proxy_for(self._url) is not None:
            return _reach_of_numeric(host)
        try:
            found = resolve(host, parts.port or 443, token)
        except OSError as error:
            raise MCPServerLost(
                f"{self.server}: the name cannot be looked up: {error}",
                server=self.server,
            ) from None
        # The most public one: a name with a public and a local address is a stranger's.
        self._limit = min(reach_of(str(item[4][0])) for item in found)
        return self._limit

    def _checked_transport(
        self, url: str, limit: Reach, token: CancelToken
    ) -> Transport:
        """Return the transport for *url*, whose addresses are within *limit*.

        :raises AddressRefused: they are not.
        """
        parts = urlsplit(url)
        host = parts.hostname or ""
        if _proxy_for(url) is not None:
            if _reach_of_numeric(host) > limit:
                raise AddressRefused(host)
            return self._transport or _transport_within(None)
        if self._transport is not None:
            try:
                look_up = partial(look_up_within, limit)
                resolve(host, parts.port or 443, token, resolver=look_up)
            except AddressRefused:
                raise
            except OSError:
                pass  # the request itself tells it better
            return self._transport
        return _transport_within(limit)


_transports: Final[dict[Reach | None, Transport]] = {}


def _transport_within(limit: Reach | None) -> Transport:
    """Return the transport of this process that reaches no further than *limit*."""
    if limit not in _transports:
        resolver = None if limit is None else partial(look_up_within, limit)
        new = Transport(timeout=_TIMEOUTS, resolver=resolver)
        _transports.setdefault(limit, new)
    return _transports[limit]


def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for *url*."""
    return select_proxy(url, get_environ_proxies(url))


def _reach_of_numeric(host: str) -> Reach:
    try:
        return reach_of(host)
    except ValueError:
        return Reach.LOCAL if host == "localhost" else Reach.PUBLIC
