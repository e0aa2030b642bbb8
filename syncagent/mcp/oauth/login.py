"""One login with a browser: the authorization code flow of OAuth 2.1, with PKCE."""

from __future__ import annotations

import base64
import errno
import secrets
from collections.abc import Callable
from contextlib import nullcontext
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from ...cancel import CancelToken
from ...exceptions import (
    Cancelled,
    ConfigurationError,
    MCPAuthRequired,
    MCPError,
    MCPProtocolError,
    MCPTimedOut,
)
from ...transport.detached import call_detached
from ...transport.redactor import public_url
from .browser import OpenBrowser, show
from .clients import ClientSettings, find_client, forget_client, known_client
from .fetching import Fetcher
from .metadata import Found
from .redirects import BrowserFailed, RedirectListener, query_of
from .token_requests import TokenRefused, request_token
from .tokens import Client, Grant, TokenStore

__all__ = ["Login", "Redirect", "RedirectSettings"]

#: A function of the caller's that sends a person to a URL and returns the URL that the
#: browser came back with.
Redirect = Callable[[str, CancelToken], str]

#: Errors of the token endpoint that end a registration.
_UNKNOWN_CLIENT: Final = ("invalid_client", "unauthorized_client")


class RedirectSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a person gets to the login, and back."""

    open_browser: OpenBrowser = None
    redirect: Redirect | None = None
    uri: str | None = None
    port: int = 0
    #: How long a person has, in seconds.
    timeout: float = 300.0


class Login:
    """Log in at the authorization server that was *found*.

    :param key: the URL of the MCP server, as tokens are kept for it.
    """

    def __init__(
        self,
        found: Found,
        *,
        key: str,
        fetcher: Fetcher,
        store: TokenStore,
        client: ClientSettings,
        redirects: RedirectSettings,
    ) -> None:
        self._found = found
        self._key = key
        self._fetcher = fetcher
        self._store = store
        self._settings = client
        self._redirects = redirects
        self._state = secrets.token_urlsafe(32)
        self._verifier = secrets.token_urlsafe(64)

    def run(self, scopes: tuple[str, ...], token: CancelToken) -> Grant:
        """Ask a person to log in, and return the token.

        Cancellation: ends at once, in any phase.

        :raises MCPAuthRequired: the person, or the authorization server, refused.
        :raises MCPTimedOut: the login was not completed in time.
        :raises MCPError: the authorization server cannot be used.
        """
        server = self._found.server
        if "S256" not in server.challenge_methods:
            raise self._wrong(
                "does not offer PKCE with S256, so a code could be stolen"
            )
        if not server.authorization_endpoint or not server.token_endpoint:
            raise self._wrong("names no authorization_endpoint or no token_endpoint")
        listener = self._listener()
        with listener or nullcontext():
            uri = listener.uri if listener else str(self._redirects.uri)
            client = find_client(
                self._settings,
                server,
                uri,
                store=self._store,
                fetcher=self._fetcher,
                token=token,
            )
            page = self._page(client, uri, scopes)
            query = self._visit(page, listener, token)
        code = self._checked(query)
        return self._exchange(client, code, uri, scopes, token)

    def _wrong(self, what: str) -> MCPProtocolError:
        return MCPProtocolError(
            f"{self._fetcher.server}: the login was stopped, because the authorization "
            f"server {public_url(self._found.server.issuer)} {what}",
            server=self._fetcher.server,
        )

    def _listener(self) -> RedirectListener | None:
        """Return a listener, where possible at the URI that is registered already."""
        settings = self._redirects
        if settings.redirect is not None:
            return None
        known = known_client(self._store, self._found.server.issuer)
        uri = settings.uri
        if uri is None and not settings.port and known is not None:
            try:
                return RedirectListener(self._state, uri=known.redirect_uri)
            except (OSError, ConfigurationError):
                pass  # another program has the port: a new one, and a new registration
        try:
            return RedirectListener(self._state, uri=uri, port=settings.port)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise ConfigurationError(
                f"the login cannot listen at {uri or f'port {settings.port}'}: "
                f"{error.strerror}; end the program that uses it, or choose another"
            ) from None

    def _page(self, client: Client, uri: str, scopes: tuple[str, ...]) -> str:
        digest = sha256(self._verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": uri,
            "state": self._state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": self._found.resource,
            "scope": " ".join(scopes),
        }
        if "offline_access" in scopes:
            query["prompt"] = "consent"  # OpenID gives no refresh token without it
        endpoint = self._found.server.authorization_endpoint.partition("#")[0]
        mark = "&" if urlsplit(endpoint).query else "?"
        given = {name: value for name, value in query.items() if value}
        return f"{endpoint}{mark}{urlencode(given)}"

    def _visit(
        self, page: str, listener: RedirectListener | None, token: CancelToken
    ) -> dict[str, str]:
        """Send a person to *page*; return what the browser has brought back."""
        limited = token.child(self._redirects.timeout)
        try:
            if listener is None:
                return self._redirected(page, limited)
            listener.start()
            show(page, self._redirects.open_browser, listener.fail)
            return listener.wait(limited)
        except BrowserFailed as failed:
            raise MCPAuthRequired(
                f"{self._fetcher.server}: the page of the login could not be shown: "
                f"open_browser= raised {failed}",
                server=self._fetcher.server,
            ) from None
        except Cancelled:
            if token.cancelled:
                raise
        raise MCPTimedOut(
            f"{self._fetcher.server}: no one has logged in within "
            f"{self._redirects.timeout:g} s; try again, or allow more time with "
            "OAuth(login_timeout=...)",
            server=self._fetcher.server,
        )

    def _redirected(self, page: str, token: CancelToken) -> dict[str, str]:
        redirect = self._redirects.redirect
        assert redirect is not None
        came_back: Any = call_detached(
            lambda: redirect(page, token),
            token,
            name="mcp-login-redirect",
            refusal=lambda problem: MCPError(f"the login failed: {problem}"),
        )
        if not isinstance(came_back, str):
            raise TypeError("redirect= must return the URL that the browser came to")
        query = query_of(came_back)
        if not secrets.compare_digest(
            query.get("state", "").encode(), self._state.encode()
        ):
            raise self._wrong("sent the browser back with a wrong state")
        return query

    def _checked(self, query: dict[str, str]) -> str:
        """Return the code in *query*, if it is from the server that was asked."""
        server, iss = self._found.server, query.get("iss")
        if iss is None and server.sends_iss:
            raise self._wrong("did not name itself (iss), although it promises that")
        if iss is not None and iss != server.issuer:
            raise self._wrong("was not the one that answered (iss)")
        code = query.get("code")
        if "error" not in query and code:
            return code
        error = query.get("error", "no code")
        shown = error[:60] if error.replace("_", "").isalnum() else "no reason given"
        raise MCPAuthRequired(
            f"{self._fetcher.server}: the login was not completed ({shown}); log in "
            "again, or ask the server's operator for access",
            server=self._fetcher.server,
        )

    def _exchange(
        self,
        client: Client,
        code: str,
        uri: str,
        scopes: tuple[str, ...],
        token: CancelToken,
    ) -> Grant:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": uri,
            "code_verifier": self._verifier,
        }
        try:
            return request_token(
                self._fetcher,
                self._found,
                client,
                form,
                scopes,
                key=self._key,
                token=token,
            )
        except TokenRefused as error:
            if error.code in _UNKNOWN_CLIENT:
                forget_client(self._store, client.issuer)  # register anew next time
            raise MCPAuthRequired(
                f"{error}; the login was not completed", server=error.server
            ) from None
