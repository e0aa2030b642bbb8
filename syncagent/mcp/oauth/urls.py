"""URLs of servers: which are safe, which are equal, and which are well known."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from ...exceptions import ConfigurationError, MCPProtocolError
from ...transport.redactor import public_url

__all__ = [
    "authorization_server_places",
    "check_url",
    "is_loopback_host",
    "is_resource_of",
    "origin_of",
    "resource_places",
    "server_key",
]

_PORTS: Final = {"https": 443, "http": 80}
_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
#: A longer URL is refused; browsers and servers agree on about this much.
_LONGEST: Final = 8192


def is_loopback_host(host: str) -> bool:
    """Return whether *host* names this machine without asking a name server."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_url(url: object, what: str, server: str) -> str:
    """Return *url* if it is safe to use: https, or http on this machine.

    :param what: the name of the thing, for the message.
    :param server: the MCP server in question.
    :raises MCPProtocolError: it is not.
    """
    why = _problem(url)
    if why is None:
        return str(url)
    shown = public_url(url)[:200] if isinstance(url, str) else type(url).__name__
    raise MCPProtocolError(
        f"{public_url(server)}: the login was stopped, because {what} ({shown!a}) "
        f"{why}; the operator of the server has to correct it",
        server=public_url(server),
    )


def _problem(url: object) -> str | None:
    if not isinstance(url, str) or not url:
        return "is missing or not a URL"
    if len(url) > _LONGEST or not url.isascii() or not url.isprintable() or " " in url:
        return "has characters that a URL cannot have, or too many"
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in _PORTS or not host or "\\" in url:
        return "is not an https URL"
    if parts.username is not None or parts.password is not None:
        return "carries a name or a password"
    if parts.scheme == "http" and not is_loopback_host(host):
        return "would be used without encryption (http)"
    return None


def origin_of(url: str) -> str:
    """Return scheme, host and port of *url*, without a default port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    is_default = parts.port in (None, _PORTS.get(parts.scheme))
    shown = "" if is_default else f":{parts.port}"
    return f"{parts.scheme}://{host}{shown}"


def server_key(url: str) -> str:
    """Return the name under which tokens for the server at *url* are kept.

    :raises ConfigurationError: *url* is not the URL of a server.
    """
    why = _problem(url)
    if why is not None and "encryption" not in why:
        raise ConfigurationError(
            f"{public_url(str(url))[:200]!r} {why}; pass the URL of an MCP server, "
            "such as https://example.com/mcp"
        )
    return origin_of(url) + urlsplit(url).path.rstrip("/")


def is_resource_of(resource: str, url: str) -> bool:
    """Return whether tokens for *resource* are meant for the server at *url*.

    The origin must be the same, and the path the server's own or one above it.
    """
    if _problem(resource) is not None or origin_of(resource) != origin_of(url):
        return False
    path = urlsplit(resource).path.rstrip("/")
    own = urlsplit(url).path.rstrip("/")
    return own == path or own.startswith(f"{path}/")


def _at(url: str, path: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def resource_places(url: str) -> Iterator[str]:
    """Yield where the metadata of the resource at *url* may be (RFC 9728)."""
    path = urlsplit(url).path.rstrip("/")
    if path:
        yield _at(url, _RESOURCE + path)
    yield _at(url, _RESOURCE)


def authorization_server_places(issuer: str) -> Iterator[str]:
    """Yield where the metadata of *issuer* may be (RFC 8414, OpenID)."""
    path = urlsplit(issuer).path.rstrip("/")
    yield _at(issuer, _OAUTH + path)
    yield _at(issuer, _OPENID + path)
    if path:
        yield _at(issuer, path + _OPENID)
