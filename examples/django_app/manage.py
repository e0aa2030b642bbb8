"""A chat in a Django site whose Stop button works: streams, tools, many workers.

Install it: pip install ".[django]"
Run it: python examples/django_app/manage.py runserver
Then open http://127.0.0.1:8000/agent/ and say "help".
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
Stop the server in the middle of a story and start it again: the story goes on.
With several workers, from this folder: SECRET_KEY=... gunicorn -w 3 -k gthread
    --threads 20 -c python:syncagent.integrations.gunicorn manage
"""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.shortcuts import redirect
from django.urls import include, path

from syncagent import Agent
from syncagent.cli.demo.model import demo_model
from syncagent.cli.demo.tools import demo_tools
from syncagent.integrations.django.owners import is_of_session, session_of


def make_agent(run):
    """Return a new agent for a run; the store has its conversation."""
    model = os.environ.get("SYNCAGENT_MODEL") or demo_model()
    return Agent(model, tools=demo_tools(), name="demo")


settings.configure(
    DEBUG=True,  # never in production
    SECRET_KEY=os.environ.get("SECRET_KEY", "not secret: an example"),
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["syncagent.integrations.django"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    SYNCAGENT={
        "AGENT": make_agent,
        "STORE": os.environ.get("STORE", "sqlite:///runs.db"),  # or "django:default"
        "OWNER_OF": session_of,
        "AUTHORIZE": is_of_session,
        "TITLE": "syncagent demo",
        "SUGGESTIONS": ["tell me a story", "work 20 seconds", "order 2 pizzas"],
        "OPERATOR_TOKEN": os.environ.get("OPERATOR_TOKEN"),
        "URL": "http://127.0.0.1:8000/agent/",
    },
)
agent_urls = include("syncagent.integrations.django.urls")
urlpatterns = [path("agent/", agent_urls), path("", lambda _: redirect("agent/"))]
application = get_wsgi_application()

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
