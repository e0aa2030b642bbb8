"""The route of a request: proxies, certificates, and whether that is safe.

:mod:`requests` goes through all environment variables twice for every request, which
takes longer than everything that this package adds. So its result is cached, for as
long as none of the variables that it depends on changes.
"""

from __future__ import annotations

import os
import sys
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from requests.utils import select_proxy

from ..exceptions import ConfigurationError
from .redactor import public_url

_VARIABLES: Final = (
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "REQUEST_METHOD"),
)
#: Elsewhere the system's own settings count, too, and their changes go unnoticed.
_ONLY_VARIABLES: Final = sys.platform not in ("darwin", "win32")
#: How many routes are cached; a program talks to a handful of servers.
_KEPT: Final = 100

#: The settings that an adapter needs: verify, cert and proxies.
Route = dict[str, Any]


class Routes:
    """Routes to servers, by the settings of a session and the environment.

    :param session: the source of the settings.
    :param is_private: true if only this package has the session, so that its settings
        cannot change.
    :param allow_insecure: true to let keys and prompts leave this machine unencrypted,
        or go to an unverified server.
    """

    def __init__(
        self, session: requests.Session, *, is_private: bool, allow_insecure: bool
    ) -> None:
        self._session = session
        self._allow_insecure = allow_insecure
        self._keeps = is_private and _ONLY_VARIABLES
        self._kept: dict[object, Route] = {}

    def find(self, url: str) -> Route:
        """Return the route to *url*.

        :raises ConfigurationError: the route is not safe.
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
        verify: Any = session.verify
        if verify is None:
            verify = True
        elif not isinstance(verify, bool):
            # Only False itself turns checks off.
            verify = os.fspath(verify) if isinstance(verify, os.PathLike) else verify
            if not isinstance(verify, str) or not verify:
                raise ConfigurationError(
                    "verify takes the path of a CA bundle, True, or False with "
                    f"allow_insecure=True; got {session.verify!r}"
                )
        # The session's own settings are passed as if they were arguments of the
        # request: requests lets the environment override the session, not arguments.
        route = session.merge_environment_settings(
            url, dict(session.proxies), True, verify, session.cert
        )
        del route["stream"]
        if self._allow_insecure:
            return route
        if route["verify"] is False:
            raise ConfigurationError(
                "verify=False lets any host pose as the server and read the key; pass "
                "the path of a CA bundle, or allow_insecure=True"
            )
        if urlsplit(url).scheme == "https":
            return route
        if not _is_local(url):
            raise ConfigurationError(
                f"key and prompt would go to {public_url(url)} in clear; use https://, "
                "or pass allow_insecure=True"
            )
        # Even with TLS: requests does not look at the certificate of such a proxy.
        proxy = select_proxy(url, route["proxies"])
        if proxy is not None and not _is_local(proxy):
            raise ConfigurationError(
                f"on the way to {public_url(url)} the proxy {public_url(proxy)} would "
                "read key and prompt; set NO_PROXY for this server, use https://, or "
                "pass allow_insecure=True"
            )
        return route


def _is_local(url: str) -> bool:
    """Return whether the host of *url* is this machine."""
    try:
        host = urlsplit(url if "://" in url else f"http://{url}").hostname or ""
        # Not x.localhost: many resolvers ask the network for it.
        if host == "localhost":
            return True
        return ip_address(host).is_loopback
    except ValueError:
        return False
