"""The endpoints as views of Django, for WSGI and ASGI alike.

They are plain views: Django's CSRF protection is on, and under ASGI each works on a
thread, where it may use the database.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django import conf
from django.core.handlers.asgi import ASGIRequest
from django.db import transaction
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.request import HttpHeaders, RawPostDataException, UnreadablePostError
from django.http.response import (
    HttpResponseBase,
    HttpResponseForbidden,
    HttpResponseRedirect,
)
from django.middleware.csrf import get_token
from django.shortcuts import resolve_url
from django.utils.http import urlencode
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ..web.asgi import AsyncEventStream
from ..web.page import ASSETS, PAGE_HEADERS, read_asset, render_page
from ..web.refusals import Refused
from ..web.sse import RunEventStream
from ..web.views import WebRequest, WebResponse, refusal, too_large
from .conf import get_views, read_settings

__all__ = [
    "answers",
    "asset",
    "cancel",
    "events",
    "make_response",
    "page",
    "run",
    "runs",
    "timeline",
]

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


# The page shows it in a frame.
@transaction.non_atomic_requests
@xframe_options_sameorigin
@require_GET
def timeline(request: HttpRequest, id: str) -> HttpResponseBase:
    """Show the timeline of a run."""
    return _answer(request, get_views().timeline, id)


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


# -- the page to chat on -----------------------------------------------------------


@require_GET
def page(request: HttpRequest) -> HttpResponseBase:
    """Show the page, to whoever may begin a run; others are asked to log in."""
    settings = read_settings()
    # A session is made here, so that all tabs have the same.
    if settings.owner_of is None or not settings.owner_of(request):
        return _turn_away(request)
    content = render_page(
        title=settings.title,
        greeting=settings.greeting,
        suggestions=settings.suggestions,
        csrf_header=HttpHeaders.parse_header_name(conf.settings.CSRF_HEADER_NAME) or "",
        csrf_token=get_token(request),
    )
    return HttpResponse(content, headers=dict(PAGE_HEADERS))


def _turn_away(request: HttpRequest) -> HttpResponseBase:
    user = getattr(request, "user", None)
    if user is None or user.is_authenticated:  # to log in would change nothing
        return HttpResponseForbidden("You may not begin a run.")
    login = resolve_url(conf.settings.LOGIN_URL)
    back = urlencode({"next": request.get_full_path()})
    return HttpResponseRedirect(f"{login}?{back}")


@require_GET
def asset(request: HttpRequest, name: str) -> HttpResponseBase:
    """Return a file of the page."""
    headers = {"Content-Type": ASSETS[name], **dict(PAGE_HEADERS)}
    return HttpResponse(read_asset(name), headers=headers)


# -- how ---------------------------------------------------------------------------


def _answer(
    request: HttpRequest, view: Callable[..., WebResponse], *id: str
) -> HttpResponseBase:
    try:
        body = _read_body(request) if request.method == "POST" else b""
    except Refused as refused:
        return make_response(request, refusal(refused))
    return make_response(request, view(WebRequest.of(request.META, body, request), *id))


def _read_body(request: HttpRequest) -> bytes:
    limit = get_views().max_body
    said = str(request.META.get("CONTENT_LENGTH") or "")
    if not said and "HTTP_TRANSFER_ENCODING" in request.META:
        # Django reads nothing of it under WSGI, and all of it under ASGI.
        raise Refused(411, "no_length", "The request has to have a Content-Length.")
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


def make_response(request: HttpRequest, reply: WebResponse) -> HttpResponseBase:
    """Return the response of Django that a reply is sent as.

    :param reply: of :class:`~syncagent.integrations.web.views.Views`; a stream in it is
        closed with the response.
    """
    body = reply.body
    if not isinstance(body, RunEventStream):
        return HttpResponse(body, status=reply.status, headers=dict(reply.headers))
    headers = {**dict(reply.headers), "Content-Encoding": _AS_IT_IS}
    content: Any = body
    if isinstance(request, ASGIRequest):
        content = AsyncEventStream(body)
    return StreamingHttpResponse(content, status=reply.status, headers=headers)
