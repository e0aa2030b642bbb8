"""Runs over HTTP as a plain WSGI application, and what other WSGI applications need."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from .disconnect import DisconnectProbe, cancel_on_disconnect, disconnect_probe
from .refusals import Refused, not_found
from .runs import Runs
from .sse import RunEventStream
from .views import MAX_BODY, Views, WebRequest, WebResponse, refusal, too_large

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

_PATH: Final = re.compile(
    r"/runs(?:/([A-Za-z0-9_-]+)(?:/(events|cancel|answers|timeline))?)?/?"
)
#: By what follows the id, or comes without one: method -> view.
_WAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "runs": {"GET": "list", "POST": "start"},
    "run": {"GET": "show"},
    "events": {"GET": "events"},
    "cancel": {"POST": "cancel"},
    "answers": {"POST": "answer"},
    "timeline": {"GET": "timeline"},
}


class RunsApp:
    """A WSGI application with the endpoints of :mod:`~.views`.

    Mount it wherever ``/runs`` is to be, or let a server serve it alone. The request
    that ``authorize`` and the others are given is the environ.

    :param views: the endpoints.
    """

    def __init__(self, views: Views) -> None:
        self._views = views

    def __call__(
        self, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        try:
            reply = self._reply(environ)
        except Refused as refused:
            reply = refusal(refused)
        except Exception:
            _log.exception("a request failed")
            reply = refusal(Refused(500, "failed", "Something went wrong."))
        return respond(reply, start_response)

    def _reply(self, environ: Mapping[str, Any]) -> WebResponse:
        match = _PATH.fullmatch(environ.get("PATH_INFO") or "/")
        if match is None:
            raise not_found()
        id, more = match[1], match[2]
        ways = _WAYS["runs" if id is None else more or "run"]
        method = environ["REQUEST_METHOD"]
        if method not in ways:
            return _not_so(ways)
        body = read_body(environ, self._views.max_body) if method == "POST" else b""
        view = getattr(self._views, ways[method])
        call = WebRequest.of(environ, body)
        reply: WebResponse = view(call) if id is None else view(call, id)
        return reply


def _not_so(ways: Mapping[str, str]) -> WebResponse:
    words = f"Only {' and '.join(ways)} can be done here."
    reply = refusal(Refused(405, "method", words))
    allow = ("Allow", ", ".join(ways))
    return msgspec.structs.replace(reply, headers=(*reply.headers, allow))


def respond(reply: WebResponse, start_response: StartResponse) -> Iterable[bytes]:
    """Begin the response to a WSGI request, and return its body.

    :param start_response: the server's.
    """
    status = f"{reply.status} {HTTPStatus(reply.status).phrase}"
    headers = list(reply.headers)
    body = reply.body
    try:
        if isinstance(body, bytes):
            # A stream must not have one, and 204 neither.
            if reply.status != HTTPStatus.NO_CONTENT:
                headers.append(("Content-Length", str(len(body))))
            start_response(status, headers)
            return [body]
        start_response(status, headers)
    except BaseException:
        if isinstance(body, RunEventStream):
            body.close()
        raise
    return body


def read_body(environ: Mapping[str, Any], limit: int = MAX_BODY) -> bytes:
    """Return the body of a WSGI request, and read no more than *limit* bytes of it.

    Cancellation: it waits for the client as long as the server lets it.

    :raises Refused: it is larger.
    """
    said = environ.get("CONTENT_LENGTH") or ""
    if said.isascii() and said.isdigit():
        size = int(said[:20])
    elif environ.get("wsgi.input_terminated"):
        size = limit + 1  # in chunks; the server knows where it ends
    else:
        size = 0
    if size > limit and said:
        raise too_large(limit)
    pieces: list[bytes] = []
    left = size
    while left > 0 and (piece := environ["wsgi.input"].read(left)):
        pieces.append(piece)
        left -= len(piece)
    body = b"".join(pieces)
    if len(body) > limit:
        raise too_large(limit)
    return body
