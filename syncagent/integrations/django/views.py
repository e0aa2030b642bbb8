"""The endpoints as views of Django, for WSGI and ASGI alike.

They are plain views: Django's CSRF protection is on, and under ASGI each works on a
thread, where it may use the database.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.core.handlers.asgi import ASGIRequest
from django.db import transaction
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.request import RawPostDataException, UnreadablePostError
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ..asgi import AsyncEventStream
from ..refusals import Refused
from ..sse import EventStream
from ..views import Call, Reply, refusal, too_large
from .conf import get_views

__all__ = ["answers", "cancel", "events", "make_response", "run", "runs"]

#: So that nothing that compresses holds events back.
_AS_IT_IS: Final = "identity"


# No transaction around them: what a run is to find must be in the database before it
# begins, and it begins on a thread of its own.
@transaction.non_atomic_requests
@require_http_methods(["GET", "POST"])
def runs(request: HttpRequest) -> HttpResponseBase:
    """Begin a run, or list those that this user may see."""
    views = get_views()
    return _answer(request, views.start if request.method == "POST" else views.list)


@transaction.non_atomic_requests
@require_GET
def run(request: HttpRequest, id: str) -> HttpResponseBase:
    """Show a run."""
    return _answer(request, get_views().show, id)


@transaction.non_atomic_requests
@require_GET
def events(request: HttpRequest, id: str) -> HttpResponseBase:
    """Stream the events of a run."""
    return _answer(request, get_views().events, id)


@transaction.non_atomic_requests
@require_POST
def cancel(request: HttpRequest, id: str) -> HttpResponseBase:
    """End a run."""
    return _answer(request, get_views().cancel, id)


@transaction.non_atomic_requests
@require_POST
def answers(request: HttpRequest, id: str) -> HttpResponseBase:
    """Answer what a run asks."""
    return _answer(request, get_views().answer, id)


def _answer(
    request: HttpRequest, view: Callable[..., Reply], *id: str
) -> HttpResponseBase:
    try:
        body = _read_body(request) if request.method == "POST" else b""
    except Refused as refused:
        return make_response(request, refusal(refused))
    return make_response(request, view(Call.of(request.META, body, request), *id))


def _read_body(request: HttpRequest) -> bytes:
    limit = get_views().max_body
    said = str(request.META.get("CONTENT_LENGTH") or "0")
    # Before it is read: Django's own limit is another one, and much larger.
    if said.isascii() and said.isdigit() and int(said[:20]) > limit:
        raise too_large(limit)
    try:
        body: bytes = request.body
    except RawPostDataException:  # it was a form, and a middleware has read it
        raise Refused(
            415, "not_json", "The body has to be of type application/json."
        ) from None
    except UnreadablePostError:  # nobody is there to hear this
        raise Refused(400, "bad_request", "The body did not come whole.") from None
    return body


def make_response(request: HttpRequest, reply: Reply) -> HttpResponseBase:
    """Return the response of Django that a reply is sent as.

    :param reply: of :class:`~syncagent.integrations.views.Views`; a stream in it is
        closed with the response.
    """
    body = reply.body
    if not isinstance(body, EventStream):
        return HttpResponse(body, status=reply.status, headers=dict(reply.headers))
    headers = {**dict(reply.headers), "Content-Encoding": _AS_IT_IS}
    content: Any = body
    if isinstance(request, ASGIRequest):
        content = AsyncEventStream(body)
    return StreamingHttpResponse(content, status=reply.status, headers=headers)
