"""OAuth for MCP servers over HTTP: logins that end with a token, like everything else.

From the inside out:

=====================  ===============================================================
:mod:`~.authorizer`    the protocol between a connection and its credentials
:mod:`~.challenge`     reads ``WWW-Authenticate``
:mod:`~.urls`          which URLs are safe, equal, well known
:mod:`~.addresses`     keeps a stranger's URLs away from the private network
:mod:`~.fetching`      requests to authorization servers, small and without redirects
:mod:`~.metadata`      finds the authorization server of an MCP server
:mod:`~.tokens`        tokens and registrations, and where they are kept
:mod:`~.file_tokens`   the same in files, shared by processes
:mod:`~.clients`       the id of this program at an authorization server
:mod:`~.token_requests`  codes, refresh tokens and secrets for access tokens
:mod:`~.redirects`     the listener that a browser is sent back to
:mod:`~.browser`       shows the page of the login to a person
:mod:`~.login`         one login with a browser
:mod:`~.renewal`       one renewal for any number of threads
:mod:`~.oauth`         :class:`OAuth` and :class:`ClientCredentials`
=====================  ===============================================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .authorizer import Authorizer
    from .file_tokens import FileTokens
    from .oauth import ClientCredentials, OAuth
    from .tokens import MemoryTokens, TokenStore

__all__ = [
    "Authorizer",
    "ClientCredentials",
    "FileTokens",
    "MemoryTokens",
    "OAuth",
    "TokenStore",
]

#: Modules that are loaded on first use: a connection needs only the protocol.
_LATER = {
    "Authorizer": ".authorizer",
    "ClientCredentials": ".oauth",
    "FileTokens": ".file_tokens",
    "MemoryTokens": ".tokens",
    "OAuth": ".oauth",
    "TokenStore": ".tokens",
}


def __getattr__(name: str) -> Any:
    """Load a name on first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name], __name__), name)
