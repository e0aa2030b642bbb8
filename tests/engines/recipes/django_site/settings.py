"""The settings of a site whose agents work in the background."""

import os

SECRET_KEY = "not secret: a site of the tests"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
    }
}
INSTALLED_APPS = ["django_tasks_db", "syncagent.integrations.django"]
USE_TZ = True

TASKS = {
    "default": {
        "BACKEND": "django_tasks_db.DatabaseBackend",
        "QUEUES": ["default", "agents"],
    }
}
SYNCAGENT = {
    "STORE": "django:default",
    "AGENT": "shop.make_agent",
    "ENQUEUE": "django_site.tasks.enqueue",
}
