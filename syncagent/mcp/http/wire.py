"""HTTP requests to one MCP server: headers, credentials, and the meaning of failures.

No message here shows a credential, and none a session id, which is one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from ...cancel import CancelToken
from ...exceptions import (
    AuthenticationFailed,
    ConfigurationError,
    MCPAuthRequired,
    MCPError,
    MCPProtocolError,
    MCPRequestFailed,
    MCPServerLost,
    ProviderError,
    RedirectRefused,
    RequestTimeout,
    ResponseTooLarge,
    SyncAgentError,
)
from ...transport import OpenedResponse, Timeouts, Transport
from ...transport.redactor import Redactor
from ...transport.settings import Auth
from ..messages import MAX_MESSAGE_BYTES
from ..oauth.authorizer import Authorizer
from .settings import HTTPSettings

__all__ = ["CredentialsRefused", "HTTPWire", "SESSION_ID", "UNSENT"]

SESSION_ID: Final = "Mcp-Session-Id"
#: The phases in which a server has not seen anything of a request.
UNSENT: Final = frozenset({"", "credentials", "resolve", "connect", "handshake"})

#: Only those of the network: the caller's own limits come with its token.
_TIMEOUTS: Final = Timeouts(
    connect=20.0, send=60.0, headers=None, first_event=None, stall=None, total=None
)


class CredentialsRefused(MCPAuthRequired):
    """The server wants other credentials; nothing was done.

    Outside of this room only its base class is seen.
    """

    status: int = 401
    headers: Mapping[str, str] = {}
    #: The headers with credentials that were refused.
    used: Mapping[str, str] = {}


class HTTPWire:
    """Send HTTP requests to one server.

    :param name: the name of the server, for errors.
    """

    def __init__(self, settings: HTTPSettings, name: str) -> None:
        self.name: Final = name
        self.url: Final = settings.url
        self._headers = dict(settings.headers)
        auth = settings.auth
        self._authorizer: Authorizer | None = None
        self._auth: Auth = None
        if isinstance(auth, Authorizer):
            self._authorizer = auth
        else:
            self._auth = auth
        self._transport = Transport(
            timeout=_TIMEOUTS,
            retries=0,
            allow_insecure=settings.allow_insecure,
            max_response_bytes=MAX_MESSAGE_BYTES,
            max_event_bytes=MAX_MESSAGE_BYTES,
        )

    def credentials(self, token: CancelToken) -> dict[str, str]:
        """Return the headers with credentials for the next request.

        Cancellation: ends at once.
        """
        if self._authorizer is None:
            return {}
        return self._authorizer.headers(self.url, token)

    def open(
        self,
        verb: str,
        token: CancelToken,
        *,
        headers: Mapping[str, str],
        credentials: Mapping[str, str],
        data: bytes | None = None,
        url: str | None = None,
        on_phase: Callable[[str], object] | None = None,
        redactor: Redactor | None = None,
    ) -> OpenedResponse:
        """Send a request once, and return its response as soon as it has begun.

        Cancellation: ends at once.

        :raises CredentialsRefused: the server wants other credentials.
        :raises SyncAgentError: there is no response; see :meth:`failure`.
        """
        response = self._transport.open(
            verb,
            url or self.url,
            token=token,
            data=data,
            headers={**self._headers, **headers, **credentials},
            auth=self._auth,
            on_phase=on_phase,
            redactor=redactor,
        )
        if response.status not in (401, 403):
            return response
        if response.status == 403 and self._authorizer is None:
            return response
        refusal = CredentialsRefused(
            f"{self.name} answered {response.status}: it wants "
            + ("a login" if response.status == 401 else "more rights")
            + ". Pass auth= or headers= with valid credentials",
            server=self.name,
        )
        refusal.status, refusal.used = response.status, dict(credentials)
        refusal.headers = dict(response.headers)
        response.close()
        raise refusal

    def authorize(
        self, refusal: CredentialsRefused, token: CancelToken, attempt: int
    ) -> None:
        """Get other credentials after a refusal; return if a repetition makes sense.

        Cancellation: ends at once.

        :param attempt: 0 for the first refusal of a call, then 1, 2, ...
        :raises MCPAuthRequired: a login is needed, and there is no one to log in.
        :raises MCPError: the server refuses these rights, or the login failed.
        """
        if self._authorizer is not None and self._authorizer.handle(
            self.url,
            refusal.status,
            refusal.headers,
            token,
            used=refusal.used,
            attempt=attempt,
        ):
            return
        challenge = {name.lower(): value for name, value in refusal.headers.items()}
        wants_scope = "insufficient_scope" in challenge.get("www-authenticate", "")
        if refusal.status == 403 and not wants_scope:
            raise self._forbidden()
        raise MCPAuthRequired(str(refusal), server=self.name)

    def _forbidden(self, text: str = "") -> MCPRequestFailed:
        return MCPRequestFailed(
            f"{self.name} answered 403 Forbidden: these credentials, or this client, "
            f"may not do that{text}",
            server=self.name,
        )

    def failure(self, error: SyncAgentError, phase: str) -> SyncAgentError:
        """Return the meaning of an error of the transport.

        :param phase: the phase in which the request failed.
        """
        if isinstance(error, (ConfigurationError, MCPError)):
            return error
        if isinstance(error, AuthenticationFailed):
            return MCPAuthRequired(f"{self.name}: {error}", server=self.name)
        if isinstance(error, (ProviderError, RedirectRefused, ResponseTooLarge)):
            return MCPProtocolError(f"{self.name}: {error}", server=self.name)
        is_unseen = phase in UNSENT
        text = f"{self.name} cannot be reached: {error}"
        if not is_unseen:
            text = (
                f"{self.name} was lost in the request: {error}. Its effects are unknown"
            )
        elif not isinstance(error, RequestTimeout):
            text += ". Is the server running, and the address right?"
        lost = MCPServerLost(text, server=self.name)
        lost.started = not is_unseen
        return lost

    def unexpected(self, response: Any, body: bytes, redactor: Redactor) -> MCPError:
        """Return the error for a response that carries no message."""
        status = response.status
        try:
            outcome = f"{status} {HTTPStatus(status).phrase}"
        except ValueError:
            outcome = str(status)
        kind = redactor.quote(response.media_type) or "no content type"
        excerpt = redactor.quote(body[:4000].decode("utf-8", "replace"))
        text = f": {excerpt}" if excerpt else ""
        if status >= 500 or status in (408, 429):
            return MCPServerLost(
                f"{self.name} answered {outcome}; try again later{text}",
                server=self.name,
            )
        if status == 403:
            return self._forbidden(text)
        if status >= 400:
            return MCPProtocolError(
                f"{self.name} answered {outcome} without a message of MCP; is the "
                f"address of the server right?{text}",
                server=self.name,
            )
        if status in (202, 204):
            return MCPProtocolError(
                f"{self.name} answered a request with {outcome}, which is for "
                "notifications; it will never answer it",
                server=self.name,
            )
        return MCPProtocolError(
            f"{self.name} answered {outcome} with {kind} in place of a message of MCP; "
            f"is the address of the server right?{text}",
            server=self.name,
        )
