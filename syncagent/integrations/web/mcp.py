"""An MCP service over HTTP: one endpoint, for any framework and server."""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ..._checks import check_number
from ...background.runtime import ShutdownReport
from ...cancel import CancelToken, Watch
from ...exceptions import ConfigurationError
from ...mcp.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    RPCError,
    encode_error,
    encode_result,
)
from ...mcp.serving import MCPService
from ...mcp.serving.http import StreamedCall, check_headers, id_of, read_request
from ...mcp.serving.requests import ClientRequest, RequestRefused
from ...mcp.serving.running import RunningCalls
from .disconnect import CLIENT_LEFT, disconnect_probe
from .errors import Refused
from .origins import TrustedHosts, TrustedOrigins
from .runs import register
from .sse import HEADERS, HEARTBEAT, format_event
from .streams import BEAT, SLOW, ResponseStream
from .views import WebResponse
from .wsgi import StartResponse, read_body, respond

__all__ = ["AuthorizeClient", "MCPApp"]

_log = logging.getLogger("syncagent.web")

#: Returns True if the client that sent a request may use the service.
AuthorizeClient = Callable[[Any], bool]

#: The default limit of request bodies, in bytes.
_MAX_BODY: Final = 4 * 1024 * 1024
#: Characters. A shorter token is never accepted.
_MIN_TOKEN: Final = 16
#: Seconds after which a call gets a stream for its response.
_MOMENT: Final = 0.25
#: Seconds between comments where only a write shows that the client has left.
_BLIND_HEARTBEAT: Final = 3.0
#: Seconds that calls have to end in when the process exits.
_GRACE: Final = 2.0

_JSON: Final = (
    ("Content-Type", "application/json"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
)


class MCPApp:
    """An MCP service as a WSGI application: mount it at ``/mcp``, for example.

    The protocol is that of 2026-07-28, without sessions. A short call gets JSON, and
    one that takes longer, or reports progress, a stream. A client that leaves has
    cancelled its call.

    Without *token* and *authorize* only clients on the same machine are served, and
    none that came through a proxy. Bind such a server to 127.0.0.1.

    :param token: clients must send it as ``Authorization: Bearer ...``; at least 16
        characters.
    :param authorize: called with the framework's request, here the WSGI environ;
        returns True if its client may use the service.
    :param trusted_hosts: the host names under which the server is reached, as for
        :class:`~syncagent.integrations.web.wsgi.RunsApp`.
    :param trusted_origins: other origins whose pages may call tools.
    :param max_body: the largest request body, in bytes.
    :raises ConfigurationError: a setting is invalid.
    """

    def __init__(
        self,
        service: MCPService,
        *,
        token: str | None = None,
        authorize: AuthorizeClient | None = None,
        trusted_hosts: Iterable[str] = (),
        trusted_origins: Iterable[str] = (),
        max_body: int = _MAX_BODY,
    ) -> None:
        given: Any = token
        is_long = isinstance(given, str) and len(given) >= _MIN_TOKEN
        if given is not None and not is_long:
            raise ConfigurationError(
                f"token must be a string of at least {_MIN_TOKEN} characters"
            )
        if authorize is not None and not callable(authorize):
            raise ConfigurationError(
                f"authorize must be a function; got {authorize!r:.80}"
            )
        check_number("max_body", max_body, is_integer=True, is_positive=True)
        self.service: Final = service
        self.max_body: Final = max_body
        self._token = token
        self._authorize = authorize
        self._trusted_hosts = TrustedHosts(trusted_hosts)
        self._trusted_origins = TrustedOrigins(trusted_origins)
        self._calls = RunningCalls(service)
        register(self)

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        try:
            self.check_client(environ, environ)
            body = read_body(environ, self.max_body)
        except Refused as error:
            return respond(self.refuse(error), start_response)
        return respond(self.respond(environ, body), start_response)

    # -- before the body is read ---------------------------------------------------

    def check_client(self, environ: Mapping[str, Any], request: Any) -> None:
        """Refuse a request by its method and headers, before its body is read.

        :param request: the framework's own, for *authorize*.
        :raises Refused: it is not served.
        """
        if environ.get("REQUEST_METHOD") != "POST":
            raise Refused(405, "method", "Use POST.")
        try:
            self._trusted_hosts.check(environ)
        except Refused:
            raise Refused(
                421, "untrusted_host", "This server is not known by that host name."
            ) from None
        self._trusted_origins.check(
            fetch_site=environ.get("HTTP_SEC_FETCH_SITE") or "",
            origin=environ.get("HTTP_ORIGIN") or "",
            host=environ.get("HTTP_HOST") or "",
        )
        self._check_authorization(environ, request)

    def _check_authorization(self, environ: Mapping[str, Any], request: Any) -> None:
        if self._token is not None:
            header = str(environ.get("HTTP_AUTHORIZATION") or "").encode(
                errors="replace"
            )
            if not hmac.compare_digest(header, f"Bearer {self._token}".encode()):
                raise Refused(401, "unauthorized", "A valid token is needed.")
        if self._authorize is not None:
            if self._authorize(request) is not True:
                raise Refused(403, "forbidden", "This client may not use the service.")
        elif self._token is None and not _is_local(environ):
            raise Refused(
                403,
                "not_set_up",
                "Without token= or authorize=, only clients on the same machine are "
                "served, and none behind a proxy.",
            )

    def refuse(self, error: Refused) -> WebResponse:
        """Return the response for a request that is not served."""
        headers: tuple[tuple[str, str], ...] = _JSON
        if error.status == 405:
            headers = (*_JSON, ("Allow", "POST"))
        elif error.status == 401:
            headers = (*_JSON, ("WWW-Authenticate", "Bearer"))
        body = encode_error(None, RPCError(INVALID_REQUEST, error.message))
        return WebResponse(error.status, headers, body)

    # -- requests ------------------------------------------------------------------

    def respond(
        self,
        environ: Mapping[str, Any],
        body: bytes,
        *,
        lost: CancelToken | None = None,
    ) -> WebResponse:
        """Answer a request that was checked.

        Cancellation: it waits for a moment at most; a longer call becomes a stream.

        :param environ: the environ of the request; its headers are enough.
        :param lost: cancelled when the client leaves, if the server tells that so.
        """
        try:
            headers = _headers_of(environ)
            request = read_request(headers, body)
            if request is None:
                return WebResponse(202, _JSON)
            if request.method == "tools/call":
                return self._call(request, headers, environ, lost)
            data = encode_result(request.id, self.service.answer(request))
            return WebResponse(200, _JSON, data)
        except RequestRefused as refused:
            data = encode_error(id_of(body), refused.error)
            return WebResponse(refused.status, _JSON, data)
        except Exception:
            _log.exception("a request failed")
            error = RPCError(INTERNAL_ERROR, "the request failed")
            return WebResponse(500, _JSON, encode_error(id_of(body), error))

    def _call(
        self,
        request: ClientRequest,
        headers: Mapping[str, str],
        environ: Mapping[str, Any],
        lost: CancelToken | None,
    ) -> WebResponse:
        check_headers(self.service.find_tool(request).headers, request, headers)
        call = StreamedCall(self._calls, request)
        stream = _CallStream(call, environ, lost)
        if not call.ends_soon(_MOMENT):
            return WebResponse(200, HEADERS, stream)
        stream.close()
        return WebResponse(call.status, _JSON, call.response())

    # -- the process ---------------------------------------------------------------

    def cancel_all(self, reason: str = "", *, is_last: bool = False) -> int:
        """Cancel all calls if the process ends. As safe as ``Agent.cancel()``."""
        return self._calls.cancel(reason, "shutdown") if is_last else 0

    def shutdown(self, grace: float = _GRACE) -> ShutdownReport:
        """Cancel all calls, refuse new ones, and wait for their ends.

        Cancellation: it waits at most about *grace* seconds.
        """
        self._calls.end("the server ends", "shutdown", grace)
        self.service.close()
        return ShutdownReport()

    def open(self) -> None:
        """Do nothing: there are no calls before the first request."""

    def start_over(self) -> None:
        """Continue without calls, in a forked child: they belong to the parent."""
        self._calls = RunningCalls(self.service)

    def __repr__(self) -> str:
        return f"<MCPApp of {self.service!r}: {len(self._calls)} calls>"


def _headers_of(environ: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a WSGI environ, by their names in lower case."""
    headers = {
        name[5:].replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    return {**headers, "content-type": str(environ.get("CONTENT_TYPE") or "")}


def _is_local(environ: Mapping[str, Any]) -> bool:
    """True for a client on this machine that did not come through a proxy."""
    if environ.get("HTTP_X_FORWARDED_FOR") or environ.get("HTTP_FORWARDED"):
        return False
    try:
        return ipaddress.ip_address(environ.get("REMOTE_ADDR") or "").is_loopback
    except ValueError:
        return False


class _CallStream(ResponseStream):
    """The progress and the response of a call, as server-sent events.

    The client is watched from the start, before the response begins. Closing the stream
    before the call has ended cancels it.

    :param lost: cancelled when the client leaves, under ASGI.
    """

    def __init__(
        self, call: StreamedCall, environ: Mapping[str, Any], lost: CancelToken | None
    ) -> None:
        can_look = disconnect_probe(environ).can_look or lost is not None
        super().__init__(HEARTBEAT if can_look else _BLIND_HEARTBEAT, SLOW)
        self._call = call
        self._has_started = False
        self._has_ended = False
        self._lost = None if lost is None else lost.on_cancel(self.close)
        self._watch_client(environ)

    @property
    def name(self) -> str:
        """The tool that is called."""
        return str(self._call.request.params.get("name"))

    @property
    def watch(self) -> Watch:
        return self._call.watch

    def step(self, seconds: float) -> bytes:
        if not self._is_open or self._has_ended:
            self.close()
            raise StopIteration
        # At once: servers send the headers with the first chunk.
        wait, self._has_started = seconds if self._has_started else 0.0, True
        self._call.wait(wait)
        self._has_ended = self._call.is_over  # before the rest: nothing comes after it
        events = self._call.take()
        if self._has_ended:
            events.append(self._call.response())
        chunks = [format_event("message", event) for event in events]
        return b"".join(chunks) or BEAT

    def close(self) -> None:
        """End the stream, and with it a call that has not ended."""
        self._is_open = False
        if not self._call.is_over:
            self._call.cancel(CLIENT_LEFT, "disconnect")
        if self._lost is not None:
            self._lost.close()
        self._stop_watching()

    def __del__(self) -> None:
        if getattr(self, "_call", None) is not None and self._is_open:
            self.close()
