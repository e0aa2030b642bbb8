"""The endpoints as views of Flask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flask import Blueprint, Response, current_app, request
from werkzeug.exceptions import MethodNotAllowed, RequestEntityTooLarge

from ..._context import within_context
from ...exceptions import ConfigurationError
from ..web.page import ASSETS, PAGE_HEADERS, read_asset, render_page
from ..web.refusals import Refused, not_set_up
from ..web.sse import RunEventStream
from ..web.views import Views, WebRequest, WebResponse, refusal, too_large
from .settings import find_state, is_operator

__all__ = ["list_runs", "make_blueprint"]


def make_blueprint(name: str, *, page: bool) -> Blueprint:
    """Return the endpoints, and the page if it is wanted."""
    blueprint = Blueprint(name, __name__)
    for path, view, method in _RULES:
        endpoint = view.__name__.lstrip("_")
        blueprint.add_url_rule(path, endpoint, view, methods=[method])
    if page:
        blueprint.add_url_rule("/", "page", _show_page)
        for asset in ASSETS:
            blueprint.add_url_rule(
                f"/{asset}",
                asset.replace(".", "_"),
                _show_asset,
                defaults={"name": asset},
            )
    return blueprint


def _views() -> Views:
    views = find_state().views
    if views is None:
        raise ConfigurationError("SyncAgent() has no make_agent=, so it has no views")
    return views


def _call(max_body: int) -> WebRequest:
    """Return what the views want to know of the current request.

    :raises Refused: its body is too large.
    """
    body = b""
    if request.method == "POST":
        own = request.max_content_length
        limit = max_body if own is None else min(own, max_body)
        # One more: of a body that comes in chunks werkzeug only leaves away the rest.
        request.max_content_length = limit + 1
        try:
            body = request.get_data()
        except RequestEntityTooLarge:
            raise too_large(limit) from None
        if len(body) > limit:
            raise too_large(limit)
    return WebRequest.of(
        request.environ,
        body,
        request._get_current_object(),  # type: ignore[attr-defined]
        is_operator=is_operator(request, find_state().settings.operator_token),
    )


def _answer(view: Callable[..., WebResponse], *args: str) -> Response:
    state = find_state()
    try:
        call = _call(state.settings.max_body)
        # The operator's token alone says nothing of anybody else.
        if view != _views().start and not (state.has_authorize or call.is_operator):
            raise not_set_up()
    except Refused as refused:
        return _response(refusal(refused))
    return _response(view(call, *args))


def _response(reply: WebResponse) -> Response:
    response = Response(reply.body, reply.status, list(reply.headers))
    if isinstance(reply.body, RunEventStream):
        # Also if nobody ever iterates over it.
        response.call_on_close(reply.body.close)
    return response


def _start_run() -> Response:
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    # The request will be over: tools have a context of the application, each its own.
    with within_context(app.app_context):
        return _answer(_views().start)


def list_runs() -> Response:
    """Show the runs that this client may see."""
    return _answer(_views().list)


def _show_run(id: str) -> Response:
    return _answer(_views().show, id)


def _follow_run(id: str) -> Response:
    if request.method == "HEAD":  # it would come, and go, and end the run
        raise MethodNotAllowed(["GET"])
    return _answer(_views().events, id)


def _show_timeline(id: str) -> Response:
    return _answer(_views().timeline, id)


def _cancel_run(id: str) -> Response:
    return _answer(_views().cancel, id)


def _answer_run(id: str) -> Response:
    return _answer(_views().answer, id)


def _show_page() -> Response:
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


def _show_asset(name: str) -> Response:
    headers = [("Content-Type", ASSETS[name]), *PAGE_HEADERS]
    return Response(read_asset(name), headers=headers)


_RULES: Final = (
    ("/runs", _start_run, "POST"),
    ("/runs", list_runs, "GET"),
    ("/runs/<id>", _show_run, "GET"),
    ("/runs/<id>/events", _follow_run, "GET"),
    ("/runs/<id>/timeline", _show_timeline, "GET"),
    ("/runs/<id>/cancel", _cancel_run, "POST"),
    ("/runs/<id>/answers", _answer_run, "POST"),
)
