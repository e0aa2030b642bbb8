"""A request that is ready to be sent, and what of it must never be shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import requests

from .._redaction import is_secret_name
from .routes import Route

#: Parts of a credential that are shorter may be words that mean something else.
_SHORTEST_SECRET: Final = 6


class Request:
    """A request ready to be sent, for one attempt.

    :param prepared: as :mod:`requests` has it, with everything in it.
    :param route: the way there: what an adapter needs beside it.
    :param open_headers: its headers before credentials were added.
    :param open_url: its address before that.
    """

    __slots__ = ("_open_headers", "_open_url", "prepared", "route")

    def __init__(
        self,
        prepared: requests.PreparedRequest,
        route: Route,
        *,
        open_headers: Mapping[str, str | bytes],
        open_url: str,
    ) -> None:
        self.prepared: Final = prepared
        self.route: Final = route
        self._open_headers = open_headers
        self._open_url = open_url

    def secrets(self) -> Iterator[str]:
        """Yield what must not be shown: all that is there because of credentials."""
        found = [*self._in_headers(), *self._in_url(), *self._in_proxies()]
        yield from (secret for secret in found if len(secret) >= _SHORTEST_SECRET)

    def _in_headers(self) -> Iterator[str]:
        for name, value in self.prepared.headers.items():
            if self._open_headers.get(name) != value or _is_secret_header(name):
                text = value.decode("latin-1") if isinstance(value, bytes) else value
                scheme, _, rest = text.partition(" ")  # "Bearer" itself is no secret
                yield from (text, *(rest if scheme.isalpha() else text).split())

    def _in_url(self) -> Iterator[str]:
        url = self.prepared.url or ""
        before = dict(_query(self._open_url))
        for name, value in _query(url):
            if before.get(name) != value or name == "key" or is_secret_name(name):
                yield value
        yield from _userinfo(url)

    def _in_proxies(self) -> Iterator[str]:
        for proxy in self.route["proxies"].values():
            yield from _userinfo(proxy)

    def __repr__(self) -> str:
        return "<Request>"  # whatever shows locals must not show more


def _is_secret_header(name: str) -> bool:
    return is_secret_name(name) or name.lower().endswith(("key", "cookie"))


def _query(url: str) -> list[tuple[str, str]]:
    return parse_qsl(url.partition("?")[2].partition("#")[0])


def _userinfo(url: str) -> Iterator[str]:
    try:
        password = urlsplit(url).password
    except ValueError:
        return
    if password:
        yield from (password, unquote(password))
