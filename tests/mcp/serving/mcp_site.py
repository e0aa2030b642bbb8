"""An MCP service in every kind of application, and a view of what it does."""

import json
import threading

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path
from flask import Flask, current_app

from syncagent import ToolContext, tool
from syncagent.exceptions import Cancelled
from syncagent.integrations.flask.mcp import mcp_blueprint
from syncagent.integrations.web.asgi import end_runs_with_server
from syncagent.integrations.web.mcp import MCPApp
from syncagent.mcp.serving import MCPService

counts = {"held": 0, "cancelled": 0}
_lock = threading.Lock()


def count(name):
    with _lock:
        counts[name] += 1


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def where() -> str:
    """Return the name of the Flask application, if there is one."""
    return current_app.name if current_app else "no application"


@tool
def hold(ctx: ToolContext) -> None:
    """Wait for a cancel."""
    count("held")
    try:
        ctx.progress("held")
        ctx.sleep(3600)
    except Cancelled:
        count("cancelled")
        raise


service = MCPService([add, where, hold])

# -- WSGI ------------------------------------------------------------------------------

_app = MCPApp(service)


def plain(environ, start_response):
    """Serve the service at every path but /state."""
    if environ["PATH_INFO"] != "/state":
        return _app(environ, start_response)
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(counts).encode()]


# -- Flask -----------------------------------------------------------------------------

flask_app = Flask("shop")
flask_app.register_blueprint(mcp_blueprint(service))
flask_app.add_url_rule("/state", "state", lambda: counts)

# -- Django ----------------------------------------------------------------------------

if not settings.configured:
    settings.configure(
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="x" * 50,
        MIDDLEWARE=[
            "syncagent.integrations.django.disconnect.DisconnectMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
        ],
    )
    django.setup()

from syncagent.integrations.django.mcp import mcp_view  # noqa: E402 - needs settings

urlpatterns = [
    path("mcp", mcp_view(service)),
    path("state", lambda request: JsonResponse(counts)),
]
django_wsgi = get_wsgi_application()
django_asgi = end_runs_with_server(get_asgi_application())
