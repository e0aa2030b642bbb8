"""Runs over HTTP as a plain WSGI application, and parts for other ones."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from .disconnect import DisconnectProbe, cancel_on_disconnect, disconnect_probe
from .errors import Refused, no_such_run, too_large
from .origins import TrustedHosts
from .runs import Runs
from .sse import RunEventStream
from .streams import ResponseStream
from .views import MAX_BODY, Views, WebRequest, WebResponse, error_response

__all__ = [
    "DisconnectProbe",
    "RunEventStream",
    "Runs",
    "RunsApp",
    "Views",
    "cancel_on_disconnect",
    "disconnect_probe",
    "read_body",
    "respond",
]

_log = logging.getLogger("syncagent.web")

StartResponse = Callable[..., Any]

#: Lists by their names, then runs with their parts.
_PATH: Final = re.compile(
    r"/(?:(runs|conversations|inbox|audit)"
    r"|runs/([A-Za-z0-9_-]+)(?:/(events|cancel|answers|timeline))?)/?"
)
#: The id of a conversation is any text. Only POST has a part after it.
_CONVERSATION: Final = re.compile(r"/conversations/(.+)", re.DOTALL)
_CONVERSATION_PART: Final = re.compile(r"/conversations/(.+)/(fork|delete)", re.DOTALL)
#: The id of a call is any text, too.
_CALL: Final = re.compile(r"/runs/([A-Za-z0-9_-]+)/calls/(.+)/cancel/?", re.DOTALL)
#: The views by resource and method.
_METHODS: Final[Mapping[str, Mapping[str, str]]] = {
    "runs": {"GET": "list", "POST": "start"},
    "run": {"GET": "show"},
    "events": {"GET": "events"},
    "cancel": {"POST": "cancel"},
    "call": {"POST": "cancel_call"},
    "answers": {"POST": "answer"},
    "timeline": {"GET": "timeline"},
    "conversations": {"GET": "conversations"},
    "conversation": {"GET": "conversation"},
    "fork": {"POST": "fork"},
    "delete": {"POST": "delete"},
    "inbox": {"GET": "inbox"},
    "audit": {"GET": "audit"},
}


class RunsApp:
    """A WSGI application with the endpoints of :mod:`~.views`.

    Mount it at the parent of ``/runs``, or let a server serve it alone. ``authorize``,
    ``owner_of`` and ``make_agent`` get the environ as the request.

    :param views: the endpoints.
    :param trusted_hosts: the host names under which the application is reached, such as
        ``agents.example.com``, or ``.example.com`` for all below it. Without them any
        name is accepted, but from clients on the same machine only ``localhost`` and
        addresses, because of DNS rebinding. A proxy is such a client, too.
    """

    def __init__(self, views: Views, *, trusted_hosts: Iterable[str] = ()) -> None:
        self._views = views
        self._trusted_hosts = TrustedHosts(trusted_hosts)

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        try:
            response = self._dispatch(environ)
        except Refused as error:
            response = error_response(error)
        except Exception:
            _log.exception("a request failed")
            response = error_response(Refused(500, "failed", "Something went wrong."))
        return respond(response, start_response)

    def _dispatch(self, environ: Mapping[str, Any]) -> WebResponse:
        self._trusted_hosts.check(environ)
        method = environ["REQUEST_METHOD"]
        resource, ids = _parse_path(environ.get("PATH_INFO") or "/", method)
        methods = _METHODS[resource]
        if method not in methods:
            error = Refused(405, "method", f"Use {' or '.join(methods)}.")
            response = error_response(error)
            headers = (*response.headers, ("Allow", ", ".join(methods)))
            return msgspec.structs.replace(response, headers=headers)
        body = read_body(environ, self._views.max_body) if method == "POST" else b""
        view = getattr(self._views, methods[method])
        request = WebRequest.of(environ, body)
        return view(request, *ids)  # type: ignore[no-any-return]


def _parse_path(path: str, method: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of a resource, and the ids of its run, call or conversation.

    :raises Refused: there is no such resource.
    """
    match = _PATH.fullmatch(path)
    if match is not None:
        return match[1] or match[3] or "run", () if match[1] else (match[2],)
    call = _CALL.fullmatch(path)
    if call is not None:
        return "call", (call[1], _decoded(call[2]))
    part = _CONVERSATION_PART.fullmatch(path) if method == "POST" else None
    whole = part or _CONVERSATION.fullmatch(path)
    if whole is None:
        raise no_such_run()
    return ("conversation" if part is None else part[2]), (_decoded(whole[1]),)


def _decoded(text: str) -> str:
    """Return a part of a path, whose bytes WSGI has as Latin-1."""
    return text.encode("latin-1", "replace").decode("utf-8", "replace")


def respond(response: WebResponse, start_response: StartResponse) -> Iterable[bytes]:
    """Start the response to a WSGI request, and return its body.

    :param start_response: the function that the server passed to the application.
    """
    status = f"{response.status} {HTTPStatus(response.status).phrase}"
    headers = list(response.headers)
    body = response.body
    try:
        if isinstance(body, bytes):
            # Neither a stream nor a 204 may have a Content-Length.
            if response.status != HTTPStatus.NO_CONTENT:
                headers.append(("Content-Length", str(len(body))))
            start_response(status, headers)
            return [body]
        start_response(status, headers)
    except BaseException:
        if isinstance(body, ResponseStream):
            body.close()
        raise
    return body


def read_body(environ: Mapping[str, Any], limit: int = MAX_BODY) -> bytes:
    """Read the body of a WSGI request, at most *limit* bytes.

    Cancellation: none; it waits for the client as long as the server permits.

    :raises Refused: the body is larger.
    """
    content_length = environ.get("CONTENT_LENGTH") or ""
    if content_length.isascii() and content_length.isdigit():
        size = int(content_length[:20])
    elif environ.get("wsgi.input_terminated"):
        size = limit + 1  # chunked; the server stops at the end of the body
    else:
        size = 0
    if size > limit and content_length:
        raise too_large(limit)
    chunks: list[bytes] = []
    while size > 0 and (chunk := environ["wsgi.input"].read(size)):
        chunks.append(chunk)
        size -= len(chunk)
    body = b"".join(chunks)
    if len(body) > limit:
        raise too_large(limit)
    return body
