"""The site of these tests: in this process, and behind every server.

Its provider is named by each request, in ``X-Provider``; its user, in ``X-User``.
"""

import faulthandler
import logging
import os
import signal
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path

import django
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib import admin
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.db.backends.signals import connection_created
from django.dispatch import receiver
from django.http import HttpResponse, JsonResponse
from django.urls import include, path

from syncagent import Agent, ToolContext, abandoned, tool
from syncagent.cancel import live_runs
from syncagent.integrations.django.disconnect import cancel_on_disconnect
from syncagent.integrations.web.asgi import end_runs_with_server
from syncagent.models import OpenAIChat
from syncagent.transport import close_idle

IS_SERVER = "DATABASE" in os.environ
DATABASE = os.environ.get("DATABASE", ":memory:")
TOKEN = "the-token-of-these-tests-0123456789"
#: What became of runs, in order.
ended = []


def make_agent(request, start=None):
    return Agent(
        model(request.headers["X-Provider"]),
        tools=[work, flood, launch, count, count_aside, leave_open],
        name="tester",
        hooks=[Note()],
    )


def make_stored_agent(run):
    """Use the database, as an application does that keeps its prompts there."""
    add_one()
    return Agent(
        model(run.labels["provider"]), tools=[work, launch, count], name="tester"
    )


def owner_of(request):
    return request.headers.get("X-User")


def authorize(request, run):
    return run.owner == owner_of(request)


SYNCAGENT = {
    "AGENT": "site_of_tests.make_agent",
    "AUTHORIZE": "site_of_tests.authorize",
    "OWNER_OF": owner_of,
    "HEARTBEAT": float(os.environ.get("HEARTBEAT", "60")),
    "MAX_BODY": 10_000,
    "MAX_PER_OWNER": 200,
    "MAX_FOLLOWERS": 200,
    "MAX_FOLLOWERS_PER_OWNER": 200,
    "SLOW_SECONDS": float(os.environ.get("SLOW", "60")),
    "OPERATOR_TOKEN": TOKEN,
    "GRACE": 0.0,
}

if "STORE" in os.environ:
    SYNCAGENT |= {"STORE": os.environ["STORE"], "AGENT": make_stored_agent}

if not settings.configured:
    settings.configure(
        SECRET_KEY="of these tests",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF="site_of_tests",
        INSTALLED_APPS=[
            *("django.contrib.admin", "django.contrib.auth"),
            *("django.contrib.contenttypes", "django.contrib.messages"),
            "syncagent.integrations.django",
        ],
        MIDDLEWARE=[
            "syncagent.integrations.django.disconnect.DisconnectMiddleware",
            "django.middleware.gzip.GZipMiddleware",
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        STATIC_URL="static/",
        USE_TZ=True,
        SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": DATABASE,
                "CONN_MAX_AGE": None,  # never closed because it is old
            }
        },
        LOGGING_CONFIG=None,
        SYNCAGENT=SYNCAGENT,
    )
    django.setup()
    if IS_SERVER:
        logging.basicConfig()
        faulthandler.register(signal.SIGUSR2)


#: All connections that were ever made: none is closed by being collected.
made = []


@receiver(connection_created)
def keep(connection, **said):
    made.append(connection.connection)


# -- its agent ---------------------------------------------------------------------


def add_one():
    """Write something into the database, and say what is there."""
    with connection.cursor() as cursor:
        cursor.execute("create table if not exists notes (words text)")
        cursor.execute("insert into notes values ('one')")
        cursor.execute("select count(*) from notes")
        return f"there are notes: {cursor.fetchone()[0] > 0}"


@tool
def count() -> str:
    """Use the database, on the thread of the run."""
    return add_one()


@tool(isolation="thread")
def count_aside() -> str:
    """Use the database, on another thread."""
    return add_one()


@tool
def leave_open(ctx: ToolContext) -> str:
    """Use the database, and then wait."""
    words = add_one()
    ctx.sleep(600)
    return words


@tool
def work(ctx: ToolContext, seconds: float = 0.0) -> str:
    """Work for a while."""
    ctx.sleep(seconds)
    return "worked"


@tool
def flood(ctx: ToolContext, pieces: int) -> str:
    """Report a lot, and then work for ever."""
    for _ in range(pieces):
        ctx.progress("x" * 100_000)
    ctx.sleep(600)
    return "worked"


@tool(requires_approval=True)
def launch(where: str) -> str:
    """Launch it."""
    return f"launched to {where}"


@cache
def model(base_url):
    return OpenAIChat("fake", base_url=base_url, api_key="sk-secret-of-the-tests")


class Note:
    """Notes how runs end, also in the database if it is called on a thread of ours."""

    def on_finish(self, result):
        if threading.current_thread().name.startswith("syncagent"):
            add_one()
        how = result.cancellation
        ended.append([result.stop_reason, how and how.origin, how and how.phase])


# -- its pages ---------------------------------------------------------------------


def open_databases():
    """Return how many descriptors of this process are of the database."""
    found = 0
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed at this moment
            found += os.readlink(one) == DATABASE
    return found


def state(request):
    """Return the state of this process, for the tests."""
    close_idle()
    names = sorted(thread.name for thread in threading.enumerate())
    return JsonResponse(
        {
            "pid": os.getpid(),
            "live": len(live_runs()),
            "ended": ended,
            "abandoned": len(abandoned()),
            "ours": [name for name in names if name.startswith("syncagent-run")],
            "databases": open_databases(),
        }
    )


def block(request):
    """Answer when the run is over, unless the client goes before."""
    prompt = request.META["QUERY_STRING"].replace("%20", " ")
    with cancel_on_disconnect(request) as token:
        return HttpResponse(make_agent(request).run(prompt, cancel=token).text)


async def block_async(request):
    """Do the same, as a coroutine."""
    prompt = request.META["QUERY_STRING"]
    with cancel_on_disconnect(request) as token:
        run = sync_to_async(make_agent(request).run, thread_sensitive=False)
        return HttpResponse((await run(prompt, cancel=token)).text)


urlpatterns = [
    path("", include("syncagent.integrations.django.urls")),
    path("state", state),
    path("block", block),
    path("block-async", block_async),
    path("admin/", admin.site.urls),
]

if IS_SERVER:
    application = get_wsgi_application()
    asgi = end_runs_with_server(get_asgi_application())
