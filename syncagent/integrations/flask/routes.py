"""The endpoints as views of Flask."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from flask import Blueprint, Response, current_app, request
from werkzeug.exceptions import MethodNotAllowed, RequestEntityTooLarge
from werkzeug.routing import BaseConverter

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
from ..web.streams import ResponseStream
from ..web.views import Views, WebRequest, WebResponse, error_response
from .settings import find_state

__all__ = [
    "answer_run",
    "cancel_call",
    "cancel_run",
    "delete_conversation",
    "follow_run",
    "fork_conversation",
    "list_audit",
    "list_conversations",
    "list_inbox",
    "list_runs",
    "make_blueprint",
    "read_limited_body",
    "show_asset",
    "show_conversation",
    "show_page",
    "show_run",
    "show_timeline",
    "start_run",
]


def make_blueprint(name: str, *, page: bool) -> Blueprint:
    """Return the endpoints, with or without the page."""
    blueprint = Blueprint(name, __name__)
    blueprint.record(
        lambda state: state.app.url_map.converters.update(any_text=_AnyText)
    )
    for path, view, method in (
        ("/runs", start_run, "POST"),
        ("/runs", list_runs, "GET"),
        ("/runs/<id>", show_run, "GET"),
        ("/runs/<id>/events", follow_run, "GET"),
        ("/runs/<id>/timeline", show_timeline, "GET"),
        ("/runs/<id>/cancel", cancel_run, "POST"),
        ("/runs/<id>/calls/<any_text:call_id>/cancel", cancel_call, "POST"),
        ("/runs/<id>/answers", answer_run, "POST"),
        ("/conversations", list_conversations, "GET"),
        ("/conversations/<any_text:id>", show_conversation, "GET"),
        ("/conversations/<any_text:id>/fork", fork_conversation, "POST"),
        ("/conversations/<any_text:id>/delete", delete_conversation, "POST"),
        ("/inbox", list_inbox, "GET"),
        ("/audit", list_audit, "GET"),
    ):
        blueprint.add_url_rule(
            *(path, view.__name__, view),
            methods=[method],
            merge_slashes="any_text" not in path,
        )
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


class _AnyText(BaseConverter):
    """The id of a conversation, with slashes and line breaks."""

    regex = r"[\s\S]+?"
    weight = 200
    part_isolating = False


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


def cancel_call(id: str, call_id: str) -> Response:
    """Stop one tool call of a run."""
    return _call(_views().cancel_call, id, call_id)


def answer_run(id: str) -> Response:
    """Answer questions of a run."""
    return _call(_views().answer, id)


def list_conversations() -> Response:
    """List the conversations of this client."""
    return _call(_views().conversations)


def show_conversation(id: str) -> Response:
    """Return a conversation with its messages."""
    return _call(_views().conversation, id)


def fork_conversation(id: str) -> Response:
    """Begin a conversation with the messages of another one."""
    return _call(_views().fork, id)


def delete_conversation(id: str) -> Response:
    """Delete a conversation."""
    return _call(_views().delete, id)


def list_inbox() -> Response:
    """List the questions that wait for this person."""
    return _call(_views().inbox)


def list_audit() -> Response:
    """List closed questions."""
    return _call(_views().audit)


def show_page() -> Response:
    """Return the page to users who may start a run; the others have to log in."""
    state = find_state()
    settings = state.settings
    login_url = state.find_login_url()
    try:
        _views().find_starter(request._get_current_object())  # type: ignore[attr-defined]
    except Refused as error:
        if not login_url or error.code != "forbidden":
            return Response(error.message, error.status, mimetype="text/plain")
        separator = "&" if "?" in login_url else "?"
        back = urlencode({"next": request.script_root + request.full_path.rstrip("?")})
        return Response(status=302, headers={"Location": login_url + separator + back})
    page = render_page(
        title=settings.title,
        greeting=settings.greeting,
        suggestions=settings.suggestions,
        csrf_header=settings.csrf_header,
        csrf_token="" if state.csrf_token is None else state.csrf_token(),
        has_store=state.runs.has_store,
        login_url=login_url,
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
            read_limited_body(state.settings.max_body)
            if request.method == "POST"
            else b"",
            request._get_current_object(),  # type: ignore[attr-defined]
            is_operator=is_operator(
                request.headers.get("Authorization"), state.settings.operator_token
            ),
        )
        # The operator's token does not make up for a missing authorize function.
        is_allowed = state.has_authorize or web_request.is_operator
        if not is_allowed:
            raise not_set_up()
        web_response = view(web_request, *args)
    except Refused as error:
        web_response = error_response(error)
    body = web_response.body
    response = Response(body, web_response.status, list(web_response.headers))
    if isinstance(body, ResponseStream):
        # Even if the server never iterates over it.
        response.call_on_close(body.close)
    return response


def read_limited_body(max_body: int) -> bytes:
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
