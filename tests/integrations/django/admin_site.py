"""A whole site with an admin and one database, as ``manage.py``: for its commands.

``DATABASE`` is a file of SQLite or a URL of PostgreSQL, ``STORE`` the store. It takes
several commands, with ``then`` in between.
"""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.test import Client, TransactionTestCase
from django.urls import path


class NoSyncagent:
    """A router that keeps the app out of all databases."""

    def allow_migrate(self, db, app_label, **hints):
        return False if app_label == "syncagent" else None


def make_agent(run):
    raise RuntimeError("no run is worked on here")


def database(url):
    """Return the settings of a database."""
    if not url.startswith("postgresql:"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url}
    from psycopg.conninfo import conninfo_to_dict

    options = conninfo_to_dict(url)
    name = options.pop("dbname")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "HOST": options.pop("host"),
        "USER": options.pop("user"),
        "OPTIONS": options,
        # One for each process of the tests.
        "TEST": {"NAME": f"test_{os.getpid()}"},
    }


if not settings.configured:
    apps = ("admin", "auth", "contenttypes", "messages", "sessions")
    processors = (
        "django.template.context_processors.request",
        "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    )
    settings.configure(
        SECRET_KEY="of these tests",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF="admin_site",
        INSTALLED_APPS=[
            *(f"django.contrib.{app}" for app in apps),
            "syncagent.integrations.django",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {"context_processors": processors},
            }
        ],
        DATABASES={"default": database(os.environ["DATABASE"])},
        DATABASE_ROUTERS=os.environ.get("ROUTERS", "").split(),
        STATIC_URL="static/",
        USE_TZ=True,
        SYNCAGENT={"AGENT": make_agent, "STORE": os.environ.get("STORE") or None},
    )


class AdminTests(TransactionTestCase):
    """The tests of the site, for ``manage.py test``: in a database of their own."""

    def test_the_store_is_in_the_database_of_the_tests(self):
        from django.contrib.auth.models import User

        from syncagent.integrations.django.conf import get_store
        from syncagent.integrations.django.databases import store_url
        from syncagent.integrations.django.models import RunEntry
        from syncagent.stores import RunStore

        assert not RunEntry.objects.exists()
        with RunStore(store_url("default"), enqueue=lambda run: None) as store:
            store.submit("hello", owner="anna")
        assert RunEntry.objects.get().owner == "anna"
        client = Client()
        client.force_login(User.objects.create_superuser("anna"))
        page = client.get("/admin/syncagent/runentry/").content.decode()
        assert "hello" in page
        get_store().close()  # Django deletes the database


if settings.configured and __name__ != "__main__":
    import django

    django.setup()
    from django.contrib import admin

    urlpatterns = [path("admin/", admin.site.urls)]

if __name__ == "__main__":
    for command in " ".join(sys.argv[1:]).split(" then "):
        execute_from_command_line([sys.argv[0], *command.split()])
