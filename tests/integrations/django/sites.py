"""Real servers with the site of these tests, in processes of their own."""

import os
import sys
from pathlib import Path

from support.processes import TESTS
from support.web.replies import TALKS
from support.web.replies import reply_to as usual_reply_to
from support.web.servers import _GUNICORN, COMMANDS, Server, _script

from syncagent.testing import call, say

HERE = Path(__file__).parent
#: Any 32 letters and digits will do, if both are the same.
SECRET = "x" * 32
CSRF = {"Cookie": f"csrftoken={SECRET}", "X-CSRFToken": SECRET}

COMMANDS["django-runserver"] = _script(
    "import site_of_tests, socket; "
    "from django.core.servers import basehttp; "
    "server = basehttp.ThreadedWSGIServer("
    "('127.0.0.1', 0), basehttp.WSGIRequestHandler, bind_and_activate=False); "
    "server.socket.close(); "
    "server.socket = socket.socket(fileno={fd}); "
    "server.server_name, server.server_port = 'test', 80; "
    "server.setup_environ(); "
    "server.set_app(site_of_tests.application); "
    "server.serve_forever()"
)
COMMANDS["django-gunicorn"] = [
    *(*_GUNICORN, "-k", "gthread", "--threads", "{threads}"),
    "site_of_tests:application",
]
COMMANDS["django-uvicorn"] = [
    *(sys.executable, "-m", "uvicorn", "--fd", "{fd}", "--log-level", "warning"),
    "site_of_tests:asgi",
]
SITES = ["django-runserver", "django-gunicorn", "django-uvicorn"]

TALKS.update(
    {
        "count": say(call("count")),
        "count aside": say(call("count_aside")),
        "leave open": say(call("leave_open")),
        "count and ask": say(call("count")),
    }
)


def reply_to(request):
    """Return what is said to a request, by its first words."""
    messages = request.payload["messages"]
    is_second = len([m for m in messages if m["role"] == "tool"]) == 1
    if is_second and "count and ask" in str(messages):
        return say(call("launch", {"where": "the moon"}))
    return usual_reply_to(request)


__all__ = ["CSRF", "SITES", "Site", "reply_to"]


class Site(Server):
    """One server process with the site, whose database is in *folder*."""

    def __init__(self, name, folder, *more, **settings):
        before = [str(HERE), str(TESTS)]
        super().__init__(
            *(name, *more),
            DATABASE=str(folder / "notes.sqlite"),
            PYTHONPATH=os.pathsep.join([*before, str(TESTS.parent)]),
            **settings,
        )

    def ask(self, method, path, body=None, **more):
        """Make a request as a page of the site does."""
        return super().ask(method, path, body, **{**CSRF, **more})

    def stream(self, talk, fake, **headers):
        """Begin a run as a page of the site does."""
        return super().stream(talk, fake, **{**CSRF, **headers})
