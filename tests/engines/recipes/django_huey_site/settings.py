"""The settings of a site whose tasks are carried by Huey; the rest is the same."""

import os

from django_site.settings import *  # noqa: F403
from huey import SqliteHuey

INSTALLED_APPS = [
    "django_huey_site",  # so that Huey finds tasks.py
    "huey.contrib.djhuey",
    "syncagent.integrations.django",
]
HUEY = SqliteHuey(filename=os.environ["HUEY_FILE"])  # or RedisHuey(...)
TASKS = {
    "default": {
        "BACKEND": "huey.contrib.djhuey.tasks_backend.HueyBackend",
        "QUEUES": ["default", "agents"],
    }
}
SYNCAGENT = {
    "STORE": "django:default",
    "AGENT": "shop.make_agent",
    "ENQUEUE": "django_huey_site.tasks.enqueue",
}
