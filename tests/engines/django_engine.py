"""django.tasks of Django 6, with two backends that have workers."""

import importlib.util
import os
import subprocess
import sys

from engine import HERE, Engine


class DjangoTasksEngine(Engine):
    """A ``db_worker`` of django-tasks-db; it works on one run at a time."""

    name = "django-tasks-db"
    recipe = "django_client"
    packages = ("django", "django_tasks_db")
    ready = "Starting worker"
    runs_at_once = 1
    site = "django_site"

    @property
    def missing(self):
        missing = super().missing
        if not missing and importlib.util.find_spec("django.tasks") is None:
            missing = ["Django 6 (for Python 3.12)"]
        return missing

    @property
    def command(self):
        return [
            *(MANAGE, "db_worker", "--queue-name=agents"),
            *("--interval=0.05", "--no-startup-delay"),
        ]

    def environment(self, folder):
        return {"DJANGO_SETTINGS_MODULE": f"{self.site}.settings"}

    def set_up(self, environment):
        from psycopg.conninfo import conninfo_to_dict

        # As a site gets them: its settings name the database, libpq knows the rest.
        url = conninfo_to_dict(environment["SYNCAGENT_STORE"])
        environment.update(
            PGHOST=url["host"],
            PGUSER=url["user"],
            PGDATABASE=url["dbname"],
            PGOPTIONS=url["options"],
        )
        subprocess.run(
            [sys.executable, MANAGE, "migrate"],
            env={**os.environ, **environment},
            check=True,
            capture_output=True,
        )


class DjangoHueyEngine(DjangoTasksEngine):
    """A consumer of Huey, with threads."""

    name = "django-tasks-huey"
    packages = ("django", "huey")
    ready = "The following commands are available"
    runs_at_once = 2
    site = "django_huey_site"

    @property
    def command(self):
        return [MANAGE, "run_huey", "--workers=8", "--max-delay=0.2"]

    def environment(self, folder):
        return {**super().environment(folder), "HUEY_FILE": str(folder / "huey.db")}


MANAGE = HERE / "recipes" / "django_site" / "manage.py"
