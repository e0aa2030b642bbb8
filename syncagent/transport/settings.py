"""How requests are made: with which headers and credentials, and which way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import requests
from requests.auth import AuthBase

from ..__version__ import __version__
from ..exceptions import ConfigurationError
from .adapter import CancellableAdapter, cancellable
from .exchange import call_outside
from .prepared import Request
from .redactor import shown
from .routes import Routes
from .session import CancellableSession

#: Credentials as :mod:`requests` takes them.
Auth = AuthBase | tuple[str, str] | Callable[..., Any] | None

#: How many addresses are kept as requests without content.
_KEPT: Final = 100


class TransportSettings:
    """What all requests of a transport have in common.

    :param session: where headers, credentials, certificates and proxies come from.
    :param is_private: will nobody else change it?
    :param adapter: what to send with; by default whatever the session would use, as
        long as a cancel can end it.
    :param allow_insecure: may keys and prompts go in clear, or to a server that nobody
        has verified, beyond this machine?
    """

    def __init__(
        self,
        session: requests.Session,
        *,
        is_private: bool,
        adapter: CancellableAdapter | None = None,
        allow_insecure: bool = False,
    ) -> None:
        if isinstance(session, CancellableSession):
            raise ConfigurationError(
                "a CancellableSession has a token of its own; give a transport a plain "
                "requests.Session, and the token to each call"
            )
        self._session = session
        self._is_private = is_private
        self._adapter = adapter
        self._routes = Routes(
            session, is_private=is_private, allow_insecure=allow_insecure
        )
        self._blanks: dict[str, requests.PreparedRequest] = {}

    def adapter_for(self, url: str) -> CancellableAdapter:
        """Return what to send a request to *url* with.

        :raises ConfigurationError: the session would use something uncancellable.
        """
        if not url.lower().startswith(("http://", "https://")):
            raise ConfigurationError(
                f"{shown(url)!r} is no address of a server: it begins with https://, "
                "or on this machine with http://"
            )
        if self._adapter is not None:
            return self._adapter
        return cancellable(self._session.get_adapter(url), shown(url))

    def prepare(
        self, url: str, data: bytes, headers: Mapping[str, str], auth: Auth
    ) -> Request:
        """Make a request ready to be sent.

        :raises ConfigurationError: it must not be sent.
        :raises requests.RequestException: it cannot be sent.
        """
        prepared = self._blank(url)
        open_url = prepared.url or ""
        prepared.prepare_headers({**prepared.headers, **headers})
        prepared.prepare_body(data, None)
        open_headers = dict(prepared.headers)
        call_outside(prepared.prepare_auth, auth or self._session.auth, open_url)
        return Request(
            prepared,
            self._routes.find(prepared.url or ""),
            open_headers=open_headers,
            open_url=open_url,
        )

    def _blank(self, url: str) -> requests.PreparedRequest:
        """Return a request with all that does not change from call to call."""
        blank = self._blanks.get(url)
        if blank is None:
            # With credentials of some kind .netrc is not asked, which would put its
            # own in the place of a key.
            request = requests.Request("POST", url, auth=_NoAuth())
            blank = self._session.prepare_request(request)
            if not self._is_private:
                return blank
            if len(self._blanks) >= _KEPT:
                self._blanks.clear()
            self._blanks[url] = blank
        copy = blank.copy()
        # Of its hooks requests makes no copy; credentials may add to them.
        copy.hooks = {event: list(hooks) for event, hooks in blank.hooks.items()}
        return copy


class _NoAuth(AuthBase):
    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


def new_session(
    *,
    proxies: Mapping[str, str] | None = None,
    verify: bool | str = True,
    cert: str | tuple[str, str] | None = None,
    trust_env: bool = True,
) -> requests.Session:
    """Return a session with these settings, as users of :mod:`requests` know them."""
    session = requests.Session()
    session.headers["User-Agent"] = f"syncagent/{__version__}"
    session.proxies.update(proxies or {})
    session.verify = verify
    session.cert = cert
    session.trust_env = trust_env
    return session
