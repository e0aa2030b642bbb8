"""Which way a request goes: proxies, certificates, and whether that way is safe.

:mod:`requests` goes through all environment variables twice for every request, which
takes longer than all that this package adds. So its answer is kept, for as long as none
of the variables that it depends on changes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from requests.utils import select_proxy

from ..exceptions import ConfigurationError
from .redactor import shown

_VARIABLES: Final = (
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "REQUEST_METHOD"),
)
#: Elsewhere the system's own settings count, too, and cannot be watched so easily.
_ONLY_VARIABLES: Final = sys.platform not in ("darwin", "win32")
#: How many answers are kept; a program talks to a handful of servers.
_KEPT: Final = 100

#: What an adapter needs to know: verify, cert and proxies.
Route = dict[str, Any]


class Routes:
    """Ways to servers, as a session and the environment have them.

    :param session: where the settings come from.
    :param is_private: will nobody else change them?
    :param allow_insecure: may keys and prompts go in clear, or to a server that nobody
        has verified, beyond this machine?
    """

    def __init__(
        self, session: requests.Session, *, is_private: bool, allow_insecure: bool
    ) -> None:
        self._session = session
        self._allow_insecure = allow_insecure
        self._keeps = is_private and _ONLY_VARIABLES
        self._kept: dict[object, Route] = {}

    def find(self, url: str) -> Route:
        """Return the way to *url*.

        :raises ConfigurationError: it is not safe.
        """
        if not self._keeps:
            return self._find_safe(url)
        parts = urlsplit(url)
        key = (parts.scheme, parts.netloc, *map(os.environ.get, _VARIABLES))
        route = self._kept.get(key)
        if route is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            route = self._kept[key] = self._find_safe(url)
        return route

    def _find_safe(self, url: str) -> Route:
        session = self._session
        # As if they were arguments of the request, so that the environment does not
        # count more than what was asked for.
        route = session.merge_environment_settings(
            url, dict(session.proxies), True, _checked(session.verify), session.cert
        )
        del route["stream"]
        if not self._allow_insecure:
            _check(url, route)
        return route


def _check(url: str, route: Mapping[str, Any]) -> None:
    if route["verify"] is False:
        raise ConfigurationError(
            "verify=False lets anybody answer in the server's place, and read the "
            "key; give the path of a CA bundle, or say allow_insecure=True"
        )
    if urlsplit(url).scheme == "https":
        return
    # Even with TLS: requests does not look at the certificate of such a proxy.
    proxy = select_proxy(url, route["proxies"])
    if not _is_here(url):
        raise ConfigurationError(
            f"to {shown(url)} key and prompt would go in clear; use https://, or say "
            "allow_insecure=True"
        )
    if proxy is not None and not _is_here(proxy):
        raise ConfigurationError(
            f"on the way to {shown(url)} the proxy {shown(proxy)} would read key and "
            "prompt; set NO_PROXY for this server, use https://, or say "
            "allow_insecure=True"
        )


def _checked(verify: Any) -> bool | str:
    """Return what *verify* means; nothing that is false by accident means no check."""
    if verify is None or verify is True:
        return True
    if verify is False:
        return False
    path = os.fspath(verify) if isinstance(verify, os.PathLike) else verify
    if not isinstance(path, str) or not path:
        raise ConfigurationError(
            "verify takes the path of a CA bundle, True, or False with "
            f"allow_insecure=True; got {verify!r}"
        )
    return path


def _is_here(url: str) -> bool:
    """Is it on this machine?"""
    try:
        host = urlsplit(url if "://" in url else f"http://{url}").hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        return ip_address(host).is_loopback
    except ValueError:
        return False
