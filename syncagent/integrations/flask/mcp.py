"""An MCP service as a blueprint of Flask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, Response, current_app, request
from flask.blueprints import BlueprintSetupState

from ..._context import within_context
from ...mcp.serving import MCPService
from ..web.errors import Refused
from ..web.mcp import MCPApp
from ..web.streams import ResponseStream
from .routes import read_limited_body

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..._arguments import MCPAppArguments

__all__ = ["mcp_blueprint"]


def mcp_blueprint(
    service: MCPService,
    *,
    path: str = "/mcp",
    name: str = "mcp",
    **settings: Unpack[MCPAppArguments],
) -> Blueprint:
    """Return a blueprint that serves MCP clients at *path*.

    Each call has an application context of its own.

    :param settings: those of :class:`~syncagent.integrations.web.mcp.MCPApp`;
        ``authorize`` gets Flask's request.
    """
    app = MCPApp(service, **settings)
    blueprint = Blueprint(name, __name__)

    def mcp() -> Response:
        flask_app = current_app._get_current_object()  # type: ignore[attr-defined]
        try:
            app.check_client(request.environ, request)
            body = read_limited_body(app.max_body)
            with within_context(flask_app.app_context):
                found = app.respond(request.environ, body)
        except Refused as error:
            found = app.refuse(error)
        response = Response(found.body, found.status, list(found.headers))
        if isinstance(found.body, ResponseStream):
            response.call_on_close(found.body.close)
        return response

    # GET and DELETE, too: the service refuses them in its own way.
    blueprint.add_url_rule(path, "mcp", mcp, methods=["POST", "GET", "DELETE"])

    def exempt(state: BlueprintSetupState) -> None:
        # From Flask-WTF's CSRF protection: the endpoint uses no cookies.
        protection = state.app.extensions.get("csrf")
        if protection is not None:
            protection.exempt(mcp)

    blueprint.record_once(exempt)
    return blueprint
