"""One login or refresh for any number of threads and processes.

::

    headers()   a token that is about to expire ─┐
    handle()    a token that was refused ────────┤
                                                 ▼
                     locked(server): one holder, the others wait under their own tokens
                       look again: was it renewed while we waited?  → done
                       refresh it, else log in                      → saved

Guarantees:

- A token that was renewed while a thread waited is not renewed again.
- A login that fails fails everyone who waited for it. One that was cancelled does not:
  the next in line begins its own.
- A new refresh token is saved before anyone uses the access token that came with it.
- Nothing is held while no one is inside: a thread that is killed, cancelled or forked
  away leaves no trace.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NoReturn

import msgspec

from ...cancel import CancelToken, clock
from ...exceptions import ConfigurationError, MCPError, MCPProtocolError
from ...transport import Transport
from ...transport.redactor import public_url
from .challenge import Challenge, scopes_of
from .fetching import Fetcher
from .metadata import Found, discover
from .token_requests import TokenRefused, refreshed, revoke
from .tokens import Grant, MemoryTokens, TokenStore, read_entry
from .urls import server_key

__all__ = ["RenewedTokens"]

#: How often one call may be refused and tried again.
_MAX_ATTEMPTS: Final = 3
#: After how many seconds a renewal that failed is tried again, while the token is good.
_PAUSE: Final = 30.0


class RenewedTokens(ABC):
    """An :class:`~syncagent.mcp.oauth.Authorizer` with tokens from OAuth.

    Safe for any number of threads, and for any number of servers.
    """

    def __init__(
        self,
        *,
        tokens: TokenStore | None,
        issuer: str | None,
        scope: str | None,
        allow_private: bool,
        transport: Transport | None,
    ) -> None:
        self._tokens: Final[TokenStore] = MemoryTokens() if tokens is None else tokens
        self._issuer = issuer
        self._wanted = scopes_of(scope)
        self._allow_private = allow_private
        self._transport = transport
        #: The newest known grants: a store may be slow.
        self._grants: dict[str, Grant] = {}
        #: The last failure for each server.
        self._failures: dict[str, MCPError] = {}
        #: Until when a token that is still good is not renewed, by the monotonic clock.
        self._pauses: dict[str, float] = {}
        #: The last grants that a login, not a refresh, has brought.
        self._from_login: dict[str, Grant] = {}

    @abstractmethod
    def obtain(
        self,
        key: str,
        found: Found,
        scopes: tuple[str, ...],
        fetcher: Fetcher,
        token: CancelToken,
    ) -> Grant:
        """Return a new grant from the server that was *found*."""

    @abstractmethod
    def check_possible(self, server: str) -> None:
        """Check that a login can succeed here.

        :raises MCPAuthRequired: it cannot.
        """

    def headers(self, url: str, token: CancelToken) -> dict[str, str]:
        """Return the headers for a request; none if there is no access token yet.

        A token that is about to expire is renewed first. One that cannot be renewed is
        sent as it is: the server refuses it, and :meth:`handle` logs in.

        Cancellation: ends at once.

        :raises MCPError: the token has expired, and cannot be renewed now.
        """
        key = server_key(url)
        grant = self._grants.get(key) or self._load(key)
        if grant is not None and grant.is_due and grant.refresh_token:
            is_paused = self._pauses.get(key, 0.0) > clock.now()
            if grant.is_expired or not is_paused:
                grant = self._renew_due(key, url, grant, token)
        return {} if grant is None else {"Authorization": grant.header}

    def handle(
        self,
        url: str,
        status: int,
        headers: Mapping[str, str],
        token: CancelToken,
        *,
        used: Mapping[str, str],
        attempt: int = 0,
    ) -> bool:
        """Renew or widen the token after a 401 or 403; return whether to try again.

        Cancellation: ends at once, also while a person is logging in.

        :raises MCPAuthRequired: no one here can log in, or the person refused.
        :raises MCPError: the authorization server cannot be used.
        """
        challenge = Challenge.of(headers)
        is_step_up = status == 403 and challenge.error == "insufficient_scope"
        if attempt >= _MAX_ATTEMPTS or not (status == 401 or is_step_up):
            return False
        key, fetcher = server_key(url), self._fetcher(url)
        with self._turn(key, token):
            grant = self._load(key)
            if grant is not None and grant.header != used.get("Authorization"):
                return True  # another thread, or another process, was faster
            if grant is None:
                self._log_in(key, url, challenge, (), fetcher, token)
                return True
            if is_step_up:
                if set(challenge.scopes) <= set(grant.scopes):
                    return False  # it has them: another login would change nothing
            elif self._refresh(key, grant, fetcher, token) is not None:
                return True
            elif attempt and self._from_login.get(key) == grant:
                return False  # the server refuses what its own login has just brought
            self._log_in(key, url, challenge, grant.scopes, fetcher, token)
            return True

    def login(self, url: str, token: CancelToken | None = None) -> None:
        """Log in now, whatever tokens there are.

        Cancellation: ends at once.

        :raises MCPAuthRequired: no one here can log in, or the person refused.
        :raises ConfigurationError: the server does not ask for a login.
        :raises MCPError: the authorization server cannot be used.
        """
        token = CancelToken() if token is None else token
        key, fetcher = server_key(url), self._fetcher(url)
        with self._turn(key, token):
            status, challenge = fetcher.challenge(token)
            found = discover(fetcher, url, challenge, token)
            if status != 401 and not found.has_resource_metadata:
                raise ConfigurationError(
                    f"{fetcher.server} does not ask for a login (status {status})"
                )
            self._log_in(key, url, challenge, (), fetcher, token, found)

    def logout(self, url: str, token: CancelToken | None = None) -> bool:
        """Forget the tokens for the server, and revoke them where that is possible.

        Cancellation: ends at once; the tokens are forgotten in any case.

        :return: false if there were none.
        """
        token = CancelToken() if token is None else token
        key = server_key(url)
        with self._tokens.locked(_name(key), token):
            grant = self._load(key)
            self._tokens.delete(_name(key))
            self._grants.pop(key, None)
            if grant is None:
                return False
            if grant.revocation_endpoint:
                try:
                    revoke(self._fetcher(url), grant, token)
                except MCPError:
                    pass  # it ends by itself; here it is forgotten
            return True

    @contextmanager
    def _turn(self, key: str, token: CancelToken) -> Iterator[None]:
        """Let one thread in at a time; fail those that waited for one that failed.

        Cancellation: the wait ends at once.
        """
        before = self._failures.get(key)
        with self._tokens.locked(_name(key), token):
            failed = self._failures.get(key)
            if failed is not None and failed is not before:
                raise copy.copy(failed)
            try:
                yield
            except MCPError as error:
                self._failures[key] = copy.copy(error)  # without its frames
                raise

    def _renew_due(
        self, key: str, url: str, seen: Grant, token: CancelToken
    ) -> Grant | None:
        """Return the grant, renewed if that is possible."""
        try:
            with self._turn(key, token):
                grant = self._load(key)
                if grant is None or not grant.is_due:
                    return grant
                return self._refresh(key, grant, self._fetcher(url), token) or grant
        except MCPError:
            if seen.is_expired:
                raise
            # It is still good. Do not make each request wait for a server that is away.
            self._pauses[key] = clock.now() + _PAUSE
            return seen

    def _refresh(
        self, key: str, grant: Grant, fetcher: Fetcher, token: CancelToken
    ) -> Grant | None:
        """Return *grant* renewed, or ``None`` if only a login can help."""
        if grant.refresh_token is None:
            return None
        try:
            renewed = refreshed(fetcher, grant, token)
        except TokenRefused:
            # Without it, so that nobody presents it again: some servers take that for
            # a theft, and end all tokens of the user.
            self._save(key, msgspec.structs.replace(grant, refresh_token=None))
            return None
        self._save(key, renewed)
        return renewed

    def _log_in(
        self,
        key: str,
        url: str,
        challenge: Challenge,
        before: tuple[str, ...],
        fetcher: Fetcher,
        token: CancelToken,
        found: Found | None = None,
    ) -> None:
        """Find the authorization server, get a grant, keep it.

        :param before: the scopes of the grant that it replaces: the new one has them.
        """
        self.check_possible(fetcher.server)
        found = found or discover(fetcher, url, challenge, token)
        if self._issuer not in (None, found.server.issuer):
            raise MCPProtocolError(
                f"{fetcher.server}: the login was stopped, because the server names "
                f"another authorization server ({public_url(found.server.issuer)}) "
                "than issuer=",
                server=fetcher.server,
            )
        first = self._wanted or challenge.scopes or found.scopes
        scopes = dict.fromkeys((*before, *first, *challenge.scopes))
        if scopes and "offline_access" in found.server.scopes:
            scopes["offline_access"] = None  # alone it would narrow the token
        grant = self.obtain(key, found, tuple(scopes), fetcher, token)
        self._save(key, grant)
        self._from_login[key] = grant

    def _fetcher(self, url: str) -> Fetcher:
        return Fetcher(
            url, transport=self._transport, allow_private=self._allow_private
        )

    def _load(self, key: str) -> Grant | None:
        grant = read_entry(self._tokens, _name(key), Grant)
        if grant is None or grant.server != key:
            self._grants.pop(key, None)
            return None
        self._grants[key] = grant
        return grant

    def _save(self, key: str, grant: Grant) -> None:
        self._tokens.save(_name(key), msgspec.json.encode(grant).decode())
        self._grants[key] = grant

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with tokens in {self._tokens!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} holds credentials and is not pickled; make a new "
            "one with the same tokens= in the other process"
        )


def _name(key: str) -> str:
    return f"grant {key}"
