"""The id of this program at an authorization server: given, a URL, or registered."""

from __future__ import annotations

import base64
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from ...cancel import CancelToken
from ...exceptions import ConfigurationError, MCPAuthRequired, MCPProtocolError
from ...transport.redactor import public_url
from .fetching import Fetched, Fetcher
from .metadata import ServerMetadata
from .tokens import Client, TokenStore, read_entry

__all__ = [
    "ClientSettings",
    "choose_method",
    "find_client",
    "forget_client",
    "known_client",
    "proof_of",
    "server_error",
]

#: In the order of preference for a client that has a secret.
_WITH_SECRET: Final = ("client_secret_basic", "client_secret_post")
#: In the order of preference for a registration: a program on a user's machine cannot
#: keep a secret, so it is a public client wherever it may be one.
_TO_REGISTER: Final = ("none", "client_secret_post", "client_secret_basic")


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a program wants to be known.

    :raises ConfigurationError: they cannot work.
    """

    client_id: str | None = None
    client_secret: str | None = None
    client_metadata_url: str | None = None
    client_name: str = "syncagent"

    def __post_init__(self) -> None:
        if self.client_secret is not None and self.client_id is None:
            raise ConfigurationError("client_secret= needs client_id=")
        url = self.client_metadata_url
        if url is not None:
            parts = urlsplit(url)
            if parts.scheme != "https" or not parts.netloc or parts.path in ("", "/"):
                raise ConfigurationError(
                    "client_metadata_url must be an https URL with a path, such as "
                    f"https://example.com/client.json; got {public_url(url)!a}"
                )

    def __repr__(self) -> str:
        return f"ClientSettings(client_name={self.client_name!r})"


def find_client(
    settings: ClientSettings,
    server: ServerMetadata,
    redirect_uri: str,
    *,
    store: TokenStore,
    fetcher: Fetcher,
    token: CancelToken,
) -> Client:
    """Return this program as *server* knows it; register it if nothing else helps.

    A registration is kept for its issuer, and never shown to another one.

    Cancellation: ends at once.

    :raises MCPAuthRequired: there is no way to get an id.
    :raises MCPError: the registration failed.
    """
    if settings.client_id is not None:
        return Client(
            issuer=server.issuer,
            client_id=settings.client_id,
            client_secret=settings.client_secret,
            auth_method=choose_method(server, settings.client_secret),
        )
    if settings.client_metadata_url is not None and server.takes_metadata_urls:
        return Client(issuer=server.issuer, client_id=settings.client_metadata_url)
    known = known_client(store, server.issuer)
    if known is not None and known.redirect_uri == redirect_uri:
        return known
    if not server.registration_endpoint:
        raise MCPAuthRequired(
            f"{fetcher.server}: its authorization server {public_url(server.issuer)} "
            "knows only programs that were registered by hand; register one there and "
            "pass OAuth(client_id=...)",
            server=fetcher.server,
        )
    client = _register(settings, server, redirect_uri, fetcher, token)
    store.save(_key(server.issuer), msgspec.json.encode(client).decode())
    return client


def known_client(store: TokenStore, issuer: str) -> Client | None:
    """Return the registration at *issuer*, if there is one that can be used."""
    known = read_entry(store, _key(issuer), Client)
    if known is None or known.is_expired or known.issuer != issuer:
        return None
    return known


def forget_client(store: TokenStore, issuer: str) -> None:
    """Forget the registration at *issuer*: it was refused."""
    store.delete(_key(issuer))


def _key(issuer: str) -> str:
    return f"client {issuer}"


def _register(
    settings: ClientSettings,
    server: ServerMetadata,
    redirect_uri: str,
    fetcher: Fetcher,
    token: CancelToken,
) -> Client:
    methods = server.auth_methods or ("client_secret_basic",)
    wanted = next((method for method in _TO_REGISTER if method in methods), "none")
    content = {
        "client_name": settings.client_name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": "native",
        "token_endpoint_auth_method": wanted,
    }
    what = "the registration endpoint"
    response = fetcher.post_json(server.registration_endpoint, what, token, content)
    found = response.object()
    client_id = (found or {}).get("client_id")
    if response.status not in (200, 201) or not found or not _is_text(client_id):
        raise MCPAuthRequired(
            f"{fetcher.server}: its authorization server {public_url(server.issuer)} "
            f"did not register this program ({server_error(response)}); register one "
            "there by hand and pass OAuth(client_id=...)",
            server=fetcher.server,
        )
    return _registered(found, server, redirect_uri, fetcher)


def _registered(
    found: dict[str, Any], server: ServerMetadata, redirect_uri: str, fetcher: Fetcher
) -> Client:
    secret, method = found.get("client_secret"), found.get("token_endpoint_auth_method")
    if secret is not None and not _is_text(secret):
        raise MCPProtocolError(
            f"{fetcher.server}: the registration at {public_url(server.issuer)} has a "
            "client_secret that is not text",
            server=fetcher.server,
        )
    if method not in ("none", *_WITH_SECRET) or (method == "none") == bool(secret):
        method = choose_method(server, secret)
    end = found.get("client_secret_expires_at")
    return Client(
        issuer=server.issuer,
        client_id=found["client_id"],
        client_secret=secret,
        auth_method=method,
        redirect_uri=redirect_uri,
        expires_at=float(end) if isinstance(end, (int, float)) and secret else 0.0,
    )


def _is_text(value: object) -> bool:
    """Return whether *value* can stand in a URL and in a header."""
    return isinstance(value, str) and 0 < len(value) <= 8192 and value.isprintable()


def choose_method(server: ServerMetadata, secret: str | None) -> str:
    """Return how to prove a client with this secret at the token endpoint."""
    if not secret:
        return "none"
    methods = server.auth_methods or _WITH_SECRET
    return next((name for name in _WITH_SECRET if name in methods), _WITH_SECRET[0])


def proof_of(client: Client) -> tuple[dict[str, str], dict[str, str]]:
    """Return the form fields and headers by which *client* proves itself."""
    if client.auth_method == "client_secret_basic" and client.client_secret:
        pair = (
            f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
        )
        basic = base64.b64encode(pair.encode()).decode()
        return {}, {"Authorization": f"Basic {basic}"}
    fields = {"client_id": client.client_id}
    if client.auth_method == "client_secret_post" and client.client_secret:
        fields["client_secret"] = client.client_secret
    return fields, {}


def server_error(response: Fetched) -> str:
    """Return the error of an authorization server, for a message.

    Only its code: the description is free text, and may repeat a secret.
    """
    code = (response.object() or {}).get("error")
    if isinstance(code, str) and code.isascii() and code.replace("_", "").isalnum():
        return f"status {response.status}, {code[:60]}"
    return f"status {response.status}"
