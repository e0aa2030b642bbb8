"""The settings of the site."""

import os
from pathlib import Path

DEBUG = True  # never in production
SECRET_KEY = os.environ.get("SECRET_KEY", "not secret: an example")
ROOT_URLCONF = "chat.urls"
USE_TZ = True
TIME_ZONE = "UTC"

if "PGDATABASE" in os.environ:
    DATABASE = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
    }
else:
    DATABASE = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(__file__).parents[1] / "db.sqlite3",
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
DATABASES = {"default": DATABASE}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_tasks_db",
    "syncagent.integrations.django",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
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
]
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TASKS = {
    "default": {
        "BACKEND": "django_tasks_db.DatabaseBackend",
        "QUEUES": ["default", "agents"],
    }
}
SYNCAGENT = {
    "AGENT": "chat.tasks.make_agent",
    "ENQUEUE": "chat.tasks.enqueue",
    "STORE": "django:default",
    "OWNER_OF": "syncagent.integrations.django.owners.session_of",
    "AUTHORIZE": "syncagent.integrations.django.owners.is_of_session",
    "TITLE": "Django and its tasks",
    "SUGGESTIONS": ["tell me a story", "work 20 seconds", "order 2 pizzas"],
}
