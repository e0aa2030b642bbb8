"""OAuth for users: with a browser, or from machine to machine."""

from __future__ import annotations

from ..._checks import check_number
from ...cancel import CancelToken
from ...exceptions import ConfigurationError, MCPAuthRequired, MCPProtocolError
from ...transport import Transport
from ...transport.redactor import public_url
from .browser import OpenBrowser, is_person_here
from .clients import ClientSettings, choose_method
from .fetching import Fetcher
from .login import Login, Redirect, RedirectSettings
from .metadata import Found
from .renewal import RenewedTokens
from .token_requests import TokenRefused, request_token
from .tokens import Client, Grant, TokenStore, hide_secret

__all__ = ["ClientCredentials", "OAuth"]


class OAuth(RenewedTokens):
    """Log in to MCP servers with a browser, and keep the tokens valid.

    Nothing happens until a server asks for a login. One object serves any number of
    servers and threads; the tokens of different users belong in different objects, with
    different *tokens*.

    :param open_browser: shows a URL to a person. By default, in a terminal, it is
        written to standard error and opened; elsewhere a login is not possible. A
        function is always called, on a thread of its own; ``False`` means never.
    :param redirect: for web applications: called with the URL of the login and a token,
        returns the URL that the browser came back with. Needs *redirect_uri*.
    :param redirect_uri: where the browser comes back to; by default a listener on
        127.0.0.1.
    :param redirect_port: the port of that listener; 0 for any.
    :param client_id: the id of a program that was registered by hand,
    :param client_secret: and its secret, if it has one.
    :param issuer: the authorization server that they are for. Without it, the secret
        goes to whichever one the MCP server names.
    :param client_metadata_url: the https URL of a client metadata document; it is the
        id where servers allow that. Otherwise the program registers itself.
    :param client_name: the name that people see when they log in.
    :param scope: the scopes to ask for, with spaces between them; by default those that
        the server names.
    :param tokens: where tokens are kept; by default in memory.
    :param login_timeout: how long a person has, in seconds.
    :param allow_private: true to let a server on the internet name an authorization
        server in a private network.
    :param transport: for a CA bundle or proxies of your own; it must not retry.
    :raises ConfigurationError: the settings cannot work.
    """

    def __init__(
        self,
        *,
        open_browser: OpenBrowser = None,
        redirect: Redirect | None = None,
        redirect_uri: str | None = None,
        redirect_port: int = 0,
        client_id: str | None = None,
        client_secret: str | None = None,
        client_metadata_url: str | None = None,
        client_name: str = "syncagent",
        issuer: str | None = None,
        scope: str | None = None,
        tokens: TokenStore | None = None,
        login_timeout: float = 300.0,
        allow_private: bool = False,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(
            tokens=tokens,
            issuer=issuer,
            scope=scope,
            allow_private=allow_private,
            transport=transport,
        )
        check_number("redirect_port", redirect_port, is_integer=True, maximum=65535)
        check_number("login_timeout", login_timeout, is_positive=True, unit="seconds")
        if redirect is not None and redirect_uri is None:
            raise ConfigurationError("redirect= needs redirect_uri=")
        if redirect is None and redirect_uri is not None and redirect_port:
            raise ConfigurationError("pass redirect_uri= or redirect_port=, not both")
        if not (open_browser in (None, True, False) or callable(open_browser)):
            raise ConfigurationError(
                "open_browser must be a function that takes a URL, None or False"
            )
        self._client = ClientSettings(
            client_id=client_id,
            client_secret=client_secret,
            client_metadata_url=client_metadata_url,
            client_name=client_name,
        )
        self._redirects = RedirectSettings(
            open_browser=open_browser,
            redirect=redirect,
            uri=redirect_uri,
            port=redirect_port,
            timeout=login_timeout,
        )

    def check_possible(self, server: str) -> None:
        """Check that a person can be asked.

        :raises MCPAuthRequired: there is no person.
        """
        settings = self._redirects
        if settings.redirect is None and not is_person_here(settings.open_browser):
            raise MCPAuthRequired(
                f"{server}: the server wants a login, and this program cannot ask a "
                f"person. Run 'syncagent mcp login {server}' in a terminal and pass "
                "OAuth(tokens=FileTokens.default()) here; or pass open_browser= or "
                "redirect=; for a service, ClientCredentials(...) or a static auth=",
                server=server,
            )

    def obtain(
        self,
        key: str,
        found: Found,
        scopes: tuple[str, ...],
        fetcher: Fetcher,
        token: CancelToken,
    ) -> Grant:
        """Ask a person to log in; return the grant.

        Cancellation: ends at once.
        """
        login = Login(
            found,
            key=key,
            fetcher=fetcher,
            store=self._tokens,
            client=self._client,
            redirects=self._redirects,
        )
        return login.run(scopes, token)


class ClientCredentials(RenewedTokens):
    """Log in to MCP servers from machine to machine, with a secret.

    :param client_id: the id of the program at the authorization server,
    :param client_secret: and its secret.
    :param issuer: the authorization server that the secret is for. Without it, the
        secret goes to whichever one the MCP server names.
    :param scope: the scopes to ask for, with spaces between them; by default those that
        the server names.
    :param tokens: where tokens are kept; by default in memory.
    :param allow_private: as for :class:`OAuth`.
    :param transport: as for :class:`OAuth`.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str,
        *,
        issuer: str | None = None,
        scope: str | None = None,
        tokens: TokenStore | None = None,
        allow_private: bool = False,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(
            tokens=tokens,
            issuer=issuer,
            scope=scope,
            allow_private=allow_private,
            transport=transport,
        )
        if not client_id or not client_secret:
            raise ConfigurationError("client_id and client_secret must not be empty")
        self._id, self._secret = client_id, client_secret
        hide_secret(client_secret)

    def check_possible(self, server: str) -> None:
        """Do nothing: a client logs in without a person."""

    def obtain(
        self,
        key: str,
        found: Found,
        scopes: tuple[str, ...],
        fetcher: Fetcher,
        token: CancelToken,
    ) -> Grant:
        """Exchange the secret for a token.

        Cancellation: ends at once.
        """
        issuer = found.server.issuer
        if not found.server.token_endpoint:
            raise MCPProtocolError(
                f"{fetcher.server}: the authorization server {public_url(issuer)} "
                "names no token_endpoint",
                server=fetcher.server,
            )
        client = Client(
            issuer=issuer,
            client_id=self._id,
            client_secret=self._secret,
            auth_method=choose_method(found.server, self._secret),
        )
        form = {"grant_type": "client_credentials", "scope": " ".join(scopes)}
        try:
            return request_token(
                fetcher, found, client, form, scopes, key=key, token=token
            )
        except TokenRefused as error:
            raise MCPAuthRequired(
                f"{error}; check client_id and client_secret", server=error.server
            ) from None
