"""The endpoints as views of Django, for WSGI and ASGI alike.

They are plain views: Django's CSRF protection applies, and under ASGI each works on a
thread, where it may use the database.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from django import conf
from django.core.handlers.asgi import ASGIRequest
from django.db import transaction
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.request import HttpHeaders, RawPostDataException, UnreadablePostError
from django.http.response import (
    HttpResponseBase,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.middleware.csrf import get_token
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch
from django.utils.http import urlencode
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import (
    require_GET,
    require_http_methods,
    require_POST,
    require_safe,
)

from ..web.asgi import AsyncEventStream
from ..web.bodies import CancelRequest, encode_body
from ..web.errors import Refused, too_large
from ..web.operator import is_operator
from ..web.page import (
    ASSET_HEADERS,
    ASSETS,
    PAGE_HEADERS,
    read_asset,
    render_page,
)
from ..web.streams import ResponseStream
from ..web.views import WebRequest, WebResponse, error_response
from .conf import OPERATOR, get_views, read_settings

__all__ = [
    "answers",
    "asset",
    "audit",
    "cancel",
    "cancel_call",
    "conversation",
    "conversations",
    "convert_response",
    "events",
    "inbox",
    "make_response",
    "operator_cancel",
    "operator_runs",
    "page",
    "read_limited_body",
    "run",
    "runs",
    "timeline",
]

_JSON: Final = "application/json"
#: The Content-Encoding of streams: a middleware that compresses would delay events.
_NOT_COMPRESSED: Final = "identity"


# Not atomic: a run starts on its own thread, and sees only committed rows.
@transaction.non_atomic_requests
@require_http_methods(["GET", "POST"])
def runs(request: HttpRequest) -> HttpResponseBase:
    """Start a run, or list the runs that this user may see."""
    views = get_views()
    return _call(request, views.start if request.method == "POST" else views.list)


@transaction.non_atomic_requests
@require_GET
def run(request: HttpRequest, id: str) -> HttpResponseBase:
    """Return a run."""
    return _call(request, get_views().show, id)


@transaction.non_atomic_requests
@require_GET
def events(request: HttpRequest, id: str) -> HttpResponseBase:
    """Stream the events of a run."""
    return _call(request, get_views().events, id)


# The page shows the timeline in a frame.
@transaction.non_atomic_requests
@xframe_options_sameorigin
@require_GET
def timeline(request: HttpRequest, id: str) -> HttpResponseBase:
    """Return the timeline of a run, as a page."""
    return _call(request, get_views().timeline, id)


@transaction.non_atomic_requests
@require_POST
def cancel(request: HttpRequest, id: str) -> HttpResponseBase:
    """Cancel a run."""
    return _call(request, get_views().cancel, id)


@transaction.non_atomic_requests
@require_POST
def cancel_call(request: HttpRequest, id: str, call_id: str) -> HttpResponseBase:
    """Stop one tool call of a run."""
    return _call(request, get_views().cancel_call, id, call_id)


@transaction.non_atomic_requests
@require_POST
def answers(request: HttpRequest, id: str) -> HttpResponseBase:
    """Answer questions of a run."""
    return _call(request, get_views().answer, id)


# -- with a store ------------------------------------------------------------------


@transaction.non_atomic_requests
@require_GET
def conversations(request: HttpRequest) -> HttpResponseBase:
    """List the conversations of this user."""
    return _call(request, get_views().conversations)


@transaction.non_atomic_requests
@require_http_methods(["GET", "POST"])
def conversation(request: HttpRequest, id: str) -> HttpResponseBase:
    """Return a conversation, or fork or delete it.

    Its id is any text, also one that ends with ``/fork``. Only POST has a part after
    the id, which is never a part of it.
    """
    views = get_views()
    if request.method == "GET":
        return _call(request, views.conversation, id)
    name, _, action = id.rpartition("/")
    if action not in ("fork", "delete"):
        return HttpResponseNotAllowed(["GET"])
    return _call(request, views.fork if action == "fork" else views.delete, name)


@transaction.non_atomic_requests
@require_GET
def inbox(request: HttpRequest) -> HttpResponseBase:
    """List the questions that wait for this user."""
    return _call(request, get_views().inbox)


@transaction.non_atomic_requests
@require_GET
def audit(request: HttpRequest) -> HttpResponseBase:
    """List closed questions."""
    return _call(request, get_views().audit)


# -- the operator ------------------------------------------------------------------

# Two endpoints for the management commands, which are other processes than the server.
# They exist only if the settings have a token. They ignore cookies, so no other site
# can use a browser for them; that is why they need no CSRF token.


@transaction.non_atomic_requests
@require_GET
def operator_runs(request: HttpRequest) -> HttpResponseBase:
    """List the runs of this process or of the store, of all owners."""
    if not _is_operator(request):
        return _nothing_here(request)
    web_request = WebRequest(original=OPERATOR, is_operator=True)
    return make_response(request, get_views().list(web_request))


@transaction.non_atomic_requests
@csrf_exempt
@require_POST
def operator_cancel(request: HttpRequest, id: str) -> HttpResponseBase:
    """Cancel a run of any owner."""
    if not _is_operator(request):
        return _nothing_here(request)
    web_request = WebRequest(
        original=OPERATOR,
        body=encode_body(CancelRequest(reason="cancelled by an operator")),
        content_type=_JSON,
        is_operator=True,
    )
    return make_response(request, get_views().cancel(web_request, id))


def _is_operator(request: HttpRequest) -> bool:
    authorization = request.headers.get("Authorization")
    return is_operator(authorization, read_settings().operator_token)


def _nothing_here(request: HttpRequest) -> HttpResponseBase:
    # The same response for a wrong token as for a site without one.
    error = Refused(404, "not_found", "There is nothing here.")
    return make_response(request, error_response(error))


# -- the chat page -----------------------------------------------------------------


@require_safe
def page(request: HttpRequest) -> HttpResponseBase:
    """Return the page to users who may start a run; the others have to log in."""
    settings = read_settings()
    user = getattr(request, "user", None)
    try:
        # This creates the session, so that all tabs share it.
        get_views().find_starter(request)
    except Refused as error:
        # A login would not help.
        if user is None or user.is_authenticated or error.code != "forbidden":
            return HttpResponse(error.message, "text/plain", error.status)
        login = resolve_url(conf.settings.LOGIN_URL)
        separator = "&" if "?" in login else "?"
        back = urlencode({"next": request.get_full_path()})
        return HttpResponseRedirect(login + separator + back)
    content = render_page(
        title=settings.title,
        greeting=settings.greeting,
        suggestions=settings.suggestions,
        csrf_header=HttpHeaders.parse_header_name(conf.settings.CSRF_HEADER_NAME) or "",
        csrf_token=get_token(request),
        has_store=get_views().runs.has_store,
        login_url="" if user is None else _find_login_url(),
    )
    return HttpResponse(content, headers=dict(PAGE_HEADERS))


def _find_login_url() -> str:
    """Return the URL of the login; an empty string if the site has none."""
    try:
        return str(resolve_url(conf.settings.LOGIN_URL))
    except NoReverseMatch:  # users have logged in somewhere else
        return ""


@require_safe
def asset(request: HttpRequest, name: str) -> HttpResponseBase:
    """Return a file of the page."""
    headers = {"Content-Type": ASSETS[name], **dict(ASSET_HEADERS)}
    return HttpResponse(read_asset(name), headers=headers)


# -- calling the views -------------------------------------------------------------


def _call(
    request: HttpRequest, view: Callable[..., WebResponse], *id: str
) -> HttpResponseBase:
    try:
        limit = get_views().max_body
        body = read_limited_body(request, limit) if request.method == "POST" else b""
    except Refused as error:
        return make_response(request, error_response(error))
    web_request = WebRequest.of(request.META, body, request)
    if request.method == "POST":
        # Django's own: it knows about proxies, and refuses hosts that are not allowed.
        host = request.get_host()
        web_request = msgspec.structs.replace(web_request, host=host)
    return make_response(request, view(web_request, *id))


def read_limited_body(request: HttpRequest, limit: int) -> bytes:
    """Return the body of a request, at most *limit* bytes.

    :raises Refused: it is larger, incomplete, or was read already.
    """
    content_length = str(request.META.get("CONTENT_LENGTH") or "")
    if not content_length and "HTTP_TRANSFER_ENCODING" in request.META:
        # Django reads nothing of a chunked body under WSGI, and all of it under ASGI.
        raise Refused(411, "no_length", "The request needs a Content-Length.")
    # Before reading the body: Django's own limit is much larger.
    is_number = content_length.isascii() and content_length.isdigit()
    if is_number and int(content_length[:20]) > limit:
        raise too_large(limit)
    try:
        body: bytes = request.body
    except RawPostDataException:  # the body was a form, and a middleware has read it
        raise Refused(
            415, "not_json", "The body must be of type application/json."
        ) from None
    except UnreadablePostError:  # the client has left
        raise Refused(400, "bad_request", "The body is incomplete.") from None
    return body


def make_response(request: HttpRequest, response: WebResponse) -> HttpResponseBase:
    """Convert a response to one of Django.

    :param response: a response of :class:`~syncagent.integrations.web.views.Views`. Its
        stream is closed with Django's response.
    """
    is_http_1 = getattr(request, "scope", {}).get("http_version", "").startswith("1")
    has_store = response.status == 404 and get_views().runs.has_store
    if response.status == 404 and is_http_1 and not has_store:  # under ASGI
        # The run may be in another process, which a kept connection cannot reach.
        headers = (*response.headers, ("Connection", "close"))
        response = msgspec.structs.replace(response, headers=headers)
    return convert_response(request, response)


def convert_response(request: HttpRequest, response: WebResponse) -> HttpResponseBase:
    """Convert a response without a look at the runs of this process."""
    body, headers = response.body, dict(response.headers)
    if not isinstance(body, ResponseStream):
        return HttpResponse(body, status=response.status, headers=headers)
    headers["Content-Encoding"] = _NOT_COMPRESSED
    content: Any = body
    if isinstance(request, ASGIRequest):
        content = AsyncEventStream(body)
    return StreamingHttpResponse(content, status=response.status, headers=headers)
