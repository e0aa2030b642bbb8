"""A chat on the web: Celery works on its runs, PostgreSQL has its conversations.

It needs Redis and PostgreSQL. Install it, and start a worker:

    cd examples/flask_celery && python3 -m venv .venv &&
        .venv/bin/pip install --quiet -r requirements.txt &&
        .venv/bin/python set_up.py && .venv/bin/celery -A app.celery worker -P threads

Start the web server, in another terminal:

    cd examples/flask_celery && .venv/bin/gunicorn app:app

Then open http://127.0.0.1:8000/ and say "help". Stop ends a run in the worker. Kill the
worker with kill -9 and start it again: its runs go on. Restart both: the conversation
goes on, too.
REDIS_URL and DATABASE_URL name other servers; FLASK_SECRET_KEY is for a real secret.
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key, for the worker.
"""

import os
import secrets

from celery import Celery
from flask import Flask, redirect, session

from syncagent import Agent
from syncagent.cli.demo.model import demo_model
from syncagent.cli.demo.tools import demo_tools
from syncagent.integrations.celery import connect
from syncagent.integrations.flask import SyncAgent
from syncagent.stores import RunStore

REDIS = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
DATABASE = os.environ.get("DATABASE_URL", "postgresql:///syncagent_example")

celery = Celery("example", broker=REDIS)
celery.conf.task_default_queue = "syncagent-example"  # others may use this Redis, too
celery.conf.worker_concurrency = 20  # runs mostly wait for a model
celery.conf.worker_prefetch_multiplier = 1
celery.conf.worker_disable_prefetch = True  # no run waits behind a long one


@celery.task(ignore_result=True)
def work(run_id):
    store.work(run_id)


def make_agent(run):
    """Return a new agent for a run; the store has its conversation."""
    model = os.environ.get("SYNCAGENT_MODEL") or demo_model()
    return Agent(model, tools=demo_tools(), name="demo")


def visitor(request):
    """Return the visitor of this session; an application has its own users."""
    return session.get("visitor")


store = RunStore(
    DATABASE,
    make_agent,
    enqueue=lambda run: work.delay(run.id),
    lease=5,  # seconds until a killed worker counts as dead; 15 is a good value
)
connect(celery, store)

app = Flask(__name__)
app.config.from_mapping(
    SECRET_KEY="not secret: an example",
    SESSION_COOKIE_SAMESITE="Lax",
    SYNCAGENT_TITLE="Flask and Celery",
    SYNCAGENT_SUGGESTIONS=["tell me a story", "work 20 seconds", "order 2 pizzas"],
)
app.config.from_prefixed_env()
agents = SyncAgent(
    app,
    store=store,
    owner_of=visitor,
    authorize=lambda request, run: run.owner == visitor(request),
)
app.register_blueprint(agents.create_blueprint(), url_prefix="/agent")


@app.before_request
def identify_visitor():
    session.setdefault("visitor", secrets.token_urlsafe(16))
    session.permanent = True  # the visitor is the same after the browser was closed


@app.get("/")
def index():
    return redirect("/agent/")
