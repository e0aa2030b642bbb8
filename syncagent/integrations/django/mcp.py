"""An MCP service as a view of Django, for WSGI and ASGI alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from ...mcp.serving import MCPService
from ..web.errors import Refused
from ..web.mcp import MCPApp
from .disconnect import lost_token
from .views import convert_response, read_limited_body

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..._arguments import MCPAppArguments

__all__ = ["mcp_view"]


def mcp_view(
    service: MCPService, **settings: Unpack[MCPAppArguments]
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Return a view that serves MCP clients: ``path("mcp", mcp_view(service))``.

    Under ASGI a client that leaves in the first moment of a call is noticed at once
    only with :class:`~syncagent.integrations.django.disconnect.DisconnectMiddleware`.

    :param settings: those of :class:`~syncagent.integrations.web.mcp.MCPApp`;
        ``authorize`` gets Django's request.
    """
    app = MCPApp(service, **settings)

    @transaction.non_atomic_requests
    @csrf_exempt  # it uses no cookies, and refuses pages of other origins
    def mcp(request: HttpRequest) -> HttpResponseBase:
        try:
            app.check_client(request.META, request)
            body = read_limited_body(request, app.max_body)
        except Refused as error:
            return convert_response(request, app.refuse(error))
        found = app.respond(request.META, body, lost=lost_token(request))
        return convert_response(request, found)

    view: Callable[[HttpRequest], HttpResponseBase] = mcp
    return view
