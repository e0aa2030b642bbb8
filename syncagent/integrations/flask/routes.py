"""The endpoints as views of Flask."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, current_app, request
from werkzeug.exceptions import MethodNotAllowed, RequestEntityTooLarge

from ..._context import within_context
from ...exceptions import ConfigurationError
from ..web.errors import Refused, not_set_up, too_large
from ..web.operator import is_operator
from ..web.page import (
    ASSET_HEADERS,
    ASSETS,
    PAGE_HEADERS,
    read_asset,
    render_page,
)
from ..web.sse import RunEventStream
from ..web.views import Views, WebRequest, WebResponse, error_response
from .settings import find_state

__all__ = [
    "answer_run",
    "cancel_run",
    "follow_run",
    "list_runs",
    "make_blueprint",
    "show_asset",
    "show_page",
    "show_run",
    "show_timeline",
    "start_run",
]


def make_blueprint(name: str, *, page: bool) -> Blueprint:
    """Return the endpoints, with or without the page."""
    blueprint = Blueprint(name, __name__)
    for path, view, method in (
        ("/runs", start_run, "POST"),
        ("/runs", list_runs, "GET"),
        ("/runs/<id>", show_run, "GET"),
        ("/runs/<id>/events", follow_run, "GET"),
        ("/runs/<id>/timeline", show_timeline, "GET"),
        ("/runs/<id>/cancel", cancel_run, "POST"),
        ("/runs/<id>/answers", answer_run, "POST"),
    ):
        blueprint.add_url_rule(path, view.__name__, view, methods=[method])
    if page:
        blueprint.add_url_rule("/", "page", show_page)
        for asset in ASSETS:
            blueprint.add_url_rule(
                f"/{asset}",
                asset.replace(".", "_"),
                show_asset,
                defaults={"name": asset},
            )
    return blueprint


def start_run() -> Response:
    """Start a run."""
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    # The run outlives the request: each tool gets an application context of its own.
    with within_context(app.app_context):
        return _call(_views().start)


def list_runs() -> Response:
    """List the runs that this client may see."""
    return _call(_views().list)


def show_run(id: str) -> Response:
    """Return a run."""
    return _call(_views().show, id)


def follow_run(id: str) -> Response:
    """Stream the events of a run."""
    if request.method == "HEAD":  # a follower that leaves at once would end the run
        raise MethodNotAllowed(["GET"])
    return _call(_views().events, id)


def show_timeline(id: str) -> Response:
    """Return the timeline of a run, as a page."""
    return _call(_views().timeline, id)


def cancel_run(id: str) -> Response:
    """Cancel a run."""
    return _call(_views().cancel, id)


def answer_run(id: str) -> Response:
    """Answer questions of a run."""
    return _call(_views().answer, id)


def show_page() -> Response:
    """Return the chat page."""
    state = find_state()
    settings = state.settings
    page = render_page(
        title=settings.title,
        greeting=settings.greeting,
        suggestions=settings.suggestions,
        csrf_header=settings.csrf_header,
        csrf_token="" if state.csrf_token is None else state.csrf_token(),
    )
    return Response(page, mimetype="text/html", headers=list(PAGE_HEADERS))


def show_asset(name: str) -> Response:
    """Return a file of the page."""
    headers = [("Content-Type", ASSETS[name]), *ASSET_HEADERS]
    return Response(read_asset(name), headers=headers)


# -- calling the views -------------------------------------------------------------


def _views() -> Views:
    views = find_state().views
    if views is None:
        raise ConfigurationError("SyncAgent() needs make_agent= to serve endpoints")
    return views


def _call(view: Callable[..., WebResponse], *args: str) -> Response:
    """Call a view with the current request, and convert its response."""
    state = find_state()
    try:
        web_request = WebRequest.of(
            request.environ,
            _read_body(state.settings.max_body) if request.method == "POST" else b"",
            request._get_current_object(),  # type: ignore[attr-defined]
            is_operator=is_operator(
                request.headers.get("Authorization"), state.settings.operator_token
            ),
        )
        # The operator's token does not make up for a missing authorize function.
        is_allowed = state.has_authorize or web_request.is_operator
        if view != _views().start and not is_allowed:
            raise not_set_up()
        web_response = view(web_request, *args)
    except Refused as error:
        web_response = error_response(error)
    body = web_response.body
    response = Response(body, web_response.status, list(web_response.headers))
    if isinstance(body, RunEventStream):
        # Even if the server never iterates over it.
        response.call_on_close(body.close)
    return response


def _read_body(max_body: int) -> bytes:
    """Read the body of the current request.

    :raises Refused: the body is too large.
    """
    own_limit = request.max_content_length
    limit = max_body if own_limit is None else min(own_limit, max_body)
    # One byte more, because werkzeug silently truncates a chunked body at the limit.
    request.max_content_length = limit + 1
    try:
        body = request.get_data()
    except RequestEntityTooLarge:
        raise too_large(limit) from None
    if len(body) > limit:
        raise too_large(limit)
    return body
