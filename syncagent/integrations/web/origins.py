"""Which pages may send requests, and under which names a server may be addressed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ...exceptions import ConfigurationError
from .errors import Refused

__all__ = ["TrustedHosts", "TrustedOrigins"]

#: The values of ``Sec-Fetch-Site`` for requests of the application's own pages, and of
#: the user, as by a bookmark.
_OWN: Final = ("same-origin", "none")
_PORTS: Final = {"http": ":80", "https": ":443"}


class TrustedOrigins:
    """Refuses requests that pages of other origins send.

    :param origins: further origins whose pages may send requests, such as
        ``https://app.example.com`` or ``https://*.example.com``.
    :raises ConfigurationError: one of them is not an origin.
    """

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins: Final = tuple(_strings("trusted_origins", origins))
        for origin in self._origins:
            scheme, _, host = origin.partition("://")
            if not scheme or not host or any(each in host for each in "/?#@"):
                raise ConfigurationError(
                    "trusted_origins takes origins such as 'https://app.example.com'; "
                    f"got {origin!r:.80}"
                )

    def check(self, *, fetch_site: str, origin: str, host: str) -> None:
        """Refuse a request that a page of another origin has sent.

        Browsers say where it comes from: over https in ``Sec-Fetch-Site``, else in
        ``Origin``. A program sends neither.

        :raises Refused: the page is not trusted.
        """
        origin = origin.strip().lower()
        fetch_site = fetch_site.strip().lower()
        if origin and any(_matches(origin, each) for each in self._origins):
            return
        if fetch_site:
            is_own = fetch_site in _OWN
        else:
            scheme, _, netloc = origin.partition("://")
            names = (netloc, netloc + _PORTS.get(scheme, ""))
            is_own = not origin or (netloc != "" and host.strip().lower() in names)
        if not is_own:
            raise Refused(
                403,
                "cross_site",
                "Requests from pages of other origins are refused, unless the "
                "application trusts them.",
            )


def _matches(origin: str, trusted: str) -> bool:
    scheme, star, domain = trusted.partition("://*.")
    if not star:
        return origin == trusted
    return origin.startswith(f"{scheme}://") and origin.endswith(f".{domain}")


class TrustedHosts:
    """Refuses requests for host names that are not those of the application.

    A site can point its own name at 127.0.0.1 (DNS rebinding). Browsers then take a
    server on the user's machine for a part of that site, whose pages may use it.
    Addresses and ``localhost`` cannot be pointed elsewhere, and are always accepted.

    :param hosts: the names; ``.example.com`` stands for all below it, too. Without any
        of them, names are refused only to clients on the same machine.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts: Final = tuple(_strings("trusted_hosts", hosts))

    def check(self, environ: Mapping[str, Any]) -> None:
        """Refuse a WSGI request whose ``Host`` is not trusted.

        :raises Refused: it is the name of another host.
        """
        try:
            name = urlsplit(f"//{environ.get('HTTP_HOST') or ''}").hostname or ""
        except ValueError:
            name = "?"
        name = name.rstrip(".")
        if name in ("", "localhost") or name.endswith(".localhost"):
            return
        if _address_of(name) is not None:
            return
        if not self._hosts:
            client = _address_of(environ.get("REMOTE_ADDR") or "")
            if client is None or not client.is_loopback:
                return
        if not any(
            name == each.lstrip(".") or (each[0] == "." and name.endswith(each))
            for each in self._hosts
        ):
            raise Refused(
                403,
                "untrusted_host",
                "The application does not know this host name: give RunsApp() "
                "trusted_hosts=[...] with the names under which it is reached.",
            )


def _address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _strings(name: str, values: Iterable[str]) -> list[str]:
    strings = () if isinstance(values, str) else tuple(values)
    if isinstance(values, str) or not all(map(bool, strings)):
        raise ConfigurationError(f"{name} must be a list of names; got {values!r:.80}")
    return [each.strip().lower() for each in strings]
