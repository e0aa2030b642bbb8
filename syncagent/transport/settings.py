"""Headers, credentials and routes of the requests of a transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import requests
from requests.auth import AuthBase

from ..__version__ import __version__
from ..exceptions import ConfigurationError
from .adapter import CancellableAdapter, cancellable
from .exchange import Exchange
from .prepared import Request
from .redactor import public_url
from .routes import Routes
from .session import CancellableSession
from .slow_auth import SlowAuth, sign
from .user_code import call_user_code

#: Credentials as :mod:`requests` takes them.
Auth = AuthBase | tuple[str, str] | Callable[..., Any] | None

#: For how many addresses an empty request is cached.
_KEPT: Final = 100


class TransportSettings:
    """The settings that all requests of a transport share.

    :param session: the source of headers, credentials, certificates and proxies.
    :param is_private: true if only this package has the session, so that its settings
        cannot change.
    :param adapter: sends the requests; by default the one that the session would use,
        if a cancel can end it.
    :param allow_insecure: true to let keys and prompts leave this machine unencrypted,
        or go to an unverified server.
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
                "a CancellableSession has a token of its own; pass a plain "
                "requests.Session to the transport, and the token to each call"
            )
        self._session = session
        self._is_private = is_private
        self._adapter = adapter
        self._routes = Routes(
            session, is_private=is_private, allow_insecure=allow_insecure
        )
        self._blanks: dict[tuple[str, str], requests.PreparedRequest] = {}

    def adapter_for(self, url: str) -> CancellableAdapter:
        """Return the adapter for requests to *url*.

        :raises ConfigurationError: a cancel could not end the session's own one.
        """
        if not url.lower().startswith(("http://", "https://")):
            raise ConfigurationError(
                f"{public_url(url)!r} is not the address of a server; it must begin "
                "with https://, or on this machine with http://"
            )
        if self._adapter is not None:
            return self._adapter
        return cancellable(self._session.get_adapter(url), public_url(url))

    def prepare(
        self,
        method: str,
        url: str,
        data: bytes,
        headers: Mapping[str, str],
        auth: Auth,
        exchange: Exchange,
        refused: Request | None = None,
    ) -> Request | None:
        """Make a request ready to be sent.

        Cancellation: ends at once.

        :param exchange: the attempt that it is for.
        :param refused: the same request, which got a status of 401.
        :return: None if the credentials are still those of *refused*.
        :raises ConfigurationError: it must not be sent.
        :raises requests.RequestException: it cannot be sent.
        """
        prepared = self._blank(method, url)
        open_url = prepared.url or ""
        prepared.prepare_headers({**prepared.headers, **headers})
        prepared.prepare_body(data, None)
        open_headers = dict(prepared.headers)
        more: dict[str, Any] = {}
        if isinstance(auth, SlowAuth):
            renewals = sign(auth, prepared, exchange, refused)
            if renewals is None:
                return None
            more = {"renewals": renewals, "more_secrets": lambda: auth.secrets}
        else:
            call_user_code(prepared.prepare_auth, auth or self._session.auth, open_url)
        return Request(
            prepared,
            self._routes.find(prepared.url or ""),
            open_headers=open_headers,
            open_url=open_url,
            **more,
        )

    def _blank(self, method: str, url: str) -> requests.PreparedRequest:
        """Return a request with the parts that are the same for every call."""
        blank = self._blanks.get((method, url))
        if blank is None:
            # With any auth object requests does not consult .netrc, whose credentials
            # would replace a key.
            request = requests.Request(method, url, auth=_NoAuth())
            blank = self._session.prepare_request(request)
            if not self._is_private:
                return blank
            if len(self._blanks) >= _KEPT:
                self._blanks.clear()
            self._blanks[method, url] = blank
        copy = blank.copy()
        # copy() shares the hooks, and auth objects may add to them.
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
    """Return a session with these settings, which are those of :mod:`requests`."""
    session = requests.Session()
    session.headers["User-Agent"] = f"syncagent/{__version__}"
    session.proxies.update(proxies or {})
    session.verify = verify
    session.cert = cert
    session.trust_env = trust_env
    return session
