"""The address of an MCP server over HTTP, and how to talk to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from ...exceptions import ConfigurationError
from ...transport.redactor import public_url
from ...transport.settings import Auth
from ..connection import Era
from ..oauth.authorizer import Authorizer

__all__ = ["HTTPAuth", "HTTPKind", "HTTPSettings"]

#: Credentials as :mod:`requests` takes them, or those that are renewed by a login.
HTTPAuth = Auth | Authorizer

#: ``streamable`` has one endpoint; ``sse`` is the older pair of endpoints.
HTTPKind = Literal["auto", "streamable", "sse"]


class HTTPSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a server, and how to talk to it.

    :raises ConfigurationError: the address is not that of a server.
    """

    url: str
    #: Sent with every request.
    headers: Mapping[str, str] = {}
    auth: HTTPAuth = None
    kind: HTTPKind = "auto"
    era: Literal["auto"] | Era = "auto"
    #: True to let credentials and arguments leave this machine unencrypted.
    allow_insecure: bool = False
    #: Seconds for the first handshake, and for each later one.
    start_timeout: float = 60.0

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        except (AttributeError, TypeError, ValueError):
            is_address = False
        if not is_address:
            raise ConfigurationError(
                f"{public_url(str(self.url))!r:.200} is not the address of a server; "
                "it must begin with https://, or on this machine with http://"
            )

    @property
    def host(self) -> str:
        """The host in the address."""
        return urlsplit(self.url).hostname or ""
