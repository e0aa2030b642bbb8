"""Requests to the token endpoint: a code, a refresh token or a secret for a token."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ...cancel import CancelToken
from ...exceptions import MCPError, MCPProtocolError, MCPServerLost
from ...transport.redactor import public_url
from .challenge import scopes_of
from .clients import proof_of, server_error
from .fetching import Fetcher
from .metadata import Found
from .tokens import Client, Grant

__all__ = ["TokenRefused", "refreshed", "request_token", "revoke"]

#: The longest token that fits in a header anywhere.
_LONGEST_TOKEN: Final = 16 * 1024


class TokenRefused(MCPError):
    """The authorization server refused the code, the refresh token or the client.

    :param code: its error, such as ``invalid_grant``.
    """

    def __init__(self, message: str = "", *, server: str = "", code: str = "") -> None:
        super().__init__(message, server=server)
        self.code = code


def request_token(
    fetcher: Fetcher,
    found: Found,
    client: Client,
    form: dict[str, str],
    scopes: tuple[str, ...],
    *,
    key: str,
    token: CancelToken,
) -> Grant:
    """Return a new token of the server that was *found*.

    Cancellation: ends at once.

    :param form: the fields of the grant; the resource and the client are added.
    :param scopes: those that were asked for.
    :param key: the URL of the MCP server, as tokens are kept for it.
    :raises TokenRefused: the authorization server refused.
    :raises MCPError: it cannot be reached, or makes no sense.
    """
    endpoint = found.server.token_endpoint
    content = _ask(
        fetcher, endpoint, client, {**form, "resource": found.resource}, token
    )
    return _grant(
        content,
        fetcher,
        Grant(
            server=key,
            issuer=found.server.issuer,
            resource=found.resource,
            client=client,
            token_endpoint=endpoint,
            revocation_endpoint=found.server.revocation_endpoint,
            access_token="",
            scopes=scopes,
        ),
    )


def refreshed(fetcher: Fetcher, grant: Grant, token: CancelToken) -> Grant:
    """Return *grant* with a new access token, and the refresh token that comes next.

    Cancellation: ends at once.

    :raises TokenRefused: the refresh token is not valid any more.
    :raises MCPError: the server cannot be reached, or makes no sense.
    """
    form = {
        "grant_type": "refresh_token",
        "refresh_token": grant.refresh_token or "",
        "resource": grant.resource,
    }
    content = _ask(fetcher, grant.token_endpoint, grant.client, form, token)
    return _grant(content, fetcher, grant)


def revoke(fetcher: Fetcher, grant: Grant, token: CancelToken) -> None:
    """Tell the authorization server that *grant* is not needed any more (RFC 7009).

    Cancellation: ends at once.

    :raises MCPError: the server cannot be reached.
    """
    fields, headers = proof_of(grant.client)
    # With the refresh token its access tokens end, too.
    form = {"token": grant.refresh_token or grant.access_token, **fields}
    what = "the revocation endpoint"
    fetcher.post_form(grant.revocation_endpoint, what, token, form, headers)


def _ask(
    fetcher: Fetcher,
    endpoint: str,
    client: Client,
    form: dict[str, str],
    token: CancelToken,
) -> dict[str, Any]:
    fields, headers = proof_of(client)
    form = {name: value for name, value in {**form, **fields}.items() if value}
    what = "the token endpoint"
    response = fetcher.post_form(endpoint, what, token, form, headers)
    content = response.object()
    if response.status == 200 and content is not None and "access_token" in content:
        return content
    place = f"{fetcher.server}: the token endpoint {public_url(endpoint)}"
    if response.status >= 500 or response.status == 429:
        raise MCPServerLost(
            f"{place} cannot answer now ({server_error(response)}); try again later",
            server=fetcher.server,
        )
    code = (content or {}).get("error")
    raise TokenRefused(
        f"{place} gave no token ({server_error(response)})",
        server=fetcher.server,
        code=code if isinstance(code, str) else "",
    )


def _grant(content: dict[str, Any], fetcher: Fetcher, before: Grant) -> Grant:
    """Return *before* with the tokens in a response."""
    access, kind = content.get("access_token"), content.get("token_type", "Bearer")
    refresh, granted = content.get("refresh_token"), content.get("scope")
    if not _is_token(access) or not (refresh is None or _is_token(refresh)):
        why = "a token that cannot be sent in a header"
    elif not isinstance(kind, str) or kind.lower() != "bearer":
        why = "a token of an unknown type"
    else:
        expires_at, renew_at = Grant.times(content.get("expires_in"))
        scopes = scopes_of(granted) if isinstance(granted, str) else ()
        return msgspec.structs.replace(
            before,
            access_token=access,
            refresh_token=refresh or before.refresh_token,
            expires_at=expires_at,
            renew_at=renew_at,
            scopes=tuple(dict.fromkeys((*before.scopes, *scopes))),
        )
    raise MCPProtocolError(
        f"{fetcher.server}: the token endpoint {public_url(before.token_endpoint)} "
        f"answered with {why}",
        server=fetcher.server,
    )


def _is_token(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= _LONGEST_TOKEN
        and value.isascii()
        and value.isprintable()
        and " " not in value
    )
