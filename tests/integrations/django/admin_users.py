"""The admin of the site of these tests, its users, and runs for it to show."""

import html
import re
import threading
from contextlib import contextmanager, nullcontext

import pytest
from site_of_tests import SYNCAGENT

# After the site, which Django needs for its models.
# isort: split
from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import connections
from django.test import Client, override_settings
from support.postgres import MISSING
from support.threads import LONG

try:
    from psycopg.conninfo import conninfo_to_dict
except ImportError:
    conninfo_to_dict = None

from syncagent import Agent, ToolContext, tool
from syncagent.integrations.django.conf import get_store
from syncagent.integrations.django.databases import close_reader
from syncagent.messages import UserMessage
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, say

RUNS = "/admin/syncagent/runentry/"
QUESTIONS = "/admin/syncagent/questionentry/"
CONVERSATIONS = "/admin/syncagent/conversationentry/"
ANSWERS = "/admin/syncagent/answerentry/"

MIDDLEWARE = [
    *settings.MIDDLEWARE,
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
_VIEW = [f"view_{name}entry" for name in ("run", "conversation", "question", "answer")]


@tool
def work(ctx: ToolContext) -> str:
    """Work until a cancel."""
    ctx.sleep(600)
    return "worked"


@tool(requires_approval=True)
def launch(where: str) -> str:
    """Launch it."""
    return f"launched to {where}"


@tool
def ask(ctx: ToolContext) -> str:
    """Ask a person."""
    return ctx.ask("Where <b>to</b>?")


def make_agent(run):
    """Return an agent that does the first word of its prompt, in any process."""
    word = run.prompt.content[0].text.split()[0]
    calls = {
        "work": call("work", "{}"),
        "launch": call("launch", {"where": "the <i>moon</i>"}),
        "ask": call("ask", "{}"),
    }

    def respond(messages):
        if word in calls and isinstance(messages[-1], UserMessage):
            return say("At once. ", calls[word])
        return f"I have done: {word}"

    return Agent(ScriptedModel(respond), tools=[work, launch, ask])


def prepare_users():
    """Make the tables of users, once, and no users."""
    connection = connections["default"]
    if "auth_user" not in connection.introspection.table_names():
        call_command("migrate", verbosity=0)
    for model in (User, Group):
        model.objects.all().delete()


def user(name, *permissions, group=None, **fields):
    """Return a user of the admin with permissions of the app."""
    made = User.objects.create_user(name, is_staff=True, **fields)
    found = Permission.objects.filter(
        content_type__app_label="syncagent", codename__in=permissions
    )
    assert len(found) == len(permissions)
    made.user_permissions.set(found)
    if group:
        made.groups.add(Group.objects.get_or_create(name=group)[0])
    return made


def viewer(name, *permissions, **more):
    """Return a user who may see everything."""
    return user(name, *_VIEW, *permissions, **more)


def client_of(made):
    """Return a browser in which a user is logged in, which checks CSRF tokens not."""
    client = Client()
    client.force_login(made)
    return client


@contextmanager
def store_of(store, **more):
    """Give the site a store."""
    changed = {**SYNCAGENT, "STORE": store, "AGENT": make_agent, **more}
    if not isinstance(store, str):
        del changed["AGENT"]
    with override_settings(SYNCAGENT=changed, MIDDLEWARE=MIDDLEWARE):
        opened = get_store()
        try:
            yield opened
        finally:
            opened.close(grace=0.0)
            close_reader()  # those of requests close with them


def in_state(store, id, *states):
    """Wait until a run is in one of these states, and return it."""
    pause = threading.Event()
    for _ in range(int(LONG / 0.01)):
        run = store.get(id)
        if run.state in states:
            return run
        pause.wait(0.01)
    raise AssertionError(f"the run is {run.state}")


def row(run):
    """Return the address of a run in the admin."""
    return f"{RUNS}{run.run_id.replace('_', '_5F')}/change/"


def text_of(response, status=200):
    """Return the page."""
    assert response.status_code == status, response.content[:2000]
    return response.content.decode()


def said(response):
    """Return the messages of the page that a form leads to."""
    page = html.unescape(text_of(response))
    return re.findall(r'<li class="(?:info|success|error)">(.*?)</li>', page)


def rows_of(page):
    """Return how many rows a list shows, to a user who has an action."""
    return page.count('name="_selected_action"')


class SiteDatabase:
    """A database of the site, besides the default one; a ``with`` block ends it."""

    def __init__(self, url):
        options = conninfo_to_dict(url)
        self._settings = {
            **connections.settings["default"],
            "ENGINE": "django.db.backends.postgresql",
            "NAME": options.pop("dbname"),
            "OPTIONS": options,
        }

    def __enter__(self):
        connections.settings["other"] = self._settings

    def __exit__(self, *raised):
        connections["other"].close()
        del connections["other"]
        del connections.settings["other"]


@pytest.fixture(params=["sqlite", "postgresql", "django:other"])
def store(request, cluster, tmp_path):
    """The store of the site, in a database of its own or in one of the site."""
    prepare_users()
    if request.param == "sqlite":
        with store_of(f"sqlite:///{tmp_path}/runs.db") as opened:
            yield opened
        return
    if MISSING:
        pytest.skip(MISSING)
    url = cluster.new_schema()
    RunStore(url).backend.migrate()
    is_url = request.param == "postgresql"
    with nullcontext() if is_url else SiteDatabase(url):
        with store_of(url if is_url else request.param) as opened:
            yield opened


@pytest.fixture
def anna(store):
    """A browser of a user who may do everything."""
    return client_of(user("anna", is_superuser=True))
