"""A request that is ready to be sent, and its secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import requests

from .._redaction import is_secret_name
from .routes import Route

#: Shorter parts of a credential may be ordinary words, and are not masked.
_SHORTEST_SECRET: Final = 6


class Request:
    """A request ready to be sent, for one attempt.

    :param prepared: the same as an object of :mod:`requests`, credentials included.
    :param route: proxies and certificates.
    :param open_headers: its headers before credentials were added.
    :param open_url: its address before that.
    :param renewals: the number of renewals of its credentials; None if they cannot be
        renewed.
    :param more_secrets: returns values that must not be shown, apart from its own.
    """

    __slots__ = (
        "_more_secrets",
        "_open_headers",
        "_open_url",
        "prepared",
        "renewals",
        "route",
    )

    def __init__(
        self,
        prepared: requests.PreparedRequest,
        route: Route,
        *,
        open_headers: Mapping[str, str | bytes],
        open_url: str,
        renewals: int | None = None,
        more_secrets: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.prepared: Final = prepared
        self.route: Final = route
        self._open_headers = open_headers
        self._open_url = open_url
        self.renewals: Final = renewals
        self._more_secrets = more_secrets

    def secrets(self) -> Iterator[str]:
        """Yield the values that must not be shown: all that credentials have added."""
        candidates = list(self._more_secrets())
        for name, header in self.prepared.headers.items():
            if self._open_headers.get(name) != header or is_secret_header(name):
                candidates += secret_parts(header)
        url = self.prepared.url or ""
        before = dict(_query(self._open_url))
        for name, value in _query(url):
            if before.get(name) != value or name == "key" or is_secret_name(name):
                candidates.append(value)
        for address in (url, *self.route["proxies"].values()):
            try:
                password = urlsplit(address).password
            except ValueError:
                continue
            if password:
                candidates += (password, unquote(password))
        yield from filter(is_long_enough, candidates)

    def __repr__(self) -> str:
        return "<Request>"  # a tool that shows local variables must not show more


def is_secret_header(name: str) -> bool:
    """Return whether the header *name* carries a credential."""
    return is_secret_name(name) or name.lower().endswith(
        ("key", "cookie", "session-id")
    )


def secret_parts(header: str | bytes) -> tuple[str, ...]:
    """Return the value of a header, and the words of it that may be secret."""
    text = header.decode("latin-1") if isinstance(header, bytes) else header
    scheme, _, rest = text.partition(" ")  # "Bearer" itself is no secret
    return (text, *(rest if scheme.isalpha() else text).split())


def is_long_enough(value: str) -> bool:
    """Return whether *value* can be masked without masking ordinary words."""
    return len(value) >= _SHORTEST_SECRET


def _query(url: str) -> list[tuple[str, str]]:
    return parse_qsl(url.partition("?")[2].partition("#")[0])
