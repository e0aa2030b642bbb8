"""Find the authorization server of an MCP server, and check what it says of itself.

Every field here was written by a stranger. A field that decides where credentials go is
compared character by character; nothing is corrected.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ...cancel import CancelToken
from ...exceptions import MCPProtocolError, MCPServerLost
from ...transport.redactor import public_url
from .challenge import Challenge
from .fetching import Fetcher
from .urls import (
    authorization_server_places,
    check_url,
    is_resource_of,
    origin_of,
    resource_places,
    server_key,
)

__all__ = ["Found", "ServerMetadata", "discover"]

#: How many entries of a list are looked at.
_MOST: Final = 200


class ServerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """An authorization server, in its own words (RFC 8414, OpenID)."""

    issuer: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    scopes: tuple[str, ...] = ()
    #: ``None`` if it does not say.
    auth_methods: tuple[str, ...] | None = None
    challenge_methods: tuple[str, ...] = ()
    #: True if a URL may be the id of a client.
    takes_metadata_urls: bool = False
    #: True if it names itself in every redirect (RFC 9207).
    sends_iss: bool = False

    @classmethod
    def of(cls, found: dict[str, Any], url: str) -> ServerMetadata:
        """Return the metadata in a document whose issuer was checked.

        :param url: the MCP server in question.
        :raises MCPProtocolError: a URL in it is not safe.
        """

        def endpoint(name: str) -> str:
            value = found.get(name)
            return "" if value is None else check_url(value, f"the {name}", url)

        methods = "token_endpoint_auth_methods_supported"
        return cls(
            issuer=found["issuer"],
            authorization_endpoint=endpoint("authorization_endpoint"),
            token_endpoint=endpoint("token_endpoint"),
            registration_endpoint=endpoint("registration_endpoint"),
            revocation_endpoint=endpoint("revocation_endpoint"),
            scopes=_strings(found, "scopes_supported"),
            auth_methods=_strings(found, methods) if found.get(methods) else None,
            challenge_methods=_strings(found, "code_challenge_methods_supported"),
            takes_metadata_urls=(
                found.get("client_id_metadata_document_supported") is True
            ),
            sends_iss=(
                found.get("authorization_response_iss_parameter_supported") is True
            ),
        )


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server as a protected resource, and its authorization server."""

    #: For the ``resource`` parameter, as its metadata has it.
    resource: str
    #: The scopes to ask for if the challenge names none.
    scopes: tuple[str, ...] = ()
    server: ServerMetadata
    #: True if the resource had metadata of its own.
    has_resource_metadata: bool = True


def discover(
    fetcher: Fetcher, url: str, challenge: Challenge, token: CancelToken
) -> Found:
    """Return the authorization server of the MCP server at *url*.

    Cancellation: ends at once.

    :raises MCPProtocolError: the metadata is missing, wrong or unsafe.
    :raises MCPError: a server cannot be reached.
    """
    resource = _resource_metadata(fetcher, url, challenge, token)
    if resource is None:
        return _without_resource_metadata(fetcher, url, token)
    named = resource.get("resource")
    if not isinstance(named, str) or not is_resource_of(named, url):
        shown = public_url(named)[:200] if isinstance(named, str) else "nothing"
        raise MCPProtocolError(
            f"{fetcher.server}: the login was stopped, because its metadata is for "
            f"another resource ({shown!a}), and a token for that must not come here",
            server=fetcher.server,
        )
    issuers = _strings(resource, "authorization_servers") or ("",)
    issuer = check_url(issuers[0], "the authorization server", url)
    metadata = _authorization_server(fetcher, (issuer,), url, token)
    if metadata is None:
        raise MCPProtocolError(
            f"{fetcher.server}: the authorization server {public_url(issuer)} has no "
            "metadata at any of the usual addresses, so no login is possible",
            server=fetcher.server,
        )
    return Found(
        resource=named, scopes=_strings(resource, "scopes_supported"), server=metadata
    )


def _resource_metadata(
    fetcher: Fetcher, url: str, challenge: Challenge, token: CancelToken
) -> dict[str, Any] | None:
    places = list(resource_places(url))
    if challenge.resource_metadata:
        places.insert(0, challenge.resource_metadata)
    for place in dict.fromkeys(places):
        found = _document(fetcher, place, "the metadata of the server", token)
        if found and ("resource" in found or "authorization_servers" in found):
            return found
    return None


def _without_resource_metadata(fetcher: Fetcher, url: str, token: CancelToken) -> Found:
    """Return what the revision 2025-03-26 says: the server's origin is the issuer."""
    origin = origin_of(url)
    check_url(origin, "the authorization server", url)
    # Nobody has told us the issuer, so both spellings of the origin are it.
    metadata = _authorization_server(fetcher, (origin, f"{origin}/"), url, token)
    if metadata is None:
        metadata = ServerMetadata(
            issuer=origin,
            authorization_endpoint=f"{origin}/authorize",
            token_endpoint=f"{origin}/token",
            registration_endpoint=f"{origin}/register",
            challenge_methods=("S256",),
        )
    # Without the query, which may hold a key.
    resource = server_key(url)
    return Found(resource=resource, server=metadata, has_resource_metadata=False)


def _authorization_server(
    fetcher: Fetcher, issuers: tuple[str, ...], url: str, token: CancelToken
) -> ServerMetadata | None:
    for place in authorization_server_places(issuers[0]):
        what = "the metadata of the authorization server"
        found = _document(fetcher, place, what, token)
        if found is None:
            continue
        named = found.get("issuer")
        if named not in issuers:
            shown = public_url(named)[:200] if isinstance(named, str) else "nothing"
            raise MCPProtocolError(
                f"{fetcher.server}: the login was stopped, because the metadata of the "
                f"authorization server {public_url(issuers[0])} is of another one "
                f"({shown!a})",
                server=fetcher.server,
            )
        return ServerMetadata.of(found, url)
    return None


def _document(
    fetcher: Fetcher, place: str, what: str, token: CancelToken
) -> dict[str, Any] | None:
    """Return the JSON object at *place*, or ``None`` if there is none.

    :raises MCPServerLost: the server cannot say.
    """
    response = fetcher.get(place, what, token)
    if response.status >= 500:
        raise MCPServerLost(
            f"{fetcher.server}: {what} cannot be read now: {public_url(place)} "
            f"answered with status {response.status}; try again later",
            server=fetcher.server,
        )
    # Web applications answer every path with a page and a status of 200.
    return response.object() if response.status == 200 else None


def _strings(found: dict[str, Any], name: str) -> tuple[str, ...]:
    values = found.get(name)
    if not isinstance(values, list):
        return ()
    return tuple(value for value in values[:_MOST] if isinstance(value, str))
